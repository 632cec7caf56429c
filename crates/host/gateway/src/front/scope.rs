//! What a request says about its signature, judged by its form. Whether the signature holds is `s3s`'s to say; what is
//! wrong with a header is said here, in S3's own codes, which clients act on, and what `s3s` passes over is not: headers
//! of S3's that no signature covers, and other algorithms under the name of a signature.
//!
//! S3's words and codes: *Authenticating Requests (AWS Signature Version 4)* and *Error responses* of the S3 API reference.

use http::header::AUTHORIZATION;
use http::{HeaderMap, Uri};
use s3s::S3ErrorCode;

use crate::failed::Failed;

pub(crate) const ALGORITHM: &str = "AWS4-HMAC-SHA256";
/// Fields of a presigned URL, without the token that only temporary credentials have.
const REQUIRED: [&str; 6] = [
    "X-Amz-Algorithm",
    "X-Amz-Credential",
    "X-Amz-Signature",
    "X-Amz-Date",
    "X-Amz-SignedHeaders",
    "X-Amz-Expires",
];
const WEEK_S: i64 = 604_800;

/// A credential and its scope: `KEY/yyyymmdd/REGION/s3/aws4_request`.
pub(crate) struct Scope<'a> {
    pub(crate) access_key: &'a str,
    pub(crate) day: &'a str,
    pub(crate) region: &'a str,
}

/// Where a credential stands decides how its faults are called.
#[derive(Clone, Copy)]
pub(crate) enum Place {
    Header,
    Query,
    Form,
}

/// Whether the form of `uri` and `headers` lets the signature be looked at. A request without any signature passes: it is
/// refused where it has to have one.
pub(crate) fn check(uri: &Uri, headers: &HeaderMap) -> Result<(), Failed> {
    let query: Vec<(String, String)> =
        form_urlencoded::parse(uri.query().unwrap_or_default().as_bytes())
            .into_owned()
            .collect();
    let field = |name: &str| {
        let pair = query.iter().find(|(field, _)| field == name);
        pair.map(|(_, value)| value.as_str())
    };
    if REQUIRED.iter().any(|name| field(name).is_some()) {
        return check_query(headers, field);
    }
    if field("AWSAccessKeyId").is_some() && field("Signature").is_some() {
        return Err(mechanism());
    }
    match headers.get(AUTHORIZATION) {
        Some(value) => check_header(&String::from_utf8_lossy(value.as_bytes()), headers),
        None => Ok(()),
    }
}

fn check_header(authorization: &str, headers: &HeaderMap) -> Result<(), Failed> {
    let Some((algorithm, rest)) = authorization.split_once(' ') else {
        return Err(Failed::argument(
            "Authorization",
            "Authorization header is invalid -- one and only one ' ' (space) required.",
            authorization,
        ));
    };
    if algorithm == "AWS" {
        return Err(mechanism());
    }
    if algorithm != ALGORITHM {
        return Err(Failed::argument(
            "Authorization",
            "Unsupported Authorization Type",
            algorithm,
        ));
    }
    let moment = text(headers, "x-amz-date").filter(|moment| is_moment(moment));
    let moment = moment.ok_or_else(|| {
        Failed::denied("AWS authentication requires a valid Date or x-amz-date header.")
    })?;
    let components: Vec<&str> = rest.split(',').map(str::trim).collect();
    if components.len() != 3 {
        return Err(malformed(
            "the authorization header requires three components: Credential, SignedHeaders, and Signature.",
        ));
    }
    let value = |name: &str| {
        let mut named = None;
        for component in &components {
            let (field, value) = component.split_once('=').ok_or_else(|| {
                malformed(&format!(
                    "the authorization component {component:?} is malformed."
                ))
            })?;
            if field == name {
                named = Some(value);
            }
        }
        named.ok_or_else(|| malformed(&format!("missing {name}.")))
    };
    let scope = Scope::of(value("Credential")?, Place::Header)?;
    let signed = value("SignedHeaders")?;
    value("Signature")?;
    if !moment.starts_with(scope.day) {
        return Err(malformed(
            "The authorization header is malformed; Invalid credential date. Date is not the same as X-Amz-Date.",
        ));
    }
    let payload = text(headers, "x-amz-content-sha256").unwrap_or_default();
    if !payload.is_empty() && !is_payload(&payload) {
        return Err(Failed::argument(
            "x-amz-content-sha256",
            "x-amz-content-sha256 must be UNSIGNED-PAYLOAD, STREAMING-UNSIGNED-PAYLOAD-TRAILER, \
             STREAMING-AWS4-HMAC-SHA256-PAYLOAD, STREAMING-AWS4-HMAC-SHA256-PAYLOAD-TRAILER, \
             STREAMING-AWS4-ECDSA-P256-SHA256-PAYLOAD, STREAMING-AWS4-ECDSA-P256-SHA256-PAYLOAD-TRAILER or a valid \
             sha256 value.",
            &payload,
        ));
    }
    all_signed(signed, headers)
}

