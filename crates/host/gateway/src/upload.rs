//! An object on its way to the origin: whole, or in parts at the same time.

pub(crate) mod arriving;
pub(crate) mod parts;

use bytes::Bytes;
use envelope::{Kind, Name, Sealing, stored_length};
use http::header::{CONTENT_ENCODING, CONTENT_LENGTH, HeaderValue, TRANSFER_ENCODING};
use http::{HeaderMap, Method, StatusCode};
use s3s::{Body, S3ErrorCode, TrailingHeaders};

use crate::answer::Answer;
use crate::asked::{Asked, Operation};
use crate::checksum::{Algorithm, Claims};
use crate::config::BucketRule;
use crate::download::Reading;
use crate::encrypted;
use crate::failed::Failed;
use crate::gateway::Gateway;
use crate::origin::{Ask, Payload, Pieces};
use crate::path::Plan;
use arriving::Arriving;

/// Headers of a client's upload that describe its way here, and not the object.
const OF_THE_WAY: [&str; 3] = [
    "content-md5",
    "x-amz-sdk-checksum-algorithm",
    "x-amz-trailer",
];
/// So many parts make an object worth the two requests around them.
const WORTH: u64 = 4;
/// S3's largest object in one request.
const SINGLE_LIMIT: u64 = 5 << 30;

/// Bytes that a client sends, with all that is said about them.
pub(crate) struct Incoming {
    pub(crate) method: Method,
    pub(crate) body: Body,
    pub(crate) trailers: Option<TrailingHeaders>,
}

impl Gateway {
    /// `PutObject`.
    pub(crate) async fn put_object(
        &self,
        asked: &Asked,
        rule: &BucketRule,
        incoming: Incoming,
    ) -> Result<Answer, Failed> {
        let (arriving, algorithm) = self.arriving(asked, incoming)?;
        let plain = arriving.length();
        let sums = arriving.sums();
        let mut headers = object_headers(asked);
        let mut pieces = arriving.into_pieces();
        let (mut length, mut chosen) = (plain, algorithm);
        if let Some(encryption) = &rule.encryption {
            let name = Name {
                bucket: &rule.origin,
                key: &asked.key,
            };
            let ring = &encryption.ring;
            let (key, _) = encrypted::seal(ring, name, Kind::Whole, Some(plain), &mut headers)?;
            encrypted::origin_conditions(&mut headers);
            pieces = encrypted::sealed(pieces, Sealing::whole(&key));
            length = stored_length(plain);
            // The client's algorithm is for the plaintext.
            chosen = None;
        }
        let mut answer = if length > SINGLE_LIMIT || length > WORTH * self.sending_plan(length).part
        {
            let target = parts::Target {
                bucket: rule.origin.clone(),
                key: asked.key.clone(),
                headers,
            };
            let object = parts::Object { pieces, length };
            self.put_in_parts(target, object).await?
        } else {
            let ask = Ask {
                query: asked.query.clone(),
                headers,
                payload: self.payload(pieces, length, chosen),
                ..Ask::new(Method::PUT, &rule.origin, &asked.key)
            };
            Answer::whole(self.origin().ask(ask).await?)
        };
        let reading = Reading::of(asked, rule);
        self.learn(&reading, answer.status, &answer.headers, Some(length));
        if rule.encryption.is_some() {
            encrypted::for_client(&mut answer.headers);
        }
        if answer.status.is_success() {
            sums.announce(&mut answer.headers);
        }
        Ok(answer)
    }

    /// How an object of `length` bytes would be cut now.
    pub(crate) fn sending_plan(&self, length: u64) -> Plan {
        let limits = &self.config().limits;
        let path = self.origin().path();
        path.parts(length, limits.request_memory, limits.parallel)
    }

    /// `UploadPart`: what a client has cut is passed on as it was cut.
    pub(crate) async fn upload_part(
        &self,
        asked: &Asked,
        rule: &BucketRule,
        incoming: Incoming,
    ) -> Result<Answer, Failed> {
        let (arriving, algorithm) = self.arriving(asked, incoming)?;
        let (length, sums) = (arriving.length(), arriving.sums());
        let ask = Ask {
            query: asked.query.clone(),
            headers: object_headers(asked),
            // The upload may have been begun without checksums, or with others than ours.
            payload: match algorithm {
                Some(algorithm) => self.payload(arriving.into_pieces(), length, Some(algorithm)),
                None => Payload::Stream(arriving.into_pieces(), length),
            },
            ..Ask::new(Method::PUT, &rule.origin, &asked.key)
        };
        let mut answer = Answer::whole(self.origin().ask(ask).await?);
        if answer.status.is_success() {
            sums.announce(&mut answer.headers);
        }
        Ok(answer)
    }

