//! Multipart uploads of clients into encrypted buckets, part by part.
//!
//! The client's upload id is the origin's and the envelope, so that whoever has the id, and the wrapping key, can go
//! on: nothing about an upload is kept here. When the parts are put together their list follows them as one more.

use std::fmt::Write as _;

use bytes::Bytes;
use envelope::{
    Envelope, Kind, Manifest, Name, Opened, Sealing, Segment, plain_length, segment_length,
    stored_length,
};
use http::header::{ETAG, HeaderMap, HeaderValue};
use http::{Method, Response, StatusCode};
use s3s::S3ErrorCode;

use super::tags::{client_part_tag, of_part};
use super::{client_tag, filled, for_client, origin_conditions, salt, seal, sealed};
use crate::answer::Answer;
use crate::asked::Asked;
use crate::config::{BucketRule, Encryption};
use crate::failed::Failed;
use crate::gateway::{Gateway, buckets, passed_on};
use crate::origin::{Ask, Payload};
use crate::path::SMALLEST_PART;
use crate::upload::{Incoming, completed, object_headers};
use crate::xml::{self, Element};

/// Stands between the origin's id and the envelope.
const SEPARATOR: char = '.';
/// Characters of an envelope's text.
const ENVELOPE: usize = 110;
/// S3's most parts.
const MOST_PARTS: u16 = 10_000;

/// The two halves of a client's upload id; without an envelope where the client has the origin's own.
fn halves(id: &str) -> (&str, Option<Envelope>) {
    let split = id.len().checked_sub(ENVELOPE).and_then(|at| {
        let (left, right) = (id.get(..at)?, id.get(at..)?);
        let envelope = Envelope::parse(right).ok()?;
        Some((left.strip_suffix(SEPARATOR)?, envelope))
    });
    match split {
        Some((id, envelope)) => (id, Some(envelope)),
        None => (id, None),
    }
}

/// The data key of an upload whose id the client has from this gateway.
fn opened(
    envelope: Option<Envelope>,
    asked: &Asked,
    rule: &BucketRule,
    encryption: &Encryption,
) -> Result<Opened, Failed> {
    let name = Name {
        bucket: &rule.origin,
        key: &asked.key,
    };
    let envelope = envelope.ok_or_else(no_such_upload)?;
    let opened = envelope.open(&encryption.ring, name);
    opened.map_err(|_| no_such_upload())
}

fn no_such_upload() -> Failed {
    Failed::new(
        S3ErrorCode::NoSuchUpload,
        "The specified upload does not exist, or was not begun through this gateway.",
    )
}

/// A part's number, and the origin's tag of it.
type Stored = (u16, String);

/// A part as the client lists it.
struct Listed {
    number: u16,
    tag: String,
}

impl Gateway {
    /// `CreateMultipartUpload`.
    pub(crate) async fn create_encrypted(
        &self,
        asked: &Asked,
        rule: &BucketRule,
        encryption: &Encryption,
    ) -> Result<Answer, Failed> {
        let mut ask = Ask::new(Method::POST, &rule.origin, &asked.key).query("uploads", "");
        ask.headers = object_headers(asked);
        for name in ["x-amz-checksum-algorithm", "x-amz-checksum-type"] {
            ask.headers.remove(name);
        }
        let name = Name {
            bucket: &rule.origin,
            key: &asked.key,
        };
        let (_, envelope) = seal(&encryption.ring, name, Kind::Parts, None, &mut ask.headers)?;
        let response = self.origin().ask(ask).await?;
        if !response.status().is_success() {
            return buckets::answer(response, rule, asked);
        }
        let mut root = Element::parse(response.body())?;
        let id = root
            .child("UploadId")
            .ok_or_else(|| Failed::unreachable("the origin began an upload without an id"))?;
        root.set("UploadId", format!("{id}{SEPARATOR}{}", envelope.text()));
        root.set("Bucket", &rule.name);
        Ok(Answer::xml(StatusCode::OK, root.document()?))
    }

