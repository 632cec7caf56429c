//! The report's own upload: a form that is posted to a path, whose file becomes an object.
//!
//! The report's clients sign nothing, so whoever reaches such a path may write below its prefix; there is no path unless
//! the configuration names one.

use bytes::Bytes;
use http::header::{CONTENT_TYPE, HeaderValue};
use http::{HeaderMap, Method, Request, Response, StatusCode};
use hyper::body::Body as HttpBody;
use s3s::{Body, HttpResponse, S3ErrorCode};
use serde_json::json;

use super::policy::Lengths;
use super::{Form, Posted, malformed};
use crate::answer::Answer;
use crate::checksum::Claims;
use crate::config::FormRule;
use crate::encrypted;
use crate::failed::Failed;
use crate::gateway::Gateway;
use crate::origin::signature;

/// Takes a form to `rule`'s bucket.
pub(crate) async fn respond<B>(gateway: &Gateway, rule: &FormRule, request: Request<B>) -> Posted
where
    B: HttpBody<Data = Bytes, Error = hyper::Error> + Send + 'static,
{
    let key = match encrypted::random::<12>() {
        Ok(name) => format!("{}{}", rule.prefix, signature::hexadecimal(&name)),
        Err(failed) => {
            return Posted {
                key: String::new(),
                response: refused(&failed),
                parts: 1,
            };
        }
    };
    let outcome = store(gateway, rule, &key, request).await;
    let parts = outcome.as_ref().map_or(1, |answer| answer.parts);
    let response = match outcome {
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
    Posted {
        key,
        response,
        parts,
    }
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
    let bucket = gateway
        .config()
        .rule(&rule.bucket)
        .ok_or_else(|| Failed::new(S3ErrorCode::NoSuchBucket, "the form's bucket is not served"))?;
    let limits = &gateway.config().limits;
    let lengths = Lengths {
        least: 0,
        most: limits.object,
    };
    let mut form = Form::of(request, limits.stall)?;
    while let Some(field) = form.field().await? {
        if field.name() != Some("file") {
            form.text(field).await?;
            continue;
        }
        let mut headers = HeaderMap::new();
        let kind = field.content_type().map(ToString::to_string);
        if let Some(kind) = kind.and_then(|kind| HeaderValue::from_str(&kind).ok()) {
            headers.insert(CONTENT_TYPE, kind);
        }
        let file = form.file(field, lengths, Claims::of(&HeaderMap::new(), None)?)?;
        let answer = super::store(gateway, &bucket, key, headers, (file, None)).await?;
        if answer.status.is_success() {
            form.finish().await;
        }
        return Ok(answer);
    }
    Err(malformed())
}

fn refused(failed: &Failed) -> HttpResponse {
    json(failed.status(), &json!({ "error": failed.to_string() }))
}

fn json(status: StatusCode, body: &serde_json::Value) -> HttpResponse {
    let mut response = Response::new(Body::from(body.to_string()));
    *response.status_mut() = status;
    let kind = HeaderValue::from_static("application/json");
    response.headers_mut().insert(CONTENT_TYPE, kind);
    response
}
