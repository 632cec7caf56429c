//! What a request says about its signature, judged by its form. Whether the signature holds is `s3s`'s to say; what is
//! wrong with a header is said here, in S3's own codes, which clients act on, and what `s3s` passes over is not: headers
//! of S3's that no signature covers, and other algorithms under the name of a signature.
//!
//! S3's words and codes: *Authenticating Requests (AWS Signature Version 4)* and *Error responses* of the S3 API reference.

use std::fmt::Write as _;

use http::header::AUTHORIZATION;
use http::{HeaderMap, StatusCode, Uri};

use crate::xml;

const ALGORITHM: &str = "AWS4-HMAC-SHA256";
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

/// Why a request is refused before its signature is looked at.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct Refused {
    code: &'static str,
    status: StatusCode,
    message: String,
    /// Elements of the answer that say more.
    more: Vec<(&'static str, String)>,
}

/// The scope of a credential: `KEY/yyyymmdd/REGION/s3/aws4_request`.
struct Scope<'a> {
    day: &'a str,
}

/// Where a credential stands decides how its faults are called.
#[derive(Clone, Copy)]
enum Place {
    Header,
    Query,
}

/// Whether the form of `uri` and `headers` lets the signature be looked at. A request without any signature passes: it is
/// refused where it has to have one.
pub(crate) fn check(uri: &Uri, headers: &HeaderMap) -> Result<(), Refused> {
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
        return Err(Refused::mechanism());
    }
    match headers.get(AUTHORIZATION) {
        Some(value) => check_header(&String::from_utf8_lossy(value.as_bytes()), headers),
        None => Ok(()),
    }
}

