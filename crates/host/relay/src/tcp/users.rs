//! Who may ask for a target, by name and password.

use std::io;
use std::path::{Path, PathBuf};

use sha2::{Digest as _, Sha256};

/// A file of users cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum UsersError {
    /// It cannot be read.
    #[error("cannot read users from `{}`", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// What the kernel said.
        #[source]
        source: io::Error,
    },
    /// A line is not of the form `NAME:PASSWORD`.
    #[error("`{}`, line {line}: not NAME:PASSWORD", path.display())]
    Line {
        /// The file.
        path: PathBuf,
        /// Its number, from 1.
        line: usize,
    },
    /// There is nobody in it.
    #[error("there is no user in `{}`, so nobody could connect", path.display())]
    Nobody {
        /// The file.
        path: PathBuf,
    },
}

/// Names and passwords. Kept as digests, so that no core dump and no comparison tells one.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct Users(Vec<[u8; 32]>);

impl Users {
    /// Reads lines `NAME:PASSWORD`; empty ones and those that begin with `#` say nothing.
    pub(crate) fn load(path: &Path) -> Result<Self, UsersError> {
        let text = std::fs::read_to_string(path).map_err(|source| UsersError::Read {
            path: path.to_owned(),
            source,
        })?;
        let mut users = Vec::new();
        for (index, line) in text.lines().enumerate() {
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            match line.split_once(':') {
                Some((name, password)) if !name.is_empty() && !password.is_empty() => {
                    users.push(digest(name.as_bytes(), password.as_bytes()));
                }
                _ => {
                    return Err(UsersError::Line {
                        path: path.to_owned(),
                        line: index + 1,
                    });
                }
            }
        }
        if users.is_empty() {
            return Err(UsersError::Nobody {
                path: path.to_owned(),
            });
        }
        Ok(Self(users))
    }

    /// Whether somebody has this name and password.
    pub(super) fn know(&self, name: &[u8], password: &[u8]) -> bool {
        self.0.contains(&digest(name, password))
    }
}

/// A name has no colon, so the first one ends it.
fn digest(name: &[u8], password: &[u8]) -> [u8; 32] {
    let mut digest = Sha256::new();
    digest.update(name);
    digest.update(b":");
    digest.update(password);
    digest.finalize().into()
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use super::*;

    fn load(text: &str) -> Result<Users, UsersError> {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(text.as_bytes()).unwrap();
        Users::load(file.path())
    }

    #[test]
    fn those_in_the_file_are_known_and_nobody_else() {
        let users = load("# who\nann:x:y\n\nbob:secret\n").unwrap();
        assert!(users.know(b"ann", b"x:y"));
        assert!(users.know(b"bob", b"secret"));
        assert!(!users.know(b"bob", b"secre"));
        assert!(!users.know(b"bob", b""));
        assert!(!users.know(b"", b"secret"));
    }

    #[test]
    fn what_cannot_be_a_list_of_users_is_refused_with_its_line() {
        assert!(matches!(
            load("a:b\nann\n"),
            Err(UsersError::Line { line: 2, .. })
        ));
        assert!(matches!(
            load(":b\n"),
            Err(UsersError::Line { line: 1, .. })
        ));
        assert!(matches!(load("#\n"), Err(UsersError::Nobody { .. })));
        let missing = Users::load(Path::new("/nowhere/users"));
        assert!(matches!(missing, Err(UsersError::Read { .. })));
    }
}