    /// The client's bytes, and the checksum that it has chosen.
    pub(crate) fn arriving(
        &self,
        asked: &Asked,
        incoming: Incoming,
    ) -> Result<(Arriving, Option<Algorithm>), Failed> {
        let length = match asked.header(CONTENT_LENGTH.as_str()) {
            Some(text) => text.parse::<u64>().ok(),
            // A request that says nothing has no body (RFC 9112 section 6.3).
            None => (!asked.headers.contains_key(TRANSFER_ENCODING)).then_some(0),
        };
        let length = length.ok_or_else(|| {
            Failed::new(
                S3ErrorCode::MissingContentLength,
                "the length must be known",
            )
        })?;
        let limit = self.config().limits.object;
        if length > limit {
            return Err(Failed::new(
                S3ErrorCode::EntityTooLarge,
                format!("this gateway takes objects of up to {limit} bytes"),
            ));
        }
        let claims = if asked.operation == Operation::CompleteMultipartUpload {
            // What it says about checksums is about the object.
            Claims::of(&HeaderMap::new(), None)?
        } else {
            Claims::of(&asked.headers, incoming.trailers)?
        };
        let algorithm = claims.algorithm();
        let stall = self.config().limits.stall;
        Ok((
            Arriving::new(incoming.body, length, claims, stall),
            algorithm,
        ))
    }

    /// How bytes are sent: with a checksum behind them, unless the origin does not understand that.
    pub(crate) fn payload(
        &self,
        pieces: Pieces,
        length: u64,
        algorithm: Option<Algorithm>,
    ) -> Payload {
        if self.config().checksums {
            // Fast on every processor, and known to every origin that knows checksums behind bodies.
            Payload::Checked(pieces, length, algorithm.unwrap_or(Algorithm::Crc32c))
        } else {
            Payload::Stream(pieces, length)
        }
    }

    /// A short document that a client sends, read whole and checked.
    pub(crate) async fn document(
        &self,
        asked: &Asked,
        incoming: Incoming,
    ) -> Result<Bytes, Failed> {
        // 10,000 parts with two checksums each.
        const LIMIT: u64 = 4 << 20;
        let (mut arriving, _) = self.arriving(asked, incoming)?;
        if arriving.length() > LIMIT {
            return Err(Failed::new(
                S3ErrorCode::MaxMessageLengthExceeded,
                format!("documents have at most {LIMIT} bytes"),
            ));
        }
        let mut whole = Vec::new();
        while let Some(piece) = arriving.next().await {
            whole.extend_from_slice(&piece?);
        }
        Ok(Bytes::from(whole))
    }
}

/// What a client says about an object, for the origin.
pub(crate) fn object_headers(asked: &Asked) -> HeaderMap {
    let mut headers = crate::gateway::passed_on(&asked.headers);
    for name in OF_THE_WAY {
        headers.remove(name);
    }
    let sums: Vec<_> = headers
        .keys()
        .filter(|name| is_sum(name.as_str()))
        .cloned()
        .collect();
    for name in sums {
        headers.remove(name);
    }
    // The framing of the way here ends here.
    let codings: Vec<String> = headers
        .get_all(CONTENT_ENCODING)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .map(str::trim)
        .filter(|coding| !coding.eq_ignore_ascii_case("aws-chunked") && !coding.is_empty())
        .map(str::to_owned)
        .collect();
    headers.remove(CONTENT_ENCODING);
    if let Ok(value) = HeaderValue::from_str(&codings.join(","))
        && !codings.is_empty()
    {
        headers.insert(CONTENT_ENCODING, value);
    }
    headers
}

/// Whether a header carries a checksum of the body.
pub(crate) fn is_sum(name: &str) -> bool {
    name.strip_prefix("x-amz-checksum-")
        .is_some_and(|rest| !["mode", "algorithm", "type"].contains(&rest))
}

/// Whether an upload that ended with 200 did end well: S3 answers before it has put parts together, and says in
/// the body how that went.
pub(crate) fn completed(status: StatusCode, body: &[u8]) -> bool {
    status.is_success() && !String::from_utf8_lossy(body).contains("<Error>")
}
