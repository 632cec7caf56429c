//! SOCKS5 from the server's side (RFC 1928, RFC 1929): bytes in, decisions out. CONNECT alone; addresses of all
//! three kinds.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use crate::Target;

/// The version that every message of a client but the password begins with.
pub(super) const VERSION: u8 = 5;
/// RFC 1929: the version of the sub-negotiation.
const PASSWORD_VERSION: u8 = 1;
const CONNECT: u8 = 1;

/// A client's message that this relay can make nothing of.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
pub(in crate::tcp) enum Malformed {
    #[error("the SOCKS version is {0}, not 5")]
    Version(u8),
    #[error("the version of the password's message is {0}, not 1")]
    PasswordVersion(u8),
    #[error("the reserved byte is not 0")]
    Reserved,
    #[error("the address type {0} is none of RFC 1928")]
    AddressType(u8),
    #[error("the host's name is none")]
    Name,
}

/// How a client may say who it is.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Method {
    Nobody,
    Password,
    /// None that both know: the client has to close (RFC 1928 §3).
    None,
}

/// What a client is told of its request.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Reply {
    Succeeded,
    GeneralFailure,
    NotAllowed,
    HostUnreachable,
    Refused,
    TimedOut,
    CommandNotSupported,
}

/// What a client offers and wants, and how many bytes said it.
pub(super) type Read<T> = Result<Option<(T, usize)>, Malformed>;

/// A client's request.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) struct Request {
    /// Whether it asks for what this relay does, a connection.
    pub(super) is_connect: bool,
    pub(super) target: Target,
}

/// The method to go on with, from a client's greeting; `None` where more bytes are to come.
pub(super) fn greeting(bytes: &[u8], wants_password: bool) -> Read<Method> {
    let [version, count, rest @ ..] = bytes else {
        return Ok(None);
    };
    if *version != VERSION {
        return Err(Malformed::Version(*version));
    }
    let count = usize::from(*count);
    let Some(methods) = rest.get(..count) else {
        return Ok(None);
    };
    let wanted = if wants_password {
        Method::Password
    } else {
        Method::Nobody
    };
    let method = if methods.contains(&wanted.code()) {
        wanted
    } else {
        Method::None
    };
    Ok(Some((method, 2 + count)))
}

/// A client's name and password (RFC 1929 §2).
pub(super) fn password(bytes: &[u8]) -> Read<(Vec<u8>, Vec<u8>)> {
    let [version, length, rest @ ..] = bytes else {
        return Ok(None);
    };
    if *version != PASSWORD_VERSION {
        return Err(Malformed::PasswordVersion(*version));
    }
    let length = usize::from(*length);
    let (Some(name), Some(&second)) = (rest.get(..length), rest.get(length)) else {
        return Ok(None);
    };
    let start = length + 1;
    let Some(password) = rest.get(start..start + usize::from(second)) else {
        return Ok(None);
    };
    let read = 2 + start + usize::from(second);
    Ok(Some(((name.to_vec(), password.to_vec()), read)))
}

/// What a client asks for (RFC 1928 §4).
pub(super) fn request(bytes: &[u8]) -> Read<Request> {
    let [version, command, reserved, kind, rest @ ..] = bytes else {
        return Ok(None);
    };
    if *version != VERSION {
        return Err(Malformed::Version(*version));
    }
    if *reserved != 0 {
        return Err(Malformed::Reserved);
    }
    let (host, read) = match kind {
        1 => match rest.first_chunk::<4>() {
            Some(octets) => (Ipv4Addr::from(*octets).to_string(), 4),
            None => return Ok(None),
        },
        4 => match rest.first_chunk::<16>() {
            Some(octets) => (Ipv6Addr::from(*octets).to_string(), 16),
            None => return Ok(None),
        },
        3 => {
            let Some(&length) = rest.first() else {
                return Ok(None);
            };
            let length = usize::from(length);
            let Some(name) = rest.get(1..=length) else {
                return Ok(None);
            };
            let name = std::str::from_utf8(name).map_err(|_| Malformed::Name)?;
            if !Target::is_host(name) {
                return Err(Malformed::Name);
            }
            (name.to_owned(), 1 + length)
        }
        _ => return Err(Malformed::AddressType(*kind)),
    };
    let Some(port) = rest[read..].first_chunk::<2>() else {
        return Ok(None);
    };
    let request = Request {
        is_connect: *command == CONNECT,
        target: Target {
            host,
            port: u16::from_be_bytes(*port),
            service: None,
        },
    };
    Ok(Some((request, 4 + read + 2)))
}

/// The answer to a greeting.
pub(super) fn method_answer(method: Method) -> [u8; 2] {
    [VERSION, method.code()]
}

