use std::mem::MaybeUninit;

use super::Malformed;
use super::body::Body;
use super::fields::{Fields, MAX_FIELDS, has_folded_line};

/// A request's head, understood.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct RequestHead {
    pub(crate) method: String,
    pub(crate) target: String,
    pub(crate) version_1_1: bool,
    pub(crate) fields: Fields,
}

impl RequestHead {
    /// Reads a complete head as [`super::head::HeadScanner`] delimits it.
    pub(crate) fn parse(head: &[u8]) -> Result<Self, Malformed> {
        if has_folded_line(head) {
            return Err(Malformed::FoldedField);
        }
        let mut headers = [const { MaybeUninit::uninit() }; MAX_FIELDS];
        let mut request = httparse::Request::new(&mut []);
        let status = request
            .parse_with_uninit_headers(head, &mut headers)
            .map_err(Malformed::from)?;
        if status != httparse::Status::Complete(head.len()) {
            return Err(Malformed::Syntax);
        }
        let method = request.method.ok_or(Malformed::StartLine)?;
        let target = request.path.ok_or(Malformed::StartLine)?;
        let version_1_1 = request.version == Some(1);
        // httparse accepts runs of spaces; a start line has exactly two.
        let version: &[u8] = if version_1_1 {
            b" HTTP/1.1\r\n"
        } else {
            b" HTTP/1.0\r\n"
        };
        [method.as_bytes(), b" ", target.as_bytes(), version]
            .into_iter()
            .try_fold(head, |line, expected| line.strip_prefix(expected))
            .ok_or(Malformed::StartLine)?;
        let fields = Fields::read(request.headers)?;
        //= https://www.rfc-editor.org/rfc/rfc9112#section-6.1
        //# A server or client that receives an HTTP/1.0 message containing a Transfer-Encoding header
        //# field MUST treat the message as if the framing is faulty
        if fields.encoded && !version_1_1 {
            return Err(Malformed::EncodingBeforeVersion11);
        }
        //= https://www.rfc-editor.org/rfc/rfc9112#section-6.3
        //# If a Transfer-Encoding header field is present in a request and the chunked transfer coding
        //# is not the final encoding, the message body length cannot be determined reliably; the server
        //# MUST respond with the 400 (Bad Request) status code and then close the connection.
        if fields.encoded && !fields.chunked {
            return Err(Malformed::Encoding);
        }
        //= https://www.rfc-editor.org/rfc/rfc9112#section-3.2
        //# A server MUST respond with a 400 (Bad Request) status code to any HTTP/1.1 request message
        //# that lacks a Host header field and to any request message that contains more than one Host
        //# header field line
        if fields.hosts > 1 || (version_1_1 && fields.hosts == 0) {
            return Err(Malformed::Host);
        }
        Ok(Self {
            method: method.to_owned(),
            target: target.to_owned(),
            version_1_1,
            fields,
        })
    }

    pub(crate) fn body(&self) -> Body {
        if self.fields.chunked {
            Body::chunked()
        } else {
            Body::Length(self.fields.length.unwrap_or(0))
        }
    }

    /// Whether the client wants its connection after this request.
    pub(crate) fn keeps_alive(&self) -> bool {
        self.version_1_1 && !self.fields.close
    }

    /// Whether the request asks for nothing to happen (RFC 9110 §9.2.1) and carries no body.
    pub(crate) fn is_safe_and_empty(&self) -> bool {
        matches!(self.method.as_str(), "GET" | "HEAD" | "OPTIONS" | "TRACE")
            && self.body().is_done()
    }

    /// The path for events: without query, which may carry a signature, and without what an absolute
    /// target may carry before its host.
    pub(crate) fn path(&self) -> &str {
        let target = self.target.split(['?', '#']).next().unwrap_or_default();
        match target.split_once("://") {
            Some((_, rest)) => rest.find('/').map_or("/", |slash| &rest[slash..]),
            None => target,
        }
    }

    /// The head as the origin gets it: byte for byte, but for a `Connection` that would end the origin's
    /// connection or names fields of the client's.
    pub(crate) fn forwarded(&self, head: &[u8]) -> Vec<u8> {
        if self.version_1_1 && self.fields.hop_by_hop() {
            let upgrade: &[u8] = if self.fields.upgrade {
                b"Connection: upgrade\r\n"
            } else {
                b""
            };
            self.fields.rewrite(head, upgrade)
        } else {
            head.to_vec()
        }
    }
}
