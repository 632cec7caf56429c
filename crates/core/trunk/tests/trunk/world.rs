//! Two ends of a trunk and the WAN between them, in virtual time.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use trunk::{
    Admission, Closing, Config, ConnectionId, Event, Explanation, Preface, Read, Reason, Receipt,
    Role, Session, StreamId, Target, Trunk,
};
use units::{Rate, Time};

use crate::app::{self, App};
use crate::pipe::Pipe;

pub(crate) const NEAR: usize = 0;
pub(crate) const FAR: usize = 1;

/// What every new WAN connection is like.
#[derive(Clone, Copy)]
pub(crate) struct Path {
    pub(crate) rate: Rate,
    /// One way.
    pub(crate) delay: Duration,
}

pub(crate) struct Link {
    /// The connection as each end knows it; the far end learns it from the hello.
    pub(crate) ids: [Option<ConnectionId>; 2],
    /// From near to far, and back.
    pub(crate) pipes: [Pipe; 2],
    /// What the far end has of a hello.
    hello: BytesMut,
}

pub(crate) struct World {
    pub(crate) now: Time,
    pub(crate) near: Trunk,
    pub(crate) far: Option<Trunk>,
    pub(crate) config: Config,
    pub(crate) path: Path,
    pub(crate) links: Vec<Link>,
    /// How many connections the driver keeps up: what the near end asked for last.
    asked: usize,
    pub(crate) apps: [BTreeMap<StreamId, App>; 2],
    pub(crate) closed: [BTreeMap<StreamId, Receipt>; 2],
    pub(crate) resets: [Vec<(StreamId, String)>; 2],
    pub(crate) instance: u64,
    /// New connections fail: the WAN is cut.
    pub(crate) cut_until: Time,
    /// Everything that happened, for comparing two runs.
    pub(crate) log: String,
    pub(crate) steps: u64,
    /// The most that each end held of (sending, receiving).
    pub(crate) held: [(u64, u64); 2],
    /// The far end refuses targets with these words.
    pub(crate) refuse: Option<Explanation>,
    /// All connections share one link: each has its part of the rate.
    pub(crate) shared: bool,
    /// Connections that are dead, which the far end learns only then.
    orphans: Vec<(Time, ConnectionId)>,
    /// Applications at the far end that come now do not read.
    pub(crate) far_stuck: bool,
    pub(crate) piece: u64,
}

impl World {
    pub(crate) fn new(config: Config, path: Path) -> Self {
        let session = Session {
            trunk: *b"0123456789abcdef",
            epoch: 1,
        };
        Self {
            now: Time::from_millis(1),
            near: Trunk::initiate(config.clone(), session).unwrap(),
            far: None,
            config,
            path,
            links: Vec::new(),
            asked: 0,
            apps: [BTreeMap::new(), BTreeMap::new()],
            closed: [BTreeMap::new(), BTreeMap::new()],
            resets: [Vec::new(), Vec::new()],
            instance: 1,
            cut_until: Time::ZERO,
            log: String::new(),
            steps: 0,
            held: [(0, 0); 2],
            refuse: None,
            shared: false,
            orphans: Vec::new(),
            far_stuck: false,
            piece: 64 << 10,
        }
    }

    /// Opens a stream from the near end, which writes `up` bytes while the far end writes `down`.
    pub(crate) fn open(&mut self, up: u64, down: u64) -> StreamId {
        self.open_to(&format!("0:{down}"), up)
    }

    /// Opens a stream from the near end, whose `up` bytes the far end answers with `down`.
    pub(crate) fn request(&mut self, up: u64, down: u64) -> StreamId {
        self.open_to(&format!("{up}:{down}"), up)
    }

    fn open_to(&mut self, target: &str, up: u64) -> StreamId {
        let target = Target::new(target).unwrap();
        let stream = self.near.open(&target, self.now).unwrap();
        let mut app = App::new(up);
        app.piece = self.piece;
        self.apps[NEAR].insert(stream, app);
        self.write(NEAR, stream);
        self.pump();
        stream
    }

    /// What both ends know of every stream that is open, and what their applications have done.
    pub(crate) fn open_streams(&self) -> Vec<String> {
        let ends = [Some(&self.near), self.far.as_ref()];
        let mut open = Vec::new();
        for (end, apps) in ends.into_iter().zip(&self.apps) {
            let Some(trunk) = end else {
                continue;
            };
            open.extend(apps.iter().filter_map(|(stream, app)| {
                let seen = trunk.stream(*stream, self.now)?;
                let (read, written, role) = (app.read, app.written, trunk.role());
                Some(format!(
                    "{role:?} {stream}: read {read}, written {written} of {}, {seen:?}",
                    app.to_write
                ))
            }));
        }
        open
    }

