use std::mem::MaybeUninit;

use super::Malformed;
use super::body::Body;
use super::fields::{Fields, MAX_FIELDS, has_folded_line};

/// A response's head, understood.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct ResponseHead {
    pub(crate) status: u16,
    pub(crate) version_1_1: bool,
    pub(crate) fields: Fields,
}

impl ResponseHead {
    /// Reads a complete head as [`super::head::HeadScanner`] delimits it.
    pub(crate) fn parse(head: &[u8]) -> Result<Self, Malformed> {
        if has_folded_line(head) {
            return Err(Malformed::FoldedField);
        }
        let mut headers = [const { MaybeUninit::uninit() }; MAX_FIELDS];
        let mut response = httparse::Response::new(&mut []);
        let status = httparse::ParserConfig::default()
            .parse_response_with_uninit_headers(&mut response, head, &mut headers)
            .map_err(Malformed::from)?;
        if status != httparse::Status::Complete(head.len()) {
            return Err(Malformed::Syntax);
        }
        let status = response
            .code
            .filter(|code| *code >= 100)
            .ok_or(Malformed::StartLine)?;
        let version_1_1 = response.version == Some(1);
        let fields = Fields::read(response.headers)?;
        if fields.encoded && !version_1_1 {
            return Err(Malformed::EncodingBeforeVersion11);
        }
        Ok(Self {
            status,
            version_1_1,
            fields,
        })
    }

    pub(crate) fn is_interim(&self) -> bool {
        (100..200).contains(&self.status) && self.status != 101
    }

    /// Where the body of a response to `method` ends (RFC 9112 §6.3, in its order).
    pub(crate) fn body(&self, method: &str) -> Body {
        let bodiless = method == "HEAD" || self.status < 200 || matches!(self.status, 204 | 304);
        if bodiless {
            Body::EMPTY
        } else if self.fields.chunked {
            Body::chunked()
        } else {
            match self.fields.length {
                Some(length) => Body::Length(length),
                None => Body::UntilClose,
            }
        }
    }

    /// Whether the origin keeps its connection after this response.
    pub(crate) fn keeps_alive(&self) -> bool {
        !self.fields.close && (self.version_1_1 || self.fields.keep_alive)
    }

    /// The head as the client gets it, `None` where that is as it came; `closing` says that the client's
    /// connection ends with this response.
    pub(crate) fn forwarded(&self, head: &[u8], closing: bool) -> Option<Vec<u8>> {
        if closing {
            Some(self.fields.rewrite(head, b"Connection: close\r\n"))
        } else {
            let rewritten = || self.fields.rewrite(head, b"");
            self.fields.hop_by_hop().then(rewritten)
        }
    }
}
