//! The first bytes of every WAN connection, in both directions.
//!
//! The envelope (magic, kind, versions, length, CRC) never changes, so that any two versions can at least
//! tell each other why they part. The body belongs to a version; fields that a later minor change appends
//! are skipped.

use alloc::string::String;

use bytes::{BufMut as _, Bytes, BytesMut};

use crate::digest::{DigestKind, crc32c};
use crate::field::{Fields, put_text};
use crate::{ConnectionId, Session, Violation};

/// The versions that this code speaks.
pub const VERSIONS: Versions = Versions { min: 1, max: 1 };

/// A byte that is no text, then a name, then a line end that text-mode transfer would change.
const MAGIC: [u8; 8] = *b"\x8bLTrnk\r\n";
const HEAD_LEN: usize = MAGIC.len() + 6;
const CRC_LEN: usize = 4;
const MAX_BODY: usize = 1024;

const HELLO: u8 = 1;
const WELCOME: u8 = 2;
const REFUSAL: u8 = 3;

/// A range of protocol versions, both ends included.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Versions {
    /// The oldest.
    pub min: u8,
    /// The newest.
    pub max: u8,
}

impl Versions {
    /// The newest version that both sides speak.
    pub fn common(self, other: Self) -> Option<u8> {
        let newest = self.max.min(other.max);
        (newest >= self.min.max(other.min)).then_some(newest)
    }
}

/// What an end can do beyond the first form of version 1. Unknown bits are ignored, and only what both ends name is
/// used.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Capabilities(pub(crate) u64);

impl Capabilities {
    /// It knows the frame with which an end leaves a session.
    pub(crate) const LEAVE: Self = Self(1);
    /// What this code can do.
    pub const OURS: Self = Self::LEAVE;

    /// Whether all of `other` is in here.
    pub(crate) const fn include(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }
}

/// What an end lets the other send before it has said more.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Limits {
    /// Bytes of each new stream.
    pub stream: u64,
    /// Bytes of all streams together, over the whole session.
    pub trunk: u64,
    /// Streams that the other end may have open at a time.
    pub streams: u32,
}

impl Limits {
    /// What an initiator may count on before the acceptor has answered. Every end grants at least this.
    pub const MINIMUM: Self = Self {
        stream: 64 << 10,
        trunk: 1 << 20,
        streams: 256,
    };

    fn encode(self, out: &mut BytesMut) {
        out.extend_from_slice(&self.stream.to_be_bytes());
        out.extend_from_slice(&self.trunk.to_be_bytes());
        out.extend_from_slice(&self.streams.to_be_bytes());
    }

    fn decode(fields: &mut Fields<'_>) -> Result<Self, Violation> {
        let read = |fields: &mut Fields<'_>| {
            Some(Self {
                stream: fields.u64()?,
                trunk: fields.u64()?,
                streams: fields.u32()?,
            })
        };
        let limits = read(fields).ok_or(SHORT)?;
        let least = Self::MINIMUM;
        if limits.stream < least.stream
            || limits.trunk < least.trunk
            || limits.streams < least.streams
        {
            return Err(Violation::Preface {
                what: "limits below the minimum",
            });
        }
        Ok(limits)
    }
}

const SHORT: Violation = Violation::Preface {
    what: "it is too short",
};

/// What the initiator says first.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Hello {
    /// The versions it speaks.
    pub versions: Versions,
    /// The session that this connection joins or begins.
    pub session: Session,
    /// The acceptor's instance that the session is known to; `None` before the first welcome.
    pub known_to: Option<u64>,
    /// This connection.
    pub connection: ConnectionId,
    /// What it can do.
    pub capabilities: Capabilities,
    /// The digest of this session.
    pub digest: DigestKind,
    /// What the acceptor may send.
    pub limits: Limits,
}

/// The acceptor's answer: the connection is part of the trunk.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Welcome {
    /// The version that it speaks from now on.
    pub version: u8,
    /// This process of the acceptor; a restarted one has another.
    pub instance: u64,
    /// What it can do.
    pub capabilities: Capabilities,
    /// What the initiator may send.
    pub limits: Limits,
}

/// Why a connection is not let in.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum RefusalReason {
    /// No version is spoken by both.
    Version,
    /// The acceptor has no such session (any more): it restarted, or gave the session up.
    UnknownSession,
    /// The acceptor has a later epoch of this trunk.
    StaleEpoch,
    /// The connection's number is in use.
    DuplicateConnection,
    /// The trunk has as many connections as the acceptor allows.
    TooManyConnections,
    /// The acceptor does not admit this peer.
    NotAdmitted,
    /// The acceptor is being stopped.
    Shutdown,
    /// A code that a later version knows.
    Other(u16),
}

