use units::Time;

use crate::packet::{Mark, Side};

/// TLS set-up on a connection, from the first bytes of records (RFC 8446 §5.1) in captured payload.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct TlsHandshake {
    /// The Client Hello.
    pub client_hello: Mark,
    /// When the client could send application data; `None` while the capture does not show it.
    pub done: Option<Mark>,
    /// Times the client had to wait for the server within the handshake.
    pub round_trips: u32,
}

const CHANGE_CIPHER_SPEC: u8 = 20;
const HANDSHAKE: u8 = 22;
const APPLICATION_DATA: u8 = 23;

/// Follows a TLS handshake by the record type at the start of each side's flights. That is enough to
/// time it, and needs no decryption:
/// a TLS 1.3 client ends its handshake with a flight that starts with `change_cipher_spec` (middlebox
/// compatibility, RFC 8446 §D.4) or `application_data`; so does the client of a resumed TLS 1.2 session.
/// A full TLS 1.2 client sends `handshake` again and then waits for the server's `change_cipher_spec`.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct TlsFollower {
    state: State,
}

#[derive(Clone, Copy, Debug, Default)]
enum State {
    #[default]
    Start,
    NotTls,
    HelloSent(TlsHandshake),
    ServerAnswered(TlsHandshake),
    ClientKeySent(TlsHandshake),
    Done(TlsHandshake),
}

impl TlsFollower {
    /// New payload from `side`; `head` is its captured start.
    pub(crate) fn on_data(&mut self, side: Side, mark: Mark, head: &[u8]) {
        let record = match head {
            [kind, 3, 0..=4, ..] => Some(*kind),
            _ => None,
        };
        self.state = match (self.state, side, record) {
            (State::Start, Side::Client, Some(HANDSHAKE)) => State::HelloSent(TlsHandshake {
                client_hello: mark,
                done: None,
                round_trips: 0,
            }),
            (State::Start, Side::Client | Side::Server, _) => State::NotTls,
            (State::HelloSent(tls), Side::Server, _) => State::ServerAnswered(TlsHandshake {
                round_trips: tls.round_trips + 1,
                ..tls
            }),
            (
                State::ServerAnswered(tls),
                Side::Client,
                Some(CHANGE_CIPHER_SPEC | APPLICATION_DATA),
            ) => State::Done(TlsHandshake {
                done: Some(mark),
                ..tls
            }),
            (State::ServerAnswered(tls), Side::Client, Some(HANDSHAKE)) => {
                State::ClientKeySent(tls)
            }
            (
                State::ClientKeySent(tls),
                Side::Server,
                Some(CHANGE_CIPHER_SPEC | HANDSHAKE | APPLICATION_DATA),
            ) => State::Done(TlsHandshake {
                done: Some(mark),
                round_trips: tls.round_trips + 1,
                ..tls
            }),
            (unchanged, Side::Client | Side::Server, _) => unchanged,
        };
    }

    pub(crate) const fn handshake(&self) -> Option<TlsHandshake> {
        match self.state {
            State::Start | State::NotTls => None,
            State::HelloSent(tls)
            | State::ServerAnswered(tls)
            | State::ClientKeySent(tls)
            | State::Done(tls) => Some(tls),
        }
    }
}

impl TlsHandshake {
    /// From the Client Hello to the end of set-up, or to `last_at` where it did not end in the capture.
    #[must_use]
    pub fn span(&self, last_at: Time) -> (Time, Time) {
        (
            self.client_hello.at,
            self.done.map_or(last_at, |mark| mark.at),
        )
    }
}
