//! Who has signed a form: the fields of its signature, held against the secrets of the gateway's clients.
//!
//! Source: *Authenticating Requests: Browser-Based Uploads Using POST* of the S3 API reference. What is signed is the policy as
//! the form carries it, and nothing else.

use std::fmt::Write as _;

use s3s::S3ErrorCode;

use super::policy::Fields;
use crate::failed::Failed;
use crate::front::scope::{self, Place, Scope};
use crate::origin::signature;

const POLICY: &str = "policy";
const ALGORITHM: &str = "x-amz-algorithm";
const CREDENTIAL: &str = "x-amz-credential";
const DATE: &str = "x-amz-date";
const SIGNATURE: &str = "x-amz-signature";

/// The fields of a signature, which say nothing about the object.
pub(crate) const FIELDS: [&str; 5] = [POLICY, ALGORITHM, CREDENTIAL, DATE, SIGNATURE];

/// The policy of a form that one of the clients has signed; `secret` knows a client's by its access key.
pub(crate) fn policy(
    fields: &Fields,
    secret: impl FnOnce(&str) -> Option<String>,
) -> Result<&str, Failed> {
    let unsigned = FIELDS.iter().all(|name| fields.get(name).is_none());
    if fields.get("awsaccesskeyid").is_some() && fields.get("signature").is_some() {
        return Err(scope::mechanism());
    }
    if unsigned {
        return Err(Failed::denied("Access Denied."));
    }
    for name in FIELDS {
        required(fields, name)?;
    }
    let algorithm = required(fields, ALGORITHM)?;
    if algorithm != scope::ALGORITHM {
        return Err(Failed::argument(
            "X-Amz-Algorithm",
            "Only AWS4-HMAC-SHA256 is supported",
            algorithm,
        ));
    }
    let moment = required(fields, DATE)?;
    if !scope::is_moment(moment) {
        return Err(Failed::argument(
            "X-Amz-Date",
            // S3's spelling.
            "X-Amz-Date must be formated via ISO8601 Long format",
            moment,
        ));
    }
    let credential = required(fields, CREDENTIAL)?;
    let scope = Scope::of(credential, Place::Form)?;
    if !moment.starts_with(scope.day) {
        let text = format!(
            "Invalid credential date {:?}. This date is not the same as X-Amz-Date: {moment:?}.",
            scope.day
        );
        return Err(Failed::argument(CREDENTIAL, text, credential));
    }
    if fields.get("x-amz-security-token").is_some() {
        return Err(scope::token());
    }
    let Some(secret) = secret(scope.access_key) else {
        let failed = Failed::new(
            S3ErrorCode::InvalidAccessKeyId,
            "The AWS Access Key Id you provided does not exist in our records.",
        );
        return Err(failed.with("AWSAccessKeyId", scope.access_key));
    };
    let policy = required(fields, POLICY)?;
    let given = required(fields, SIGNATURE)?;
    let key = signature::day_key(&secret, scope.day, scope.region)
        .map_err(|_| Failed::internal("the signature cannot be made"))?;
    if !signature::holds(&key, policy, given) {
        return Err(mismatch(scope.access_key, policy, given));
    }
    Ok(policy)
}

/// The value of a field without which nothing is looked at.
fn required<'a>(fields: &'a Fields, name: &str) -> Result<&'a str, Failed> {
    fields.get(name).ok_or_else(|| missing(name))
}

pub(crate) fn missing(name: &str) -> Failed {
    let text = format!(
        "Bucket POST must contain a field named '{name}'.  If it is specified, please check the order of the fields."
    );
    Failed::argument(name, text, "")
}

