//! S3 operations by name, from what a request line and the names of its fields show.

use super::{Target, find};

/// What fields tell of a request to an S3 store; of signatures nothing but their kind is looked at.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Signs {
    /// An `x-amz-` field, or a signature of its kind.
    pub addressed: bool,
    /// `x-amz-copy-source`: the store copies, nothing is sent.
    pub copies: bool,
    /// `Host` names one bucket of Amazon's (`bucket.s3...amazonaws.com`).
    pub bucket_in_host: bool,
}

impl Signs {
    /// Notes one field.
    pub(super) fn note(&mut self, name: &[u8], value: &[u8]) {
        const PREFIX: &[u8] = b"x-amz-";
        let amazon = name
            .get(..PREFIX.len())
            .is_some_and(|start| start.eq_ignore_ascii_case(PREFIX));
        if amazon {
            self.addressed = true;
            self.copies |= name.eq_ignore_ascii_case(b"x-amz-copy-source");
        } else if name.eq_ignore_ascii_case(b"authorization") {
            // Version 4 and version 2 of the signature.
            self.addressed |= value.starts_with(b"AWS4-HMAC-") || value.starts_with(b"AWS ");
        } else if name.eq_ignore_ascii_case(b"host") {
            let bucket = find(value, b".s3.").or_else(|| find(value, b".s3-"));
            let amazon = find(value, b".amazonaws.").is_some();
            self.bucket_in_host = amazon && bucket.is_some_and(|at| at > 0);
        }
    }
}

/// The operation (Amazon S3 API Reference, "Actions") of a request that was made for S3: signed for it,
/// or with fields of its own. `None` for any other request, and for rare operations.
#[must_use]
pub fn operation(method: &str, target: &Target<'_>, signs: &Signs) -> Option<&'static str> {
    let has = |name: &str| {
        target
            .query_names()
            .any(|found| found.eq_ignore_ascii_case(name.as_bytes()))
    };
    let presigned = has("X-Amz-Signature") || has("AWSAccessKeyId");
    if !(signs.addressed || presigned || has("uploadId")) {
        return None;
    }
    let path = target.path();
    let mut parts = path
        .split(|&byte| byte == b'/')
        .filter(|part| !part.is_empty());
    // In virtual-host style the bucket stands in `Host`; then a first part is a key. Both styles agree on
    // what has two parts or none.
    let of_object = parts.next().is_some() && (parts.next().is_some() || signs.bucket_in_host);
    Some(match (method, of_object) {
        ("GET", _) if has("list-type") => "ListObjectsV2",
        ("GET", _) if has("uploads") => "ListMultipartUploads",
        ("GET", _) if has("uploadId") => "ListParts",
        ("GET", true) => "GetObject",
        ("GET", false) => "ListObjects",
        ("HEAD", true) => "HeadObject",
        ("HEAD", false) => "HeadBucket",
        ("PUT", _) if has("partNumber") && signs.copies => "UploadPartCopy",
        ("PUT", _) if has("partNumber") => "UploadPart",
        ("PUT", true) if signs.copies => "CopyObject",
        ("PUT", true) => "PutObject",
        ("PUT", false) => "CreateBucket",
        ("POST", _) if has("uploads") => "CreateMultipartUpload",
        ("POST", _) if has("uploadId") => "CompleteMultipartUpload",
        ("POST", _) if has("delete") => "DeleteObjects",
        ("DELETE", _) if has("uploadId") => "AbortMultipartUpload",
        ("DELETE", true) => "DeleteObject",
        _ => return None,
    })
}
