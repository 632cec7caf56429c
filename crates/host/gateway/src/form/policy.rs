//! What a signed policy allows: read and compared, without a clock and without bytes of the file.
//!
//! Sources: *POST Policy* and *HTML form fields* of the S3 API reference. Words and codes of refusals are S3's.

use std::collections::{BTreeMap, BTreeSet};

use base64::Engine as _;
use base64::alphabet::STANDARD;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use s3s::S3ErrorCode;
use serde_json::{Map, Value};
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

use crate::failed::Failed;

/// Some who sign leave the padding out.
const BASE64: GeneralPurpose = GeneralPurpose::new(
    &STANDARD,
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent),
);
/// What stands for the file's name in any field.
const VARIABLE: &str = "${filename}";

/// The fields of a form before its file, by their names in lower case.
#[derive(Clone, Debug, Default)]
pub(crate) struct Fields(BTreeMap<String, String>);

/// What the file's length may be, in bytes.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Lengths {
    pub(crate) least: u64,
    pub(crate) most: u64,
}

/// What has been signed.
#[derive(Debug)]
pub(crate) struct Policy {
    expiration: OffsetDateTime,
    conditions: Vec<Condition>,
}

#[derive(Debug)]
enum Condition {
    Field {
        /// In lower case.
        name: String,
        test: Test,
        value: String,
        /// As it is told to whoever does not meet it.
        text: String,
    },
    Length(Lengths),
}

#[derive(Clone, Copy, Debug)]
enum Test {
    Equal,
    Begins,
}

// === impl Fields ===

impl Fields {
    /// Takes a field. Metadata may come in several; of anything else it would be open which one counts.
    pub(crate) fn add(&mut self, name: &str, value: String) -> Result<(), Failed> {
        let name = name.to_ascii_lowercase();
        match self.0.get_mut(&name) {
            Some(before) if name.starts_with("x-amz-meta-") => {
                before.push(',');
                before.push_str(&value);
            }
            Some(_) if is_ignored(&name) => {}
            Some(_) => {
                let text = "POST requires exactly one of each field.";
                return Err(Failed::argument(&name, text, &value));
            }
            None => {
                self.0.insert(name, value);
            }
        }
        Ok(())
    }

    /// Puts the file's name where fields ask for it, without the folders that a browser may send along.
    pub(crate) fn name_file(&mut self, path: &str, limit: usize) -> Result<(), Failed> {
        let name = path.rsplit(['/', '\\']).next().unwrap_or_default();
        let asking = |value: &String| value.matches(VARIABLE).count();
        let grown = self
            .0
            .values()
            .map(|value| value.len() + asking(value) * name.len());
        if grown.sum::<usize>() > limit {
            return Err(too_long());
        }
        for value in self.0.values_mut().filter(|value| asking(value) > 0) {
            *value = value.replace(VARIABLE, name);
        }
        Ok(())
    }

    pub(crate) fn get(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0
            .iter()
            .map(|(name, value)| (name.as_str(), value.as_str()))
    }
}

// === impl Lengths ===

impl Lengths {
    /// Those that both allow.
    pub(crate) fn and(self, other: Self) -> Self {
        Self {
            least: self.least.max(other.least),
            most: self.most.min(other.most),
        }
    }
}

// === impl Policy ===

impl Policy {
    /// Reads a policy as its form carries it.
    pub(crate) fn parse(text: &str) -> Result<Self, Failed> {
        // Whoever wraps base64 signs the line ends with it.
        let text: String = text
            .chars()
            .filter(|letter| !letter.is_ascii_whitespace())
            .collect();
        if text.is_empty() {
            return Err(invalid("Expecting '{' but found End-of-Input"));
        }
        let json = BASE64
            .decode(text)
            .map_err(|_| invalid("invalid Base64 encoding."))?;
        Self::of_json(&json)
    }

    fn of_json(json: &[u8]) -> Result<Self, Failed> {
        let Ok(Value::Object(document)) = serde_json::from_slice(json) else {
            return Err(no_json());
        };
        let field = |name: &str, missing: &str| document.get(name).ok_or_else(|| invalid(missing));
        let expiration = field("expiration", "Policy missing expiration.")?;
        let conditions = field("conditions", "Policy missing conditions.")?;
        let known = ["expiration", "conditions"];
        if let Some(other) = document.keys().find(|key| !known.contains(&key.as_str())) {
            return Err(invalid(&format!("Unexpected: {other:?}")));
        }
        let Value::Array(conditions) = conditions else {
            return Err(invalid("Invalid 'conditions' value: must be a List."));
        };
        let Value::String(expiration) = expiration else {
            return Err(no_json());
        };
        Ok(Self {
            expiration: OffsetDateTime::parse(expiration, &Rfc3339)
                .map_err(|_| invalid(&format!("Invalid 'expiration' value: '{expiration}'")))?,
            conditions: conditions
                .iter()
                .map(Condition::of)
                .collect::<Result<_, _>>()?,
        })
    }