fn check_query<'a>(
    headers: &HeaderMap,
    field: impl Fn(&str) -> Option<&'a str>,
) -> Result<(), Failed> {
    let required = |name: &str| {
        let value = field(name).filter(|value| !value.is_empty());
        value.ok_or_else(|| {
            parameters(
                "Query-string authentication version 4 requires the X-Amz-Algorithm, X-Amz-Credential, \
                 X-Amz-Signature, X-Amz-Date, X-Amz-SignedHeaders, and X-Amz-Expires parameters.",
            )
        })
    };
    match required("X-Amz-Algorithm")? {
        ALGORITHM => {}
        "AWS4-ECDSA-P256-SHA256" => {
            return Err(parameters(
                "X-Amz-Algorithm only supports \"AWS4-HMAC-SHA256\"",
            ));
        }
        _ => {
            return Err(parameters(
                "X-Amz-Algorithm only supports \"AWS4-HMAC-SHA256 and AWS4-ECDSA-P256-SHA256\"",
            ));
        }
    }
    let scope = Scope::of(required("X-Amz-Credential")?, Place::Query)?;
    if field("X-Amz-Security-Token").is_some() {
        return Err(token());
    }
    let moment = required("X-Amz-Date")?;
    if !is_moment(moment) {
        return Err(parameters(
            "X-Amz-Date must be in the ISO8601 Long Format \"yyyyMMdd'T'HHmmss'Z'\"",
        ));
    }
    let day = moment.get(..8).unwrap_or_default();
    if day != scope.day {
        return Err(parameters(&format!(
            "Invalid credential date {:?}. This date is not the same as X-Amz-Date: {day:?}.",
            scope.day
        )));
    }
    required("X-Amz-Signature")?;
    let signed = required("X-Amz-SignedHeaders")?;
    let expires = required("X-Amz-Expires")?
        .parse::<i64>()
        .map_err(|_| parameters("X-Amz-Expires should be a number"))?;
    if expires < 0 {
        return Err(parameters("X-Amz-Expires must be non-negative"));
    }
    if expires > WEEK_S {
        return Err(parameters(
            "X-Amz-Expires must be less than a week (in seconds); that is, the given X-Amz-Expires must be less than \
             604800 seconds",
        ));
    }
    all_signed(signed, headers)
}

/// Whoever changes a request on its way can add headers that are not signed. Those that mean something to S3 must be.
fn all_signed(signed: &str, headers: &HeaderMap) -> Result<(), Failed> {
    let signed: Vec<String> = signed.split(';').map(str::to_ascii_lowercase).collect();
    let mut unsigned: Vec<&str> = headers
        .keys()
        .map(http::HeaderName::as_str)
        .filter(|name| *name == "host" || name.starts_with("x-amz-"))
        .filter(|name| !signed.iter().any(|signed| signed == name))
        .collect();
    if unsigned.is_empty() {
        return Ok(());
    }
    unsigned.sort_unstable();
    let text = "There were headers present in the request which were not signed";
    Err(Failed::denied(text).with("HeadersNotSigned", unsigned.join(", ")))
}

fn text(headers: &HeaderMap, name: &str) -> Option<String> {
    let value = headers.get(name)?;
    value.to_str().ok().map(str::to_owned)
}

/// `yyyymmddThhmmssZ`.
pub(crate) fn is_moment(text: &str) -> bool {
    text.len() == 16
        && text.bytes().enumerate().all(|(at, byte)| match at {
            8 => byte == b'T',
            15 => byte == b'Z',
            _ => byte.is_ascii_digit(),
        })
}

