//! AWS Signature Version 4, the signing side.
//!
//! Source: "Create a signed AWS API request" in the IAM User Guide (task 1 to 4), with S3's departures:
//! paths are encoded once, and the payload's digest travels in `x-amz-content-sha256`.

use std::fmt::Write as _;
use std::time::SystemTime;

use hmac::{Hmac, KeyInit as _, Mac as _};
use http::HeaderMap;
use http::header::{AUTHORIZATION, HeaderName, HeaderValue};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use sha2::{Digest as _, Sha256};
use time::OffsetDateTime;

use super::OriginError;
use crate::config::Credentials;

/// SHA-256 of nothing, which requests without a body sign.
pub(crate) const EMPTY_PAYLOAD: &str =
    "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
/// The body is not signed.
pub(crate) const UNSIGNED_PAYLOAD: &str = "UNSIGNED-PAYLOAD";
/// The body is not signed, comes in `aws-chunked` framing, and its checksum follows it.
pub(crate) const UNSIGNED_TRAILER: &str = "STREAMING-UNSIGNED-PAYLOAD-TRAILER";

/// All but the unreserved characters of RFC 3986.
const QUERY: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'-')
    .remove(b'.')
    .remove(b'_')
    .remove(b'~');
const PATH: &AsciiSet = &QUERY.remove(b'/');

/// A path as it is signed and sent.
pub(crate) fn encoded_path(path: &str) -> String {
    utf8_percent_encode(path, PATH).to_string()
}

/// A query as it is signed and sent: encoded, then sorted.
pub(crate) fn encoded_query(pairs: &[(String, String)]) -> String {
    let mut encoded: Vec<(String, String)> = pairs
        .iter()
        .map(|(name, value)| {
            let encode = |text| utf8_percent_encode(text, QUERY).to_string();
            (encode(name), encode(value))
        })
        .collect();
    encoded.sort();
    let joined: Vec<String> = encoded
        .into_iter()
        .map(|(name, value)| format!("{name}={value}"))
        .collect();
    joined.join("&")
}

/// What is signed beside the headers.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Signing<'a> {
    pub(crate) method: &'a str,
    /// From [`encoded_path`].
    pub(crate) path: &'a str,
    /// From [`encoded_query`].
    pub(crate) query: &'a str,
    /// Digest of the body in hexadecimal, or one of the words above.
    pub(crate) payload: &'a str,
    pub(crate) region: &'a str,
    pub(crate) credentials: &'a Credentials,
}

impl Signing<'_> {
    /// Adds date, digest and signature to `headers`, which hold `host` and all that is to be signed.
    pub(crate) fn sign(&self, headers: &mut HeaderMap, now: SystemTime) -> Result<(), OriginError> {
        let (day, moment) = stamps(now);
        headers.insert("x-amz-date", value(&moment)?);
        headers.insert("x-amz-content-sha256", value(self.payload)?);
        let (names, canonical) = canonical_headers(headers);
        let request = format!(
            "{}\n{}\n{}\n{canonical}\n{names}\n{}",
            self.method, self.path, self.query, self.payload
        );
        let scope = format!("{day}/{}/s3/aws4_request", self.region);
        let text = format!(
            "AWS4-HMAC-SHA256\n{moment}\n{scope}\n{}",
            hexadecimal(&Sha256::digest(request.as_bytes()))
        );
        let key = day_key(&self.credentials.secret_key, &day, self.region)?;
        let signature = hexadecimal(&keyed(&key, &text)?);
        let authorization = format!(
            "AWS4-HMAC-SHA256 Credential={}/{scope}, SignedHeaders={names}, Signature={signature}",
            self.credentials.access_key
        );
        headers.insert(AUTHORIZATION, value(&authorization)?);
        Ok(())
    }
}

/// Names joined by `;`, and the lines of names and values that are signed: `host` and everything of Amazon's.
fn canonical_headers(headers: &HeaderMap) -> (String, String) {
    let mut names: Vec<&HeaderName> = headers
        .keys()
        .filter(|name| *name == http::header::HOST || name.as_str().starts_with("x-amz-"))
        .collect();
    names.sort_by_key(|name| name.as_str());
    let mut lines = String::new();
    for name in &names {
        let values: Vec<String> = headers
            .get_all(*name)
            .iter()
            .map(|value| {
                let text = String::from_utf8_lossy(value.as_bytes()).into_owned();
                text.split_ascii_whitespace().collect::<Vec<_>>().join(" ")
            })
            .collect();
        // Writing into a `String` cannot fail.
        let _ = writeln!(lines, "{name}:{}", values.join(","));
    }
    let names: Vec<&str> = names.iter().map(|name| name.as_str()).collect();
    (names.join(";"), lines)
}

