//! Entity tags of encrypted objects.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use envelope::PartSalt;
use http::HeaderMap;
use http::header::HeaderValue;

const MARK: &str = "-e";

/// The client's tag for the origin's, quotes included where there are some.
pub(crate) fn client_tag(tag: &str) -> String {
    match tag.strip_suffix('"') {
        Some(open) => format!("{open}{MARK}\""),
        None => format!("{tag}{MARK}"),
    }
}

/// The origin's tag for the client's. One that is none of ours stays as it is, and meets nothing.
pub(crate) fn origin_tag(tag: &str) -> String {
    match tag.strip_suffix('"') {
        Some(open) => format!("{}\"", open.strip_suffix(MARK).unwrap_or(open)),
        None => tag.strip_suffix(MARK).unwrap_or(tag).to_owned(),
    }
}

/// The client's tag for a part: the origin's, and what the manifest will say about the part. So the client keeps it
/// for us, and any gateway can put the parts together.
pub(crate) fn client_part_tag(tag: &str, plain: u64, salt: PartSalt) -> String {
    let mut bytes = plain.to_be_bytes().to_vec();
    bytes.extend_from_slice(&salt.0);
    let tag = tag.trim_matches('"');
    format!("\"{tag}{MARK}{}\"", URL_SAFE_NO_PAD.encode(bytes))
}

/// What [`client_part_tag`] put together: the origin's tag, the length, the salt.
pub(super) fn of_part(tag: &str) -> Option<(String, u64, PartSalt)> {
    const CODED: usize = 32;
    let tag = tag.trim_matches('"');
    let at = tag.len().checked_sub(CODED)?;
    let (open, coded) = (tag.get(..at)?, tag.get(at..)?);
    let origin = open.strip_suffix(MARK)?;
    let bytes = URL_SAFE_NO_PAD.decode(coded).ok()?;
    let (plain, salt) = bytes.split_first_chunk::<8>()?;
    let salt = PartSalt(salt.try_into().ok()?);
    Some((format!("\"{origin}\""), u64::from_be_bytes(*plain), salt))
}

/// Makes conditions on the client's tags into conditions on the origin's.
pub(crate) fn origin_conditions(headers: &mut HeaderMap) {
    for name in [
        "if-match",
        "if-none-match",
        "x-amz-copy-source-if-match",
        "x-amz-copy-source-if-none-match",
    ] {
        let Some(tags) = headers.get(name).and_then(|tags| tags.to_str().ok()) else {
            continue;
        };
        let tags: Vec<String> = tags.split(',').map(|tag| origin_tag(tag.trim())).collect();
        if let Ok(tags) = HeaderValue::from_str(&tags.join(", ")) {
            headers.insert(name, tags);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tags_go_there_and_back_with_quotes_and_without() {
        for tag in ["\"0123\"", "0123", "\"0123-7\"", "W/\"x\"", "\"\""] {
            assert_ne!(client_tag(tag), tag);
            assert_eq!(origin_tag(&client_tag(tag)), tag);
        }
        assert_eq!(origin_tag("*"), "*");
    }

    #[test]
    fn a_parts_tag_carries_what_the_manifest_needs() {
        let tag = client_part_tag("\"ab-cd\"", 77, PartSalt([9; 16]));
        assert_eq!(
            of_part(&tag),
            Some(("\"ab-cd\"".into(), 77, PartSalt([9; 16])))
        );
        assert_eq!(of_part(tag.trim_matches('"')), of_part(&tag));
        for wrong in ["", "\"ab\"", "\"0123456789abcdef0123456789abcdef\"", "ü-e"] {
            assert_eq!(of_part(wrong), None, "{wrong}");
        }
    }
}
