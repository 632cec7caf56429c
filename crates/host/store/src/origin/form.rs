//! The report's own upload: `POST /upload/files` with `multipart/form-data`.
//!
//! Field case C posts two parts, `data` (JSON) and `file`, without a signature and without
//! `Expect: 100-continue`, and receives a response of 214 bytes. The part `data` describes the upload
//! to the report's proxy; here it is read and let go.

use bytes::Bytes;
use futures_util::StreamExt as _;
use http::header::{ALLOW, CONTENT_LENGTH, CONTENT_TYPE};
use http::{HeaderValue, Method, Request, Response, StatusCode};
use http_body_util::BodyDataStream;
use hyper::body::Incoming;
use s3s::{Body, HttpResponse};

use super::Arrival;
use super::objects::{Object, Objects, Refused};

/// Where the report's server takes files.
const PATH: &str = "/upload/files";

/// Bytes of the parts that are not the file, together: the report's JSON is below one kilobyte.
const OTHER_PARTS_LIMIT: u64 = 64 << 10;

/// Whether a request is for this module. S3 has no operation that could be meant instead: `upload`
/// would be the bucket, and a POST to a key carries a query.
pub(super) fn is_upload<B>(request: &Request<B>) -> bool {
    request.uri().path() == PATH && request.uri().query().is_none()
}

/// Stores the file of a form and answers as the report's server does.
pub(super) async fn respond(
    objects: &Objects,
    arrival: Arrival,
    request: Request<Incoming>,
) -> HttpResponse {
    if request.method() != Method::POST {
        return not_allowed();
    }
    match store(objects, arrival, request).await {
        Ok(Answer { key, sha256 }) => json(
            StatusCode::OK,
            // With hyper's head this makes the report's 214 bytes.
            format!(r#"{{"file_id": "{key}", "sha256": "{sha256}"}}"#),
        ),
        Err(error) => json(
            error.status(),
            // Our own sentences, which contain nothing that JSON would have to escape.
            format!(r#"{{"error":"{error}"}}"#),
        ),
    }
}

struct Answer {
    key: String,
    sha256: String,
}

async fn store(
    objects: &Objects,
    arrival: Arrival,
    request: Request<Incoming>,
) -> Result<Answer, FormError> {
    let announced = request
        .headers()
        .get(CONTENT_LENGTH)
        .and_then(|value| value.to_str().ok())
        .and_then(|value| value.parse::<u64>().ok());
    if announced.is_some_and(|bytes| bytes > objects.object_limit() + OTHER_PARTS_LIMIT) {
        return Err(FormError::Refused(Refused::TooLarge {
            limit: objects.object_limit(),
        }));
    }
    let boundary = request
        .headers()
        .get(CONTENT_TYPE)
        .and_then(|value| value.to_str().ok())
        .and_then(|value| multer::parse_boundary(value).ok())
        .ok_or(FormError::NoBoundary)?;
    let mut form = multer::Multipart::new(BodyDataStream::new(request.into_body()), boundary);
    let object = file(objects, &mut form).await?;
    let (key, sha256) = (objects.form_key(), object.sha256.clone());
    objects
        .store(objects.form_bucket(), &key, object, arrival)
        .map_err(FormError::Refused)?;
    Ok(Answer { key, sha256 })
}

/// Reads the form to its end, so that the connection can carry the next request, and returns its file.
async fn file(objects: &Objects, form: &mut multer::Multipart<'_>) -> Result<Object, FormError> {
    let mut file = None;
    let mut others: u64 = 0;
    while let Some(mut part) = form.next_field().await.map_err(FormError::Read)? {
        if part.name() == Some("file") && file.is_none() {
            let mut receiving = objects.receive(None).map_err(FormError::Refused)?;
            while let Some(piece) = part.next().await {
                let piece: Bytes = piece.map_err(FormError::Read)?;
                receiving.push(&piece).map_err(FormError::Refused)?;
            }
            file = Some(receiving.finish());
        } else {
            while let Some(piece) = part.next().await {
                let piece: Bytes = piece.map_err(FormError::Read)?;
                others = others.saturating_add(super::content::size(&piece));
                if others > OTHER_PARTS_LIMIT {
                    return Err(FormError::OtherPartsTooLarge);
                }
            }
        }
    }
    file.ok_or(FormError::NoFile)
}

/// Why a form was not taken.
#[derive(Debug, thiserror::Error)]
enum FormError {
    #[error("the request is not multipart/form-data with a boundary")]
    NoBoundary,
    #[error("the form cannot be read")]
    Read(#[source] multer::Error),
    #[error("the form has no part named file")]
    NoFile,
    #[error("the parts beside the file are larger than 65536 bytes")]
    OtherPartsTooLarge,
    #[error("{0}")]
    Refused(Refused),
}

impl FormError {
    fn status(&self) -> StatusCode {
        match self {
            Self::NoBoundary | Self::Read(_) | Self::NoFile => StatusCode::BAD_REQUEST,
            Self::OtherPartsTooLarge | Self::Refused(Refused::TooLarge { .. }) => {
                StatusCode::PAYLOAD_TOO_LARGE
            }
            Self::Refused(Refused::Full { .. }) => StatusCode::INSUFFICIENT_STORAGE,
            Self::Refused(Refused::NoBucket) => StatusCode::NOT_FOUND,
        }
    }
}

fn json(status: StatusCode, body: String) -> HttpResponse {
    let mut response = Response::new(Body::from(body));
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}

fn not_allowed() -> HttpResponse {
    let mut response = Response::new(Body::empty());
    *response.status_mut() = StatusCode::METHOD_NOT_ALLOWED;
    response
        .headers_mut()
        .insert(ALLOW, HeaderValue::from_static("POST"));
    response
}
