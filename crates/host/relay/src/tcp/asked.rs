//! A client's question for a target: SOCKS5, or HTTP CONNECT (RFC 9110 §9.3.6), told apart by the first byte.

mod connect;
mod socks5;

use std::io;
use std::net::SocketAddr;

use tokio::net::TcpStream;

use super::users::Users;
use crate::Target;
use crate::http;
use crate::upstream::ConnectError;
use socks5::{Method, Reply};

/// Longer than any question; a head with credentials and user agent takes a few hundred bytes.
const LONGEST: usize = 8 * 1024;

/// Where a client wants to go.
pub(super) struct Question {
    pub(super) target: Target,
    /// What it has sent beyond.
    pub(super) leftover: Vec<u8>,
    language: Language,
}

/// How it asked, and is answered.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Language {
    Socks5,
    Http,
}

/// Why a client does not get where it wants to go.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Denial {
    Forbidden,
    NoSuchHost,
    Refused,
    TimedOut,
    /// This relay or its host ran out of something.
    Shortage,
}

/// A question that cannot be answered; the client was told where it can be.
#[derive(Debug, thiserror::Error)]
pub(super) enum AskError {
    #[error("cannot read where the client wants to go")]
    Read(#[source] io::Error),
    #[error("cannot answer the client")]
    Write(#[source] io::Error),
    #[error("the connection ended before the client had said where to go")]
    Ended,
    #[error("the client speaks neither SOCKS5 nor HTTP")]
    Language,
    #[error("the client's SOCKS5 is malformed")]
    Socks(#[source] socks5::Malformed),
    #[error("the client's HTTP is malformed")]
    Http(#[source] http::Malformed),
    #[error("the question is longer than {LONGEST} bytes")]
    TooLong,
    #[error("the client asks for `{0}`: this relay takes CONNECT alone")]
    Command(String),
    #[error("`{0}` is no target such as `store.example:443`")]
    Target(String),
    #[error("the client does not say who it is")]
    Anonymous,
    #[error("nobody has the name and password that the client gave")]
    Unknown,
}

/// What has come from a client and is not understood yet.
struct Inbox<'a> {
    client: &'a TcpStream,
    bytes: Vec<u8>,
}

/// Hears where a client wants to go. Where there are `users`, it must be one of them.
pub(super) async fn hear(client: &TcpStream, users: Option<&Users>) -> Result<Question, AskError> {
    let mut inbox = Inbox {
        client,
        bytes: Vec::new(),
    };
    inbox.more().await?;
    match inbox.bytes.first() {
        Some(&socks5::VERSION) => hear_socks5(inbox, users).await,
        Some(byte) if byte.is_ascii_uppercase() => hear_http(inbox, users).await,
        _ => Err(AskError::Language),
    }
}

async fn hear_socks5(mut inbox: Inbox<'_>, users: Option<&Users>) -> Result<Question, AskError> {
    let method = inbox
        .next(|bytes| socks5::greeting(bytes, users.is_some()))
        .await?;
    inbox.answer(&socks5::method_answer(method)).await?;
    match (method, users) {
        (Method::None, _) => return Err(AskError::Anonymous),
        (Method::Password, Some(users)) => {
            let (name, password) = inbox.next(socks5::password).await?;
            let known = users.know(&name, &password);
            inbox.answer(&socks5::password_answer(known)).await?;
            if !known {
                return Err(AskError::Unknown);
            }
        }
        (Method::Nobody | Method::Password, _) => {}
    }
    let request = inbox.next(socks5::request).await?;
    if !request.is_connect {
        let reply = socks5::reply(Reply::CommandNotSupported, None);
        inbox.answer(&reply).await?;
        return Err(AskError::Command("BIND or UDP ASSOCIATE".into()));
    }
    if request.target.port == 0 {
        let reply = socks5::reply(Reply::GeneralFailure, None);
        inbox.answer(&reply).await?;
        return Err(AskError::Target(request.target.to_string()));
    }
    Ok(Question {
        target: request.target,
        leftover: inbox.bytes,
        language: Language::Socks5,
    })
}

async fn hear_http(mut inbox: Inbox<'_>, users: Option<&Users>) -> Result<Question, AskError> {
    let length = loop {
        match connect::head_length(&inbox.bytes) {
            Ok(Some(length)) => break length,
            Ok(None) => inbox.more().await?,
            Err(error) => {
                inbox.answer(connect::BAD_REQUEST).await?;
                return Err(AskError::Http(error));
            }
        }
    };
    let leftover = inbox.bytes.split_off(length);
    let outcome = connect::understand(&inbox.bytes, users);
    match outcome {
        Ok(target) => Ok(Question {
            target,
            leftover,
            language: Language::Http,
        }),
        Err((answer, error)) => {
            inbox.answer(answer).await?;
            Err(error)
        }
    }
}

// === impl Question ===

impl Question {
    /// Tells the client that it is connected; `bound` is our end towards the target.
    pub(super) async fn accept(
        &self,
        client: &TcpStream,
        bound: Option<SocketAddr>,
    ) -> io::Result<()> {
        match self.language {
            Language::Socks5 => write_all(client, &socks5::reply(Reply::Succeeded, bound)).await,
            Language::Http => write_all(client, connect::ESTABLISHED).await,
        }
    }

    /// Tells the client why it is not.
    pub(super) async fn deny(&self, client: &TcpStream, denial: Denial) -> io::Result<()> {
        match self.language {
            Language::Socks5 => write_all(client, &socks5::reply(denial.reply(), None)).await,
            Language::Http => write_all(client, connect::denial(denial)).await,
        }
    }
}

// === impl Denial ===

impl Denial {
    /// What a failed connection means to the client.
    pub(super) fn of(error: &ConnectError) -> Self {
        match error {
            ConnectError::Resolve { .. }
            | ConnectError::NoAddress { .. }
            | ConnectError::NotOffered { .. } => Self::NoSuchHost,
            ConnectError::Timeout { .. } => Self::TimedOut,
            ConnectError::Connect { .. } => Self::Refused,
            ConnectError::Socket { .. } | ConnectError::Profile(_) | ConnectError::From { .. } => {
                Self::Shortage
            }
        }
    }

    const fn reply(self) -> Reply {
        match self {
            Self::Forbidden => Reply::NotAllowed,
            Self::NoSuchHost => Reply::HostUnreachable,
            Self::Refused => Reply::Refused,
            Self::TimedOut => Reply::TimedOut,
            Self::Shortage => Reply::GeneralFailure,
        }
    }
}

// === impl Inbox ===

impl Inbox<'_> {
    /// The next message, taken out once it is whole.
    async fn next<T>(&mut self, read: impl Fn(&[u8]) -> socks5::Read<T>) -> Result<T, AskError> {
        loop {
            if let Some((message, length)) = read(&self.bytes).map_err(AskError::Socks)? {
                self.bytes.drain(..length);
                return Ok(message);
            }
            self.more().await?;
        }
    }

    /// Reads once.
    async fn more(&mut self) -> Result<(), AskError> {
        loop {
            if self.bytes.len() >= LONGEST {
                return Err(AskError::TooLong);
            }
            self.client.readable().await.map_err(AskError::Read)?;
            self.bytes.reserve(512);
            match self.client.try_read_buf(&mut self.bytes) {
                Ok(0) => return Err(AskError::Ended),
                Ok(_) => return Ok(()),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => return Err(AskError::Read(error)),
            }
        }
    }

    async fn answer(&self, bytes: &[u8]) -> Result<(), AskError> {
        write_all(self.client, bytes).await.map_err(AskError::Write)
    }
}

async fn write_all(client: &TcpStream, mut bytes: &[u8]) -> io::Result<()> {
    while !bytes.is_empty() {
        client.writable().await?;
        match client.try_write(bytes) {
            Ok(count) => bytes = &bytes[count..],
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}