/// What was signed is shown, so that whoever signs can find the difference.
fn mismatch(access_key: &str, policy: &str, given: &str) -> Failed {
    let bytes = policy.bytes().enumerate().fold(
        String::with_capacity(policy.len() * 3),
        |mut text, (at, byte)| {
            let between = if at == 0 { "" } else { " " };
            // Writing to a String cannot fail.
            let _ = write!(text, "{between}{byte:02x}");
            text
        },
    );
    let failed = Failed::new(
        S3ErrorCode::SignatureDoesNotMatch,
        "The request signature we calculated does not match the signature you provided. Check your key and signing method.",
    );
    failed
        .with("AWSAccessKeyId", access_key)
        .with("StringToSign", policy)
        .with("SignatureProvided", given)
        .with("StringToSignBytes", bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::form::policy::Policy;
    use base64::Engine as _;
    use base64::engine::general_purpose::STANDARD;

    /// *Example: Browser-Based Upload using HTTP POST (Using AWS Signature Version 4)* of the S3 API reference: its policy,
    /// whose lines end as they do on Windows, and its signature.
    const LINES: [&str; 16] = [
        r#"{ "expiration": "2015-12-30T12:00:00.000Z","#,
        r#"  "conditions": ["#,
        r#"    {"bucket": "sigv4examplebucket"},"#,
        r#"    ["starts-with", "$key", "user/user1/"],"#,
        r#"    {"acl": "public-read"},"#,
        r#"    {"success_action_redirect": "http://sigv4examplebucket.s3.amazonaws.com/successful_upload.html"},"#,
        r#"    ["starts-with", "$Content-Type", "image/"],"#,
        r#"    {"x-amz-meta-uuid": "14365123651274"},"#,
        r#"    {"x-amz-server-side-encryption": "AES256"},"#,
        r#"    ["starts-with", "$x-amz-meta-tag", ""],"#,
        "",
        r#"    {"x-amz-credential": "AKIAIOSFODNN7EXAMPLE/20151229/us-east-1/s3/aws4_request"},"#,
        r#"    {"x-amz-algorithm": "AWS4-HMAC-SHA256"},"#,
        r#"    {"x-amz-date": "20151229T000000Z" }"#,
        "  ]",
        "}",
    ];
    const SECRET: &str = "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY";

    fn fields(changes: &[(&str, Option<&str>)]) -> Fields {
        let policy = STANDARD.encode(LINES.join("\r\n"));
        let mut fields = Fields::default();
        for (name, value) in [
            (POLICY, policy.as_str()),
            (ALGORITHM, "AWS4-HMAC-SHA256"),
            (
                CREDENTIAL,
                "AKIAIOSFODNN7EXAMPLE/20151229/us-east-1/s3/aws4_request",
            ),
            (DATE, "20151229T000000Z"),
            (
                SIGNATURE,
                "8afdbf4008c03f22c2cd3cdb72e4afbb1f6a588f3255ac628749a66d7f09699e",
            ),
        ] {
            let change = changes.iter().find(|(changed, _)| *changed == name);
            if let Some(value) = change.map_or(Some(value), |(_, value)| *value) {
                fields.add(name, value.to_owned()).unwrap();
            }
        }
        fields
    }

    fn judged(changes: &[(&str, Option<&str>)]) -> Result<String, String> {
        let secret = |key: &str| (key == "AKIAIOSFODNN7EXAMPLE").then(|| SECRET.to_owned());
        policy(&fields(changes), secret)
            .map(str::to_owned)
            .map_err(|failed| failed.code().to_owned())
    }

    #[test]
    fn a_policy_is_taken_from_whoever_has_signed_it() {
        let policy = judged(&[]).unwrap();
        Policy::parse(&policy).unwrap();
        for (name, value, code) in [
            (POLICY, "e30=", "SignatureDoesNotMatch"),
            (SIGNATURE, "00", "SignatureDoesNotMatch"),
            (SIGNATURE, "", "SignatureDoesNotMatch"),
            (SIGNATURE, "no hexadecimal é", "SignatureDoesNotMatch"),
            (ALGORITHM, "AWS4-ECDSA-P256-SHA256", "InvalidArgument"),
            (DATE, "today", "InvalidArgument"),
            (DATE, "20151230T000000Z", "InvalidArgument"),
            (CREDENTIAL, "AKIAIOSFODNN7EXAMPLE", "InvalidArgument"),
            (
                CREDENTIAL,
                "nobody/20151229/us-east-1/s3/aws4_request",
                "InvalidAccessKeyId",
            ),
            (
                CREDENTIAL,
                "AKIAIOSFODNN7EXAMPLE/20151229/us-east-1/ec2/aws4_request",
                "InvalidArgument",
            ),
            // Signed for another region.
            (
                CREDENTIAL,
                "AKIAIOSFODNN7EXAMPLE/20151229/eu-west-1/s3/aws4_request",
                "SignatureDoesNotMatch",
            ),
        ] {
            assert_eq!(
                judged(&[(name, Some(value))]).unwrap_err(),
                code,
                "{name} {value}"
            );
        }
    }

    #[test]
    fn a_signature_is_whole_or_the_form_has_none() {
        for name in FIELDS {
            assert_eq!(judged(&[(name, None)]).unwrap_err(), "InvalidArgument");
        }
        let none = FIELDS.map(|name| (name, None));
        assert_eq!(judged(&none).unwrap_err(), "AccessDenied");
    }
}