fn is_day(text: &str) -> bool {
    let number = |range: std::ops::Range<usize>| text.get(range)?.parse::<u32>().ok();
    text.len() == 8
        && text.bytes().all(|byte| byte.is_ascii_digit())
        && number(4..6).is_some_and(|month| (1..=12).contains(&month))
        && number(6..8).is_some_and(|day| (1..=31).contains(&day))
}

/// What `x-amz-content-sha256` may say.
fn is_payload(text: &str) -> bool {
    text == "UNSIGNED-PAYLOAD"
        || text.starts_with("STREAMING-")
        || (text.len() == 64 && text.bytes().all(|byte| byte.is_ascii_hexdigit()))
}

// === impl Scope ===

impl<'a> Scope<'a> {
    pub(crate) fn of(credential: &'a str, place: Place) -> Result<Self, Failed> {
        let refuse = |what: &str| match place {
            Place::Header => malformed(what),
            Place::Query => parameters(&format!(
                "Error parsing the X-Amz-Credential parameter; {what}"
            )),
            Place::Form => Failed::argument("x-amz-credential", what, credential),
        };
        let fields: Vec<&str> = credential.split('/').collect();
        let [access_key, day, region, service, terminal] = fields[..] else {
            return Err(refuse(
                "the Credential is mal-formed; expecting \"<YOUR-AKID>/YYYYMMDD/REGION/SERVICE/aws4_request\".",
            ));
        };
        if service != "s3" {
            return Err(refuse(&format!(
                "incorrect service {service:?}. This endpoint belongs to \"s3\"."
            )));
        }
        if terminal != "aws4_request" {
            return Err(refuse(&format!(
                "incorrect terminal {terminal:?}. This endpoint uses \"aws4_request\"."
            )));
        }
        if !is_day(day) {
            return Err(refuse(&format!(
                "incorrect date format {day:?}. This date in the credential must be in the format \"yyyyMMdd\"."
            )));
        }
        Ok(Self {
            access_key,
            day,
            region,
        })
    }
}

fn malformed(what: &str) -> Failed {
    let message = format!("The authorization header is malformed; {what}");
    Failed::new(S3ErrorCode::AuthorizationHeaderMalformed, message)
}

fn parameters(message: &str) -> Failed {
    Failed::new(S3ErrorCode::AuthorizationQueryParametersError, message)
}

/// A signature of an older kind.
pub(crate) fn mechanism() -> Failed {
    Failed::new(
        S3ErrorCode::InvalidRequest,
        "The authorization mechanism you have provided is not supported. Please use AWS4-HMAC-SHA256.",
    )
}