fn check_header(authorization: &str, headers: &HeaderMap) -> Result<(), Refused> {
    let malformed = Refused::malformed;
    let Some((algorithm, rest)) = authorization.split_once(' ') else {
        return Err(Refused::argument(
            "Authorization",
            "Authorization header is invalid -- one and only one ' ' (space) required.",
            authorization,
        ));
    };
    if algorithm == "AWS" {
        return Err(Refused::mechanism());
    }
    if algorithm != ALGORITHM {
        return Err(Refused::argument(
            "Authorization",
            "Unsupported Authorization Type",
            algorithm,
        ));
    }
    let moment = text(headers, "x-amz-date").filter(|moment| is_moment(moment));
    let moment = moment.ok_or_else(|| {
        Refused::denied("AWS authentication requires a valid Date or x-amz-date header.")
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
        return Err(Refused::argument(
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
) -> Result<(), Refused> {
    let required = |name: &str| {
        let value = field(name).filter(|value| !value.is_empty());
        value.ok_or_else(|| {
            Refused::parameters(
                "Query-string authentication version 4 requires the X-Amz-Algorithm, X-Amz-Credential, \
                 X-Amz-Signature, X-Amz-Date, X-Amz-SignedHeaders, and X-Amz-Expires parameters.",
            )
        })
    };
    match required("X-Amz-Algorithm")? {
        ALGORITHM => {}
        "AWS4-ECDSA-P256-SHA256" => {
            return Err(Refused::parameters(
                "X-Amz-Algorithm only supports \"AWS4-HMAC-SHA256\"",
            ));
        }
        _ => {
            return Err(Refused::parameters(
                "X-Amz-Algorithm only supports \"AWS4-HMAC-SHA256 and AWS4-ECDSA-P256-SHA256\"",
            ));
        }
    }
    let scope = Scope::of(required("X-Amz-Credential")?, Place::Query)?;
    if field("X-Amz-Security-Token").is_some() {
        // Nobody here has temporary credentials.
        return Err(Refused::new(
            "InvalidToken",
            StatusCode::BAD_REQUEST,
            "The provided token is malformed or otherwise invalid.",
        ));
    }
    let moment = required("X-Amz-Date")?;
    if !is_moment(moment) {
        return Err(Refused::parameters(
            "X-Amz-Date must be in the ISO8601 Long Format \"yyyyMMdd'T'HHmmss'Z'\"",
        ));
    }
    let day = moment.get(..8).unwrap_or_default();
    if day != scope.day {
        return Err(Refused::parameters(&format!(
            "Invalid credential date {:?}. This date is not the same as X-Amz-Date: {day:?}.",
            scope.day
        )));
    }
    required("X-Amz-Signature")?;
    let signed = required("X-Amz-SignedHeaders")?;
    let expires = required("X-Amz-Expires")?
        .parse::<i64>()
        .map_err(|_| Refused::parameters("X-Amz-Expires should be a number"))?;
    if expires < 0 {
        return Err(Refused::parameters("X-Amz-Expires must be non-negative"));
    }
    if expires > WEEK_S {
        return Err(Refused::parameters(
            "X-Amz-Expires must be less than a week (in seconds); that is, the given X-Amz-Expires must be less than \
             604800 seconds",
        ));
    }
    all_signed(signed, headers)
}

/// Whoever changes a request on its way can add headers that are not signed. Those that mean something to S3 must be.
fn all_signed(signed: &str, headers: &HeaderMap) -> Result<(), Refused> {
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
    let mut refused =
        Refused::denied("There were headers present in the request which were not signed");
    refused.more.push(("HeadersNotSigned", unsigned.join(", ")));
    Err(refused)
}

fn text(headers: &HeaderMap, name: &str) -> Option<String> {
    let value = headers.get(name)?;
    value.to_str().ok().map(str::to_owned)
}

/// `yyyymmddThhmmssZ`.
fn is_moment(text: &str) -> bool {
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
    fn of(credential: &'a str, place: Place) -> Result<Self, Refused> {
        let refuse = |what: &str| match place {
            Place::Header => Refused::malformed(what),
            Place::Query => Refused::parameters(&format!(
                "Error parsing the X-Amz-Credential parameter; {what}"
            )),
        };
        let fields: Vec<&str> = credential.split('/').collect();
        let [_, day, _, service, terminal] = fields[..] else {
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
        Ok(Self { day })
    }
}

// === impl Refused ===

impl Refused {
    fn new(code: &'static str, status: StatusCode, message: &str) -> Self {
        Self {
            code,
            status,
            message: message.to_owned(),
            more: Vec::new(),
        }
    }

    fn malformed(what: &str) -> Self {
        let message = format!("The authorization header is malformed; {what}");
        Self::new(
            "AuthorizationHeaderMalformed",
            StatusCode::BAD_REQUEST,
            &message,
        )
    }

    fn parameters(message: &str) -> Self {
        Self::new(
            "AuthorizationQueryParametersError",
            StatusCode::BAD_REQUEST,
            message,
        )
    }

    fn mechanism() -> Self {
        Self::new(
            "InvalidRequest",
            StatusCode::BAD_REQUEST,
            "The authorization mechanism you have provided is not supported. Please use AWS4-HMAC-SHA256.",
        )
    }

    fn denied(message: &str) -> Self {
        Self::new("AccessDenied", StatusCode::FORBIDDEN, message)
    }

    fn argument(name: &str, message: &str, value: &str) -> Self {
        let mut refused = Self::new("InvalidArgument", StatusCode::BAD_REQUEST, message);
        refused.more.push(("ArgumentName", name.to_owned()));
        refused.more.push(("ArgumentValue", value.to_owned()));
        refused
    }

    /// As S3 says it.
    pub(crate) fn response(&self) -> s3s::HttpResponse {
        let mut more = String::new();
        for (name, value) in &self.more {
            // Writing to a String cannot fail.
            let _ = write!(more, "<{name}>{}</{name}>", xml::escaped(value));
        }
        let text = format!(
            "<?xml version=\"1.0\" encoding=\"UTF-8\"?><Error><Code>{}</Code><Message>{}</Message>{more}</Error>",
            self.code,
            xml::escaped(&self.message)
        );
        let mut response = s3s::HttpResponse::new(s3s::Body::from(text));
        *response.status_mut() = self.status;
        response.headers_mut().insert(
            http::header::CONTENT_TYPE,
            http::HeaderValue::from_static("application/xml"),
        );
        response
    }
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

    fn code(authorization: &str, more: &[(&'static str, &str)]) -> &'static str {
        let outcome = check(&"/b/k".parse().unwrap(), &headers(authorization, more));
        outcome.map_or_else(|refused| refused.code, |()| "")
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
        assert_eq!(refused.code, "AccessDenied");
        assert_eq!(
            refused.more,
            [(
                "HeadersNotSigned",
                "x-amz-acl, x-amz-copy-source".to_owned()
            )]
        );
    }

    #[test]
    fn a_presigned_url_is_held_to_the_same() {
        let good = "X-Amz-Algorithm=AWS4-HMAC-SHA256&X-Amz-Credential=key%2F20261122%2Fus-east-1%2Fs3%2Faws4_request\
                    &X-Amz-Date=20261122T010203Z&X-Amz-Expires=60&X-Amz-SignedHeaders=host&X-Amz-Signature=00";
        let code = |query: &str| {
            let mut headers = HeaderMap::new();
            headers.insert("host", "store".parse().unwrap());
            let outcome = check(&format!("/b/k?{query}").parse().unwrap(), &headers);
            outcome.map_or_else(|refused| refused.code, |()| "")
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
