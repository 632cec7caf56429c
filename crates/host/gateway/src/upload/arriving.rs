//! A client's bytes, counted and checked while they pass.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use bytes::Bytes;
use futures_util::stream::{self, StreamExt as _};
use http::HeaderMap;
use http::header::{HeaderName, HeaderValue};
use s3s::{Body, S3ErrorCode};

use crate::checksum::{Algorithm, Claims};
use crate::failed::Failed;
use crate::origin::Pieces;

/// A body of known length. Its last piece comes only when the whole has proved to be what the client said: a
/// request to the origin that ends without it is never complete, and stores nothing.
pub(crate) struct Arriving {
    body: Option<Body>,
    claims: Option<Claims>,
    length: u64,
    left: u64,
    held: Option<Bytes>,
    stall: Duration,
    sums: Sums,
}

/// The checksums that held, once they are known.
#[derive(Clone, Default)]
pub(crate) struct Sums(Arc<OnceLock<Vec<(Algorithm, String)>>>);

// === impl Arriving ===

impl Arriving {
    pub(crate) fn new(body: Body, length: u64, claims: Claims, stall: Duration) -> Self {
        Self {
            body: Some(body),
            claims: Some(claims),
            length,
            left: length,
            held: None,
            stall,
            sums: Sums::default(),
        }
    }

    /// Bytes of the whole.
    pub(crate) const fn length(&self) -> u64 {
        self.length
    }

    pub(crate) fn sums(&self) -> Sums {
        self.sums.clone()
    }

    /// The next piece; `None` behind the last.
    pub(crate) async fn next(&mut self) -> Option<Result<Bytes, Failed>> {
        loop {
            let Some(body) = &mut self.body else {
                return self.held.take().map(Ok);
            };
            let piece = match tokio::time::timeout(self.stall, body.next()).await {
                Err(_) => return Some(Err(self.fail("the client stopped in the middle"))),
                Ok(None) => {
                    self.body = None;
                    if let Err(failed) = self.finish() {
                        self.held = None;
                        return Some(Err(failed));
                    }
                    continue;
                }
                Ok(Some(Err(error))) => {
                    let text = error.to_string();
                    let failed = if text.contains("Sha256Mismatch") {
                        let text = "The provided 'x-amz-content-sha256' header does not match what was computed.";
                        self.end();
                        Failed::new(
                            S3ErrorCode::Custom("XAmzContentSHA256Mismatch".into()),
                            text,
                        )
                        .with_status(http::StatusCode::BAD_REQUEST)
                    } else if text.contains("SignatureMismatch") {
                        self.end();
                        Failed::new(
                            S3ErrorCode::SignatureDoesNotMatch,
                            "a chunk's signature is wrong",
                        )
                    } else {
                        self.fail("the client's bytes ended early, or are not framed as announced")
                    };
                    return Some(Err(failed));
                }
                Ok(Some(Ok(piece))) => piece,
            };
            if piece.is_empty() {
                continue;
            }
            let Some(left) = self.left.checked_sub(piece.len() as u64) else {
                return Some(Err(self.fail("more bytes than were announced")));
            };
            self.left = left;
            if let Some(claims) = &mut self.claims {
                claims.update(&piece);
            }
            if let Some(piece) = self.held.replace(piece) {
                return Some(Ok(piece));
            }
        }
    }

    pub(crate) fn into_pieces(self) -> Pieces {
        Box::pin(stream::unfold(self, |mut arriving| async move {
            let piece = arriving.next().await?;
            Some((piece, arriving))
        }))
    }

    fn finish(&mut self) -> Result<(), Failed> {
        if self.left > 0 {
            return Err(self.fail("fewer bytes than were announced"));
        }
        if let Some(claims) = self.claims.take() {
            self.sums.hold(claims.finish()?);
        }
        Ok(())
    }

    fn fail(&mut self, why: &str) -> Failed {
        self.end();
        Failed::new(S3ErrorCode::IncompleteBody, why)
    }

    fn end(&mut self) {
        self.body = None;
        self.held = None;
    }
}

// === impl Sums ===

impl Sums {
    pub(crate) fn hold(&self, sums: Vec<(Algorithm, String)>) {
        // Once, at the end of the bytes.
        let _ = self.0.set(sums);
    }

    /// Says in an answer what was checked.
    pub(crate) fn announce(&self, headers: &mut HeaderMap) {
        for (algorithm, sum) in self.0.get().into_iter().flatten() {
            if let Ok(value) = HeaderValue::from_str(sum) {
                headers.insert(HeaderName::from_static(algorithm.header()), value);
            }
        }
    }
}