    /// Whether a form with these fields may be posted to `bucket` now; how long its file may be then.
    pub(crate) fn check(
        &self,
        bucket: &str,
        fields: &Fields,
        now: OffsetDateTime,
    ) -> Result<Lengths, Failed> {
        if self.expiration < now {
            return Err(refused("Policy expired."));
        }
        let named: BTreeSet<&str> = self
            .conditions
            .iter()
            .filter_map(|condition| match condition {
                Condition::Field { name, .. } => Some(name.as_str()),
                Condition::Length(_) => None,
            })
            .collect();
        // The bucket is a field of every form, whether it is written there or not.
        let extra = fields
            .iter()
            .map(|(name, _)| name)
            .chain(["bucket"])
            .find(|name| !is_exempt(name) && !named.contains(name));
        if let Some(extra) = extra {
            return Err(refused(&format!("Extra input fields: {extra}")));
        }
        let mut lengths = Lengths {
            least: 0,
            most: u64::MAX,
        };
        for condition in &self.conditions {
            match condition {
                Condition::Length(range) => lengths = lengths.and(*range),
                Condition::Field {
                    name,
                    test,
                    value,
                    text,
                } => {
                    let given = match name.as_str() {
                        // Where the form is posted to counts, and not what it says.
                        "bucket" => Some(bucket),
                        name => fields.get(name),
                    };
                    if !given.is_some_and(|given| test.holds(name, given, value)) {
                        return Err(unmet(text));
                    }
                }
            }
        }
        Ok(lengths)
    }
}

// === impl Condition ===

impl Condition {
    fn of(value: &Value) -> Result<Self, Failed> {
        match value {
            Value::Object(pair) => Self::of_pair(pair),
            Value::Array(words) => Self::of_words(words, value),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {
                Err(invalid("Invalid condition test: must be a List or Object."))
            }
        }
    }

    /// `{"acl": "private"}`.
    fn of_pair(pair: &Map<String, Value>) -> Result<Self, Failed> {
        let mut pairs = pair.iter();
        let (Some((name, value)), None) = (pairs.next(), pairs.next()) else {
            return Err(invalid(
                "Invalid Simple-Condition: Simple-Conditions must have exactly one property specified.",
            ));
        };
        let Value::String(value) = value else {
            return Err(invalid("Invalid Simple-Condition: value must be a string."));
        };
        let name = name.to_ascii_lowercase();
        Ok(Self::Field {
            text: format!("[\"eq\", \"${name}\", \"{value}\"]"),
            name,
            test: Test::Equal,
            value: value.clone(),
        })
    }

    /// `["starts-with", "$key", "user/"]`, `["content-length-range", 1, 1000]`.
    fn of_words(words: &[Value], whole: &Value) -> Result<Self, Failed> {
        let [operation, operands @ ..] = words else {
            return Err(invalid("Invalid Condition: missing operation identifier."));
        };
        let operation = operation.as_str().ok_or_else(no_json)?;
        let test = match operation {
            "eq" => Some(Test::Equal),
            "starts-with" => Some(Test::Begins),
            "content-length-range" => None,
            _ => {
                let text = format!("Invalid Condition: unknown operation '{operation}'.");
                return Err(invalid(&text));
            }
        };
        let [first, second] = operands else {
            let text = format!("Invalid {operation}: wrong number of arguments.");
            return Err(invalid(&text));
        };
        let Some(test) = test else {
            return Ok(Self::Length(Lengths {
                least: bytes(first)?,
                most: bytes(second)?,
            }));
        };
        let name = first.as_str().ok_or_else(no_json)?;
        let value = match second {
            Value::String(text) => text.clone(),
            Value::Number(number) => number.to_string(),
            Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_) => {
                return Err(no_json());
            }
        };
        let text = whole.to_string();
        let name = name.strip_prefix('$').filter(|name| !name.is_empty());
        let name = name.ok_or_else(|| unmet(&text))?.to_ascii_lowercase();
        Ok(Self::Field {
            name,
            test,
            value,
            text,
        })
    }
}