    /// `UploadPart`.
    pub(crate) async fn upload_encrypted_part(
        &self,
        asked: &Asked,
        rule: &BucketRule,
        encryption: &Encryption,
        incoming: Incoming,
    ) -> Result<Answer, Failed> {
        let (id, envelope) = halves(asked.query("uploadId").unwrap_or_default());
        let opened = opened(envelope, asked, rule, encryption)?;
        let number = asked.query("partNumber").unwrap_or_default();
        let (arriving, _) = self.arriving(asked, incoming)?;
        let (plain, sums) = (arriving.length(), arriving.sums());
        let salt = salt()?;
        let stored = segment_length(plain);
        let chunks = sealed(arriving.into_pieces(), Sealing::part(&opened.key, salt));
        // The salt stands before the chunks.
        let filling = stored - stored_length(plain) - salt.0.len() as u64;
        let mut ask = Ask::new(Method::PUT, &rule.origin, &asked.key)
            .query("partNumber", number)
            .query("uploadId", id);
        ask.headers = object_headers(asked);
        ask.payload = Payload::Stream(filled(chunks, filling), stored);
        let response = self.origin().ask(ask).await?;
        let mut answer = Answer::whole(response);
        if !answer.status.is_success() {
            return Ok(answer);
        }
        let tag = answer.headers.get(ETAG).and_then(|tag| tag.to_str().ok());
        let tag = tag
            .map(|tag| client_part_tag(tag, plain, salt))
            .and_then(|tag| HeaderValue::from_str(&tag).ok())
            .ok_or_else(|| Failed::unreachable("the origin took a part without an ETag"))?;
        for_client(&mut answer.headers);
        answer.headers.insert(ETAG, tag);
        sums.announce(&mut answer.headers);
        Ok(answer)
    }

    /// `CompleteMultipartUpload`.
    pub(crate) async fn complete_encrypted(
        &self,
        asked: &Asked,
        rule: &BucketRule,
        encryption: &Encryption,
        incoming: Incoming,
    ) -> Result<Answer, Failed> {
        let (id, envelope) = halves(asked.query("uploadId").unwrap_or_default());
        let opened = opened(envelope, asked, rule, encryption)?;
        let listed = listed(&self.document(asked, incoming).await?)?;
        let (mut parts, segments) = described(&listed)?;
        let manifest = Manifest::new(segments).map_err(|_| bad_order())?;
        // Behind all others, whatever their numbers are.
        let number = listed.last().map_or(1, |part| part.number + 1);
        if number > MOST_PARTS {
            return Err(Failed::new(
                S3ErrorCode::InvalidArgument,
                "parts of this bucket have numbers from 1 to 9999",
            ));
        }
        let list = manifest.seal(&opened.key, salt()?);
        let mut ask = Ask::new(Method::PUT, &rule.origin, &asked.key)
            .query("partNumber", &number.to_string())
            .query("uploadId", id);
        ask.payload = Payload::Whole(list);
        let response = self.origin().ask(ask).await?;
        if !response.status().is_success() {
            return buckets::answer(response, rule, asked);
        }
        let tag = response
            .headers()
            .get(ETAG)
            .and_then(|tag| tag.to_str().ok());
        let tag =
            tag.ok_or_else(|| Failed::unreachable("the origin took a part without an ETag"))?;
        parts.push((number, tag.to_owned()));
        let mut ask = Ask::new(Method::POST, &rule.origin, &asked.key).query("uploadId", id);
        ask.headers = passed_on(&asked.headers);
        let sums: Vec<_> = ask
            .headers
            .keys()
            .filter(|name| is_about_bytes(name.as_str()))
            .cloned()
            .collect();
        for name in sums {
            ask.headers.remove(name);
        }
        origin_conditions(&mut ask.headers);
        ask.payload = Payload::Whole(document(&parts));
        let response = self.origin().ask(ask).await?;
        finished(response, rule, asked)
    }

    /// `AbortMultipartUpload` and `ListParts`, by either kind of id.
    pub(crate) async fn about_encrypted_upload(
        &self,
        asked: &Asked,
        rule: &BucketRule,
        method: Method,
    ) -> Result<Answer, Failed> {
        let client_id = asked.query("uploadId").unwrap_or_default();
        let (id, _) = halves(client_id);
        let mut ask = Ask::new(method, &rule.origin, &asked.key);
        ask.query.clone_from(&asked.query);
        for (name, value) in &mut ask.query {
            if name == "uploadId" {
                id.clone_into(value);
            }
        }
        let response = self.origin().ask(ask).await?;
        if response.body().is_empty() || !response.status().is_success() {
            return buckets::answer(response, rule, asked);
        }
        let mut root = Element::parse(response.body())?;
        root.set("Bucket", &rule.name);
        root.set("UploadId", client_id);
        for part in root.elements_mut().filter(|child| child.name == "Part") {
            let tag = part.child("ETag").unwrap_or_default();
            part.set("ETag", client_tag(&tag));
            // A part that was filled up has at most so many bytes; which, its own tag knows.
            let size = part.child("Size").and_then(|size| size.parse::<u64>().ok());
            let plain = size.and_then(|size| plain_length(size.checked_sub(16)?));
            if let Some(plain) = plain {
                part.set("Size", plain.to_string());
            }
        }
        Ok(Answer::xml(StatusCode::OK, root.document()?))
    }
}

