//! From recorded readings to the document that `longhaul explain` prints.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use record::explain::{
    Capture, Close, Confidence, Connection, Direction, Directions, Document, Endpoint, Finding,
    Negotiated, Rtt, Series, Severity,
};
use record::top::{self, Header, Line, Reading, Role, State};
use record::{LimitName, LimitSeconds, Manifest};

/// Shorter than this, a peer's FIN is about to be answered.
const TOLERATED_S: f64 = 1.0;

/// What recorded lines say together. `file` is the recording's name, `manifest` that of the answer.
///
/// Kernels count; they keep no packets. So findings name no frames, and of what a peer's kernel knows about
/// its own sending nothing is known here: the time of that direction is `unknown`, with the reason.
#[must_use]
pub fn explain(
    lines: impl Iterator<Item = Line>,
    file: &str,
    manifest: Manifest,
    series: bool,
) -> Document {
    let mut recording = Recording {
        series,
        ..Recording::default()
    };
    for line in lines {
        match line {
            Line::Header(header) => recording.header = header,
            Line::Reading(reading) => recording.take(reading),
        }
    }
    recording.document(file, manifest)
}

#[derive(Debug, Default)]
struct Recording {
    header: Header,
    series: bool,
    readings: u64,
    last_s: f64,
    live: BTreeMap<u64, Life>,
    over: BTreeMap<u64, Life>,
}

/// A connection from its first reading to its last.
#[derive(Debug)]
struct Life {
    first_s: f64,
    /// When `last` was listed; it stayed like that until it was listed again.
    listed_s: f64,
    last: top::Connection,
    start: Counts,
    rtts: Vec<f64>,
    points: Vec<top::Connection>,
    points_at: Vec<f64>,
    close_wait: Option<(f64, f64)>,
}

/// What had been counted when a connection was first read.
#[derive(Clone, Copy, Debug)]
struct Counts {
    bytes_out: u64,
    bytes_in: u64,
    retransmissions: u64,
}

// === impl Recording ===

impl Recording {
    fn take(&mut self, reading: Reading) {
        self.readings += 1;
        self.last_s = reading.at_s;
        for id in &reading.gone {
            if let Some(mut life) = self.live.remove(id) {
                life.until(reading.at_s);
                self.over.insert(*id, life);
            }
        }
        for row in reading.connections {
            let keep = self.series;
            match self.live.get_mut(&row.id) {
                Some(life) => life.take(row, reading.at_s, keep),
                None => {
                    self.live.insert(row.id, Life::new(row, reading.at_s, keep));
                }
            }
        }
    }

    fn document(mut self, file: &str, manifest: Manifest) -> Document {
        let mut lives: Vec<(Life, bool)> = Vec::new();
        for (_, life) in std::mem::take(&mut self.over) {
            lives.push((life, false));
        }
        for (_, mut life) in std::mem::take(&mut self.live) {
            life.until(self.last_s);
            lives.push((life, true));
        }
        lives.sort_by(|(a, _), (b, _)| {
            a.first_s
                .total_cmp(&b.first_s)
                .then(a.last.id.cmp(&b.last.id))
        });
        let findings = close_wait(&lives);
        let connections = (1_u32..)
            .zip(lives)
            .map(|(id, (life, is_open))| life.connection(id, is_open, self.series))
            .collect();
        Document {
            schema: "longhaul.explain".to_owned(),
            version: record::VERSION,
            manifest,
            captures: vec![Capture {
                file: file.to_owned(),
                format: "recording of `longhaul top`".to_owned(),
                packets: 0,
                duration_s: self.last_s,
                caveats: vec![format!(
                    "{} readings of the kernel's counters, no packets: findings name no frames, and what \
                     lies between two readings is known by its sum",
                    self.readings
                )],
                ..Capture::default()
            }],
            connections,
            census: record::explain::Census::default(),
            echoes: Vec::new(),
            findings,
            explained: None,
            servers: Vec::new(),
            pairs: Vec::new(),
        }
    }
}

// === impl Life ===

impl Life {
    fn new(row: top::Connection, at_s: f64, keep: bool) -> Self {
        // One that was made since the reading before began then; its counts are all its own.
        let is_new = row.state_seen;
        let count = |count: Option<u64>| if is_new { 0 } else { count.unwrap_or(0) };
        let mut life = Self {
            first_s: at_s,
            listed_s: at_s,
            start: Counts {
                bytes_out: count(row.bytes_out),
                bytes_in: count(row.bytes_in),
                retransmissions: count(Some(row.retransmissions)),
            },
            last: row.clone(),
            rtts: Vec::new(),
            points: Vec::new(),
            points_at: Vec::new(),
            close_wait: None,
        };
        life.note(row, at_s, keep);
        life
    }

