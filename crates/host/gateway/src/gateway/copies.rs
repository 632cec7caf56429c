//! Copies, which the origin makes where it is.

use http::header::{CONTENT_LENGTH, ETAG, HeaderMap, HeaderValue, RANGE};
use http::{Method, StatusCode};
use percent_encoding::percent_decode_str;
use s3s::S3ErrorCode;
use time::OffsetDateTime;

use super::{DESCRIBING, Gateway, buckets, passed_on};
use crate::answer::Answer;
use crate::asked::{Asked, Operation};
use crate::config::BucketRule;
use crate::download::length_of;
use crate::failed::Failed;
use crate::origin::{Ask, signature};
use crate::upload::{Incoming, completed};
use crate::xml;

/// What is copied.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct Source {
    pub(crate) bucket: String,
    pub(crate) key: String,
    pub(crate) version: Option<String>,
}

impl Gateway {
    /// `CopyObject`. Where either side is encrypted the object comes here and goes back: its envelope is bound to its
    /// name.
    pub(super) async fn copy_object(
        &self,
        asked: &Asked,
        rule: &BucketRule,
    ) -> Result<Answer, Failed> {
        let source = Source::of(asked)?;
        let from = self.rule_of(&source)?;
        if rule.encryption.is_none() && from.encryption.is_none() {
            return self.copy_there(asked, rule, &source, &from).await;
        }
        let opened = self.read_source(asked, &source, &from, None).await?;
        if !opened.status.is_success() {
            return Ok(opened);
        }
        let mut put = Asked {
            operation: Operation::PutObject,
            bucket: asked.bucket.clone(),
            key: asked.key.clone(),
            query: Vec::new(),
            headers: described(asked, &opened.headers),
        };
        let length = length_of(&opened.headers)
            .ok_or_else(|| Failed::unreachable("the source has no length"))?;
        put.headers
            .insert(CONTENT_LENGTH, HeaderValue::from(length));
        let answer = self.put_object(&put, rule, carried(opened)).await?;
        Ok(told(answer, "CopyObjectResult"))
    }

    /// `UploadPartCopy`, likewise.
    pub(super) async fn copy_part(
        &self,
        asked: &Asked,
        rule: &BucketRule,
    ) -> Result<Answer, Failed> {
        let source = Source::of(asked)?;
        let from = self.rule_of(&source)?;
        if rule.encryption.is_none() && from.encryption.is_none() {
            return self.copy_there(asked, rule, &source, &from).await;
        }
        let range = asked.headers.get("x-amz-copy-source-range").cloned();
        let opened = self.read_source(asked, &source, &from, range).await?;
        if !opened.status.is_success() {
            return Ok(opened);
        }
        let length = length_of(&opened.headers)
            .ok_or_else(|| Failed::unreachable("the source has no length"))?;
        let mut headers = HeaderMap::new();
        headers.insert(CONTENT_LENGTH, HeaderValue::from(length));
        let put = Asked {
            operation: Operation::UploadPart,
            bucket: asked.bucket.clone(),
            key: asked.key.clone(),
            query: asked.query.clone(),
            headers,
        };
        let incoming = carried(opened);
        let answer = match &rule.encryption {
            Some(encryption) => {
                self.upload_encrypted_part(&put, rule, encryption, incoming)
                    .await?
            }
            None => self.upload_part(&put, rule, incoming).await?,
        };
        Ok(told(answer, "CopyPartResult"))
    }

    fn rule_of(&self, source: &Source) -> Result<BucketRule, Failed> {
        self.config().rule(&source.bucket).ok_or_else(|| {
            Failed::new(
                S3ErrorCode::NoSuchBucket,
                "The specified bucket does not exist",
            )
        })
    }

    /// By the origin, where it is.
    async fn copy_there(
        &self,
        asked: &Asked,
        rule: &BucketRule,
        source: &Source,
        from: &BucketRule,
    ) -> Result<Answer, Failed> {
        let mut ask = Ask::new(Method::PUT, &rule.origin, &asked.key);
        ask.query.clone_from(&asked.query);
        ask.headers = passed_on(&asked.headers);
        ask.headers
            .insert("x-amz-copy-source", source.header(from)?);
        let mut response = self.origin().ask(ask).await?;
        if response.status().is_success() && !completed(response.status(), response.body()) {
            *response.status_mut() = StatusCode::INTERNAL_SERVER_ERROR;
        }
        buckets::answer(response, rule, asked)
    }

