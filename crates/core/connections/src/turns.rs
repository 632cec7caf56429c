use alloc::string::String;
use alloc::vec::Vec;
use core::time::Duration;

use units::Time;
use wire::http::{Head, Target, s3};

use crate::packet::{Mark, Packet, Role, Side};

/// One request and its response: the client's data up to the server's answer, and that answer up to
/// the client's next data. Known by direction switches, so it holds for any protocol in turns; for
/// HTTP/1 the request line and the status are read from captured heads.
#[derive(Clone, Debug, PartialEq)]
pub struct Turn {
    /// `POST /upload/files` where an HTTP/1 request line was captured. The query is left out: it may
    /// carry credentials (presigned URLs do).
    pub request: Option<String>,
    /// The S3 operation that the request line and the names of the fields show.
    pub operation: Option<&'static str>,
    /// Status of the final response, where its status line was captured.
    pub status: Option<u16>,
    /// The client announced `Expect: 100-continue` (RFC 9110 §10.1.1): its head says so, or a 100 came.
    pub expects_continue: bool,
    /// An interim response (status 1xx) and the moment it came.
    pub interim: Option<Mark>,
    /// The request's bytes as positions in the client's stream.
    pub request_span: (i64, i64),
    /// The response's bytes as positions in the server's stream; empty without one.
    pub response_span: (i64, i64),
    /// The request's first segment.
    pub first_sent: Mark,
    /// The segment with the request's last new byte.
    pub last_sent: Mark,
    /// The first bare ACK that covers the whole request, ahead of the response.
    pub acked: Option<Mark>,
    /// The response's first segment.
    pub first_response: Option<Mark>,
    /// The response's last segment with new bytes.
    pub last_response: Option<Mark>,
}

impl Turn {
    /// Bytes of the request, head included.
    #[must_use]
    pub const fn request_bytes(&self) -> u64 {
        self.request_span.0.abs_diff(self.request_span.1)
    }

    /// Bytes of the response, head included.
    #[must_use]
    pub const fn response_bytes(&self) -> u64 {
        self.response_span.0.abs_diff(self.response_span.1)
    }

    /// From a head that asks for leave to send the body (`Expect: 100-continue`) to that leave.
    #[must_use]
    pub fn continue_wait(&self) -> Option<Duration> {
        let answer = self.interim.filter(|_| self.expects_continue)?;
        Some(answer.at.since(self.first_sent.at))
    }

    /// When the last byte of the response was seen.
    #[must_use]
    pub fn completed_at(&self) -> Option<Time> {
        self.last_response.map(|mark| mark.at)
    }
}

/// Cuts a connection into turns.
#[derive(Clone, Debug, Default)]
pub(crate) struct TurnFollower {
    turns: Vec<Turn>,
}

impl TurnFollower {
    /// A chatty protocol makes a turn per keystroke; findings about turns need no more than these.
    const MAX_TURNS: usize = 100_000;

    pub(crate) fn on_packet(&mut self, packet: &Packet, head: &[u8]) {
        match (packet.side, packet.role) {
            (Side::Client, Role::New | Role::OutOfOrder) => self.on_request(packet, head),
            (Side::Server, Role::New | Role::OutOfOrder) => self.on_response(packet, head),
            (Side::Server, Role::Ack) => self.on_ack(packet),
            (
                Side::Client | Side::Server,
                Role::Syn
                | Role::Ack
                | Role::Repeated(_)
                | Role::Copy
                | Role::KeepAlive
                | Role::WindowProbe
                | Role::End
                | Role::Stray,
            ) => {}
        }
    }

    pub(crate) fn finish(self) -> Vec<Turn> {
        self.turns
    }