    fn end(&mut self, end: usize) -> Option<&mut Trunk> {
        if end == NEAR {
            Some(&mut self.near)
        } else {
            self.far.as_mut()
        }
    }

    pub(crate) fn note(&mut self, text: &str) {
        writeln!(self.log, "{} {text}", self.now).unwrap();
    }

    // === The WAN ===

    fn dial(&mut self, count: usize) {
        while self.links.len() < count && self.now >= self.cut_until {
            let id = self.near.connection_up(self.now);
            let Path { rate, delay } = self.path;
            let mut pipes = [Pipe::new(rate, delay), Pipe::new(rate, delay)];
            // A handshake comes first: what is written leaves a round trip later.
            pipes[NEAR].stalled_until = self.now;
            self.links.push(Link {
                ids: [Some(id), None],
                pipes,
                hello: BytesMut::new(),
            });
            self.note(&format!("{id} up"));
        }
    }

    /// Kills a connection: what is on its way is lost.
    pub(crate) fn kill(&mut self, index: usize) {
        let link = self.links.remove(index);
        let now = self.now;
        for end in [NEAR, FAR] {
            if let (Some(id), Some(trunk)) = (link.ids[end], self.end(end)) {
                trunk.connection_down(id, now);
            }
        }
        self.note(&format!("{:?} killed", link.ids[NEAR]));
    }

    /// Kills a connection, as a middlebox does that forgets it: the far end hears nothing of it until it
    /// gives up by itself, or `later`.
    pub(crate) fn desert(&mut self, index: usize, later: Duration) {
        let link = self.links.remove(index);
        let now = self.now;
        if let Some(id) = link.ids[NEAR] {
            self.near.connection_down(id, now);
        }
        self.orphans
            .extend(link.ids[FAR].map(|id| (now + later, id)));
        self.note(&format!("{:?} deserted", link.ids[NEAR]));
    }

    pub(crate) fn stall(&mut self, index: usize, span: Duration) {
        let until = self.now + span;
        for pipe in &mut self.links[index].pipes {
            pipe.stalled_until = pipe.stalled_until.max(until);
        }
        self.note(&format!("{:?} stalls", self.links[index].ids[NEAR]));
    }

    fn deliver(&mut self, index: usize, end: usize, bytes: Bytes) {
        let now = self.now;
        if end == FAR && self.links[index].ids[FAR].is_none() {
            self.greet(index, &bytes);
            return;
        }
        let Some(id) = self.links[index].ids[end] else {
            return;
        };
        if let Some(trunk) = self.end(end) {
            trunk.receive(id, bytes, now).unwrap();
        }
    }

    /// What the far driver does with a new connection's first bytes.
    fn greet(&mut self, index: usize, bytes: &Bytes) {
        self.links[index].hello.extend_from_slice(bytes);
        let hello = &mut self.links[index].hello;
        let Some((Preface::Hello(found), len)) = Preface::decode(hello).unwrap() else {
            return;
        };
        let rest = hello.split_off(len).freeze();
        let far = match self.far.take() {
            Some(far) if far.admits(&found) == Admission::Supersede => None,
            other => other,
        };
        let far = match far {
            Some(far) => Ok(far),
            None => Trunk::accept(self.config.clone(), &found, self.instance),
        };
        match far {
            Ok(mut far) => {
                let joined = far.connection_accepted(&found, self.now);
                self.far = Some(far);
                match joined {
                    Ok(id) => {
                        self.links[index].ids[FAR] = Some(id);
                        self.deliver(index, FAR, rest);
                    }
                    Err(refusal) => self.links[index].pipes[FAR].write(vec![refusal.encode()]),
                }
            }
            Err(trunk::AcceptError::Refused(refusal)) => {
                self.links[index].pipes[FAR].write(vec![refusal.encode()]);
            }
            Err(error) => panic!("{error}"),
        }
    }

    fn drop_link(&mut self, id: ConnectionId) {
        if let Some(index) = self
            .links
            .iter()
            .position(|link| link.ids[NEAR] == Some(id))
        {
            self.kill(index);
        }
    }

    // === The drivers ===

    fn write(&mut self, end: usize, stream: StreamId) {
        let role = if end == NEAR {
            Role::Initiator
        } else {
            Role::Acceptor
        };
        let Some(mut app) = self.apps[end].remove(&stream) else {
            return;
        };
        let now = self.now;
        let Some(trunk) = self.end(end) else {
            return;
        };
        while app.read >= app.after && app.written < app.to_write {
            let len = app.piece.min(app.to_write - app.written);
            let mut bytes = app::bytes(stream, role, app.written, len);
            let Ok(taken) = trunk.write(stream, &mut bytes, now) else {
                break;
            };
            app.written += taken as u64;
            if !bytes.is_empty() {
                break;
            }
        }
        if app.written == app.to_write && !app.finished {
            app.finished = trunk.finish(stream).is_ok();
        }
        self.apps[end].insert(stream, app);
    }