impl RefusalReason {
    const fn code(self) -> u16 {
        match self {
            Self::Version => 1,
            Self::UnknownSession => 2,
            Self::StaleEpoch => 3,
            Self::DuplicateConnection => 4,
            Self::TooManyConnections => 5,
            Self::NotAdmitted => 6,
            Self::Shutdown => 7,
            Self::Other(code) => code,
        }
    }

    const fn from_code(code: u16) -> Self {
        match code {
            1 => Self::Version,
            2 => Self::UnknownSession,
            3 => Self::StaleEpoch,
            4 => Self::DuplicateConnection,
            5 => Self::TooManyConnections,
            6 => Self::NotAdmitted,
            7 => Self::Shutdown,
            other => Self::Other(other),
        }
    }
}

/// The acceptor's answer: the connection is not let in.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[error("the far relay (versions {} to {}) refused the connection: {}", versions.min, versions.max, describe(*reason, detail))]
pub struct Refusal {
    /// The versions that the acceptor speaks.
    pub versions: Versions,
    /// Why.
    pub reason: RefusalReason,
    /// Its words; may be empty.
    pub detail: String,
}

fn describe(reason: RefusalReason, detail: &str) -> String {
    let text = match reason {
        RefusalReason::Version => "it speaks no version of ours",
        RefusalReason::UnknownSession => "it does not know this session",
        RefusalReason::StaleEpoch => "it knows a later life of this trunk",
        RefusalReason::DuplicateConnection => "the connection's number is in use",
        RefusalReason::TooManyConnections => "the trunk has too many connections",
        RefusalReason::NotAdmitted => "this peer is not admitted",
        RefusalReason::Shutdown => "it is shutting down",
        RefusalReason::Other(code) => return alloc::format!("code {code} {detail}"),
    };
    match detail {
        "" => text.into(),
        detail => alloc::format!("{text}: {detail}"),
    }
}

impl Refusal {
    /// A refusal for `reason`.
    pub fn new(reason: RefusalReason, detail: &str) -> Self {
        let detail = crate::Explanation::new(crate::Reason::Internal, detail).detail;
        Self {
            versions: VERSIONS,
            reason,
            detail,
        }
    }

    /// The bytes to write before closing.
    pub fn encode(&self) -> Bytes {
        let mut body = BytesMut::new();
        body.extend_from_slice(&self.reason.code().to_be_bytes());
        put_text(&mut body, &self.detail);
        envelope(REFUSAL, self.versions, &body)
    }
}

/// One of the three.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Preface {
    /// From the initiator.
    Hello(Hello),
    /// From the acceptor.
    Welcome(Welcome),
    /// From the acceptor, before it closes.
    Refusal(Refusal),
}

impl Preface {
    /// No preface is longer.
    pub const MAX_LEN: usize = HEAD_LEN + MAX_BODY + CRC_LEN;

    /// Reads a preface off the front of `bytes`: with its length, or `None` while it is not complete.
    ///
    /// A driver at the accepting end reads a connection's first bytes with this, finds the trunk by
    /// [`Hello::session`] and hands what follows the preface to [`crate::Trunk::receive`].
    pub fn decode(bytes: &[u8]) -> Result<Option<(Self, usize)>, Violation> {
        let common = bytes.len().min(MAGIC.len());
        if bytes.get(..common) != MAGIC.get(..common) {
            return Err(Violation::NotATrunk);
        }
        let mut fields = Fields::new(bytes);
        let head = |fields: &mut Fields<'_>| {
            fields.bytes(MAGIC.len())?;
            Some((
                fields.u8()?,
                Versions {
                    min: fields.u8()?,
                    max: fields.u8()?,
                },
                fields.u8()?,
                fields.u16()?,
            ))
        };
        let Some((kind, versions, reserved, len)) = head(&mut fields) else {
            return Ok(None);
        };
        let len = usize::from(len);
        if len > MAX_BODY || reserved != 0 || versions.min > versions.max {
            return Err(Violation::Preface {
                what: "its head is impossible",
            });
        }
        let (Some(body), Some(crc)) = (fields.bytes(len), fields.u32()) else {
            return Ok(None);
        };
        let checked = bytes.get(..HEAD_LEN + len).unwrap_or_default();
        if crc32c([checked]) != crc {
            return Err(Violation::Preface {
                what: "its checksum does not match",
            });
        }
        let mut body = Fields::new(body);
        let preface = match kind {
            HELLO => Self::Hello(Hello::decode(versions, &mut body)?),
            WELCOME => Self::Welcome(Welcome::decode(versions, &mut body)?),
            REFUSAL => Self::Refusal(decode_refusal(versions, &mut body)?),
            _ => {
                return Err(Violation::Preface {
                    what: "its kind is unknown",
                });
            }
        };
        Ok(Some((preface, HEAD_LEN + len + CRC_LEN)))
    }

    /// The bytes.
    pub fn encode(&self) -> Bytes {
        match self {
            Self::Hello(hello) => hello.encode(),
            Self::Welcome(welcome) => welcome.encode(),
            Self::Refusal(refusal) => refusal.encode(),
        }
    }
}