/// The answer to a password.
pub(super) fn password_answer(accepted: bool) -> [u8; 2] {
    [PASSWORD_VERSION, u8::from(!accepted)]
}

/// The answer to a request; `bound` is our end of the connection to the target.
pub(super) fn reply(reply: Reply, bound: Option<SocketAddr>) -> Vec<u8> {
    let bound = bound.unwrap_or_else(|| SocketAddr::from(([0, 0, 0, 0], 0)));
    let mut bytes = vec![VERSION, reply.code(), 0];
    match bound.ip() {
        IpAddr::V4(v4) => {
            bytes.push(1);
            bytes.extend(v4.octets());
        }
        IpAddr::V6(v6) => {
            bytes.push(4);
            bytes.extend(v6.octets());
        }
    }
    bytes.extend(bound.port().to_be_bytes());
    bytes
}

// === impl Method ===

impl Method {
    const fn code(self) -> u8 {
        match self {
            Self::Nobody => 0,
            Self::Password => 2,
            //= https://www.rfc-editor.org/rfc/rfc1928#section-3
            //# If the selected METHOD is X'FF', none of the methods listed by the
            //# client are acceptable, and the client MUST close the connection.
            Self::None => 0xff,
        }
    }
}

// === impl Reply ===

impl Reply {
    /// RFC 1928 §6.
    const fn code(self) -> u8 {
        match self {
            Self::Succeeded => 0,
            Self::GeneralFailure => 1,
            Self::NotAllowed => 2,
            Self::HostUnreachable => 4,
            Self::Refused => 5,
            Self::TimedOut => 6,
            Self::CommandNotSupported => 7,
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn name_request(name: &str, port: u16) -> Vec<u8> {
        let mut bytes = vec![5, 1, 0, 3, u8::try_from(name.len()).unwrap()];
        bytes.extend(name.as_bytes());
        bytes.extend(port.to_be_bytes());
        bytes
    }

    #[test]
    fn each_message_is_read_where_it_is_whole_and_not_before() {
        let greeted = [5, 2, 0, 2, 9];
        for end in 0..4 {
            assert_eq!(greeting(&greeted[..end], false), Ok(None));
        }
        assert_eq!(greeting(&greeted, false), Ok(Some((Method::Nobody, 4))));
        assert_eq!(greeting(&greeted, true), Ok(Some((Method::Password, 4))));
        assert_eq!(greeting(&[5, 1, 0], true), Ok(Some((Method::None, 3))));

        let said = [1, 2, b'm', b'e', 1, b'x', 5];
        for end in 0..6 {
            assert_eq!(password(&said[..end]), Ok(None));
        }
        let pair = (b"me".to_vec(), b"x".to_vec());
        assert_eq!(password(&said), Ok(Some((pair, 6))));

        let asked = name_request("store.example", 443);
        for end in 0..asked.len() {
            assert_eq!(request(&asked[..end]), Ok(None));
        }
        let (request, read) = request(&asked).unwrap().unwrap();
        assert!(request.is_connect);
        assert_eq!(request.target.to_string(), "store.example:443");
        assert_eq!(read, asked.len());
    }

    #[test]
    fn what_is_no_socks5_is_refused() {
        assert_eq!(greeting(&[4, 1], false), Err(Malformed::Version(4)));
        assert_eq!(request(&[5, 1, 1, 1]), Err(Malformed::Reserved));
        assert_eq!(request(&[5, 1, 0, 2]), Err(Malformed::AddressType(2)));
        assert_eq!(request(&name_request("a\nb", 1)), Err(Malformed::Name));
        assert_eq!(request(&name_request("", 1)), Err(Malformed::Name));
        assert_eq!(password(&[5, 1]), Err(Malformed::PasswordVersion(5)));
    }

    #[test]
    fn replies_have_the_form_of_the_rfc() {
        let bound = Some("10.0.0.1:258".parse().unwrap());
        assert_eq!(
            reply(Reply::Succeeded, bound),
            [5, 0, 0, 1, 10, 0, 0, 1, 1, 2]
        );
        assert_eq!(
            reply(Reply::NotAllowed, None),
            [5, 2, 0, 1, 0, 0, 0, 0, 0, 0]
        );
        assert_eq!(method_answer(Method::None), [5, 255]);
        assert_eq!(password_answer(false), [1, 1]);
    }

    proptest! {
        #[test]
        fn no_bytes_make_it_panic_or_read_beyond_their_end(bytes: Vec<u8>) {
            for read in [
                greeting(&bytes, true).ok().flatten().map(|(_, read)| read),
                password(&bytes).ok().flatten().map(|(_, read)| read),
                request(&bytes).ok().flatten().map(|(_, read)| read),
            ].into_iter().flatten() {
                prop_assert!(read <= bytes.len());
            }
        }
    }
}
