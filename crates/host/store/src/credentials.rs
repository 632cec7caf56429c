//! The key pair that signs and checks requests.

use std::fmt;

use serde::{Deserialize, Serialize};

/// An access key and its secret, as AWS Signature Version 4 uses them.
#[derive(Clone, Deserialize, Eq, PartialEq, Serialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Credentials {
    /// Public half; it travels with every request.
    pub access_key: String,
    /// Secret half; it never travels.
    pub secret_key: String,
}

impl Credentials {
    /// A pair.
    pub fn new(access_key: impl Into<String>, secret_key: impl Into<String>) -> Self {
        Self {
            access_key: access_key.into(),
            secret_key: secret_key.into(),
        }
    }
}

/// Without the secret: `Debug` output ends in logs and tickets.
impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Credentials")
            .field("access_key", &self.access_key)
            .finish_non_exhaustive()
    }
}
