//! TLS as a capture shows it: record headers, and the two hellos, which are never encrypted.
//!
//! Views for analyses: they read what was captured of a message and say `None` for the rest. What a
//! hello holds of secrets (randoms, key shares, session identifiers) is compared, never printed.

use core::fmt;

/// What a record carries (RFC 8446 §5.1).
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum ContentType {
    /// `change_cipher_spec`: a step of TLS 1.2, a decoration for middleboxes in TLS 1.3 (RFC 8446 §D.4).
    ChangeCipherSpec,
    /// `alert`.
    Alert,
    /// `handshake`.
    Handshake,
    /// `application_data`; in TLS 1.3 also everything of the handshake that is encrypted.
    ApplicationData,
}

/// The five bytes in front of every record.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct RecordHeader {
    /// What follows.
    pub content: ContentType,
    /// Bytes that follow.
    pub len: u16,
}

impl RecordHeader {
    /// Bytes of a header.
    pub const LEN: usize = 5;

    /// The header at the start of `bytes`; `None` where none stands there, or not all of it.
    #[must_use]
    pub fn read(bytes: &[u8]) -> Option<Self> {
        let [content, 3, 0..=4, high, low] = *bytes.first_chunk::<5>()? else {
            return None;
        };
        let len = u16::from_be_bytes([high, low]);
        //= https://www.rfc-editor.org/rfc/rfc5246#section-6.2.3
        //# The length MUST NOT exceed 2^14 + 2048.
        if len == 0 || len > (1 << 14) + 2048 {
            return None;
        }
        let content = match content {
            20 => ContentType::ChangeCipherSpec,
            21 => ContentType::Alert,
            22 => ContentType::Handshake,
            23 => ContentType::ApplicationData,
            _ => return None,
        };
        Some(Self { content, len })
    }
}

/// A protocol version as its two bytes on the wire.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub struct Version(pub u16);

impl Version {
    /// TLS 1.2, and what TLS 1.3 claims to be outside of its extension.
    pub const TLS_1_2: Self = Self(0x0303);
    /// TLS 1.3.
    pub const TLS_1_3: Self = Self(0x0304);
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            0x0300 => f.write_str("SSL 3.0"),
            0x0301 => f.write_str("TLS 1.0"),
            0x0302 => f.write_str("TLS 1.1"),
            0x0303 => f.write_str("TLS 1.2"),
            0x0304 => f.write_str("TLS 1.3"),
            other => write!(f, "TLS 0x{other:04x}"),
        }
    }
}

/// A key-exchange group (IANA "TLS Supported Groups").
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub struct Group(pub u16);

impl Group {
    /// The hybrid of X25519 and ML-KEM-768 (FIPS 203).
    pub const X25519_MLKEM768: Self = Self(0x11ec);

    /// A value that means nothing and keeps servers tolerant (RFC 8701).
    #[must_use]
    pub const fn is_grease(self) -> bool {
        let [high, low] = self.0.to_be_bytes();
        high == low && low & 0x0f == 0x0a
    }
}

impl fmt::Display for Group {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.0 {
            0x0017 => "secp256r1",
            0x0018 => "secp384r1",
            0x0019 => "secp521r1",
            0x001d => "x25519",
            0x001e => "x448",
            0x0100 => "ffdhe2048",
            0x0101 => "ffdhe3072",
            0x0102 => "ffdhe4096",
            0x0200 => "MLKEM512",
            0x0201 => "MLKEM768",
            0x0202 => "MLKEM1024",
            0x11eb => "SecP256r1MLKEM768",
            0x11ec => "X25519MLKEM768",
            0x11ed => "SecP384r1MLKEM1024",
            0x6399 => "X25519Kyber768Draft00",
            other => return write!(f, "group 0x{other:04x}"),
        })
    }
}

/// A handshake message (RFC 8446 §4) as far as it was captured.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Message<'a> {
    /// `HandshakeType`.
    pub kind: u8,
    /// Bytes of the body on the wire.
    pub len: usize,
    /// What was captured of it.
    pub body: &'a [u8],
}

impl<'a> Message<'a> {
    /// `client_hello`.
    pub const CLIENT_HELLO: u8 = 1;
    /// `server_hello`.
    pub const SERVER_HELLO: u8 = 2;
    /// `certificate`.
    pub const CERTIFICATE: u8 = 11;
    /// `server_key_exchange` (RFC 5246 §7.4.3).
    pub const SERVER_KEY_EXCHANGE: u8 = 12;

