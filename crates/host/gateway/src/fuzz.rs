//! Bodies of fuzz targets: plain functions, so that `cargo test` runs them too.

use crate::form::policy::fuzzed;

/// Holds any form against any policy. Up to the first zero stands the policy's JSON, and behind it the form's fields, as a query
/// has them.
///
/// What is allowed meets each condition, has no field that none of them names, and is not allowed when the policy has ended.
pub fn fuzz_policy(bytes: &[u8]) {
    let mut halves = bytes.splitn(2, |byte| *byte == 0);
    let policy = halves.next().unwrap_or_default();
    fuzzed::judge(policy, halves.next().unwrap_or_default());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_form_is_allowed_what_its_policy_does_not_name() {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/corpus/policy");
        let mut files = 0;
        for entry in std::fs::read_dir(folder).unwrap() {
            let bytes = std::fs::read(entry.unwrap().path()).unwrap();
            fuzz_policy(&bytes);
            for place in 0..bytes.len() {
                fuzz_policy(&bytes[..place]);
                let mut changed = bytes.clone();
                for value in [0, b'"', b'$', b'[', b'}', b'9', b'&', 0xff] {
                    changed[place] = value;
                    fuzz_policy(&changed);
                }
                changed.remove(place);
                fuzz_policy(&changed);
            }
            files += 1;
        }
        assert!(files >= 3, "the corpus lies in {folder}");
    }
}
