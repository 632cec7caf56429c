use httparse::Header;
use memchr::memchr_iter;

use super::Malformed;
use crate::traces::TraceParent;

/// More fields than any client sends; S3 clients send about 20.
pub(crate) const MAX_FIELDS: usize = 128;

/// Fields that frame or route a message belong to it, whatever `Connection` says.
const NEVER_NOMINATED: [&str; 3] = ["host", "content-length", "transfer-encoding"];

/// What a message's fields say about framing and about its connection.
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is one independent word of a message, not a state"
)]
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub(crate) struct Fields {
    pub(crate) length: Option<u64>,
    pub(crate) chunked: bool,
    /// `Transfer-Encoding` without `chunked` at its end: a response that lasts until the close.
    pub(crate) encoded: bool,
    pub(crate) hosts: usize,
    pub(crate) close: bool,
    pub(crate) keep_alive: bool,
    pub(crate) upgrade: bool,
    /// `Expect: 100-continue`.
    pub(crate) waits: bool,
    /// Names in `Connection` other than `close`, `keep-alive` and `upgrade`, in lower case.
    pub(crate) nominated: Vec<String>,
    upgrade_offered: bool,
    /// The trace that a request belongs to; none where two fields say something.
    pub(crate) trace: Option<TraceParent>,
}

impl Fields {
    pub(super) fn read(headers: &[Header<'_>]) -> Result<Self, Malformed> {
        let mut fields = Self::default();
        let mut codings: Vec<String> = Vec::new();
        let mut has_encoding = false;
        let mut parents = 0;
        for header in headers {
            match header.name {
                name if name.eq_ignore_ascii_case("content-length") => {
                    //= https://www.rfc-editor.org/rfc/rfc9112#section-6.3
                    //# If a message is received without Transfer-Encoding and with an invalid
                    //# Content-Length header field, then the message framing is invalid
                    // Equal values in a list may be merged, which would change the head: refused too.
                    let length = plain_decimal(header.value).ok_or(Malformed::Length)?;
                    if fields.length.replace(length).is_some() {
                        return Err(Malformed::RepeatedLength);
                    }
                }
                name if name.eq_ignore_ascii_case("transfer-encoding") => {
                    has_encoding = true;
                    let list = list(header.value).ok_or(Malformed::Encoding)?;
                    codings.extend(list.map(str::to_ascii_lowercase));
                }
                name if name.eq_ignore_ascii_case("connection") => {
                    for option in list(header.value).ok_or(Malformed::Syntax)? {
                        let is = |name: &&str| option.eq_ignore_ascii_case(name);
                        if is(&"close") {
                            fields.close = true;
                        } else if is(&"keep-alive") {
                            fields.keep_alive = true;
                        } else if is(&"upgrade") {
                            fields.upgrade = true;
                        } else if NEVER_NOMINATED.iter().any(is) {
                            return Err(Malformed::Nomination);
                        } else {
                            fields.nominated.push(option.to_ascii_lowercase());
                        }
                    }
                }
                name if name.eq_ignore_ascii_case("expect") => {
                    fields.waits = header.value.eq_ignore_ascii_case(b"100-continue");
                }
                name if name.eq_ignore_ascii_case("host") => fields.hosts += 1,
                name if name.eq_ignore_ascii_case("traceparent") => {
                    parents += 1;
                    let parent = TraceParent::parse(header.value);
                    fields.trace = parent.filter(|_| parents == 1);
                }
                name if name.eq_ignore_ascii_case("upgrade") => fields.upgrade_offered = true,
                _ => {}
            }
        }
        fields.upgrade &= fields.upgrade_offered;
        if has_encoding {
            //= https://www.rfc-editor.org/rfc/rfc9112#section-6.1
            //# A sender MUST NOT apply the chunked transfer coding more than once to a message body
            let count = codings.iter().filter(|coding| *coding == "chunked").count();
            fields.chunked = count == 1 && codings.last().is_some_and(|last| last == "chunked");
            fields.encoded = true;
            if count > 0 && !fields.chunked {
                return Err(Malformed::Encoding);
            }
            //= https://www.rfc-editor.org/rfc/rfc9112#section-6.3
            //# Such a message might indicate an attempt to perform request smuggling [...] or response
            //# splitting [...] and ought to be handled as an error.
            if fields.length.is_some() {
                return Err(Malformed::LengthAndEncoding);
            }
        }
        Ok(fields)
    }

    /// Whether the connection's fields have to be taken out before the message goes on.
    pub(crate) fn hop_by_hop(&self) -> bool {
        self.close || !self.nominated.is_empty()
    }

    /// Copies a head without the fields that speak of one connection only (RFC 9110 §7.6.1), adding
    /// `added` (whole lines) before the empty line. `head` has passed [`super::head::HeadScanner`], so
    /// each line ends in CR LF and the last is empty.
    pub(crate) fn rewrite(&self, head: &[u8], added: &[u8]) -> Vec<u8> {
        let mut out = Vec::with_capacity(head.len() + added.len());
        let mut lines = head.split_inclusive(|&byte| byte == b'\n');
        out.extend_from_slice(lines.next().unwrap_or_default());
        for line in lines {
            if line == b"\r\n" {
                out.extend_from_slice(added);
            }
            let name_length = line.iter().position(|&byte| byte == b':');
            let name = name_length.map(|length| line[..length].to_ascii_lowercase());
            let dropped = name.is_some_and(|name| match name.as_slice() {
                b"connection" | b"keep-alive" | b"proxy-connection" => true,
                name => self
                    .nominated
                    .iter()
                    .any(|nominated| nominated.as_bytes() == name),
            });
            if !dropped {
                out.extend_from_slice(line);
            }
        }
        out
    }
}

/// Digits and nothing else: no sign, no list, no hexadecimal, at most 19 of them.
fn plain_decimal(value: &[u8]) -> Option<u64> {
    if value.is_empty() || value.len() > 19 || !value.iter().all(u8::is_ascii_digit) {
        return None;
    }
    std::str::from_utf8(value).ok()?.parse().ok()
}

/// The tokens of a comma-separated list. `None` for what is not ASCII tokens: parameters, quotes, or control characters
/// that others might skip.
fn list(value: &[u8]) -> Option<impl Iterator<Item = &str>> {
    let text = std::str::from_utf8(value).ok()?;
    let items = text.split(',').map(|item| item.trim_matches([' ', '\t']));
    let items = items.filter(|item| !item.is_empty());
    let token = |c: char| c.is_ascii_alphanumeric() || "!#$%&'*+-.^_`|~".contains(c);
    items
        .clone()
        .all(|item| item.chars().all(token))
        .then_some(items)
}

/// A folded line (RFC 9112 §5.2) starts with white space; so does a first field line that others take
/// as part of the start line.
pub(super) fn has_folded_line(head: &[u8]) -> bool {
    memchr_iter(b'\n', head).any(|end| matches!(head.get(end + 1), Some(b' ' | b'\t')))
}