    /// The message at the start of `bytes`, and what follows it; `None` without its four bytes of header.
    #[must_use]
    pub fn read(bytes: &'a [u8]) -> Option<(Self, &'a [u8])> {
        let ([kind, high, middle, low], rest) = bytes.split_first_chunk()?;
        let len = usize::from(*high) << 16 | usize::from(*middle) << 8 | usize::from(*low);
        let (body, rest) = rest.split_at(len.min(rest.len()));
        Some((
            Self {
                kind: *kind,
                len,
                body,
            },
            rest,
        ))
    }

    /// Whether all of it was captured.
    #[must_use]
    pub const fn is_whole(&self) -> bool {
        self.body.len() == self.len
    }

    /// The curve in an elliptic-curve `server_key_exchange` (RFC 8422 §5.4).
    #[must_use]
    pub fn named_curve(&self) -> Option<Group> {
        const NAMED_CURVE: u8 = 3;
        match self.body {
            [NAMED_CURVE, high, low, ..] if self.kind == Self::SERVER_KEY_EXCHANGE => {
                Some(Group(u16::from_be_bytes([*high, *low])))
            }
            _ => None,
        }
    }
}

/// A Client Hello or Server Hello (RFC 8446 §4.1).
#[derive(Clone, Copy, Eq, PartialEq)]
pub struct Hello<'a> {
    legacy_version: Version,
    random: &'a [u8],
    session_id: &'a [u8],
    extensions: &'a [u8],
}

/// Numbers of extensions (IANA "TLS `ExtensionType` Values").
pub mod extension {
    /// Names the host that is asked for.
    pub const SERVER_NAME: u16 = 0;
    /// Key-exchange groups of the client.
    pub const SUPPORTED_GROUPS: u16 = 10;
    /// Resumption by a session of before, TLS 1.3.
    pub const PRE_SHARED_KEY: u16 = 41;
    /// Data ahead of the handshake's end.
    pub const EARLY_DATA: u16 = 42;
    /// Versions offered, or the one chosen.
    pub const SUPPORTED_VERSIONS: u16 = 43;
    /// Keys for groups, or the group asked for.
    pub const KEY_SHARE: u16 = 51;
}

impl<'a> Hello<'a> {
    /// The Client Hello in `body`; `None` where not even its fixed part was captured.
    #[must_use]
    pub fn client(body: &'a [u8]) -> Option<Self> {
        let (fixed, rest) = Self::fixed(body)?;
        let (_cipher_suites, rest) = vector16(rest).unwrap_or_default();
        let (_compression, rest) = vector8(rest).unwrap_or_default();
        Some(fixed.with_extensions(rest))
    }

    /// The Server Hello in `body`; `None` where not even its fixed part was captured.
    #[must_use]
    pub fn server(body: &'a [u8]) -> Option<Self> {
        let (fixed, rest) = Self::fixed(body)?;
        // Cipher suite and compression method.
        Some(fixed.with_extensions(rest.get(3..).unwrap_or_default()))
    }

    /// Version, random and session identifier, which both hellos begin with.
    fn fixed(body: &'a [u8]) -> Option<(Self, &'a [u8])> {
        let ([high, low], rest) = body.split_first_chunk()?;
        let (random, rest) = rest.split_at_checked(32)?;
        let (session_id, rest) = vector8(rest)?;
        let hello = Self {
            legacy_version: Version(u16::from_be_bytes([*high, *low])),
            random,
            session_id,
            extensions: &[],
        };
        Some((hello, rest))
    }

    fn with_extensions(self, rest: &'a [u8]) -> Self {
        Self {
            extensions: vector16(rest).unwrap_or_default().0,
            ..self
        }
    }

