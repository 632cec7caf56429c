//! Who this end of a trunk is, and whom it believes: a key pair, and the fingerprints of peers' keys.

use std::collections::BTreeSet;
use std::fmt::{self, Write as _};
use std::fs::{self, DirBuilder, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::str::FromStr;

use rcgen::{KeyPair, PKCS_ED25519, PublicKeyData as _};
use sha2::{Digest as _, Sha256};

const KEY: &str = "key.pem";
const PEERS: &str = "peers";
const PREFIX: &str = "sha256:";

/// The fingerprint of a public key: SHA-256 of its `SubjectPublicKeyInfo` (RFC 5280 §4.1), as in RFC 7469.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub struct Pin([u8; 32]);

/// A text is no fingerprint.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[error(
    "`{0}` is no pin such as the one that `longhaul trunk init` prints: `sha256:` and 64 hex digits"
)]
pub struct ParsePinError(String);

/// An end's own key and its peers' pins, in a directory of two files: `key.pem` and `peers`.
#[derive(Debug)]
pub struct Identity {
    /// The fingerprint that the other end has to trust.
    pub pin: Pin,
    /// Whom this end trusts.
    pub peers: BTreeSet<Pin>,
    /// Whether the key was there before.
    pub kept: bool,
    key: KeyPair,
}

/// There is no usable identity.
#[derive(Debug, thiserror::Error)]
pub enum IdentityError {
    /// The directory cannot be made.
    #[error("cannot make the directory `{}`", path.display())]
    Directory {
        /// The directory.
        path: PathBuf,
        /// What the kernel said.
        #[source]
        source: io::Error,
    },
    /// There is no key yet.
    #[error("there is no key at `{}`: make one with `longhaul trunk init`", path.display())]
    NoKey {
        /// Where it was expected.
        path: PathBuf,
    },
    /// A file cannot be read.
    #[error("cannot read `{}`", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// What the kernel said.
        #[source]
        source: io::Error,
    },
    /// Others could read the key.
    #[error("`{}` can be read by others (mode {mode:o}): run `chmod 600` on it", path.display())]
    Exposed {
        /// The key's file.
        path: PathBuf,
        /// Its permissions.
        mode: u32,
    },
    /// The key's file holds no private key that can sign.
    #[error("there is no private key in `{}`", path.display())]
    Key {
        /// The file.
        path: PathBuf,
        /// What the library said.
        #[source]
        source: rcgen::Error,
    },
    /// No key could be made.
    #[error("cannot make a key pair")]
    Make(#[source] rcgen::Error),
    /// A line of the list of peers is none.
    #[error("line {line} of `{}`", path.display())]
    Peer {
        /// The file.
        path: PathBuf,
        /// Counted from 1.
        line: usize,
        /// What is wrong.
        #[source]
        source: ParsePinError,
    },
    /// A file cannot be written.
    #[error("cannot write `{}`", path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// What the kernel said.
        #[source]
        source: io::Error,
    },
}

// === impl Pin ===

impl Pin {
    /// The fingerprint of a `SubjectPublicKeyInfo` in DER.
    pub(super) fn of(public_key: &[u8]) -> Self {
        Self(Sha256::digest(public_key).into())
    }
}

impl fmt::Display for Pin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let digits = self.0.iter().fold(String::new(), |mut text, byte| {
            // Writing to a String cannot fail.
            let _ = write!(text, "{byte:02x}");
            text
        });
        write!(f, "{PREFIX}{digits}")
    }
}

impl FromStr for Pin {
    type Err = ParsePinError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let error = || ParsePinError(text.to_owned());
        let digits = text.strip_prefix(PREFIX).ok_or_else(error)?.as_bytes();
        if digits.len() != 64 {
            return Err(error());
        }
        let mut pin = [0; 32];
        for (byte, pair) in pin.iter_mut().zip(digits.chunks_exact(2)) {
            let value = |digit: u8| char::from(digit).to_digit(16);
            let (Some(high), Some(low)) = (value(pair[0]), value(pair[1])) else {
                return Err(error());
            };
            *byte = u8::try_from(high * 16 + low).map_err(|_| error())?;
        }
        Ok(Self(pin))
    }
}

// === impl Identity ===

impl Identity {
    /// Makes a key in `directory`, or takes the one that is there, and adds `trust` to the peers.
    pub fn init(directory: &Path, trust: &[Pin]) -> Result<Self, IdentityError> {
        let mut builder = DirBuilder::new();
        let made = builder.recursive(true).mode(0o700).create(directory);
        made.map_err(|source| IdentityError::Directory {
            path: directory.to_owned(),
            source,
        })?;
        let path = directory.join(KEY);
        let kept = path.exists();
        if !kept {
            let key = KeyPair::generate_for(&PKCS_ED25519).map_err(IdentityError::Make)?;
            write(&path, &key.serialize_pem(), 0o600)?;
        }
        let known = Self::load(directory)?.peers;
        let new = trust.iter().filter(|pin| !known.contains(pin));
        let lines = new.fold(String::new(), |mut lines, pin| {
            // Writing to a String cannot fail.
            let _ = writeln!(lines, "{pin}");
            lines
        });
        write(&directory.join(PEERS), &lines, 0o644)?;
        Ok(Self {
            kept,
            ..Self::load(directory)?
        })
    }

