//! A case in virtual time.

use core::cmp::Reverse;
use core::time::Duration;
use std::collections::BinaryHeap;

use link::InvalidPath;
use sim::{ConnectionId, Held, LogEntry, Notice, Side, World};
use tcp::Event;
use units::Time;

use crate::case::{Case, Message, Reader, peer};

/// What happened, as the simulator knows it.
#[derive(Clone, Debug)]
pub(crate) struct Played {
    pub(crate) log: Vec<LogEntry>,
    /// Of the end that sent the data.
    pub(crate) history: Vec<Held>,
}

/// Longer than any case takes.
const PATIENCE: Duration = Duration::from_mins(10);

pub(crate) fn play(case: &Case) -> Result<Played, InvalidPath> {
    let mut world = World::new();
    world.record();
    let path = world.add_path(&case.path)?;
    let connection = world.connect(path, &case.client, &case.server);
    world.keep_history(connection, case.sender);
    let mut stage = Stage {
        world,
        connection,
        case,
        agenda: BinaryHeap::new(),
        made: 0,
        next: 0,
        ends: [End::default(), End::default()],
        paused: false,
        until_pause: match case.reader {
            Reader::Eager => u64::MAX,
            Reader::Pausing(bytes, _) => bytes,
        },
    };
    stage.run();
    Ok(Played {
        log: stage.world.log().to_vec(),
        history: stage.world.history(connection, case.sender).to_vec(),
    })
}

struct Stage<'a> {
    world: World,
    connection: ConnectionId,
    case: &'a Case,
    agenda: BinaryHeap<Reverse<(Time, u64, Action)>>,
    made: u64,
    /// Which message comes next.
    next: usize,
    ends: [End; 2],
    paused: bool,
    until_pause: u64,
}

#[derive(Clone, Copy, Debug, Default)]
struct End {
    /// Handed over by the program and not yet taken by the socket.
    waiting: u64,
    read: u64,
    /// Bytes of all messages to this end that have begun.
    expected: u64,
}

#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
enum Action {
    Write(usize, u64),
    /// The message's last piece is written.
    Wrote,
    ReadOn,
    Close(usize),
}

const fn number(side: Side) -> usize {
    match side {
        Side::Near => 0,
        Side::Far => 1,
    }
}

const fn side(number: usize) -> Side {
    if number == 0 { Side::Near } else { Side::Far }
}

impl Stage<'_> {
    fn run(&mut self) {
        let deadline = Time::ZERO + PATIENCE;
        loop {
            let due = self.agenda.peek().map(|Reverse((at, _, _))| *at);
            let until = due.unwrap_or(deadline).min(deadline);
            match self.world.next(until) {
                Some(notice) => self.on_notice(notice),
                None => match self.agenda.pop() {
                    Some(Reverse((at, _, action))) => {
                        self.world.run_until(at);
                        self.act(action);
                    }
                    None => return,
                },
            }
        }
    }

    fn later(&mut self, after: Duration, action: Action) {
        self.made += 1;
        let at = self.world.now() + after;
        self.agenda.push(Reverse((at, self.made, action)));
    }

    fn on_notice(&mut self, notice: Notice) {
        match (notice.event, notice.side) {
            (Event::Established, Side::Near) => self.begin(),
            (Event::Readable, at) => self.read(at),
            (Event::Writable, at) => self.write(at),
            (Event::PeerClosed, Side::Far) => {
                self.later(self.case.linger, Action::Close(number(Side::Far)));
            }
            (
                Event::Established
                | Event::PeerClosed
                | Event::Closed
                | Event::Reset
                | Event::TimedOut,
                _,
            ) => {}
        }
    }

    fn act(&mut self, action: Action) {
        match action {
            Action::Write(end, bytes) => {
                self.ends[end].waiting += bytes;
                self.write(side(end));
            }
            Action::Wrote => {
                let own = self.message().zip(self.case.script.get(self.next));
                if own.is_some_and(|(last, next)| last.from == next.from) {
                    self.begin();
                }
            }
            Action::ReadOn => {
                self.paused = false;
                self.read(peer(self.case.sender));
            }
            Action::Close(end) => self.world.close(self.connection, side(end)),
        }
    }

    /// The message under way.
    fn message(&self) -> Option<&Message> {
        self.case.script.get(self.next.checked_sub(1)?)
    }

    /// Begins the next message, or ends the connection.
    fn begin(&mut self) {
        let Some(message) = self.case.script.get(self.next) else {
            self.later(Duration::ZERO, Action::Close(number(Side::Near)));
            return;
        };
        self.next += 1;
        let mut after = message.after;
        for (pause, bytes) in &message.pieces {
            after += *pause;
            self.later(after, Action::Write(number(message.from), *bytes));
        }
        self.later(after, Action::Wrote);
        self.ends[number(peer(message.from))].expected += message.bytes();
    }

    fn write(&mut self, at: Side) {
        let waiting = self.ends[number(at)].waiting;
        if waiting > 0 {
            let taken = self.world.write(self.connection, at, waiting);
            self.ends[number(at)].waiting -= taken;
        }
    }

    fn read(&mut self, at: Side) {
        let judged = at == peer(self.case.sender);
        if judged && self.paused {
            return;
        }
        let most = if judged { self.until_pause } else { u64::MAX };
        let read = self.world.read(self.connection, at, most);
        let end = &mut self.ends[number(at)];
        end.read += read;
        let complete = read > 0 && end.read == end.expected;
        if judged {
            self.until_pause = self.until_pause.saturating_sub(read);
            if let (0, Reader::Pausing(bytes, pause)) = (self.until_pause, self.case.reader) {
                self.until_pause = bytes;
                self.paused = true;
                self.later(pause, Action::ReadOn);
            }
        }
        // The last message was read, and the next one is its reader's.
        let next = self.case.script.get(self.next);
        if complete && next.is_none_or(|next| next.from == at) {
            self.begin();
        }
    }
}