    /// What was captured of an extension's data; `None` where the extension is not there, or was cut off.
    #[must_use]
    pub fn extension(&self, number: u16) -> Option<&'a [u8]> {
        let mut rest = self.extensions;
        while let Some(([high, low], data)) = rest.split_first_chunk() {
            let (data, next) = vector16(data)?;
            if u16::from_be_bytes([*high, *low]) == number {
                return Some(data);
            }
            rest = next;
        }
        None
    }

    /// Whether a Server Hello asks for another Client Hello.
    #[must_use]
    pub fn is_retry_request(&self) -> bool {
        //= https://www.rfc-editor.org/rfc/rfc8446#section-4.1.3
        //# For reasons of backward compatibility with middleboxes (see
        //# Appendix D.4), the HelloRetryRequest message uses the same structure
        //# as the ServerHello, but with Random set to the special value of the
        //# SHA-256 of "HelloRetryRequest":
        const RETRY: [u8; 32] = [
            0xcf, 0x21, 0xad, 0x74, 0xe5, 0x9a, 0x61, 0x11, 0xbe, 0x1d, 0x8c, 0x02, 0x1e, 0x65,
            0xb8, 0x91, 0xc2, 0xa2, 0x11, 0x16, 0x7a, 0xbb, 0x8c, 0x5e, 0x07, 0x9e, 0x09, 0xe2,
            0xc8, 0xa8, 0x33, 0x9c,
        ];
        self.random == RETRY
    }

    /// Bytes of the session identifier; a client of TLS 1.2 that has a session sends the server's.
    #[must_use]
    pub const fn session_id_len(&self) -> usize {
        self.session_id.len()
    }

    /// The version a Server Hello chose.
    #[must_use]
    pub fn chosen_version(&self) -> Version {
        match self.extension(extension::SUPPORTED_VERSIONS) {
            Some([high, low, ..]) => Version(u16::from_be_bytes([*high, *low])),
            // Only TLS 1.3 has this extension in a Server Hello; the version may have been cut off.
            _ if self.extension(extension::KEY_SHARE).is_some() => Version::TLS_1_3,
            _ => self.legacy_version,
        }
    }

    /// The highest version that a Client Hello offers.
    #[must_use]
    pub fn highest_offered(&self) -> Version {
        let listed = self
            .extension(extension::SUPPORTED_VERSIONS)
            .and_then(vector8)
            .map(|(versions, _)| numbers(versions))
            .into_iter()
            .flatten()
            .filter(|number| !Group(*number).is_grease())
            .map(Version)
            .max();
        listed.unwrap_or(self.legacy_version)
    }

    /// Groups that a Client Hello supports, by preference.
    pub fn groups(&self) -> impl Iterator<Item = Group> + 'a {
        let list = self
            .extension(extension::SUPPORTED_GROUPS)
            .and_then(vector16)
            .unwrap_or_default()
            .0;
        numbers(list).map(Group).filter(|group| !group.is_grease())
    }

    /// Groups for which a Client Hello brings a key.
    pub fn key_shares(&self) -> impl Iterator<Item = Group> + 'a {
        let mut rest = self
            .extension(extension::KEY_SHARE)
            .and_then(vector16)
            .unwrap_or_default()
            .0;
        core::iter::from_fn(move || {
            let ([high, low], key) = rest.split_first_chunk()?;
            rest = vector16(key).unwrap_or_default().1;
            Some(Group(u16::from_be_bytes([*high, *low])))
        })
        .filter(|group| !group.is_grease())
    }

    /// The group that a Server Hello (or a retry request) chose.
    #[must_use]
    pub fn chosen_group(&self) -> Option<Group> {
        match self.extension(extension::KEY_SHARE)? {
            [high, low, ..] => Some(Group(u16::from_be_bytes([*high, *low]))),
            _ => None,
        }
    }

    /// The host that a Client Hello names (RFC 6066 §3), where it is plain text.
    #[must_use]
    pub fn server_name(&self) -> Option<&'a str> {
        const HOST_NAME: u8 = 0;
        let (list, _) = vector16(self.extension(extension::SERVER_NAME)?)?;
        let (kind, name) = list.split_first()?;
        let ([high, low], name) = name.split_first_chunk()?;
        // Half a name would be another name.
        let name = name.get(..usize::from(u16::from_be_bytes([*high, *low])))?;
        let name = core::str::from_utf8(name).ok()?;
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-' | b'_');
        (*kind == HOST_NAME && !name.is_empty() && name.bytes().all(plain)).then_some(name)
    }
}

impl fmt::Debug for Hello<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Hello")
            .field("legacy_version", &self.legacy_version)
            .field("extensions_len", &self.extensions.len())
            .finish_non_exhaustive()
    }
}

/// A vector whose length stands in one byte, as far as it was captured, and what follows it.
fn vector8(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let (len, rest) = bytes.split_first()?;
    Some(rest.split_at(usize::from(*len).min(rest.len())))
}

/// The same with a length of two bytes.
fn vector16(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let ([high, low], rest) = bytes.split_first_chunk()?;
    let len = usize::from(u16::from_be_bytes([*high, *low]));
    Some(rest.split_at(len.min(rest.len())))
}

/// A list of 16-bit numbers.
fn numbers(bytes: &[u8]) -> impl Iterator<Item = u16> + '_ {
    bytes
        .chunks_exact(2)
        .map(|pair| u16::from_be_bytes([pair[0], pair[1]]))
}
