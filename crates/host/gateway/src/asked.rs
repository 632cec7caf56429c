//! What a client asks for.

use http::header::AUTHORIZATION;
use http::{HeaderMap, Method, Uri};
use percent_encoding::percent_decode_str;
use s3s::S3ErrorCode;

use crate::failed::Failed;

/// A request whose signature holds.
#[derive(Debug)]
pub(crate) struct Asked {
    pub(crate) operation: Operation,
    /// As the client calls it; empty for the service itself.
    pub(crate) bucket: String,
    /// Empty for the bucket itself.
    pub(crate) key: String,
    /// Without what a presigned URL adds.
    pub(crate) query: Vec<(String, String)>,
    pub(crate) headers: HeaderMap,
}

/// The operations that pass; everything else is not implemented.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Operation {
    ListBuckets,
    HeadBucket,
    CreateBucket,
    DeleteBucket,
    /// Location, versioning and tags of a bucket: passed on as they are.
    BucketProperty,
    /// What [`Operation::BucketProperty`] reads, written.
    SetBucketProperty,
    ListObjects,
    ListObjectVersions,
    ListMultipartUploads,
    DeleteObjects,
    GetObject,
    HeadObject,
    PutObject,
    CopyObject,
    DeleteObject,
    /// Tags of an object, in either direction.
    ObjectTagging,
    GetObjectAttributes,
    CreateMultipartUpload,
    UploadPart,
    UploadPartCopy,
    CompleteMultipartUpload,
    AbortMultipartUpload,
    ListParts,
}

/// Query fields that name an operation of S3's. A request with one that is not handled is refused: passed over,
/// it would become another operation.
const SUBRESOURCES: [&str; 38] = [
    "accelerate",
    "acl",
    "analytics",
    "attributes",
    "cors",
    "delete",
    "encryption",
    "intelligent-tiering",
    "inventory",
    "legal-hold",
    "lifecycle",
    "location",
    "logging",
    "metadataConfiguration",
    "metadataTable",
    "metrics",
    "notification",
    "object-lock",
    "ownershipControls",
    "partNumber",
    "policy",
    "policyStatus",
    "publicAccessBlock",
    "renameObject",
    "replication",
    "requestPayment",
    "restore",
    "retention",
    "select",
    "session",
    "tagging",
    "torrent",
    "uploadId",
    "uploads",
    "versioning",
    "versions",
    "website",
    "append",
];

/// Fields of the query that belong to a presigned URL.
const SIGNATURE: [&str; 8] = [
    "X-Amz-Algorithm",
    "X-Amz-Credential",
    "X-Amz-Date",
    "X-Amz-Expires",
    "X-Amz-Security-Token",
    "X-Amz-Signature",
    "X-Amz-SignedHeaders",
    "X-Amz-Content-Sha256",
];

impl Asked {
    /// Reads a request. With `domains`, a host name below one of them begins with its bucket.
    pub(crate) fn of(
        method: &Method,
        uri: &Uri,
        headers: HeaderMap,
        domains: &[String],
    ) -> Result<Self, Failed> {
        let (bucket, key) = named(uri, &headers, domains)?;
        let query: Vec<(String, String)> =
            form_urlencoded::parse(uri.query().unwrap_or_default().as_bytes())
                .into_owned()
                .filter(|(name, _)| {
                    !SIGNATURE
                        .iter()
                        .any(|field| field.eq_ignore_ascii_case(name))
                })
                .collect();
        let operation =
            Operation::of(method, &bucket, &key, &query, &headers).ok_or_else(|| {
                Failed::not_implemented("this gateway does not pass this operation on")
            })?;
        Ok(Self {
            operation,
            bucket,
            key,
            query,
            headers,
        })
    }

    pub(crate) fn query(&self, name: &str) -> Option<&str> {
        let pair = self.query.iter().find(|(field, _)| field == name)?;
        Some(&pair.1)
    }

    /// A header's text, where it is there and is text.
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name)?.to_str().ok()
    }
}