// === impl Test ===

impl Test {
    fn holds(self, name: &str, given: &str, value: &str) -> bool {
        match self {
            Self::Equal => given == value,
            // S3 takes a content type as a list.
            Self::Begins if name == "content-type" => given
                .split(',')
                .all(|kind| kind.trim_start().starts_with(value)),
            Self::Begins => given.starts_with(value),
        }
    }
}

/// What a form may say without being allowed to: what cannot be known when the policy is signed.
fn is_exempt(name: &str) -> bool {
    ["file", "policy", "x-amz-signature"].contains(&name) || is_ignored(name)
}

fn is_ignored(name: &str) -> bool {
    name.starts_with("x-ignore-")
}

/// A bound of a length, which S3 takes in quotes as well.
fn bytes(value: &Value) -> Result<u64, Failed> {
    let number = match value {
        Value::Number(number) => number.as_i64(),
        Value::String(text) => text.parse().ok(),
        Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_) => None,
    };
    let number: i64 = number.ok_or_else(no_json)?;
    // Nothing is shorter than nothing.
    Ok(u64::try_from(number).unwrap_or(0))
}

fn invalid(why: &str) -> Failed {
    let text = format!("Invalid Policy: {why}");
    Failed::new(S3ErrorCode::InvalidPolicyDocument, text)
}

fn no_json() -> Failed {
    invalid("Invalid JSON.")
}

fn refused(why: &str) -> Failed {
    Failed::denied(format!("Invalid according to Policy: {why}"))
}

fn unmet(condition: &str) -> Failed {
    refused(&format!("Policy Condition failed: {condition}"))
}

/// More fields than a form may have.
pub(crate) fn too_long() -> Failed {
    Failed::new(
        S3ErrorCode::MaxPostPreDataLengthExceededError,
        "Your POST request fields preceding the upload file were too large.",
    )
}

#[cfg(any(test, feature = "fuzz"))]
pub(crate) mod fuzzed {
    //! See [`crate::fuzz`].

    use super::*;

