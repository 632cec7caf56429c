//! Our endpoint as a host: in virtual time.

use alloc::collections::VecDeque;
use alloc::string::{String, ToString as _};

use tcp::{Config, Connection, Event, Output, Segment, State};
use units::{SeqNum, Time};
use wire::TcpFlags;

use crate::player::{Host, Sent};
use crate::script::{Action, Ending, Quantity, Script, Value, Who};

/// A listener of ours, and the connection that it accepts or opens.
#[derive(Debug)]
pub struct Endpoint {
    config: Config,
    now: Time,
    connection: Option<Connection>,
    sent: VecDeque<Sent>,
    ending: Ending,
}

/// A script asks for what the endpoint cannot do at this point.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub enum EndpointError {
    /// There is no connection yet.
    #[error("there is no connection yet")]
    NoConnection,
    /// There is one already.
    #[error("there is a connection already")]
    Connected,
    /// Not all bytes found room.
    #[error("only {0} bytes could be written")]
    Written(u64),
    /// Not so many bytes were there.
    #[error("only {0} bytes could be read")]
    Read(u64),
}

/// Late enough that whole milliseconds can be counted back from it.
const START: Time = Time::from_millis(10_000);
/// The header of the packets that `path-mtu` speaks of.
const IPV4_HEADER: u16 = 20;

// === impl Endpoint ===

impl Endpoint {
    /// A host that is made as `script` says.
    #[must_use]
    pub fn new(script: &Script) -> Self {
        let mut config = Config {
            // Packets are compared one by one.
            merged_reports: false,
            segmentation_offload: false,
            ..Config::linux()
        };
        for setting in script.settings_for(Who::Ours) {
            setting.apply(&mut config);
        }
        Self {
            config,
            now: START,
            connection: None,
            sent: VecDeque::new(),
            ending: Ending::None,
        }
    }

    fn connection(&mut self) -> Result<&mut Connection, EndpointError> {
        self.connection.as_mut().ok_or(EndpointError::NoConnection)
    }

    /// A sequence number of ours; its data wraps soon.
    const fn initial() -> SeqNum {
        SeqNum::new(4_294_966_000)
    }

    fn refuse(&mut self, segment: &Segment) {
        if let Some(refusal) = segment.refusal() {
            self.sent.push_back(Sent {
                at: self.now,
                segment: refusal,
            });
        }
    }
}

impl Host for Endpoint {
    type Error = EndpointError;

    fn who(&self) -> Who {
        Who::Ours
    }

    fn now(&self) -> Time {
        self.now
    }

    fn next_sent(&mut self, until: Time) -> Result<Option<Sent>, EndpointError> {
        loop {
            if let Some(sent) = self.sent.pop_front() {
                return Ok(Some(sent));
            }
            let Some(connection) = &mut self.connection else {
                break;
            };
            match connection.poll_output(self.now) {
                Output::Transmit { segment, .. } => self.sent.push_back(Sent {
                    at: self.now,
                    segment,
                }),
                Output::Event(Event::Reset) => self.ending = Ending::Reset,
                Output::Event(Event::TimedOut) => self.ending = Ending::TimedOut,
                Output::Event(_) => {}
                Output::Timeout(Some(at)) if at <= until => {
                    self.now = self.now.max(at);
                    connection.handle_timeout(self.now);
                }
                Output::Timeout(_) => break,
            }
        }
        self.now = self.now.max(until);
        Ok(None)
    }

    fn arrive(&mut self, segment: &Segment) -> Result<(), EndpointError> {
        match &mut self.connection {
            Some(connection) if connection.state() == State::Closed => self.refuse(segment),
            Some(connection) => {
                connection.handle_segment(self.now, segment);
            }
            None => {
                let accepted = Connection::accept(&self.config, self.now, segment, Self::initial());
                // RFC 9293 section 3.10.7.2: a listener answers an ACK by a reset, and drops the rest.
                if accepted.is_none() && segment.flags.contains(TcpFlags::ACK) {
                    self.refuse(segment);
                }
                self.connection = accepted;
            }
        }
        Ok(())
    }

    fn act(&mut self, action: Action) -> Result<(), EndpointError> {
        let now = self.now;
        match action {
            Action::Nothing => {}
            Action::Connect if self.connection.is_some() => return Err(EndpointError::Connected),
            Action::Connect => {
                self.connection = Some(Connection::connect(&self.config, now, Self::initial()));
            }
            Action::Write(bytes) => {
                let written = self.connection()?.write(now, bytes);
                if written < bytes {
                    return Err(EndpointError::Written(written));
                }
            }
            Action::Read(bytes) => {
                let read = self.connection()?.read(now, bytes);
                if read < bytes {
                    return Err(EndpointError::Read(read));
                }
            }
            Action::Close => self.connection()?.close(),
            Action::Abort => self.connection()?.abort(),
            Action::PathMtu(mtu) => self.connection()?.set_path_mtu(now, mtu, IPV4_HEADER),
        }
        Ok(())
    }

    fn is_in(&mut self, state: State) -> Result<Result<(), String>, EndpointError> {
        let seen = self.connection()?.state();
        Ok(if seen == state {
            Ok(())
        } else {
            Err(seen.to_string())
        })
    }

    fn value(&mut self, quantity: Quantity) -> Result<Value, EndpointError> {
        let ending = self.ending;
        let connection = self.connection()?;
        let view = connection.sender();
        Ok(match quantity {
            Quantity::Cwnd => Value::Number(view.cwnd.into()),
            Quantity::Ssthresh if view.ssthresh == u32::MAX => Value::Infinite,
            Quantity::Ssthresh => Value::Number(view.ssthresh.into()),
            Quantity::Readable => Value::Number(connection.readable()),
            Quantity::Ending => Value::Ending(ending),
        })
    }
}