impl Operation {
    fn of(
        method: &Method,
        bucket: &str,
        key: &str,
        query: &[(String, String)],
        headers: &HeaderMap,
    ) -> Option<Self> {
        let has = |name: &str| query.iter().any(|(field, _)| field == name);
        let mut named = SUBRESOURCES.into_iter().filter(|name| has(name));
        let first = named.next();
        let second = named.next();
        let copies = headers.contains_key("x-amz-copy-source");
        let place = match (bucket.is_empty(), key.is_empty()) {
            (true, true) => Place::Service,
            (true, false) => return None,
            (false, true) => Place::Bucket,
            (false, false) => Place::Object,
        };
        Some(match (place, method.as_str(), first, second) {
            (Place::Service, "GET", None, _) => Self::ListBuckets,
            (Place::Bucket, "HEAD", None, _) => Self::HeadBucket,
            (Place::Bucket, "PUT", None, _) => Self::CreateBucket,
            (Place::Bucket, "DELETE", None, _) => Self::DeleteBucket,
            (Place::Bucket, "GET", None, _) => Self::ListObjects,
            (Place::Bucket, "GET", Some("versions"), None) => Self::ListObjectVersions,
            (Place::Bucket, "GET", Some("uploads"), None) => Self::ListMultipartUploads,
            (Place::Bucket, "GET", Some("location" | "versioning" | "tagging"), None) => {
                Self::BucketProperty
            }
            (Place::Bucket, "PUT", Some("versioning" | "tagging"), None)
            | (Place::Bucket, "DELETE", Some("tagging"), None) => Self::SetBucketProperty,
            (Place::Bucket, "POST", Some("delete"), None) => Self::DeleteObjects,
            (Place::Object, "GET", None | Some("partNumber"), None) => Self::GetObject,
            (Place::Object, "HEAD", None | Some("partNumber"), None) => Self::HeadObject,
            (Place::Object, "PUT", None, _) if copies => Self::CopyObject,
            (Place::Object, "PUT", None, _) => Self::PutObject,
            (Place::Object, "DELETE", None, _) => Self::DeleteObject,
            (Place::Object, "GET" | "PUT" | "DELETE", Some("tagging"), None) => Self::ObjectTagging,
            (Place::Object, "GET", Some("attributes"), None) => Self::GetObjectAttributes,
            (Place::Object, "POST", Some("uploads"), None) => Self::CreateMultipartUpload,
            (Place::Object, "PUT", Some("partNumber"), Some("uploadId")) if copies => {
                Self::UploadPartCopy
            }
            (Place::Object, "PUT", Some("partNumber"), Some("uploadId")) => Self::UploadPart,
            (Place::Object, "POST", Some("uploadId"), None) => Self::CompleteMultipartUpload,
            (Place::Object, "DELETE", Some("uploadId"), None) => Self::AbortMultipartUpload,
            (Place::Object, "GET", Some("uploadId"), None) => Self::ListParts,
            _ => return None,
        })
    }

    /// S3's name, or the nearest to it.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::ListBuckets => "ListBuckets",
            Self::HeadBucket => "HeadBucket",
            Self::CreateBucket => "CreateBucket",
            Self::DeleteBucket => "DeleteBucket",
            Self::BucketProperty => "BucketProperty",
            Self::SetBucketProperty => "SetBucketProperty",
            Self::ListObjects => "ListObjects",
            Self::ListObjectVersions => "ListObjectVersions",
            Self::ListMultipartUploads => "ListMultipartUploads",
            Self::DeleteObjects => "DeleteObjects",
            Self::GetObject => "GetObject",
            Self::HeadObject => "HeadObject",
            Self::PutObject => "PutObject",
            Self::CopyObject => "CopyObject",
            Self::DeleteObject => "DeleteObject",
            Self::ObjectTagging => "ObjectTagging",
            Self::GetObjectAttributes => "GetObjectAttributes",
            Self::CreateMultipartUpload => "CreateMultipartUpload",
            Self::UploadPart => "UploadPart",
            Self::UploadPartCopy => "UploadPartCopy",
            Self::CompleteMultipartUpload => "CompleteMultipartUpload",
            Self::AbortMultipartUpload => "AbortMultipartUpload",
            Self::ListParts => "ListParts",
        }
    }
}

#[derive(Clone, Copy)]
enum Place {
    Service,
    Bucket,
    Object,
}

/// Bucket and key, either of which may be empty.
fn named(uri: &Uri, headers: &HeaderMap, domains: &[String]) -> Result<(String, String), Failed> {
    let path = percent_decode_str(uri.path())
        .decode_utf8()
        .map_err(|_| Failed::new(S3ErrorCode::InvalidURI, "the path is not UTF-8"))?;
    let path = path.strip_prefix('/').unwrap_or(&path);
    Ok(match bucket_of_host(headers, domains) {
        Some(bucket) => (bucket, path.to_owned()),
        None => match path.split_once('/') {
            Some((bucket, key)) => (bucket.to_owned(), key.to_owned()),
            None => (path.to_owned(), String::new()),
        },
    })
}

/// The bucket that a browser's form is posted to, if this is one: it asks for nothing else, and whoever signed it did so in
/// its fields.
pub(crate) fn posted_to(
    method: &Method,
    uri: &Uri,
    headers: &HeaderMap,
    domains: &[String],
) -> Option<String> {
    if method != Method::POST || uri.query().is_some() || headers.contains_key(AUTHORIZATION) {
        return None;
    }
    let (bucket, key) = named(uri, headers, domains).ok()?;
    (!bucket.is_empty() && key.is_empty()).then_some(bucket)
}

