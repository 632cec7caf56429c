//! S3's browser uploads: a form that a client of the gateway has signed, for somebody who has no secret.
//!
//! Sources: *POST Object* and *Browser-Based Uploads Using POST* of the S3 API reference. What the form may say stands in the
//! policy that is signed; what is not named there is refused.

use std::time::SystemTime;

use bytes::Bytes;
use http::header::{CONTENT_LENGTH, CONTENT_TYPE, ETAG, HOST, HeaderName, HeaderValue, LOCATION};
use http::{HeaderMap, Request, Response, StatusCode, Uri};
use hyper::body::Body as HttpBody;
use s3s::{Body, S3ErrorCode};
use time::OffsetDateTime;

use super::policy::{Fields, Lengths, Policy};
use super::signed;
use super::{BESIDE, Form, Posted, malformed};
use crate::answer::Answer;
use crate::asked::bucket_of_host;
use crate::checksum::Claims;
use crate::failed::Failed;
use crate::gateway::{DESCRIBING, Gateway, passed_on};
use crate::origin::signature::{encoded_path, encoded_query};
use crate::upload::is_sum;
use crate::xml::{self, Element};

/// A form that may be stored.
struct Allowed<'a> {
    fields: &'a Fields,
    key: &'a str,
    lengths: Lengths,
}

/// Takes a form that is posted to `bucket`.
pub(crate) async fn respond<B>(gateway: &Gateway, bucket: &str, request: Request<B>) -> Posted
where
    B: HttpBody<Data = Bytes, Error = hyper::Error> + Send + 'static,
{
    let mut key = String::new();
    match store(gateway, bucket, request, &mut key).await {
        Ok(answer) => {
            let mut response = Response::new(answer.body);
            *response.status_mut() = answer.status;
            *response.headers_mut() = answer.headers;
            Posted {
                key,
                response,
                parts: answer.parts,
            }
        }
        Err(failed) => Posted {
            key,
            response: failed.response(),
            parts: 0,
        },
    }
}

async fn store<B>(
    gateway: &Gateway,
    bucket: &str,
    request: Request<B>,
    key: &mut String,
) -> Result<Answer, Failed>
where
    B: HttpBody<Data = Bytes, Error = hyper::Error> + Send + 'static,
{
    let config = gateway.config();
    let place = Place::of(bucket, request.headers(), &config.domains);
    let kind = request.headers().get(CONTENT_TYPE);
    let kind = kind.and_then(|kind| kind.to_str().ok()).unwrap_or_default();
    let kind = kind.split(';').next().unwrap_or_default().trim();
    if !kind.eq_ignore_ascii_case("multipart/form-data") {
        let failed = Failed::new(
            S3ErrorCode::PreconditionFailed,
            "At least one of the pre-conditions you specified did not hold.",
        );
        let condition = "Bucket POST must be of the enclosure-type multipart/form-data";
        return Err(failed.with("Condition", condition));
    }
    let mut form = Form::of(request, config.limits.stall)?;
    let mut fields = Fields::default();
    let file = loop {
        let Some(field) = form.field().await? else {
            return Err(Failed::argument(
                "file",
                "POST requires exactly one file upload per request.",
                "0",
            ));
        };
        let name = field.name().unwrap_or_default().to_owned();
        if name.is_empty() {
            return Err(malformed());
        }
        if name.eq_ignore_ascii_case("file") {
            break field;
        }
        let text = form.text(field).await?;
        let text = String::from_utf8(text.into()).map_err(|_| malformed())?;
        fields.add(&name, text)?;
    };
    let limit = usize::try_from(BESIDE).unwrap_or(usize::MAX);
    fields.name_file(file.file_name().unwrap_or_default(), limit)?;
    let allowed = allowed(gateway, bucket, &fields)?;
    allowed.key.clone_into(key);
    let rule = config.rule(bucket).ok_or_else(|| {
        Failed::new(
            S3ErrorCode::NoSuchBucket,
            "The specified bucket does not exist",
        )
    })?;
    let headers = object_headers(&fields)?;
    let claims = Claims::of(&claimed(&fields)?, None)?;
    let algorithm = claims.algorithm();
    let file = form.file(file, allowed.lengths, claims)?;
    let answer = super::store(gateway, &rule, allowed.key, headers, (file, algorithm)).await?;
    if !answer.status.is_success() {
        // Most of the file may be on its way still.
        return Ok(answer);
    }
    form.finish().await;
    Ok(told(answer, &allowed, bucket, &place))
}

/// Judges all that stands before the file.
fn allowed<'a>(gateway: &Gateway, bucket: &str, fields: &'a Fields) -> Result<Allowed<'a>, Failed> {
    let key = fields.get("key").filter(|key| !key.is_empty());
    let key = key.ok_or_else(|| signed::missing("key"))?;
    let config = gateway.config();
    let secret = |access_key: &str| {
        let mut clients = config.clients.iter();
        let client = clients.find(|client| client.access_key == access_key)?;
        Some(client.secret_key.clone())
    };
    let policy = Policy::parse(signed::policy(fields, secret)?)?;
    let now = OffsetDateTime::from(SystemTime::now());
    let bounds = Lengths {
        least: 0,
        most: config.limits.object,
    };
    Ok(Allowed {
        fields,
        key,
        lengths: policy.check(bucket, fields, now)?.and(bounds),
    })
}