    fn read(&mut self, end: usize, stream: StreamId) {
        let now = self.now;
        let peer = if end == NEAR {
            Role::Acceptor
        } else {
            Role::Initiator
        };
        let Some(mut app) = self.apps[end].remove(&stream) else {
            return;
        };
        let Some(trunk) = self.end(end) else {
            return;
        };
        while !app.stuck {
            match trunk.read(stream, now) {
                Ok(Read::Data(bytes)) => {
                    let mut rest = &bytes[..];
                    while !rest.is_empty() {
                        let right = app::bytes(stream, peer, app.read, rest.len() as u64);
                        assert_eq!(
                            right,
                            rest[..right.len()],
                            "{stream} differs near {}",
                            app.read
                        );
                        app.read += right.len() as u64;
                        rest = &rest[right.len()..];
                    }
                    app.marks.push((app.read, now));
                    trunk.consumed(stream, bytes.len(), now);
                }
                Ok(Read::End) => {
                    app.ended_at = Some(now);
                    break;
                }
                Ok(Read::Pending) | Err(_) => break,
            }
        }
        self.apps[end].insert(stream, app);
    }

    fn handle(&mut self, end: usize, event: Event) {
        self.note(&format!("{end} {event:?}"));
        match event {
            Event::WantConnections { count } => {
                self.asked = count as usize;
                self.dial(self.asked);
            }
            Event::CloseConnection { connection, why } => {
                assert!(
                    !matches!(why, Closing::Refused(ref refusal) if refusal.reason == trunk::RefusalReason::Version)
                );
                self.drop_link(connection);
            }
            Event::Opened { stream, .. } if self.refuse.is_some() => {
                let (why, now) = (self.refuse.clone().unwrap(), self.now);
                self.end(end).unwrap().reset(stream, why, now).unwrap();
            }
            Event::Opened { stream, target } => {
                let (after, down) = target.as_str().split_once(':').unwrap();
                let mut app = App::new(down.parse().unwrap());
                app.after = after.parse().unwrap();
                app.stuck = self.far_stuck;
                app.piece = self.piece;
                self.apps[end].insert(stream, app);
                self.end(end).unwrap().accept_stream(stream).unwrap();
                self.read(end, stream);
                self.write(end, stream);
            }
            Event::Readable { stream } => {
                self.read(end, stream);
                self.write(end, stream);
            }
            Event::Writable { stream } => self.write(end, stream),
            Event::Closed { stream, receipt } => {
                self.closed[end].insert(stream, receipt);
            }
            Event::Reset { stream, why, .. } => self.resets[end].push((stream, why.to_string())),
            Event::Accepted { .. }
            | Event::PeerLeaves
            | Event::ConnectionReady { .. }
            | Event::Manner { .. }
            | Event::ConnectionHot { .. } => {}
            Event::Ended { .. } => {
                // A driver lets connections carry the farewell.
                for index in 0..self.links.len() {
                    self.transmit(index);
                }
                if end == FAR {
                    self.far = None;
                } else {
                    self.asked = 0;
                }
            }
            Event::Alarm { .. } => panic!("{event:?}"),
        }
    }

    /// Everything that can happen at this moment.
    pub(crate) fn pump(&mut self) {
        loop {
            let mut quiet = true;
            for end in [NEAR, FAR] {
                while let Some(event) = self.end(end).and_then(Trunk::poll_event) {
                    quiet = false;
                    self.handle(end, event);
                }
            }
            for index in 0..self.links.len() {
                quiet &= !self.transmit(index);
            }
            self.measure();
            if quiet {
                break;
            }
        }
    }

    fn transmit(&mut self, index: usize) -> bool {
        let now = self.now;
        let mut wrote = false;
        for end in [NEAR, FAR] {
            let (room, id) = (
                self.links[index].pipes[end].room(),
                self.links[index].ids[end],
            );
            if room == 0 {
                continue;
            }
            let mut out = Vec::new();
            if let (Some(id), Some(trunk)) = (id, self.end(end)) {
                let len = trunk.transmit(id, room, &mut out, now);
                assert_eq!(len, out.iter().map(Bytes::len).sum::<usize>());
                wrote |= len > 0;
            }
            self.links[index].pipes[end].write(out);
        }
        wrote
    }

