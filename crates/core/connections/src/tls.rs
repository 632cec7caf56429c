//! TLS set-up on a connection, from what is not encrypted: record headers and the hellos.

mod records;
#[cfg(test)]
mod tests;

use alloc::boxed::Box;
use alloc::string::String;
use alloc::vec::Vec;

use units::Time;
use wire::tls::{ContentType, Group, Hello, Message, Version, extension};

use crate::packet::{Mark, Side};
use records::{Payload, Record, Records};

/// TLS set-up. What the capture does not show is `None`.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct TlsHandshake {
    /// The first segment of the Client Hello.
    pub client_hello: Mark,
    /// When the client could send application data.
    pub done: Option<Mark>,
    /// The first application data: the client's behind its Finished in TLS 1.3, where everything that is
    /// encrypted looks alike, and of either side before. With a client certificate whose messages take a
    /// record each, a part of those counts as data.
    pub first_data: Option<Mark>,
    /// Times the client had to wait for the server within the handshake.
    pub round_trips: u32,
    /// Bytes of the Client Hello.
    pub client_hello_bytes: u64,
    /// Segments that the Client Hello took; hybrid key shares make two of it.
    pub client_hello_segments: u32,
    /// The version that was agreed.
    pub version: Option<Version>,
    /// Whether a session of before was resumed.
    pub resumed: Option<bool>,
    /// The server asked for another Client Hello, with a key for another group (RFC 8446 §4.1.4).
    pub retry: bool,
    /// The client sent data ahead of the handshake's end.
    pub early_data: bool,
    /// The group that was agreed.
    pub group: Option<Group>,
    /// Groups that the client supports, by preference.
    pub groups_offered: Vec<Group>,
    /// Groups for which the Client Hello brought a key.
    pub key_shares: Vec<Group>,
    /// The host that the client asked for.
    pub server_name: Option<String>,
}

impl TlsHandshake {
    const fn new(client_hello: Mark) -> Self {
        Self {
            client_hello,
            done: None,
            first_data: None,
            round_trips: 0,
            client_hello_bytes: 0,
            client_hello_segments: 0,
            version: None,
            resumed: None,
            retry: false,
            early_data: false,
            group: None,
            groups_offered: Vec::new(),
            key_shares: Vec::new(),
            server_name: None,
        }
    }

    /// From the Client Hello to the end of set-up, or to `last_at` where it did not end in the capture.
    #[must_use]
    pub fn span(&self, last_at: Time) -> (Time, Time) {
        (
            self.client_hello.at,
            self.done.map_or(last_at, |mark| mark.at),
        )
    }
}

/// Follows a TLS handshake; costs nothing for other connections and nothing once application data flows.
#[derive(Clone, Debug, Default)]
pub(crate) enum TlsFollower {
    #[default]
    Start,
    NotTls,
    Following(Box<Following>),
    Done(Box<TlsHandshake>),
}

/// A handshake under way.
#[derive(Clone, Debug)]
pub(crate) struct Following {
    tls: TlsHandshake,
    phase: Phase,
    from_client: Records,
    from_server: Records,
    /// Where the Client Hello's record ends in the client's stream.
    hello_ends: i64,
    /// Application-data records of the client since the server's answer.
    client_data: u32,
    /// The server sent a record of application data, so it speaks TLS 1.3 unless set-up is over.
    server_data: bool,
}

/// Whose turn it is. A TLS 1.3 client ends its handshake with a flight that starts with
/// `change_cipher_spec` (middlebox compatibility, RFC 8446 §D.4) or `application_data`; so does the client
/// of a resumed TLS 1.2 session. A full TLS 1.2 client sends `handshake` again and then waits for the
/// server's `change_cipher_spec`.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Phase {
    HelloSent,
    /// The server wants another hello; what the client sends until the server's next word is that.
    RetryAsked,
    ServerAnswered,
    ClientKeySent,
    Established,
}

impl TlsFollower {
    /// New payload from `side`, whose first byte stands at `from` in its stream.
    pub(crate) fn on_data(&mut self, side: Side, mark: Mark, from: i64, len: u32, captured: &[u8]) {
        let payload = Payload {
            mark,
            from,
            to: from.saturating_add(i64::from(len)),
            captured,
        };
        match self {
            Self::NotTls | Self::Done(_) => {}
            Self::Start if captured.is_empty() => {}
            Self::Start => {
                let starts = side == Side::Client
                    && wire::tls::RecordHeader::read(captured)
                        .is_some_and(|record| record.content == ContentType::Handshake);
                *self = if starts {
                    let mut following = Following::new(mark);
                    following.on_client(payload);
                    Self::Following(Box::new(following))
                } else {
                    Self::NotTls
                };
            }
            Self::Following(following) => {
                match side {
                    Side::Client => following.on_client(payload),
                    Side::Server => following.on_server(payload),
                }
                if following.tls.first_data.is_some() && following.tls.done.is_some() {
                    let tls = core::mem::replace(&mut following.tls, TlsHandshake::new(mark));
                    *self = Self::Done(Box::new(tls));
                }
            }
        }
    }

    /// What comes is no part of set-up any more.
    pub(crate) fn end(&mut self) {
        *self = Self::NotTls;
    }

    pub(crate) fn finish(self) -> Option<Box<TlsHandshake>> {
        match self {
            Self::Start | Self::NotTls => None,
            Self::Following(following) => Some(Box::new(following.tls)),
            Self::Done(tls) => Some(tls),
        }
    }
}

// === impl Following ===

impl Following {
    fn new(client_hello: Mark) -> Self {
        Self {
            tls: TlsHandshake::new(client_hello),
            phase: Phase::HelloSent,
            from_client: Records::default(),
            from_server: Records::default(),
            hello_ends: i64::MAX,
            client_data: 0,
            server_data: false,
        }
    }