    fn on_request(&mut self, packet: &Packet, head: &[u8]) {
        let (line, operation) = match read_head(head) {
            Some(Head::Request {
                method,
                target,
                fields,
            }) => (
                Some(request(method, &target)),
                s3::operation(method, &target, &fields.s3),
            ),
            Some(Head::Response { .. }) | None => (None, None),
        };
        if let Some(turn) = self.turns.last_mut() {
            // A body may follow a response: after 100 Continue, or when the server answers early.
            // Captured bytes that are no request line continue an HTTP request; without captured bytes
            // only the switch of direction can tell.
            let continues_body = turn.request.is_some() && line.is_none() && !head.is_empty();
            let answered = turn.first_response.is_some();
            if !answered || continues_body {
                turn.request_span.0 = turn.request_span.0.min(packet.from);
                if packet.to() > turn.request_span.1 {
                    turn.request_span.1 = packet.to();
                    turn.last_sent = packet.mark();
                    turn.acked = None;
                }
                if packet.from.abs_diff(turn.request_span.0) < MAX_HEAD {
                    turn.expects_continue |= expects_continue(head);
                }
                return;
            }
        }
        if self.turns.len() >= Self::MAX_TURNS {
            return;
        }
        self.turns.push(Turn {
            request: line,
            operation,
            status: None,
            expects_continue: expects_continue(head),
            interim: None,
            request_span: (packet.from, packet.to()),
            response_span: (0, 0),
            first_sent: packet.mark(),
            last_sent: packet.mark(),
            acked: None,
            first_response: None,
            last_response: None,
        });
    }

    fn on_response(&mut self, packet: &Packet, head: &[u8]) {
        // A server that speaks first (SSH, SMTP) has no turn yet; its greeting answers nothing.
        let Some(turn) = self.turns.last_mut() else {
            return;
        };
        let status = match read_head(head) {
            Some(Head::Response { status, .. }) => Some(status),
            Some(Head::Request { .. }) | None => None,
        };
        //= https://www.rfc-editor.org/rfc/rfc9110#section-15.2
        //# A client MUST be able to parse one or more 1xx responses received
        //# prior to a final response, even if the client does not expect one.
        if turn.first_response.is_none() && status.is_some_and(|code| (100..200).contains(&code)) {
            turn.interim = Some(packet.mark());
            // Servers say that to clients that asked, whose own words may lie behind the snapshot length.
            turn.expects_continue |= status == Some(100);
            return;
        }
        if turn.first_response.is_none() {
            turn.first_response = Some(packet.mark());
            turn.response_span = (packet.from, packet.to());
        }
        turn.response_span.0 = turn.response_span.0.min(packet.from);
        turn.response_span.1 = turn.response_span.1.max(packet.to());
        turn.status = turn.status.or(status);
        turn.last_response = Some(packet.mark());
    }

    fn on_ack(&mut self, packet: &Packet) {
        if let Some(turn) = self.turns.last_mut()
            && turn.acked.is_none()
            && turn.first_response.is_none()
            && packet.ack.is_some_and(|ack| ack >= turn.request_span.1)
        {
            turn.acked = Some(packet.mark());
        }
    }
}

/// How far into a request its header section is looked for.
const MAX_HEAD: u64 = 8192;

/// Longest request target that is kept; the rest says nothing more about time.
const MAX_TARGET: usize = 200;

/// What the start of a segment says, where an HTTP/1 message begins there.
fn read_head(head: &[u8]) -> Option<Head<'_>> {
    // Methods and `HTTP` begin with a capital letter; nothing else is looked through for a line's end.
    if !head.first().is_some_and(u8::is_ascii_uppercase) {
        return None;
    }
    let longest = usize::try_from(MAX_HEAD).unwrap_or(usize::MAX);
    Head::read(&head[..head.len().min(longest)])
}

/// Method and path, without query or fragment.
fn request(method: &str, target: &Target<'_>) -> String {
    let path = target.path();
    let end = path.iter().position(|byte| *byte == b'#');
    let mut text = String::from(method);
    text.push(' ');
    let path = String::from_utf8_lossy(&path[..end.unwrap_or(path.len())]);
    text.extend(path.chars().take(MAX_TARGET));
    text
}

/// Whether a captured head announces `Expect: 100-continue`.
fn expects_continue(head: &[u8]) -> bool {
    const FIELD: &[u8] = b"\nexpect: 100-continue";
    head.windows(FIELD.len())
        .any(|window| window.eq_ignore_ascii_case(FIELD))
}