    fn measure(&mut self) {
        for end in [NEAR, FAR] {
            let Some(status) = self.end(end).map(|trunk| trunk.status()) else {
                continue;
            };
            let memory = self.config.memory;
            assert!(status.send_held <= memory.send, "{status:?}");
            assert!(status.receive_held <= memory.receive, "{status:?}");
            let (sending, receiving) = &mut self.held[end];
            *sending = (*sending).max(status.send_held.get());
            *receiving = (*receiving).max(status.receive_held.get());
        }
    }

    // === Time ===

    /// The next moment at which something happens by itself.
    pub(crate) fn next_at(&self) -> Option<Time> {
        let pipes = self
            .links
            .iter()
            .flat_map(|link| &link.pipes)
            .filter_map(Pipe::next_at);
        let ends = [
            self.near.deadline(),
            self.far.as_ref().and_then(Trunk::deadline),
        ];
        let dial = (self.links.is_empty() && self.cut_until > self.now).then_some(self.cut_until);
        pipes
            .chain(ends.into_iter().flatten())
            .chain(dial)
            .chain(self.orphans.iter().map(|(at, _)| *at))
            .min()
    }

    /// The far relay's process is another from now on; its kernel closes the connections of the old one.
    pub(crate) fn restart_far(&mut self) {
        self.far = None;
        self.instance += 1;
        self.apps[FAR].clear();
        while !self.links.is_empty() {
            self.kill(0);
        }
    }

    /// Opens a stream from the far end, whose `up` bytes the near end answers with `down`.
    pub(crate) fn open_from_far(&mut self, up: u64, down: u64) -> StreamId {
        let target = Target::new(&format!("{up}:{down}")).unwrap();
        let now = self.now;
        let stream = self.far.as_mut().unwrap().open(&target, now).unwrap();
        let mut app = App::new(up);
        app.piece = self.piece;
        self.apps[FAR].insert(stream, app);
        self.write(FAR, stream);
        stream
    }

    /// An end takes no new streams any more.
    pub(crate) fn leave(&mut self, end: usize) {
        let now = self.now;
        self.note(&format!("{end} leaves"));
        self.end(end).unwrap().leave(now);
        self.pump();
    }

    /// Opens a stream on which neither end says anything.
    pub(crate) fn open_idle(&mut self) {
        let target = Target::new("1:1").unwrap();
        let stream = self.near.open(&target, self.now).unwrap();
        self.apps[NEAR].insert(
            stream,
            App {
                after: 1,
                ..App::new(1)
            },
        );
    }

    /// An application resets its stream, if it still has it.
    pub(crate) fn reset(&mut self, end: usize, stream: StreamId) {
        let now = self.now;
        if let Some(trunk) = self.end(end) {
            let _ = trunk.reset(stream, Reason::Reset.into(), now);
        }
    }

    /// Several flows through one bottleneck, in the long run.
    fn share_rate(&mut self) {
        let flows = self.links.len().max(1) as u64;
        for pipe in self.links.iter_mut().flat_map(|link| &mut link.pipes) {
            pipe.rate = Rate::bit_per_s(self.path.rate.bits_per_s() / flows);
        }
    }

    pub(crate) fn step_to(&mut self, at: Time) {
        if self.shared {
            self.share_rate();
        }
        self.now = self.now.max(at);
        self.steps += 1;
        let now = self.now;
        // A driver makes what is missing again, until it is told another number.
        self.dial(self.asked);
        let (gone, orphans) = self.orphans.drain(..).partition(|(at, _)| *at <= now);
        self.orphans = orphans;
        let gone: Vec<_> = gone;
        for (_, id) in gone {
            if let Some(far) = &mut self.far {
                far.connection_down(id, now);
            }
        }
        for index in (0..self.links.len()).rev() {
            for end in [NEAR, FAR] {
                let arrived = match self.links.get_mut(index) {
                    Some(link) => link.pipes[end].advance(now),
                    None => continue,
                };
                for bytes in arrived {
                    self.deliver(index, 1 - end, bytes);
                }
            }
        }
        for end in [NEAR, FAR] {
            if let Some(trunk) = self.end(end)
                && trunk.deadline().is_some_and(|at| at <= now)
            {
                trunk.tick(now);
            }
        }
        self.pump();
    }

    /// Runs until `done` or `limit`; whether it was done.
    pub(crate) fn run(&mut self, limit: Duration, done: impl Fn(&Self) -> bool) -> bool {
        self.pump();
        let end = self.now + limit;
        while !done(self) {
            match self.next_at() {
                Some(at) if at <= end => self.step_to(at),
                _ => {
                    self.now = end;
                    return done(self);
                }
            }
        }
        true
    }

    pub(crate) fn all_closed(&self, streams: usize) -> bool {
        self.closed.iter().all(|closed| closed.len() == streams)
    }
}
