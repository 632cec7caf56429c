//! The report's own upload: a form that is posted to a path, whose file becomes an object.
//!
//! The report's clients sign nothing, so whoever reaches such a path may write below its prefix; there is no path unless
//! the configuration names one. The length of a file is not known before its end: it is read part by part, and a part
//! leaves when it is full.

use bytes::{Bytes, BytesMut};
use envelope::{Kind, Name, Sealing};
use futures_util::stream::{self, StreamExt as _};
use http::header::{CONTENT_LENGTH, CONTENT_TYPE, HeaderMap, HeaderValue};
use http::{Method, Request, Response, StatusCode};
use http_body_util::BodyDataStream;
use hyper::body::Body as HttpBody;
use s3s::{Body, HttpResponse, S3Error, S3ErrorCode};
use serde_json::json;

use crate::answer::Answer;
use crate::config::FormRule;
use crate::encrypted;
use crate::failed::Failed;
use crate::gateway::Gateway;
use crate::origin::{Ask, Pieces, signature};
use crate::upload::parts::Target;

/// Bytes of the fields that are not the file, together: the report's JSON is below one kilobyte.
const OTHERS: u64 = 64 << 10;

/// Takes a form to `rule`'s bucket; the object's key, and the answer.
pub(crate) async fn respond<B>(
    gateway: &Gateway,
    rule: &FormRule,
    request: Request<B>,
) -> (String, HttpResponse)
where
    B: HttpBody<Data = Bytes, Error = hyper::Error> + Send + 'static,
{
    let key = match encrypted::random::<12>() {
        Ok(name) => format!("{}{}", rule.prefix, signature::hexadecimal(&name)),
        Err(failed) => return (String::new(), refused(&failed)),
    };
    let response = match store(gateway, rule, &key, request).await {
        Ok(answer) if answer.status.is_success() => {
            // With hyper's head this is what the report's server says.
            json(StatusCode::OK, &json!({ "file_id": key }))
        }
        Ok(answer) => json(
            StatusCode::BAD_GATEWAY,
            &json!({ "error": format!("the store answered {}", answer.status.as_u16()) }),
        ),
        Err(failed) => refused(&failed),
    };
    (key, response)
}

async fn store<B>(
    gateway: &Gateway,
    rule: &FormRule,
    key: &str,
    request: Request<B>,
) -> Result<Answer, Failed>
where
    B: HttpBody<Data = Bytes, Error = hyper::Error> + Send + 'static,
{
    if request.method() != Method::POST {
        return Err(Failed::new(
            S3ErrorCode::MethodNotAllowed,
            "forms are posted",
        ));
    }
    let limit = gateway.config().limits.object;
    let header = |name| request.headers().get(name)?.to_str().ok();
    let announced = header(CONTENT_LENGTH).and_then(|text| text.parse::<u64>().ok());
    if announced.is_some_and(|bytes| bytes > limit.saturating_add(OTHERS)) {
        return Err(too_large(limit));
    }
    let boundary = header(CONTENT_TYPE)
        .and_then(|value| multer::parse_boundary(value).ok())
        .ok_or_else(|| malformed("the request is not multipart/form-data with a boundary"))?;
    let bucket = gateway
        .config()
        .rule(&rule.bucket)
        .ok_or_else(|| Failed::new(S3ErrorCode::NoSuchBucket, "the form's bucket is not served"))?;
    let mut form = multer::Multipart::new(BodyDataStream::new(request.into_body()), boundary);
    let mut others = OTHERS;
    let mut stored = None;
    while let Some(mut field) = form
        .next_field()
        .await
        .map_err(|_| malformed("the form is cut"))?
    {
        if field.name() == Some("file") && stored.is_none() {
            let mut headers = HeaderMap::new();
            let kind = field.content_type().map(ToString::to_string);
            if let Some(kind) = kind.and_then(|kind| HeaderValue::from_str(&kind).ok()) {
                headers.insert(CONTENT_TYPE, kind);
            }
            let file = stream::unfold((field, limit), |(mut field, left)| async move {
                let piece = match field.next().await? {
                    Ok(piece) => match left.checked_sub(piece.len() as u64) {
                        Some(left) => return Some((Ok(piece), (field, left))),
                        None => Err(Failed::new(
                            S3ErrorCode::EntityTooLarge,
                            "the file is too large",
                        )),
                    },
                    Err(_) => Err(malformed("the form is cut")),
                };
                Some((piece, (field, 0)))
            });
            let mut pieces: Pieces = Box::pin(file);
            if let Some(encryption) = &bucket.encryption {
                let name = Name {
                    bucket: &bucket.origin,
                    key,
                };
                let (data_key, _) =
                    encrypted::seal(&encryption.ring, name, Kind::Whole, None, &mut headers)?;
                pieces = encrypted::sealed(pieces, Sealing::whole(&data_key));
            }
            let target = Target {
                bucket: bucket.origin.clone(),
                key: key.to_owned(),
                headers,
            };
            let (at, key) = (target.bucket.clone(), target.key.clone());
            let answer = put_unknown(gateway, target, pieces).await?;
            if answer.status.is_success() {
                gateway.known().saw(&at, &key, None);
            }
            stored = Some(answer);
        } else {
            while let Some(piece) = field.next().await {
                let piece = piece.map_err(|_| malformed("the form is cut"))?;
                others = others
                    .checked_sub(piece.len() as u64)
                    .ok_or_else(|| malformed("the fields beside the file are too large"))?;
            }
        }
    }
    stored.ok_or_else(|| malformed("the form has no field `file`"))
}

/// Stores bytes of which nobody knows how many there are.
async fn put_unknown(
    gateway: &Gateway,
    target: Target,
    mut pieces: Pieces,
) -> Result<Answer, Failed> {
    let limits = &gateway.config().limits;
    let path = gateway.origin().path();
    let part = path.parts(0, limits.request_memory, limits.parallel).part;
    let size = usize::try_from(part).unwrap_or(usize::MAX);
    let mut first = BytesMut::new();
    while first.len() <= size {
        let Some(piece) = pieces.next().await else {
            let length = first.len() as u64;
            let whole: Pieces = Box::pin(stream::once(async { Ok(first.freeze()) }));
            let ask = Ask {
                headers: target.headers,
                payload: gateway.payload(whole, length, None),
                ..Ask::new(Method::PUT, &target.bucket, &target.key)
            };
            return Ok(Answer::whole(gateway.origin().ask(ask).await?));
        };
        first.extend_from_slice(&piece?);
    }
    let rest = stream::once(async { Ok(first.freeze()) }).chain(pieces);
    gateway
        .put_unknown_in_parts(target, part, Box::pin(rest))
        .await
}

fn malformed(why: &str) -> Failed {
    Failed::new(S3ErrorCode::MalformedPOSTRequest, why)
}

fn too_large(limit: u64) -> Failed {
    Failed::new(
        S3ErrorCode::EntityTooLarge,
        format!("this gateway takes files of up to {limit} bytes"),
    )
}

fn refused(failed: &Failed) -> HttpResponse {
    let error = S3Error::from(failed.clone());
    let status = error
        .status_code()
        .unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    json(status, &json!({ "error": failed.to_string() }))
}

fn json(status: StatusCode, body: &serde_json::Value) -> HttpResponse {
    let mut response = Response::new(Body::from(body.to_string()));
    *response.status_mut() = status;
    let kind = HeaderValue::from_static("application/json");
    response.headers_mut().insert(CONTENT_TYPE, kind);
    response
}
