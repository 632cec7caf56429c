//! Buckets whose objects are encrypted: what goes out is sealed, what comes in is opened, and clients see plaintext.
//!
//! The envelope travels in the object's metadata, under [`HEADER`]. Tags that clients see are the origin's with `-e`
//! behind them: tags of stored bytes, so no client may take them for an MD5 of its own.

pub(crate) mod listing;
pub(crate) mod multipart;
mod reading;
mod tags;

use bytes::Bytes;
use envelope::{DataKey, Envelope, KeyRing, Kind, Name, NotAuthentic, PartSalt, Sealing};
use futures_util::stream::{self, StreamExt as _};
use http::HeaderMap;
use http::header::{ETAG, HeaderName, HeaderValue};

use crate::failed::Failed;
use crate::origin::Pieces;
pub(crate) use tags::{client_tag, origin_conditions};

/// The header that carries an envelope.
pub(crate) const HEADER: &str = "x-amz-meta-longhaul";

/// A new key for one object, and its envelope in `headers`.
pub(crate) fn seal(
    ring: &KeyRing,
    name: Name<'_>,
    kind: Kind,
    length: Option<u64>,
    headers: &mut HeaderMap,
) -> Result<(DataKey, Envelope), Failed> {
    let key = DataKey::new(random()?);
    let envelope = Envelope::seal(ring.current(), &key, kind, length, name, random()?);
    let value = HeaderValue::from_str(&envelope.text())
        .map_err(|_| Failed::internal("an envelope cannot be written"))?;
    headers.insert(HeaderName::from_static(HEADER), value);
    Ok((key, envelope))
}

/// Plaintext pieces to stored ones. The last chunk waits for the end of the plaintext, and so for everything that is
/// checked there.
pub(crate) fn sealed(plain: Pieces, sealing: Sealing) -> Pieces {
    let chunks = stream::unfold((plain, Some(sealing)), |(mut plain, sealing)| async move {
        let mut sealing = sealing?;
        let mut out = Vec::new();
        let next = match plain.next().await {
            Some(Ok(piece)) => {
                sealing.push(&piece, &mut out);
                Some(sealing)
            }
            Some(Err(failed)) => return Some((vec![Err(failed)], (plain, None))),
            None => {
                sealing.finish(&mut out);
                None
            }
        };
        Some((out.into_iter().map(Ok).collect(), (plain, next)))
    });
    Box::pin(chunks.flat_map(stream::iter))
}

/// `count` zeros behind `pieces`.
pub(crate) fn filled(pieces: Pieces, count: u64) -> Pieces {
    static ZEROS: [u8; 64 << 10] = [0; 64 << 10];
    let zeros = stream::unfold(count, |left| async move {
        let now = usize::try_from(left).unwrap_or(usize::MAX).min(ZEROS.len());
        let piece = Bytes::from_static(ZEROS.get(..now)?);
        (now > 0).then(|| (Ok(piece), left - now as u64))
    });
    Box::pin(pieces.chain(zeros))
}

/// Random bytes.
pub(crate) fn random<const N: usize>() -> Result<[u8; N], Failed> {
    let mut bytes = [0; N];
    aws_lc_rs::rand::fill(&mut bytes)
        .map_err(|_| Failed::internal("this host has no random bytes"))?;
    Ok(bytes)
}

/// A salt for a part.
pub(crate) fn salt() -> Result<PartSalt, Failed> {
    random().map(PartSalt)
}

/// The envelope among an object's headers.
pub(crate) fn envelope_of(headers: &HeaderMap) -> Result<Envelope, Failed> {
    let value = headers.get(HEADER).and_then(|value| value.to_str().ok());
    let value = value.ok_or_else(|| {
        Failed::tampered(
            "the object was not encrypted by this gateway, or its envelope was taken away",
        )
    })?;
    Ok(Envelope::parse(value)?)
}

/// Headers as clients see them: plaintext has no envelope, and checksums of stored bytes say nothing about it.
pub(crate) fn for_client(headers: &mut HeaderMap) {
    headers.remove(HEADER);
    let sums: Vec<HeaderName> = headers
        .keys()
        .filter(|name| name.as_str().starts_with("x-amz-checksum-"))
        .cloned()
        .collect();
    for name in sums {
        headers.remove(name);
    }
    let tag = headers.get(ETAG).and_then(|tag| tag.to_str().ok());
    if let Some(tag) = tag.map(client_tag)
        && let Ok(tag) = HeaderValue::from_str(&tag)
    {
        headers.insert(ETAG, tag);
    }
}

impl From<NotAuthentic> for Failed {
    fn from(error: NotAuthentic) -> Self {
        Self::tampered(error.to_string())
    }
}