fn is_about_bytes(name: &str) -> bool {
    name == "content-md5" || name.starts_with("x-amz-checksum-") || name == "x-amz-mp-object-size"
}

/// The client's list.
fn listed(document: &Bytes) -> Result<Vec<Listed>, Failed> {
    let malformed = || {
        Failed::new(
            S3ErrorCode::MalformedXML,
            "The XML you provided was not well-formed or did not validate against our published schema",
        )
    };
    let root = Element::parse(document)?;
    let parts: Option<Vec<Listed>> = root
        .elements()
        .filter(|child| child.name == "Part")
        .map(|part| {
            Some(Listed {
                number: part.child("PartNumber")?.trim().parse().ok()?,
                tag: part.child("ETag")?,
            })
        })
        .collect();
    let parts = parts
        .filter(|parts| !parts.is_empty())
        .ok_or_else(malformed)?;
    if parts
        .windows(2)
        .all(|pair| matches!(pair, [a, b] if a.number < b.number))
    {
        Ok(parts)
    } else {
        Err(bad_order())
    }
}

fn bad_order() -> Failed {
    Failed::new(
        S3ErrorCode::InvalidPartOrder,
        "The list of parts was not in ascending order. Parts must be ordered by part number.",
    )
}

/// The origin's tags of the parts, and what the manifest says about them.
fn described(listed: &[Listed]) -> Result<(Vec<Stored>, Vec<Segment>), Failed> {
    let (mut parts, mut segments) = (Vec::new(), Vec::new());
    for (place, part) in listed.iter().enumerate() {
        let (tag, plain, salt) = of_part(&part.tag).ok_or_else(|| {
            Failed::new(
                S3ErrorCode::InvalidPart,
                "a part's ETag is not the one that this gateway gave when the part was uploaded",
            )
        })?;
        if plain < SMALLEST_PART && place + 1 < listed.len() {
            return Err(Failed::new(
                S3ErrorCode::EntityTooSmall,
                "Your proposed upload is smaller than the minimum allowed object size.",
            ));
        }
        parts.push((part.number, tag));
        segments.push(Segment {
            number: part.number,
            plain,
            salt,
        });
    }
    Ok((parts, segments))
}

fn document(parts: &[Stored]) -> Bytes {
    let mut text =
        String::from("<CompleteMultipartUpload xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\">");
    for (number, tag) in parts {
        let tag = xml::escaped(tag);
        // Writing into a `String` cannot fail.
        let _ = write!(
            text,
            "<Part><PartNumber>{number}</PartNumber><ETag>{tag}</ETag></Part>"
        );
    }
    text.push_str("</CompleteMultipartUpload>");
    Bytes::from(text)
}

fn finished(response: Response<Bytes>, rule: &BucketRule, asked: &Asked) -> Result<Answer, Failed> {
    let (mut head, body) = response.into_parts();
    if !head.status.is_success() {
        return buckets::answer(Response::from_parts(head, body), rule, asked);
    }
    if !completed(head.status, &body) {
        head.status = StatusCode::INTERNAL_SERVER_ERROR;
        return Ok(Answer::whole(Response::from_parts(head, body)));
    }
    let body = buckets::renamed(&body, rule, asked)?;
    let mut root = Element::parse(&body)?;
    let tag = root.child("ETag").unwrap_or_default();
    root.set("ETag", client_tag(&tag));
    root.children.retain(|node| match node {
        xml::Node::Element(child) => !child.name.starts_with("Checksum"),
        xml::Node::Text(_) => true,
    });
    let mut answer = Answer::xml(StatusCode::OK, root.document()?);
    let kept: HeaderMap = head
        .headers
        .iter()
        .filter(|(name, _)| name.as_str() == "x-amz-version-id")
        .map(|(name, value)| (name.clone(), value.clone()))
        .collect();
    answer.headers.extend(kept);
    Ok(answer)
}