    /// The source as a client of this gateway would read it, under the conditions of the copy.
    async fn read_source(
        &self,
        asked: &Asked,
        source: &Source,
        from: &BucketRule,
        range: Option<HeaderValue>,
    ) -> Result<Answer, Failed> {
        let mut headers = HeaderMap::new();
        for condition in [
            "if-match",
            "if-none-match",
            "if-modified-since",
            "if-unmodified-since",
        ] {
            if let Some(value) = asked.headers.get(format!("x-amz-copy-source-{condition}")) {
                headers.insert(condition, value.clone());
            }
        }
        if let Some(range) = range {
            headers.insert(RANGE, range);
        }
        let version = source.version.iter();
        let get = Asked {
            operation: Operation::GetObject,
            bucket: source.bucket.clone(),
            key: source.key.clone(),
            query: version
                .map(|id| ("versionId".to_owned(), id.clone()))
                .collect(),
            headers,
        };
        let answer = match &from.encryption {
            Some(encryption) => self.get_encrypted(&get, from, encryption).await?,
            None => self.get_object(&get, from).await?,
        };
        if answer.status == StatusCode::NOT_MODIFIED {
            // A copy that is not made has failed.
            return Err(Failed::new(
                S3ErrorCode::PreconditionFailed,
                "At least one of the pre-conditions you specified did not hold",
            ));
        }
        Ok(answer)
    }
}

/// What a body that was read becomes when it is written.
fn carried(opened: Answer) -> Incoming {
    Incoming {
        method: Method::PUT,
        body: opened.body,
        trailers: None,
    }
}

/// Headers of the copy: the source's, or the request's where it says so.
fn described(asked: &Asked, source: &HeaderMap) -> HeaderMap {
    let replaces = asked
        .header("x-amz-metadata-directive")
        .is_some_and(|directive| directive.eq_ignore_ascii_case("REPLACE"));
    let is_kept = |name: &str| DESCRIBING.contains(&name) || name.starts_with("x-amz-meta-");
    let mut headers = HeaderMap::new();
    for (name, value) in passed_on(&asked.headers) {
        let Some(name) = name else { continue };
        let text = name.as_str();
        let of_copying = text.starts_with("x-amz-copy-source") || text.ends_with("-directive");
        if !of_copying && (replaces || !is_kept(text)) {
            headers.append(name, value);
        }
    }
    if !replaces {
        let kept = source.iter().filter(|(name, _)| is_kept(name.as_str()));
        headers.extend(kept.map(|(name, value)| (name.clone(), value.clone())));
    }
    headers
}

/// The answer of a copy, from that of a write.
fn told(mut answer: Answer, root: &str) -> Answer {
    if !answer.status.is_success() {
        return answer;
    }
    let tag = answer.headers.remove(ETAG);
    let tag = tag
        .as_ref()
        .and_then(|tag| tag.to_str().ok())
        .unwrap_or_default();
    let now = OffsetDateTime::now_utc();
    let modified = format!(
        "{:04}-{:02}-{:02}T{:02}:{:02}:{:02}.000Z",
        now.year(),
        u8::from(now.month()),
        now.day(),
        now.hour(),
        now.minute(),
        now.second()
    );
    let text = format!(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?><{root}><LastModified>{modified}</LastModified><ETag>{}</ETag></{root}>",
        xml::escaped(tag)
    );
    let mut told = Answer::xml(StatusCode::OK, text);
    let version = answer.headers.remove("x-amz-version-id");
    if let Some(version) = version {
        told.headers.insert("x-amz-version-id", version);
    }
    told.parts = answer.parts;
    told
}

// === impl Source ===

impl Source {
    /// `[/]BUCKET/KEY[?versionId=ID]`, encoded as in a URL.
    pub(crate) fn of(asked: &Asked) -> Result<Self, Failed> {
        let bad = || {
            Failed::new(
                S3ErrorCode::InvalidArgument,
                "x-amz-copy-source is not BUCKET/KEY, encoded as in a URL",
            )
        };
        let text = asked.header("x-amz-copy-source").ok_or_else(bad)?;
        let (path, version) = match text.split_once("?versionId=") {
            Some((path, version)) => (path, Some(version.to_owned())),
            None => (text, None),
        };
        let path = percent_decode_str(path).decode_utf8().map_err(|_| bad())?;
        let path = path.strip_prefix('/').unwrap_or(&path);
        let (bucket, key) = path.split_once('/').ok_or_else(bad)?;
        if bucket.is_empty() || key.is_empty() {
            return Err(bad());
        }
        Ok(Self {
            bucket: bucket.to_owned(),
            key: key.to_owned(),
            version,
        })
    }

    /// For the origin, which has its own name for the bucket.
    fn header(&self, rule: &BucketRule) -> Result<HeaderValue, Failed> {
        let mut text = signature::encoded_path(&format!("{}/{}", rule.origin, self.key));
        if let Some(version) = &self.version {
            text.push_str("?versionId=");
            text.push_str(version);
        }
        HeaderValue::from_str(&text).map_err(|_| Failed::internal("a source cannot be written"))
    }
}