impl Hello {
    fn encode(&self) -> Bytes {
        let mut body = BytesMut::new();
        body.extend_from_slice(&self.session.trunk);
        body.extend_from_slice(&self.session.epoch.to_be_bytes());
        body.extend_from_slice(&self.known_to.unwrap_or(0).to_be_bytes());
        body.extend_from_slice(&self.connection.0.to_be_bytes());
        body.extend_from_slice(&self.capabilities.0.to_be_bytes());
        body.put_u8(self.digest.code());
        self.limits.encode(&mut body);
        envelope(HELLO, self.versions, &body)
    }

    fn decode(versions: Versions, fields: &mut Fields<'_>) -> Result<Self, Violation> {
        // A body of a version that we do not speak may look like anything; its trunk's name still
        // stands in front, so that the refusal can be told apart in a log.
        let session = |fields: &mut Fields<'_>| {
            Some((
                Session {
                    trunk: fields.array()?,
                    epoch: fields.u64()?,
                },
                fields.u64()?,
                ConnectionId(fields.u32()?),
                Capabilities(fields.u64()?),
                fields.u8()?,
            ))
        };
        let (session, known_to, connection, capabilities, digest) = session(fields).ok_or(SHORT)?;
        let digest = DigestKind::from_code(digest).ok_or(Violation::Preface {
            what: "its digest is unknown",
        })?;
        Ok(Self {
            versions,
            session,
            known_to: (known_to != 0).then_some(known_to),
            connection,
            capabilities,
            digest,
            limits: Limits::decode(fields)?,
        })
    }
}

impl Welcome {
    fn encode(&self) -> Bytes {
        let mut body = BytesMut::new();
        body.extend_from_slice(&self.instance.to_be_bytes());
        body.extend_from_slice(&self.capabilities.0.to_be_bytes());
        self.limits.encode(&mut body);
        envelope(
            WELCOME,
            Versions {
                min: self.version,
                max: self.version,
            },
            &body,
        )
    }

    fn decode(versions: Versions, fields: &mut Fields<'_>) -> Result<Self, Violation> {
        if versions.min != versions.max || VERSIONS.common(versions).is_none() {
            return Err(Violation::Preface {
                what: "it chooses no version of ours",
            });
        }
        let head = |fields: &mut Fields<'_>| Some((fields.u64()?, Capabilities(fields.u64()?)));
        let (instance, capabilities) = head(fields).ok_or(SHORT)?;
        if instance == 0 {
            return Err(Violation::Preface {
                what: "its instance is zero",
            });
        }
        Ok(Self {
            version: versions.max,
            instance,
            capabilities,
            limits: Limits::decode(fields)?,
        })
    }
}

fn decode_refusal(versions: Versions, fields: &mut Fields<'_>) -> Result<Refusal, Violation> {
    let code = fields.u16().ok_or(SHORT)?;
    let len = fields.u16().ok_or(SHORT)?;
    let detail = fields.bytes(usize::from(len)).ok_or(SHORT)?;
    let mut refusal = Refusal::new(
        RefusalReason::from_code(code),
        &String::from_utf8_lossy(detail),
    );
    refusal.versions = versions;
    Ok(refusal)
}

fn envelope(kind: u8, versions: Versions, body: &[u8]) -> Bytes {
    let mut out = BytesMut::with_capacity(HEAD_LEN + body.len() + CRC_LEN);
    out.extend_from_slice(&MAGIC);
    out.extend_from_slice(&[kind, versions.min, versions.max, 0]);
    // Every body is built here and far below the limit.
    out.extend_from_slice(&u16::try_from(body.len()).unwrap_or(u16::MAX).to_be_bytes());
    out.extend_from_slice(body);
    let crc = crc32c([out.as_ref()]);
    out.extend_from_slice(&crc.to_be_bytes());
    out.freeze()
}