/// Nobody here has temporary credentials.
pub(crate) fn token() -> Failed {
    Failed::new(
        S3ErrorCode::InvalidToken,
        "The provided token is malformed or otherwise invalid.",
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const GOOD: &str = "AWS4-HMAC-SHA256 Credential=key/20261122/us-east-1/s3/aws4_request, \
                        SignedHeaders=host;x-amz-content-sha256;x-amz-date, Signature=00";

    fn headers(authorization: &str, more: &[(&'static str, &str)]) -> HeaderMap {
        let mut map = HeaderMap::new();
        map.insert("host", "store".parse().unwrap());
        map.insert("x-amz-date", "20261122T010203Z".parse().unwrap());
        map.insert("x-amz-content-sha256", "UNSIGNED-PAYLOAD".parse().unwrap());
        map.insert(AUTHORIZATION, authorization.parse().unwrap());
        for (name, value) in more {
            map.insert(*name, value.parse().unwrap());
        }
        map
    }

    fn code(authorization: &str, more: &[(&'static str, &str)]) -> String {
        let outcome = check(&"/b/k".parse().unwrap(), &headers(authorization, more));
        outcome.map_or_else(|refused| refused.code().to_owned(), |()| String::new())
    }

    #[test]
    fn a_sound_header_passes_and_each_fault_has_s3s_code() {
        assert_eq!(code(GOOD, &[("user-agent", "x")]), "");
        // Some clients write no space behind the commas.
        assert_eq!(code(&GOOD.replace(", ", ","), &[]), "");
        for (old, new, expected) in [
            ("AWS4-HMAC-SHA256 ", "AWS4-HMAC-SHA256", "InvalidArgument"),
            ("AWS4-HMAC-SHA256 ", "AWS2-HMAC-SHA1 ", "InvalidArgument"),
            ("AWS4-HMAC-SHA256 ", "AWS ", "InvalidRequest"),
            (
                "Credential=",
                "Credentials=",
                "AuthorizationHeaderMalformed",
            ),
            ("Signature=", "Signature-", "AuthorizationHeaderMalformed"),
            (", Signature=00", "", "AuthorizationHeaderMalformed"),
            ("/s3/", "/ec2/", "AuthorizationHeaderMalformed"),
            ("/20261122/", "/20261123/", "AuthorizationHeaderMalformed"),
            ("/20261122/", "/2026112/", "AuthorizationHeaderMalformed"),
            (
                "aws4_request",
                "aws_request",
                "AuthorizationHeaderMalformed",
            ),
        ] {
            let changed = GOOD.replace(old, new);
            assert_eq!(code(&changed, &[]), expected, "{changed}");
        }
        assert_eq!(code(GOOD, &[("x-amz-date", "today")]), "AccessDenied");
        assert_eq!(
            code(GOOD, &[("x-amz-content-sha256", "none")]),
            "InvalidArgument"
        );
    }

    #[test]
    fn a_header_of_s3s_that_no_signature_covers_is_refused() {
        let refused = check(
            &"/b/k".parse().unwrap(),
            &headers(
                GOOD,
                &[("x-amz-copy-source", "/b/other"), ("x-amz-acl", "private")],
            ),
        )
        .unwrap_err();
        let said = refused.response().into_body().bytes().unwrap();
        let said = String::from_utf8_lossy(&said).into_owned();
        assert!(said.contains("<Code>AccessDenied</Code>"), "{said}");
        let named = "<HeadersNotSigned>x-amz-acl, x-amz-copy-source</HeadersNotSigned>";
        assert!(said.contains(named), "{said}");
    }

    #[test]
    fn a_presigned_url_is_held_to_the_same() {
        let good = "X-Amz-Algorithm=AWS4-HMAC-SHA256&X-Amz-Credential=key%2F20261122%2Fus-east-1%2Fs3%2Faws4_request\
                    &X-Amz-Date=20261122T010203Z&X-Amz-Expires=60&X-Amz-SignedHeaders=host&X-Amz-Signature=00";
        let code = |query: &str| {
            let mut headers = HeaderMap::new();
            headers.insert("host", "store".parse().unwrap());
            let outcome = check(&format!("/b/k?{query}").parse().unwrap(), &headers);
            outcome.map_or_else(|refused| refused.code().to_owned(), |()| String::new())
        };
        assert_eq!(code(good), "");
        assert_eq!(code("list-type=2"), "");
        for (old, new) in [
            ("AWS4-HMAC-SHA256", "AWS4-ECDSA-P256-SHA256"),
            ("X-Amz-Expires=60", "X-Amz-Expires=-1"),
            ("X-Amz-Expires=60", "X-Amz-Expires=604801"),
            ("X-Amz-Expires=60", "X-Amz-Expires=soon"),
            ("&X-Amz-Signature=00", ""),
            ("20261122T", "20261121T"),
            ("%2Fs3", "%2Fec2"),
        ] {
            let changed = good.replace(old, new);
            assert_eq!(
                code(&changed),
                "AuthorizationQueryParametersError",
                "{changed}"
            );
        }
        assert_eq!(
            code(&format!("{good}&X-Amz-Security-Token=t")),
            "InvalidToken"
        );
        assert_eq!(
            code("AWSAccessKeyId=a&Expires=1&Signature=s"),
            "InvalidRequest"
        );
    }

    proptest! {
        #[test]
        fn no_header_is_too_odd(authorization in "[ -~]{0,200}", query in "[!-~&&[^#<>\"`{}|\\\\^]]{0,100}") {
            if let Ok(uri) = format!("/b/k?{query}").parse::<Uri>() {
                let _ = check(&uri, &headers(&authorization, &[]));
            }
        }
    }
}