/// What the signatures of a day in a region are made with.
pub(crate) fn day_key(secret: &str, day: &str, region: &str) -> Result<Vec<u8>, OriginError> {
    let mut key = format!("AWS4{secret}").into_bytes();
    for step in [day, region, "s3", "aws4_request"] {
        key = keyed(&key, step)?;
    }
    Ok(key)
}

/// Whether `signature`, in hexadecimal, is that of `text`. How long this takes says nothing about where a wrong one is wrong.
pub(crate) fn holds(key: &[u8], text: &str, signature: &str) -> bool {
    let digit = |byte: &u8| char::from(*byte).to_digit(16);
    let pair = |pair: &[u8]| {
        let [high, low] = pair else { return None };
        u8::try_from(digit(high)? * 16 + digit(low)?).ok()
    };
    let bytes: Option<Vec<u8>> = signature.as_bytes().chunks(2).map(pair).collect();
    let Ok(mut mac) = Hmac::<Sha256>::new_from_slice(key) else {
        return false;
    };
    mac.update(text.as_bytes());
    bytes.is_some_and(|bytes| mac.verify_slice(&bytes).is_ok())
}

fn keyed(key: &[u8], text: &str) -> Result<Vec<u8>, OriginError> {
    let mut mac = Hmac::<Sha256>::new_from_slice(key).map_err(|_| OriginError::Sign)?;
    mac.update(text.as_bytes());
    Ok(mac.finalize().into_bytes().to_vec())
}

fn value(text: &str) -> Result<HeaderValue, OriginError> {
    HeaderValue::from_str(text).map_err(|_| OriginError::Sign)
}

/// Lower-case hexadecimal.
pub(crate) fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

/// `20130524` and `20130524T000000Z`.
fn stamps(now: SystemTime) -> (String, String) {
    let now = OffsetDateTime::from(now);
    let day = format!(
        "{:04}{:02}{:02}",
        now.year(),
        u8::from(now.month()),
        now.day()
    );
    let moment = format!(
        "{day}T{:02}{:02}{:02}Z",
        now.hour(),
        now.minute(),
        now.second()
    );
    (day, moment)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    /// "Examples: Signature Calculations in AWS Signature Version 4" of the S3 API reference.
    fn example() -> Credentials {
        Credentials::new(
            "AKIAIOSFODNN7EXAMPLE",
            "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY",
        )
    }

    fn signature(method: &str, path: &str, query: &str, more: &[(&str, &str)]) -> String {
        let credentials = example();
        let mut headers = HeaderMap::new();
        headers.insert(
            "host",
            HeaderValue::from_static("examplebucket.s3.amazonaws.com"),
        );
        for (name, value) in more {
            headers.insert(
                HeaderName::from_bytes(name.as_bytes()).unwrap(),
                HeaderValue::from_str(value).unwrap(),
            );
        }
        // 2013-05-24T00:00:00Z.
        let now = SystemTime::UNIX_EPOCH + Duration::from_hours(380_376);
        let signing = Signing {
            method,
            path,
            query,
            payload: EMPTY_PAYLOAD,
            region: "us-east-1",
            credentials: &credentials,
        };
        signing.sign(&mut headers, now).unwrap();
        let text = headers[AUTHORIZATION].to_str().unwrap();
        text.rsplit_once("Signature=").unwrap().1.to_owned()
    }

    #[test]
    fn lifecycle_and_listing_have_the_signatures_of_the_s3_api_reference() {
        assert_eq!(
            signature("GET", "/", "lifecycle=", &[]),
            "fea454ca298b7da1c68078a5d1bdbfbbe0d65c699e0f91ac7a200a0136783543"
        );
        let query = encoded_query(&[
            ("prefix".into(), "J".into()),
            ("max-keys".into(), "2".into()),
        ]);
        assert_eq!(
            signature("GET", "/", &query, &[]),
            "34b48302e7b5fa45bde8084f4b7868a86f0a534bc59db6670ed5711ef69dc6f7"
        );
    }

    #[test]
    fn paths_keep_their_slashes_and_queries_do_not() {
        assert_eq!(encoded_path("/a/b c+ü~"), "/a/b%20c%2B%C3%BC~");
        assert_eq!(
            encoded_query(&[
                ("b".into(), "x/y".into()),
                ("a".into(), String::new()),
                ("a-b".into(), "1".into())
            ]),
            "a=&a-b=1&b=x%2Fy"
        );
    }
}
