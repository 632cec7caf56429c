//! How a side of a relay speaks TLS.

use core::fmt;
use core::str::FromStr;

use serde::{Deserialize, Serialize};

/// A named choice of versions and key exchanges. Suites follow from the versions: only authenticated
/// ones with forward secrecy.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum TlsProfile {
    /// For peers that one does not know: 1.2 and 1.3, the post-quantum hybrid first.
    #[default]
    Default,
    /// For object stores and their SDKs over distance: 1.3 alone, because a full handshake of 1.2 takes
    /// one round trip more.
    S3,
    /// For old peers and old boxes on the path: 1.2 and 1.3 without the hybrid, whose key share of 1.2 kB
    /// makes a `ClientHello` that needs two segments.
    Compatible,
}

/// A version of TLS.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub enum TlsVersion {
    /// RFC 5246.
    V1_2,
    /// RFC 8446.
    V1_3,
}

/// A key exchange, by its name in IANA's list of supported groups.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub enum TlsGroup {
    /// ML-KEM-768 with X25519, for 1.3 only.
    X25519MlKem768,
    /// RFC 7748.
    X25519,
    /// NIST P-256.
    Secp256r1,
    /// NIST P-384.
    Secp384r1,
}

/// No TLS profile has this name.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
#[error("a TLS profile is `default`, `s3` or `compatible`")]
pub struct UnknownTlsProfile;

// === impl TlsProfile ===

impl TlsProfile {
    /// The versions that are spoken, the newest first.
    #[must_use]
    pub fn versions(self) -> &'static [TlsVersion] {
        match self {
            Self::Default | Self::Compatible => &[TlsVersion::V1_3, TlsVersion::V1_2],
            Self::S3 => &[TlsVersion::V1_3],
        }
    }

    /// The key exchanges, in the order in which they are preferred.
    #[must_use]
    pub fn groups(self) -> &'static [TlsGroup] {
        use TlsGroup::{Secp256r1, Secp384r1, X25519, X25519MlKem768};
        match self {
            Self::Default | Self::S3 => &[X25519MlKem768, X25519, Secp256r1, Secp384r1],
            Self::Compatible => &[X25519, Secp256r1, Secp384r1],
        }
    }
}

impl fmt::Display for TlsProfile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Default => "default",
            Self::S3 => "s3",
            Self::Compatible => "compatible",
        })
    }
}

impl FromStr for TlsProfile {
    type Err = UnknownTlsProfile;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        [Self::Default, Self::S3, Self::Compatible]
            .into_iter()
            .find(|profile| text == alloc::format!("{profile}"))
            .ok_or(UnknownTlsProfile)
    }
}