    /// Whatever is signed and whatever a form says: it is allowed or refused, and nothing is allowed that no condition names.
    pub(crate) fn judge(json: &[u8], form: &[u8]) {
        let encoded = BASE64.encode(json);
        let (Ok(policy), Ok(again)) = (Policy::of_json(json), Policy::parse(&encoded)) else {
            assert!(
                Policy::parse(&encoded).is_err(),
                "a policy that is refused as JSON is none in base64"
            );
            return;
        };
        assert_eq!(policy.conditions.len(), again.conditions.len());
        let mut fields = Fields::default();
        for (name, value) in form_urlencoded::parse(form) {
            let _ = fields.add(&name, value.into_owned());
        }
        let _ = fields.name_file("a/b\\c", 4096);
        let now = policy.expiration;
        let allowed = policy.check("b", &fields, now);
        assert_eq!(allowed.is_ok(), again.check("b", &fields, now).is_ok());
        let Ok(lengths) = allowed else { return };
        let mut bucket = false;
        for condition in &policy.conditions {
            match condition {
                Condition::Length(range) => {
                    assert!(lengths.least >= range.least && lengths.most <= range.most);
                }
                Condition::Field {
                    name, test, value, ..
                } => {
                    bucket |= name == "bucket";
                    let given = match name.as_str() {
                        "bucket" => "b",
                        name => fields.get(name).unwrap_or_else(|| panic!("no `{name}`")),
                    };
                    match test {
                        Test::Equal => assert_eq!(given, value),
                        Test::Begins => assert!(given.contains(value.as_str())),
                    }
                }
            }
        }
        assert!(bucket, "a policy for every bucket");
        if let Some(later) = now.checked_add(time::Duration::nanoseconds(1)) {
            assert!(policy.check("b", &fields, later).is_err(), "no end");
        }
        let unnamed = "x-amz-meta-that-no-condition-names-7d1f";
        let _ = fields.add(unnamed, String::new());
        let named = policy
            .conditions
            .iter()
            .any(|condition| matches!(condition, Condition::Field { name, .. } if name == unnamed));
        assert!(named || policy.check("b", &fields, now).is_err());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: OffsetDateTime = OffsetDateTime::UNIX_EPOCH;
    const ANY: Lengths = Lengths {
        least: 0,
        most: u64::MAX,
    };

    fn fields(pairs: &[(&str, &str)]) -> Fields {
        let mut fields = Fields::default();
        for (name, value) in pairs {
            fields.add(name, (*value).to_owned()).unwrap();
        }
        fields
    }

    fn policy(conditions: &str) -> String {
        let json = format!(
            "{{\"expiration\":\"1970-01-01T00:00:01.000Z\",\"conditions\":[{conditions}]}}"
        );
        BASE64.encode(json)
    }

    /// What becomes of a form to the bucket `photos`.
    fn judged(conditions: &str, pairs: &[(&str, &str)]) -> Result<Lengths, String> {
        let policy = Policy::parse(&policy(conditions)).unwrap();
        policy
            .check("photos", &fields(pairs), NOW)
            .map_err(|failed| failed.to_string())
    }

    #[test]
    fn each_condition_is_met_or_told() {
        let bucket = r#"{"bucket":"photos"}"#;
        for (condition, field, good, bad) in [
            (r#"{"Key":"a"}"#, "key", "a", "ab"),
            (r#"["eq","$key","a"]"#, "key", "a", "A"),
            (r#"["eq","$key",7]"#, "key", "7", "8"),
            (
                r#"["starts-with","$x-amz-meta-Way","in/"]"#,
                "x-amz-meta-way",
                "in/x",
                "out/in/",
            ),
            (r#"["starts-with","$acl",""]"#, "acl", "any", ""),
            (
                r#"["starts-with","$Content-Type","image/"]"#,
                "Content-Type",
                "image/png, image/jpeg",
                "image/png,text/html",
            ),
        ] {
            let conditions = format!("{bucket},{condition}");
            assert_eq!(
                judged(&conditions, &[(field, good)]),
                Ok(ANY),
                "{condition}"
            );
            // An empty prefix asks for the field, and for nothing in it.
            let given = [(field, bad)];
            let given = if bad.is_empty() { &[][..] } else { &given[..] };
            let said = judged(&conditions, given).unwrap_err();
            assert!(
                said.contains("Policy Condition failed: [\""),
                "{condition}: {said}"
            );
        }
    }

    #[test]
    fn the_bucket_is_the_one_that_is_posted_to() {
        let fields = [("bucket", "photos")];
        assert_eq!(judged(r#"{"bucket":"photos"}"#, &fields), Ok(ANY));
        assert_eq!(judged(r#"["starts-with","$bucket","pho"]"#, &[]), Ok(ANY));
        let said = judged(r#"["eq","$bucket","other"]"#, &[("bucket", "other")]).unwrap_err();
        assert_eq!(
            said,
            "Invalid according to Policy: Policy Condition failed: [\"eq\",\"$bucket\",\"other\"]"
        );
        // A policy that names none would be good for all.
        let said = judged("", &[]).unwrap_err();
        assert_eq!(
            said,
            "Invalid according to Policy: Extra input fields: bucket"
        );
    }

    #[test]
    fn a_field_that_no_condition_names_is_refused_unless_nobody_could_have_named_it() {
        let conditions = r#"{"bucket":"photos"}"#;
        let exempt = [
            ("policy", "p"),
            ("x-amz-signature", "s"),
            ("X-Ignore-A", ""),
        ];
        assert_eq!(judged(conditions, &exempt), Ok(ANY));
        for name in ["x-amz-meta-a", "Content-Type", "x-amz-security-token"] {
            let said = judged(conditions, &[(name, "v")]).unwrap_err();
            let name = name.to_ascii_lowercase();
            assert_eq!(
                said,
                format!("Invalid according to Policy: Extra input fields: {name}")
            );
        }
    }

    #[test]
    fn all_ranges_of_lengths_hold_at_once() {
        let two = r#"{"bucket":"photos"},["content-length-range",1,"100"],["content-length-range",-5,50]"#;
        assert_eq!(judged(two, &[]), Ok(Lengths { least: 1, most: 50 }));
    }

    #[test]
    fn a_policy_ends_with_its_expiration() {
        let policy = Policy::parse(&policy(r#"{"bucket":"photos"}"#)).unwrap();
        let at = |seconds| {
            let now = NOW + time::Duration::seconds(seconds);
            policy.check("photos", &Fields::default(), now)
        };
        assert_eq!(at(1).unwrap(), ANY);
        let said = at(2).unwrap_err();
        assert_eq!(said.code(), "AccessDenied");
        assert_eq!(
            said.to_string(),
            "Invalid according to Policy: Policy expired."
        );
    }

    #[test]
    fn a_document_that_is_no_policy_says_why() {
        let when = r#""expiration":"2144-11-08T04:19:33Z""#;
        for (json, said) in [
            ("no json", "Invalid JSON."),
            ("[]", "Invalid JSON."),
            (r#"{"conditions":[]}"#, "Policy missing expiration."),
            (&format!("{{{when}}}"), "Policy missing conditions."),
            (r#"{"expiration":1,"conditions":[]}"#, "Invalid JSON."),
            (
                r#"{"expiration":"soon","conditions":[]}"#,
                "Invalid 'expiration' value: 'soon'",
            ),
            (
                &format!(r#"{{{when},"conditions":{{}}}}"#),
                "Invalid 'conditions' value: must be a List.",
            ),
            (
                &format!(r#"{{{when},"conditions":[],"more":1}}"#),
                "Unexpected: \"more\"",
            ),
        ] {
            let failed = Policy::parse(&BASE64.encode(json)).unwrap_err();
            assert_eq!(failed.code(), "InvalidPolicyDocument", "{json}");
            assert_eq!(failed.to_string(), format!("Invalid Policy: {said}"));
        }
        for text in ["", " \r\n", "not_base64"] {
            assert_eq!(
                Policy::parse(text).unwrap_err().code(),
                "InvalidPolicyDocument"
            );
        }
    }

    #[test]
    fn a_condition_that_is_none_says_why() {
        for (condition, said) in [
            ("true", "Invalid condition test: must be a List or Object."),
            (
                r#"{"a":"1","b":"2"}"#,
                "Invalid Simple-Condition: Simple-Conditions must have exactly one property specified.",
            ),
            (
                r#"{"a":true}"#,
                "Invalid Simple-Condition: value must be a string.",
            ),
            ("[]", "Invalid Condition: missing operation identifier."),
            (
                r#"["ends-with","$key","a"]"#,
                "Invalid Condition: unknown operation 'ends-with'.",
            ),
            (r#"["eq","$key"]"#, "Invalid eq: wrong number of arguments."),
            ("[1]", "Invalid JSON."),
            (r#"["eq",false,"a"]"#, "Invalid JSON."),
            (r#"["eq","$key",true]"#, "Invalid JSON."),
            (r#"["content-length-range",1.5,2]"#, "Invalid JSON."),
            (r#"["content-length-range","many",2]"#, "Invalid JSON."),
        ] {
            let failed = Policy::parse(&policy(condition)).unwrap_err();
            assert_eq!(
                failed.to_string(),
                format!("Invalid Policy: {said}"),
                "{condition}"
            );
        }
        for condition in [r#"["eq","key","a"]"#, r#"["eq","$","a"]"#] {
            let failed = Policy::parse(&policy(condition)).unwrap_err();
            assert_eq!(failed.code(), "AccessDenied", "{condition}");
        }
    }

    #[test]
    fn base64_may_be_wrapped_and_lack_its_padding() {
        let text = policy(r#"{"bucket":"photos"}, ["eq","$key","a"]"#);
        let wrapped = text.replacen('e', "e\r\n", 3);
        for text in [wrapped.as_str(), text.trim_end_matches('=')] {
            Policy::parse(text).unwrap();
        }
    }

    #[test]
    fn the_files_name_stands_without_its_folders_and_within_bounds() {
        for (path, key) in [
            ("cat.jpg", "in/cat.jpg"),
            ("C:\\pictures\\cat.jpg", "in/cat.jpg"),
            ("../../cat.jpg", "in/cat.jpg"),
            ("", "in/"),
        ] {
            let mut fields = fields(&[("key", "in/${filename}"), ("acl", "private")]);
            fields.name_file(path, 100).unwrap();
            assert_eq!(fields.get("key"), Some(key));
            assert_eq!(fields.get("acl"), Some("private"));
        }
        let mut many = fields(&[("key", &VARIABLE.repeat(10))]);
        let failed = many.name_file(&"n".repeat(50), 600).unwrap_err();
        assert_eq!(failed.code(), "MaxPostPreDataLengthExceededError");
    }

    #[test]
    fn only_metadata_may_come_in_several_fields() {
        let mut form = fields(&[("x-amz-meta-a", "1"), ("X-Amz-Meta-A", "2")]);
        assert_eq!(form.get("x-amz-meta-a"), Some("1,2"));
        form.add("key", "a".into()).unwrap();
        let failed = form.add("Key", "b".into()).unwrap_err();
        assert_eq!(failed.code(), "InvalidArgument");
    }
}