    /// Reads what [`Identity::init`] made.
    pub fn load(directory: &Path) -> Result<Self, IdentityError> {
        let path = directory.join(KEY);
        if !path.exists() {
            return Err(IdentityError::NoKey { path });
        }
        let mode = fs::metadata(&path)
            .map_err(|source| read_error(&path, source))?
            .permissions()
            .mode()
            & 0o777;
        if mode & 0o077 != 0 {
            return Err(IdentityError::Exposed { path, mode });
        }
        let pem = fs::read_to_string(&path).map_err(|source| read_error(&path, source))?;
        let key = KeyPair::from_pem(&pem).map_err(|source| IdentityError::Key { path, source })?;
        let pin = Pin::of(&key.subject_public_key_info());
        Ok(Self {
            pin,
            peers: read_peers(&directory.join(PEERS))?,
            kept: true,
            key,
        })
    }

    /// The private key in PKCS #8.
    pub(super) fn private_key(&self) -> Vec<u8> {
        self.key.serialize_der()
    }

    /// The public key as a `SubjectPublicKeyInfo` in DER.
    pub(super) fn public_key(&self) -> Vec<u8> {
        self.key.subject_public_key_info()
    }
}

/// One pin a line, anything after it a remark; empty lines and lines that begin with `#` are skipped.
fn read_peers(path: &Path) -> Result<BTreeSet<Pin>, IdentityError> {
    let text = match fs::read_to_string(path) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(BTreeSet::new()),
        Err(source) => return Err(read_error(path, source)),
    };
    let mut peers = BTreeSet::new();
    for (index, line) in text.lines().enumerate() {
        let Some(word) = line.split_whitespace().next() else {
            continue;
        };
        if word.starts_with('#') {
            continue;
        }
        let pin = word.parse().map_err(|source| IdentityError::Peer {
            path: path.to_owned(),
            line: index + 1,
            source,
        })?;
        peers.insert(pin);
    }
    Ok(peers)
}

fn read_error(path: &Path, source: io::Error) -> IdentityError {
    IdentityError::Read {
        path: path.to_owned(),
        source,
    }
}

/// Appends, so that what somebody else wrote meanwhile stays.
fn write(path: &Path, text: &str, mode: u32) -> Result<(), IdentityError> {
    let mut options = OpenOptions::new();
    let written = options
        .create(true)
        .append(true)
        .mode(mode)
        .open(path)
        .and_then(|mut file| {
            file.write_all(text.as_bytes())?;
            file.sync_all()
        });
    written.map_err(|source| IdentityError::Write {
        path: path.to_owned(),
        source,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pin_is_read_back_as_it_is_printed() {
        let pin = Pin::of(b"a public key");
        assert_eq!(pin.to_string().parse::<Pin>().unwrap(), pin);
        assert_eq!(
            pin.to_string()
                .to_uppercase()
                .replace("SHA", "sha")
                .parse::<Pin>(),
            Ok(pin)
        );
    }

    #[test]
    fn what_is_no_pin_is_refused() {
        let pin = Pin::of(b"").to_string();
        for text in [
            "",
            "sha256:",
            "sha256:zz",
            &pin[..70],
            &pin.replace("sha256:", ""),
            &pin.replace('e', "g"),
        ] {
            assert!(text.parse::<Pin>().is_err(), "{text}");
        }
    }

    #[test]
    fn init_makes_a_key_once_and_gathers_peers() {
        let directory = tempfile::tempdir().unwrap();
        let directory = directory.path().join("trunk");
        let (one, two) = (Pin::of(b"one"), Pin::of(b"two"));
        let first = Identity::init(&directory, &[one]).unwrap();
        let second = Identity::init(&directory, &[one, two]).unwrap();
        assert!(!first.kept && second.kept);
        assert_eq!(first.pin, second.pin);
        assert_eq!(second.peers, BTreeSet::from([one, two]));
        let text = fs::read_to_string(directory.join(PEERS)).unwrap();
        assert_eq!(text.lines().count(), 2, "{text}");
    }

    #[test]
    fn a_key_that_others_can_read_is_refused() {
        let directory = tempfile::tempdir().unwrap();
        Identity::init(directory.path(), &[]).unwrap();
        let key = directory.path().join(KEY);
        fs::set_permissions(&key, fs::Permissions::from_mode(0o640)).unwrap();
        let error = Identity::load(directory.path()).unwrap_err();
        assert!(
            matches!(error, IdentityError::Exposed { mode: 0o640, .. }),
            "{error}"
        );
    }

    #[test]
    fn remarks_in_the_list_of_peers_are_skipped_and_errors_have_their_line() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join(PEERS);
        let pin = Pin::of(b"x");
        fs::write(&path, format!("# site b\n\n{pin} relay-b1\n")).unwrap();
        assert_eq!(read_peers(&path).unwrap(), BTreeSet::from([pin]));
        fs::write(&path, "# site b\nsha256:12\n").unwrap();
        let error = read_peers(&path).unwrap_err();
        assert!(
            matches!(error, IdentityError::Peer { line: 2, .. }),
            "{error}"
        );
    }

    #[test]
    fn a_missing_key_names_the_command_that_makes_it() {
        let directory = tempfile::tempdir().unwrap();
        let error = Identity::load(directory.path()).unwrap_err();
        assert!(error.to_string().contains("longhaul trunk init"), "{error}");
    }
}