/// What the fields say about the object, for the origin.
fn object_headers(fields: &Fields) -> Result<HeaderMap, Failed> {
    let mut headers = HeaderMap::new();
    for (name, value) in fields.iter() {
        let (header, value) = match name {
            "acl" => ("x-amz-acl", value.to_owned()),
            "tagging" => ("x-amz-tagging", tags(value)?),
            name if is_sum(name) || signed::FIELDS.contains(&name) => continue,
            name if DESCRIBING.contains(&name) || name.starts_with("x-amz-") => {
                (name, value.to_owned())
            }
            _ => continue,
        };
        if value.is_empty() {
            continue;
        }
        put(&mut headers, name, header, &value)?;
    }
    Ok(passed_on(&headers))
}

/// What the fields say about the file's bytes.
fn claimed(fields: &Fields) -> Result<HeaderMap, Failed> {
    let about = |name: &str| {
        is_sum(name) || ["content-md5", "x-amz-sdk-checksum-algorithm"].contains(&name)
    };
    let mut headers = HeaderMap::new();
    for (name, value) in fields.iter().filter(|(name, _)| about(name)) {
        // Passed over, a wrong one would be stored.
        put(&mut headers, name, name, value)?;
    }
    Ok(headers)
}

fn put(headers: &mut HeaderMap, field: &str, name: &str, value: &str) -> Result<(), Failed> {
    let header = HeaderName::from_bytes(name.as_bytes());
    let text = HeaderValue::from_bytes(value.as_bytes());
    let (Ok(header), Ok(text)) = (header, text) else {
        let why = "This field cannot be stored with the object.";
        return Err(Failed::argument(field, why, value));
    };
    headers.insert(header, text);
    Ok(())
}

/// Tags as a header has them, of the document that a form has.
fn tags(document: &str) -> Result<String, Failed> {
    let malformed = || {
        Failed::new(
            S3ErrorCode::MalformedXML,
            "The XML you provided was not well-formed or did not validate against our published schema.",
        )
    };
    let root = Element::parse(document.as_bytes()).map_err(|_| malformed())?;
    let set = root.elements().find(|child| child.name == "TagSet");
    let set = set
        .filter(|_| root.name == "Tagging")
        .ok_or_else(malformed)?;
    let mut tags = form_urlencoded::Serializer::new(String::new());
    for tag in set.elements() {
        let (key, value) = (tag.child("Key"), tag.child("Value"));
        let (Some(key), Some(value), "Tag") = (key, value, tag.name.as_str()) else {
            return Err(malformed());
        };
        tags.append_pair(&key, &value);
    }
    Ok(tags.finish())
}

/// What is answered when the object is stored, as the form wishes it.
fn told(mut answer: Answer, form: &Allowed<'_>, bucket: &str, place: &Place) -> Answer {
    let tag = answer.headers.get(ETAG).and_then(|tag| tag.to_str().ok());
    let tag = tag.unwrap_or_default().to_owned();
    let key = form.key;
    answer.headers.remove(CONTENT_LENGTH);
    answer.headers.remove(CONTENT_TYPE);
    answer.body = Body::empty();
    let wish = |name| form.fields.get(name);
    let elsewhere = wish("success_action_redirect").or_else(|| wish("redirect"));
    if let Some(to) = elsewhere.and_then(|to| redirected(to, bucket, key, &tag)) {
        answer.status = StatusCode::SEE_OTHER;
        answer.headers.insert(LOCATION, to);
        return answer;
    }
    let location = place.location(key);
    if let Ok(value) = HeaderValue::from_str(&location) {
        answer.headers.insert(LOCATION, value);
    }
    answer.status = match wish("success_action_status") {
        Some("200") => StatusCode::OK,
        Some("201") => {
            let text = format!(
                "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\
                 <PostResponse xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\"><Location>{}</Location>\
                 <Bucket>{}</Bucket><Key>{}</Key><ETag>{}</ETag></PostResponse>",
                xml::escaped(&location),
                xml::escaped(bucket),
                xml::escaped(key),
                xml::escaped(&tag)
            );
            let kind = HeaderValue::from_static("application/xml");
            answer.headers.insert(CONTENT_TYPE, kind);
            answer.body = Body::from(text);
            StatusCode::CREATED
        }
        _ => StatusCode::NO_CONTENT,
    };
    answer
}

/// Where the form's browser goes next. What is no address of the web counts as not said, as S3 has it.
fn redirected(to: &str, bucket: &str, key: &str, tag: &str) -> Option<HeaderValue> {
    let uri = to.parse::<Uri>().ok()?;
    if !["http", "https"].contains(&uri.scheme_str()?) || uri.host().is_none() {
        return None;
    }
    let more = [("bucket", bucket), ("key", key), ("etag", tag)];
    let more = more.map(|(name, value)| (name.to_owned(), value.to_owned()));
    let between = if uri.query().is_some() { '&' } else { '?' };
    // Without a fragment, which would swallow them.
    let to = to.split('#').next().unwrap_or_default();
    HeaderValue::from_str(&format!("{to}{between}{}", encoded_query(&more))).ok()
}

/// Where a form was posted to, as its answer tells it.
struct Place {
    /// Up to the key.
    address: String,
}

impl Place {
    fn of(bucket: &str, headers: &HeaderMap, domains: &[String]) -> Self {
        let host = headers.get(HOST).and_then(|host| host.to_str().ok());
        let host = host.unwrap_or_default();
        let address = match bucket_of_host(headers, domains) {
            Some(_) => format!("http://{host}"),
            None => format!("http://{host}/{}", encoded_path(bucket)),
        };
        Self { address }
    }

    fn location(&self, key: &str) -> String {
        format!("{}/{}", self.address, encoded_path(key))
    }
}