    fn take(&mut self, row: top::Connection, at_s: f64, keep: bool) {
        self.note(row.clone(), at_s, keep);
        self.last = row;
        self.listed_s = at_s;
    }

    fn note(&mut self, row: top::Connection, at_s: f64, keep: bool) {
        self.rtts.extend(row.rtt_s);
        if row.state == State::CloseWait {
            let (since, _) = self.close_wait.unwrap_or((at_s - row.state_s, at_s));
            self.close_wait = Some((since, at_s));
        }
        if keep {
            self.points.push(row);
            self.points_at.push(at_s);
        }
    }

    /// Nothing changed until then: the last state and the last limit went on.
    fn until(&mut self, end_s: f64) {
        let more = (end_s - self.listed_s).max(0.0);
        if more > 0.0 {
            *self.last.limits.entry(self.last.limit).or_insert(0.0) += more;
        }
        if self.last.state == State::CloseWait
            && let Some((_, until)) = &mut self.close_wait
        {
            *until = end_s;
        }
        self.listed_s = end_s;
    }

    fn connection(self, id: u32, is_open: bool, series: bool) -> Connection {
        let duration_s = (self.listed_s - self.first_s).max(0.0);
        let row = &self.last;
        let (local, peer) = (endpoint(&row.local), endpoint(&row.peer));
        let sent = self.sent(duration_s);
        let received = self.received(duration_s);
        let is_client = row.role == Role::Client;
        let (client, server) = if is_client {
            (local, peer)
        } else {
            (peer, local)
        };
        let (up, down) = if is_client {
            (sent, received)
        } else {
            (received, sent)
        };
        let close_wait = self.close_wait;
        let side = if is_client { "client" } else { "server" };
        Connection {
            id,
            client,
            server,
            start_s: self.first_s,
            duration_s,
            rtt: self.rtt(),
            negotiated: Negotiated::default(),
            vantage: side.to_owned(),
            vantage_confidence: None,
            directions: Directions {
                client_to_server: up,
                server_to_client: down,
            },
            tls: None,
            ssh: None,
            transfers: Vec::new(),
            close: Close {
                how: if is_open { "open" } else { "unknown" }.to_owned(),
                first: close_wait.map(|_| if is_client { "server" } else { "client" }.to_owned()),
                close_wait: close_wait.map(|_| side.to_owned()),
                close_wait_s: close_wait.map(|(since, until)| until - since),
            },
            icmp: Vec::new(),
            caveats: caveats(row),
            series: series.then(|| Box::new(self.series(is_client))),
        }
    }

    fn sent(&self, duration_s: f64) -> Direction {
        let row = &self.last;
        let bytes = row
            .bytes_out
            .unwrap_or(0)
            .saturating_sub(self.start.bytes_out);
        let carries = bytes > 0 || row.send_queue_bytes > 0;
        Direction {
            bytes,
            retransmissions: row
                .retransmissions
                .saturating_sub(self.start.retransmissions),
            limits: fitted(&row.limits, duration_s),
            dominant: dominant(&row.limits).filter(|_| carries),
            goodput_bps: goodput(bytes, duration_s),
            ..Direction::default()
        }
    }

    fn received(&self, duration_s: f64) -> Direction {
        let bytes = self
            .last
            .bytes_in
            .unwrap_or(0)
            .saturating_sub(self.start.bytes_in);
        Direction {
            bytes,
            limits: fitted(&LimitSeconds::new(), duration_s),
            unknown_because: Some(
                "what holds a sender back is known to its own kernel, and this is the other end"
                    .to_owned(),
            ),
            goodput_bps: goodput(bytes, duration_s),
            ..Direction::default()
        }
    }

    fn rtt(&self) -> Rtt {
        let mut sorted = self.rtts.clone();
        sorted.sort_by(f64::total_cmp);
        Rtt {
            handshake_s: None,
            min_s: self.last.min_rtt_s,
            median_s: sorted.get(sorted.len() / 2).copied(),
            max_s: sorted.last().copied(),
            samples: u64::try_from(sorted.len()).unwrap_or(u64::MAX),
            ..Rtt::default()
        }
    }