    fn on_client(&mut self, payload: Payload<'_>) {
        if self.phase == Phase::HelloSent && payload.from < self.hello_ends {
            self.tls.client_hello_segments += 1;
        }
        let mut records = core::mem::take(&mut self.from_client);
        records.take(payload, |record| self.on_client_record(record));
        self.from_client = records;
    }

    fn on_client_record(&mut self, record: Record<'_>) {
        match (record.content, self.phase) {
            (ContentType::Handshake, Phase::HelloSent) if self.hello_ends == i64::MAX => {
                self.hello_ends = record.ends;
                self.on_client_hello(record.body);
            }
            (ContentType::Handshake, Phase::RetryAsked) => self.on_client_hello(record.body),
            (ContentType::ApplicationData, Phase::HelloSent) => {
                self.tls.early_data = true;
                self.tls.first_data.get_or_insert(record.mark);
            }
            (
                ContentType::ApplicationData | ContentType::ChangeCipherSpec,
                Phase::ServerAnswered,
            ) => {
                self.phase = Phase::Established;
                self.tls.done = Some(record.mark);
                // Before TLS 1.3 only a resumed client goes on without a key exchange.
                if self
                    .tls
                    .version
                    .is_some_and(|version| version < Version::TLS_1_3)
                {
                    self.tls.resumed.get_or_insert(true);
                }
                self.on_client_data(record);
            }
            (ContentType::Handshake, Phase::ServerAnswered) => {
                self.phase = Phase::ClientKeySent;
                if self.tls.version.is_none() && !self.server_data {
                    self.tls.version = Some(Version::TLS_1_2);
                }
                self.tls.resumed.get_or_insert(false);
            }
            (ContentType::ApplicationData, Phase::Established) => self.on_client_data(record),
            _ => {}
        }
    }

    /// Data of the client once set-up is over on its side.
    fn on_client_data(&mut self, record: Record<'_>) {
        if record.content != ContentType::ApplicationData {
            return;
        }
        self.client_data += 1;
        // In TLS 1.3 its first encrypted record is the Finished.
        let finished = u32::from(self.is_1_3());
        if self.client_data > finished {
            self.tls.first_data.get_or_insert(record.mark);
        }
    }

    fn on_server(&mut self, payload: Payload<'_>) {
        if matches!(self.phase, Phase::HelloSent | Phase::RetryAsked) {
            self.phase = Phase::ServerAnswered;
            self.tls.round_trips += 1;
        }
        let mut records = core::mem::take(&mut self.from_server);
        records.take(payload, |record| self.on_server_record(record));
        self.from_server = records;
    }

    fn on_server_record(&mut self, record: Record<'_>) {
        match record.content {
            ContentType::Handshake => {
                if self.phase == Phase::ServerAnswered {
                    self.on_server_messages(record.body);
                } else if self.phase == Phase::ClientKeySent {
                    self.establish_by_server(record.mark);
                }
            }
            ContentType::ChangeCipherSpec if self.phase == Phase::ClientKeySent => {
                self.establish_by_server(record.mark);
            }
            ContentType::ApplicationData => {
                if self.phase == Phase::ClientKeySent {
                    self.establish_by_server(record.mark);
                }
                self.server_data |= self.phase == Phase::ServerAnswered;
                if self.phase == Phase::Established && !self.is_1_3() {
                    self.tls.first_data.get_or_insert(record.mark);
                }
            }
            ContentType::Alert | ContentType::ChangeCipherSpec => {}
        }
    }

    fn establish_by_server(&mut self, mark: Mark) {
        self.phase = Phase::Established;
        self.tls.done = Some(mark);
        self.tls.round_trips += 1;
    }

    fn is_1_3(&self) -> bool {
        match self.tls.version {
            Some(version) => version >= Version::TLS_1_3,
            None => self.server_data,
        }
    }

    fn on_client_hello(&mut self, body: &[u8]) {
        let Some((message, _)) = Message::read(body) else {
            return;
        };
        if message.kind != Message::CLIENT_HELLO {
            return;
        }
        let Some(hello) = Hello::client(message.body) else {
            return;
        };
        let tls = &mut self.tls;
        tls.client_hello_bytes = u64::try_from(message.len + 4).unwrap_or(u64::MAX);
        tls.groups_offered = hello.groups().collect();
        tls.key_shares = hello.key_shares().collect();
        tls.early_data |= hello.extension(extension::EARLY_DATA).is_some();
        tls.server_name = hello.server_name().map(String::from);
    }

    fn on_server_messages(&mut self, mut body: &[u8]) {
        while let Some((message, rest)) = Message::read(body) {
            body = rest;
            match message.kind {
                Message::SERVER_HELLO => self.on_server_hello(&message),
                Message::CERTIFICATE => {
                    self.tls.resumed.get_or_insert(false);
                }
                Message::SERVER_KEY_EXCHANGE => {
                    self.tls.group = self.tls.group.or_else(|| message.named_curve());
                }
                _ => {}
            }
        }
    }

    fn on_server_hello(&mut self, message: &Message<'_>) {
        let Some(hello) = Hello::server(message.body) else {
            return;
        };
        if hello.is_retry_request() {
            self.tls.retry = true;
            self.phase = Phase::RetryAsked;
            return;
        }
        let version = hello.chosen_version();
        self.tls.version = Some(version);
        if version >= Version::TLS_1_3 {
            self.tls.group = hello.chosen_group();
            let resumed = hello.extension(extension::PRE_SHARED_KEY).is_some();
            // A hello that was cut may have it in the part that is missing.
            self.tls.resumed = (resumed || message.is_whole()).then_some(resumed);
        }
    }
}
