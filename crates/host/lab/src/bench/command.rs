//! External client programs: a shell command per transfer, with the lab's names put in.

use std::collections::BTreeMap;

/// What stands for what in a client command.
#[derive(Clone, Debug)]
pub(super) struct Placeholders(BTreeMap<&'static str, String>);

impl Placeholders {
    pub(super) fn new<const N: usize>(values: [(&'static str, String); N]) -> Self {
        Self(values.into())
    }

    /// `command` with every `{name}` replaced by its value, quoted for the shell. Unknown names and
    /// other braces stay as they are: they may mean something to the command.
    pub(super) fn fill(&self, command: &str) -> String {
        let mut filled = String::with_capacity(command.len());
        let mut rest = command;
        while let Some(start) = rest.find('{') {
            let (before, braced) = rest.split_at(start);
            filled.push_str(before);
            let name = braced[1..].split('}').next().unwrap_or_default();
            match self.0.get(name) {
                Some(value) if braced.len() > name.len() + 1 => {
                    filled.push_str(&quoted(value));
                    rest = &braced[name.len() + 2..];
                }
                _ => {
                    filled.push('{');
                    rest = &braced[1..];
                }
            }
        }
        filled.push_str(rest);
        filled
    }
}

/// As one word for a POSIX shell. Plain words stay plain, so that a value can be part of a larger word.
fn quoted(value: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./:=@%+".contains(c);
    if !value.is_empty() && value.chars().all(plain) {
        return value.to_owned();
    }
    format!("'{}'", value.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn placeholders_are_filled_and_quoted() {
        let placeholders = Placeholders::new([
            ("file", "/tmp/it's here/1".to_owned()),
            ("bucket", "lab".to_owned()),
            ("key", "a/0".to_owned()),
        ]);
        assert_eq!(
            placeholders.fill("aws s3 cp {file} s3://{bucket}/{key}"),
            r"aws s3 cp '/tmp/it'\''s here/1' s3://lab/a/0"
        );
        assert_eq!(
            placeholders.fill("awk '{print $1}' {unknown} {"),
            "awk '{print $1}' {unknown} {"
        );
        assert_eq!(placeholders.fill("{bucket"), "{bucket");
    }
}
