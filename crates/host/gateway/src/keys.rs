//! Where wrapping keys come from.

use std::path::Path;
use std::process::{Command, Stdio};

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use envelope::WrappingKey;

use crate::config::KeyOptions;

/// Where a wrapping key is.
#[derive(Clone, Copy, Debug)]
pub(crate) enum KeySource<'a> {
    File(&'a Path),
    Env(&'a str),
    /// A program and its arguments.
    Command(&'a str, &'a [String]),
}

/// Reads the key that `options` describe.
///
/// # Errors
/// A sentence that says what is wrong, and nothing about the key.
pub fn wrapping_key(
    options: &KeyOptions,
    variable: impl Fn(&str) -> Option<String>,
) -> Result<WrappingKey, String> {
    let read = KeySource::of(options).and_then(|source| source.read(variable));
    read.map_err(|why| format!("key `{}`: {why}", options.name))
}

// === impl KeySource ===

impl<'a> KeySource<'a> {
    pub(crate) fn of(options: &'a KeyOptions) -> Result<Self, String> {
        match (&options.file, &options.env, options.command.as_slice()) {
            (Some(path), None, []) => Ok(Self::File(path)),
            (None, Some(env), []) => Ok(Self::Env(env)),
            (None, None, [program, arguments @ ..]) => Ok(Self::Command(program, arguments)),
            _ => Err("set exactly one of file, env and command".into()),
        }
    }

    /// What options call it.
    pub(crate) const fn key(self) -> &'static str {
        match self {
            Self::File(_) => "file",
            Self::Env(_) => "env",
            Self::Command(..) => "command",
        }
    }

    pub(crate) const fn is_program(self) -> bool {
        matches!(self, Self::Command(..))
    }

    pub(crate) fn read(
        self,
        variable: impl Fn(&str) -> Option<String>,
    ) -> Result<WrappingKey, String> {
        let bytes = match self {
            Self::File(path) => file(path)?,
            Self::Env(env) => variable(env)
                .ok_or_else(|| format!("`{env}` is not set"))?
                .into_bytes(),
            Self::Command(program, arguments) => printed(program, arguments)?,
        };
        let secret = secret(&bytes).ok_or(
            "not 32 bytes, nor their hexadecimal or base64 text; `openssl rand -hex 32` makes one",
        )?;
        Ok(WrappingKey::new(secret))
    }
}

fn file(path: &Path) -> Result<Vec<u8>, String> {
    std::fs::read(path).map_err(|error| format!("cannot read `{}`: {error}", path.display()))
}

/// What a program prints: a vault's, or a key service's that unwraps.
fn printed(program: &str, arguments: &[String]) -> Result<Vec<u8>, String> {
    let output = Command::new(program)
        .args(arguments)
        .stdin(Stdio::null())
        .stderr(Stdio::inherit())
        .output()
        .map_err(|error| format!("cannot run `{program}`: {error}"))?;
    if output.status.success() {
        Ok(output.stdout)
    } else {
        Err(format!("`{program}` ended with {}", output.status))
    }
}

/// 32 bytes as they are, in hexadecimal, or in base64.
fn secret(bytes: &[u8]) -> Option<[u8; 32]> {
    if let Ok(secret) = bytes.try_into() {
        return Some(secret);
    }
    let text = std::str::from_utf8(bytes).ok()?.trim();
    if text.len() == 64 {
        let digits = text.as_bytes().chunks(2);
        let bytes: Option<Vec<u8>> = digits
            .map(|pair| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok())
            .collect();
        return bytes?.try_into().ok();
    }
    let decoded = STANDARD
        .decode(text)
        .or_else(|_| URL_SAFE_NO_PAD.decode(text))
        .ok()?;
    decoded.try_into().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_may_be_bytes_hexadecimal_or_base64_and_nothing_else() {
        let key = [0xAB; 32];
        assert_eq!(secret(&key), Some(key));
        assert_eq!(
            secret(format!("{}\n", "ab".repeat(32)).as_bytes()),
            Some(key)
        );
        assert_eq!(secret(STANDARD.encode(key).as_bytes()), Some(key));
        assert_eq!(secret(URL_SAFE_NO_PAD.encode(key).as_bytes()), Some(key));
        for wrong in ["", "ab", &"zz".repeat(32), &"ab".repeat(31)] {
            assert_eq!(secret(wrong.as_bytes()), None, "{wrong}");
        }
    }

    #[test]
    fn a_command_prints_the_key_and_its_failure_is_told() {
        let mut options = KeyOptions {
            name: "main".into(),
            command: vec!["printf".into(), "ab".repeat(32)],
            ..KeyOptions::default()
        };
        let key = wrapping_key(&options, |_| None).unwrap();
        assert_eq!(key.id(), WrappingKey::new([0xAB; 32]).id());
        options.command = vec!["false".into()];
        assert!(
            wrapping_key(&options, |_| None)
                .unwrap_err()
                .contains("ended with")
        );
        options.env = Some("X".into());
        assert!(
            wrapping_key(&options, |_| None)
                .unwrap_err()
                .contains("exactly one")
        );
    }
}