    fn series(&self, is_client: bool) -> Series {
        let direction = if is_client {
            "client_to_server"
        } else {
            "server_to_client"
        };
        let mut series = Series {
            direction: direction.to_owned(),
            ..Series::default()
        };
        for (row, at_s) in self.points.iter().zip(&self.points_at) {
            let t = at_s - self.first_s;
            series.in_flight.push((t, row.in_flight_bytes));
            series.congestion_window.push((t, row.cwnd_bytes));
            series.goodput.push((t, row.out_bps));
            series.rtt.extend(row.rtt_s.map(|rtt| (t, rtt)));
            let window = row.peer_window_bytes;
            series
                .receive_window
                .extend(window.map(|window| (t, window)));
            let since = (t - row.limit_s).max(0.0);
            match series.limits.last_mut() {
                Some((_, until, name)) if *name == row.limit => *until = t,
                _ if t > since => series.limits.push((since, t, row.limit)),
                _ => {}
            }
        }
        series
    }
}

/// The limits, filled up or cut so that they sum to what they divide.
fn fitted(limits: &LimitSeconds, duration_s: f64) -> LimitSeconds {
    let sum: f64 = limits.values().sum();
    let mut fitted = limits.clone();
    if sum < duration_s {
        *fitted.entry(LimitName::Unknown).or_insert(0.0) += duration_s - sum;
    } else if sum > 0.0 {
        for seconds in fitted.values_mut() {
            *seconds *= duration_s / sum;
        }
    }
    fitted.retain(|_, seconds| *seconds > 0.0);
    fitted
}

fn dominant(limits: &LimitSeconds) -> Option<LimitName> {
    limits
        .iter()
        .filter(|(name, _)| {
            !matches!(
                name,
                LimitName::Propagation
                    | LimitName::Closing
                    | LimitName::Application
                    | LimitName::Unknown
            )
        })
        .max_by(|(_, a), (_, b)| a.total_cmp(b))
        .map(|(name, _)| *name)
}

fn caveats(row: &top::Connection) -> Vec<String> {
    let mut caveats = Vec::new();
    if !row.state_seen {
        caveats.push("it was there before the first reading".to_owned());
    }
    if let Some(process) = &row.process {
        caveats.push(format!(
            "this end belongs to process {} (`{}`)",
            process.pid, process.name
        ));
    }
    if let Some(relayed) = &row.relayed {
        let other = relayed.other.as_deref().unwrap_or("nobody yet");
        caveats.push(format!(
            "the {} side of connection {} of the relay at {}, whose other side is {other}",
            relayed.side.as_str(),
            relayed.connection,
            relayed.admin
        ));
    }
    caveats
}

/// Connections that were left in `CLOSE_WAIT`, by the process that holds them.
fn close_wait(lives: &[(Life, bool)]) -> Vec<Finding> {
    let mut piles: BTreeMap<Option<top::Process>, (Vec<u32>, f64)> = BTreeMap::new();
    for (id, (life, _)) in (1_u32..).zip(lives) {
        let Some((since, until)) = life.close_wait else {
            continue;
        };
        if until - since < TOLERATED_S {
            continue;
        }
        let (ids, longest) = piles.entry(life.last.process.clone()).or_default();
        ids.push(id);
        *longest = longest.max(until - since);
    }
    let found = piles.into_iter().map(|(process, (ids, longest))| {
        let who = process.map_or_else(
            || "a process that is not visible to the recording user".to_owned(),
            |process| format!("process {} (`{}`)", process.pid, process.name),
        );
        let plural = if ids.len() == 1 { "" } else { "s" };
        Finding {
            name: "half-closed-by-peer".to_owned(),
            severity: Severity::Warning,
            confidence: Confidence::High,
            summary: format!(
                "{who} has {} connection{plural} in CLOSE_WAIT, for up to {longest:.1} s",
                ids.len()
            ),
            connections: ids,
            evidence: Vec::new(),
            lost_s: None,
            remedy: format!(
                "{who} must read the end of the stream and close its socket; if it pools connections, its idle \
                 timeout must be shorter than the peer's."
            ),
            steps: Vec::new(),
            profile: None,
            filter: None,
            predicted: Vec::new(),
            source: "RFC 9293 §3.6 (closing a connection)".to_owned(),
        }
    });
    found.collect()
}

fn endpoint(text: &str) -> Endpoint {
    text.parse::<SocketAddr>().map_or_else(
        |_| Endpoint {
            host: text.to_owned(),
            port: 0,
        },
        |address| Endpoint {
            host: address.ip().to_string(),
            port: address.port(),
        },
    )
}

#[expect(
    clippy::cast_precision_loss,
    reason = "a rate for people: 2^53 bytes are 9 PB"
)]
fn goodput(bytes: u64, duration_s: f64) -> Option<f64> {
    (duration_s > 0.0 && bytes > 0).then(|| bytes as f64 * 8.0 / duration_s)
}