/// The bucket that `Host` begins with.
pub(crate) fn bucket_of_host(headers: &HeaderMap, domains: &[String]) -> Option<String> {
    let host = headers.get(http::header::HOST)?.to_str().ok()?;
    bucket_of_name(host, domains)
}

/// As [`bucket_of_host`], of the header's value.
pub(crate) fn bucket_of_name(host: &str, domains: &[String]) -> Option<String> {
    let name = host.rsplit_once(':').map_or(host, |(name, port)| {
        let is_port = port.bytes().all(|byte| byte.is_ascii_digit());
        if is_port { name } else { host }
    });
    let name = name.to_ascii_lowercase();
    domains.iter().find_map(|domain| {
        let before = name.strip_suffix(&domain.to_ascii_lowercase())?;
        let bucket = before.strip_suffix('.')?;
        (!bucket.is_empty()).then(|| bucket.to_owned())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(method: &str, uri: &str, headers: &[(&'static str, &str)]) -> Result<Asked, Failed> {
        let mut map = HeaderMap::new();
        for (name, value) in headers {
            map.insert(*name, value.parse().unwrap());
        }
        let method = Method::from_bytes(method.as_bytes()).unwrap();
        Asked::of(
            &method,
            &uri.parse().unwrap(),
            map,
            &["s3.example".to_owned()],
        )
    }

    #[test]
    fn a_bucket_stands_in_the_path_or_before_the_domain() {
        let path = asked("GET", "/photos/a/b%20c", &[("host", "10.0.0.1:9000")]).unwrap();
        assert_eq!(
            (path.bucket.as_str(), path.key.as_str()),
            ("photos", "a/b c")
        );
        let host = asked("GET", "/a/b", &[("host", "my.photos.s3.example:9000")]).unwrap();
        assert_eq!(
            (host.bucket.as_str(), host.key.as_str()),
            ("my.photos", "a/b")
        );
        let bare = asked("GET", "/a/b", &[("host", "s3.example")]).unwrap();
        assert_eq!((bare.bucket.as_str(), bare.key.as_str()), ("a", "b"));
    }

    #[test]
    fn a_form_is_posted_to_a_bucket_and_asks_for_nothing_else() {
        let to = |method: &str, uri: &str, host: &str, signed: bool| {
            let mut headers = HeaderMap::new();
            headers.insert("host", host.parse().unwrap());
            if signed {
                headers.insert(AUTHORIZATION, "AWS4-HMAC-SHA256".parse().unwrap());
            }
            let method = Method::from_bytes(method.as_bytes()).unwrap();
            let domains = ["s3.example".to_owned()];
            posted_to(&method, &uri.parse().unwrap(), &headers, &domains)
        };
        for (uri, host) in [
            ("/photos", "gateway:9000"),
            ("/photos/", "s3.example"),
            ("/", "photos.s3.example"),
        ] {
            assert_eq!(to("POST", uri, host, false).unwrap(), "photos");
        }
        for (method, uri, host, signed) in [
            ("PUT", "/photos", "gateway", false),
            ("POST", "/photos?delete", "gateway", false),
            ("POST", "/photos/k", "gateway", false),
            ("POST", "/k", "photos.s3.example", false),
            ("POST", "/", "gateway", false),
            ("POST", "/photos", "gateway", true),
        ] {
            assert_eq!(to(method, uri, host, signed), None, "{method} {uri}");
        }
    }

    #[test]
    fn what_is_not_known_is_refused_and_never_taken_for_something_else() {
        for uri in [
            "/b?acl",
            "/b/k?acl",
            "/b/k?retention",
            "/b?policy",
            "/b/k?uploads&acl",
        ] {
            asked("GET", uri, &[]).unwrap_err();
            asked("PUT", uri, &[]).unwrap_err();
            asked("DELETE", uri, &[]).unwrap_err();
        }
        asked("POST", "/b/k", &[]).unwrap_err();
        asked("PATCH", "/b/k", &[]).unwrap_err();
    }

    #[test]
    fn a_presigned_url_asks_for_what_it_would_without_its_signature() {
        let asked = asked(
            "GET",
            "/b/k?versionId=3&X-Amz-Signature=00&X-Amz-Date=1&response-content-type=a%2Fb",
            &[],
        )
        .unwrap();
        assert_eq!(asked.operation, Operation::GetObject);
        let query = [("versionId", "3"), ("response-content-type", "a/b")];
        let query = query.map(|(name, value)| (name.to_owned(), value.to_owned()));
        assert_eq!(asked.query, query);
    }
}
