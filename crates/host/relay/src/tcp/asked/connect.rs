//! HTTP CONNECT from the proxy's side (RFC 9110 §9.3.6): a head in, a target or an answer out.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use super::{AskError, Denial};
use crate::Target;
use crate::http::Malformed;
use crate::http::head::HeadScanner;
use crate::http::request::RequestHead;
use crate::tcp::users::Users;

pub(super) const ESTABLISHED: &[u8] = b"HTTP/1.1 200 Connection established\r\n\r\n";
pub(super) const BAD_REQUEST: &[u8] =
    b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";
/// 501, since the target of another method is an origin for which this is no proxy.
const CONNECT_ALONE: &[u8] =
    b"HTTP/1.1 501 Not Implemented\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";
const WHO_ARE_YOU: &[u8] = b"HTTP/1.1 407 Proxy Authentication Required\r\n\
    Proxy-Authenticate: Basic realm=\"longhaul\", charset=\"UTF-8\"\r\n\
    Content-Length: 0\r\nConnection: close\r\n\r\n";

/// The length of the head that `bytes` begin with, once it is whole.
pub(super) fn head_length(bytes: &[u8]) -> Result<Option<usize>, Malformed> {
    HeadScanner::default().scan(bytes)
}

/// The target that a head asks for, or what the client is told instead.
pub(super) fn understand(
    head: &[u8],
    users: Option<&Users>,
) -> Result<Target, (&'static [u8], AskError)> {
    let request = RequestHead::parse(head).map_err(|error| (BAD_REQUEST, AskError::Http(error)))?;
    if request.method != "CONNECT" {
        return Err((CONNECT_ALONE, AskError::Command(request.method)));
    }
    if let Some(users) = users {
        let (name, password) = credentials(head).ok_or((WHO_ARE_YOU, AskError::Anonymous))?;
        if !users.know(&name, &password) {
            return Err((WHO_ARE_YOU, AskError::Unknown));
        }
    }
    let target = request.target.parse::<Target>();
    target.map_err(|_| (BAD_REQUEST, AskError::Target(request.target)))
}

/// Name and password of `Proxy-Authorization: Basic` (RFC 7617).
fn credentials(head: &[u8]) -> Option<(Vec<u8>, Vec<u8>)> {
    let value = head.split(|&byte| byte == b'\n').find_map(|line| {
        let colon = line.iter().position(|&byte| byte == b':')?;
        let (name, value) = line.split_at(colon);
        let wanted = name.eq_ignore_ascii_case(b"proxy-authorization");
        wanted.then(|| value[1..].trim_ascii())
    })?;
    let (scheme, coded) = value.split_at_checked(6)?;
    if !scheme.eq_ignore_ascii_case(b"basic ") {
        return None;
    }
    let said = STANDARD.decode(coded.trim_ascii()).ok()?;
    let colon = said.iter().position(|&byte| byte == b':')?;
    Some((said[..colon].to_vec(), said[colon + 1..].to_vec()))
}

/// What a client is told that cannot be connected.
pub(super) fn denial(denial: Denial) -> &'static [u8] {
    match denial {
        Denial::Forbidden => {
            b"HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
        }
        Denial::NoSuchHost | Denial::Refused => {
            b"HTTP/1.1 502 Bad Gateway\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
        }
        Denial::TimedOut => {
            b"HTTP/1.1 504 Gateway Timeout\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
        }
        Denial::Shortage => {
            b"HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_target_is_taken_from_the_request_line_alone() {
        let head = b"CONNECT [2001:db8::1]:443 HTTP/1.1\r\nHost: elsewhere:1\r\n\r\n";
        let target = understand(head, None).unwrap();
        assert_eq!(target.to_string(), "[2001:db8::1]:443");
        for line in [
            "CONNECT /x HTTP/1.1",
            "CONNECT http://a/ HTTP/1.1",
            "CONNECT a HTTP/1.1",
        ] {
            let head = format!("{line}\r\nHost: a\r\n\r\n");
            assert_eq!(
                understand(head.as_bytes(), None).unwrap_err().0,
                BAD_REQUEST,
                "{line}"
            );
        }
        let other = b"GET http://a/ HTTP/1.1\r\nHost: a\r\n\r\n";
        assert_eq!(understand(other, None).unwrap_err().0, CONNECT_ALONE);
    }

    #[test]
    fn credentials_are_read_from_their_own_field() {
        let said = |field: &str| {
            let head = format!("CONNECT a:1 HTTP/1.1\r\nHost: a\r\n{field}\r\n\r\n");
            credentials(head.as_bytes())
        };
        let pair = Some((b"Aladdin".to_vec(), b"open sesame".to_vec()));
        assert_eq!(
            said("proxy-authorization:  basic QWxhZGRpbjpvcGVuIHNlc2FtZQ=="),
            pair
        );
        assert_eq!(
            said("Authorization: Basic QWxhZGRpbjpvcGVuIHNlc2FtZQ=="),
            None
        );
        assert_eq!(said("Proxy-Authorization: Bearer QWxhZGRpbjpv"), None);
        assert_eq!(said("Proxy-Authorization: Basic !"), None);
        assert_eq!(said("Proxy-Authorization: B"), None);
    }
}
