//! Streams, exchanges and bursts: `longhaul flow` at both ends, measured at the receiver.

use std::ffi::OsString;
use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

use comparison::Transfer;
use scenario::{Flow, Kind};
use serde::Deserialize;
use units::Span;

use super::block::{Account, Job, Seen};
use super::command;
use super::rivals::Share;
use super::sampler::{Reading, Snapshot};
use super::series::bits;
use super::topology::{Place, Topology};
use super::{Bench, BenchError, FLOW_PORT, READY, TRANSFER};
use crate::worker::Worker;

/// What of `longhaul flow client --json` is of interest here (`record::flow`).
#[derive(Debug, Deserialize)]
struct Document {
    began_unix_s: f64,
    flows: Vec<Connection>,
    totals: Totals,
}

#[derive(Debug, Deserialize)]
struct Connection {
    started_s: f64,
    connect_s: Option<f64>,
    total_s: f64,
    bytes: u64,
    transfers: Vec<Stream>,
    exchanges: Option<Exchanges>,
    /// Of the end that sends.
    samples: Vec<Sample>,
    error: Option<String>,
}

/// How the sender's TCP stood, seconds after its connection was open.
#[derive(Debug, Deserialize)]
struct Sample {
    at_s: f64,
    acknowledged: u64,
    cwnd: u64,
    rtt_s: f64,
    in_flight: u64,
    retransmits: u64,
}

#[derive(Debug, Deserialize)]
struct Stream {
    bytes: u64,
    started_s: f64,
    seconds: f64,
    receiver_s: f64,
    /// Receiver's clock: seconds since the first byte, and bytes until then.
    progress: Vec<(f64, u64)>,
}

#[derive(Debug, Deserialize)]
struct Exchanges {
    samples_s: Vec<f64>,
}

#[derive(Debug, Deserialize)]
struct Totals {
    bytes: u64,
    seconds: f64,
    data_ok: bool,
}

/// A server of flows at `place`.
pub(super) fn start_server(
    place: Place,
    binary: &Path,
    topology: &Topology,
    logs: &Path,
) -> Result<Worker, BenchError> {
    let mut command = topology
        .command(place, binary, None)
        .map_err(BenchError::Topology)?;
    let listen = SocketAddr::new(topology.tcp_address(place), FLOW_PORT);
    command.args(["flow", "server", &listen.to_string(), "--json"]);
    if let Some(own) = &topology.node(place).own_tcp {
        command.args(own.arguments());
    }
    let name = format!("flow-server-{}", topology.node(place).name);
    let mut server = Worker::start(&name, command, &(), logs)?;
    server.wait_for("that it listens", READY, |line| {
        (line["event"] == "ready").then_some(())
    })?;
    Ok(server)
}

impl Bench {
    /// Transfer `number` of a job by `longhaul flow`, and what it says of itself.
    fn by_flow(
        &mut self,
        job: &Job<'_>,
        number: u32,
    ) -> Result<(Seen, Option<Document>), BenchError> {
        let mut client = self.client_command(&self.binary, job.route)?;
        let server = SocketAddr::new(self.entry_of(job.route), FLOW_PORT);
        client.args(["flow", "client", &server.to_string(), "--json"]);
        client.args(load(job));
        client.args(["--seed", &self.seed.to_string()]);
        if let Some(interval) = self.scenario.experiment.series_interval() {
            client.args(["--interval", &units::format_span(interval)]);
        }
        if let Some(own) = &self.topology.node(Place::Client).own_tcp {
            client.args(own.arguments());
            // The device of the one before may still be going.
            client.args(["--device", &format!("own{number}")]);
        }
        let fail = |source| BenchError::Command {
            command: "longhaul flow client".to_owned(),
            source,
        };
        let results = self.logs.join("flow-client.json");
        let files = command::Files {
            results: Some(&results),
            log: &self.logs.join("flow-client.log"),
        };
        let lasting = job.workload.duration.map_or(Duration::ZERO, Span::get);
        let pauses = job.workload.count();
        let idle = job.workload.idle.map_or(Duration::ZERO, Span::get);
        let limit = TRANSFER + lasting + idle.saturating_mul(pauses);
        let mut watch = || self.expect_all_alive();
        let ended = command::run(client, &files, limit, &mut watch).map_err(fail)??;
        let text = std::fs::read(&results).map_err(fail)?;
        let mut seen = Seen::until_now(Transfer {
            seconds: ended.seconds,
            ..Transfer::default()
        });
        let document = match (ended.failure, serde_json::from_slice::<Document>(&text)) {
            (None, Ok(document)) => document,
            (failure, _) => {
                self.expect_all_alive()?;
                let silent = "`longhaul flow client` printed no document".to_owned();
                seen.transfer.failure = Some(failure.unwrap_or(silent));
                return Ok((seen, None));
            }
        };
        let transfer = document.transfer(job.workload.kind, !lasting.is_zero());
        let (from_s, to_s) = document.span();
        seen = Seen {
            transfer,
            from_s,
            to_s,
        };
        Ok((seen, Some(document)))
    }

    /// The flows of a job, one transfer after the other.
    pub(super) fn flows(
        &mut self,
        job: &Job<'_>,
        account: &mut Account,
    ) -> Result<Vec<Seen>, BenchError> {
        let mut all = Vec::new();
        for number in 0..job.transfers {
            self.note_beginning(job, number, account)?;
            let (mut seen, document) = self.by_flow(job, number)?;
            if let Some(document) = document {
                if self.own_tcp_sends(job) {
                    let sender = &self.topology.node(self.sender(job)).name;
                    let counted = (
                        format!("{sender}: TcpRetransSegs"),
                        document.retransmissions(),
                    );
                    seen.transfer.counters.extend([counted]);
                }
                if job.position(number).is_some() && seen.transfer.failure.is_none() {
                    account.shares.extend(document.share());
                }
                account.snapshots.extend(document.snapshots(number));
            }
            all.push(seen);
        }
        Ok(all)
    }
}

/// What to carry, in `longhaul flow client`'s words.
fn load(job: &Job<'_>) -> Vec<OsString> {
    let workload = job.workload;
    let mut words: Vec<String> = Vec::new();
    let mut say = |flag: &str, value: String| words.extend([flag.to_owned(), value]);
    match workload.kind {
        Kind::Exchange => {
            let (request, response) = (workload.request(), workload.response());
            say(
                "--exchange",
                format!("{}B:{}B", request.get(), response.get()),
            );
            say("--count", workload.count().to_string());
            if let Some(idle) = workload.idle {
                say("--idle", idle.to_string());
            }
        }
        Kind::Burst => {
            let bytes = workload.bytes.unwrap_or_default();
            say("--burst", format!("{}B", bytes.get()));
            say("--count", workload.count().to_string());
            if let Some(idle) = workload.idle {
                say("--idle", idle.to_string());
            }
        }
        Kind::Stream | Kind::Upload | Kind::Download | Kind::Replicate | Kind::Command => {
            if let Some(duration) = workload.duration {
                say("--duration", duration.to_string());
            } else {
                let bytes = workload.bytes.unwrap_or_default();
                say("--bytes", format!("{}B", bytes.get()));
            }
        }
    }
    if workload.kind != Kind::Exchange {
        let way = match workload.direction() {
            Flow::Up => "up",
            Flow::Down => "down",
            Flow::Both => "both",
        };
        say("--direction", way.to_owned());
    }
    say("--parallel", job.parallel().to_string());
    if let Some(pause) = workload.read_pause {
        say(
            "--read-pause",
            format!("{}B:{}", pause.after.get(), pause.r#for),
        );
    }
    words.into_iter().map(OsString::from).collect()
}

// === impl Document ===

impl Document {
    fn transfer(&self, kind: Kind, lasts: bool) -> Transfer {
        let failed = self.flows.iter().find_map(|flow| flow.error.clone());
        let wrong = (!self.totals.data_ok)
            .then(|| "the receiver got other bytes than were sent".to_owned());
        let streams = || self.flows.iter().flat_map(|flow| &flow.transfers);
        let longest = |seconds: f64, other: f64| seconds.max(other);
        let seconds = match kind {
            // Idle time does not count: of each connection the bursts' own, and of several the slowest.
            Kind::Burst => {
                let of = |flow: &Connection| flow.transfers.iter().map(|one| one.seconds).sum();
                self.flows.iter().map(of).fold(0.0, longest)
            }
            Kind::Exchange => {
                let exchanges = self.flows.iter().filter_map(|flow| flow.exchanges.as_ref());
                let of = |exchanges: &Exchanges| exchanges.samples_s.iter().sum();
                exchanges.map(of).fold(0.0, longest)
            }
            Kind::Stream if lasts => streams().map(|one| one.receiver_s).fold(0.0, longest),
            Kind::Stream | Kind::Upload | Kind::Download | Kind::Replicate | Kind::Command => {
                self.totals.seconds
            }
        };
        let steady: Vec<f64> = streams().filter_map(Stream::steady_bps).collect();
        let is_stream = kind == Kind::Stream;
        Transfer {
            position: 0,
            seconds,
            bytes: self.totals.bytes,
            steady_bps: (is_stream && !steady.is_empty()).then(|| steady.iter().sum()),
            failure: failed.or(wrong),
            ..Transfer::default()
        }
    }

    /// Segments that the senders whose samples are here sent again.
    fn retransmissions(&self) -> u64 {
        let last = |flow: &Connection| flow.samples.last().map_or(0, |last| last.retransmits);
        self.flows.iter().map(last).sum()
    }

    /// Between which moments payload was on its way, in seconds since 1970: from the first connection's
    /// beginning to the last one's end.
    fn span(&self) -> (f64, f64) {
        let flows = || self.flows.iter();
        let begin_s = flows().map(|flow| flow.started_s).reduce(f64::min);
        let begin_s = self.began_unix_s + begin_s.unwrap_or_default();
        let ends = flows().map(|flow| self.began_unix_s + flow.started_s + flow.total_s);
        (begin_s, ends.fold(begin_s, f64::max))
    }

    /// What each flow got while receivers counted, all over the same time. That ends with the receipt: it
    /// needs as long as an acknowledgement, and by those rivals are counted.
    fn share(&self) -> Option<Share> {
        let counted = self.flows.iter().flat_map(|flow| {
            let opened_s = self.began_unix_s + flow.started_s;
            let streams = flow.transfers.iter();
            streams.map(move |one| {
                let to_s = opened_s + one.started_s + one.seconds;
                (to_s - one.receiver_s, to_s)
            })
        });
        let earliest = |(a, b): (f64, f64), (c, d): (f64, f64)| (a.min(c), b.max(d));
        // Exchanges are no streams.
        let (from_s, to_s) = counted.reduce(earliest).unwrap_or_else(|| self.span());
        let seconds = to_s - from_s;
        (seconds > 0.0).then(|| {
            let flows = self.flows.iter();
            Share {
                from_s,
                to_s,
                own_bps: flows.map(|flow| bits(flow.bytes) / seconds).collect(),
            }
        })
    }

    /// The samples of its flows as looks at a host's sockets, of transfer `number`.
    fn snapshots(&self, number: u32) -> Vec<Snapshot> {
        let mut samples: Vec<(f64, u64, Reading)> = Vec::new();
        for (cookie, flow) in (u64::from(number) << 32..).zip(&self.flows) {
            let connected_s = flow.started_s + flow.connect_s.unwrap_or_default();
            let opened_s = self.began_unix_s + connected_s;
            let readings = flow.samples.iter();
            samples.extend(readings.map(|at| (opened_s + at.at_s, cookie, at.reading())));
        }
        samples.sort_by(|(one, ..), (other, ..)| one.total_cmp(other));
        let mut snapshots: Vec<Snapshot> = Vec::new();
        for (at_unix_s, cookie, reading) in samples {
            // A look at all flows takes no longer than this; a flow is in it once.
            let same = |look: &&mut Snapshot| {
                at_unix_s - look.at_unix_s < ONE_LOOK_S && !look.sockets.contains_key(&cookie)
            };
            if let Some(look) = snapshots.last_mut().filter(same) {
                look.sockets.insert(cookie, reading);
            } else {
                snapshots.push(Snapshot {
                    at_unix_s,
                    sockets: [(cookie, reading)].into(),
                });
            }
        }
        snapshots
    }
}

/// Samples less apart than this belong together.
const ONE_LOOK_S: f64 = 0.000_5;

// === impl Sample ===

impl Sample {
    fn reading(&self) -> Reading {
        Reading {
            acknowledged: self.acknowledged,
            received: 0,
            cwnd: self.cwnd,
            in_flight: self.in_flight,
            rtt_s: (self.rtt_s > 0.0).then_some(self.rtt_s),
            retransmissions: self.retransmits,
        }
    }
}

// === impl Stream ===

impl Stream {
    /// Payload bits per second over the last half of the time.
    fn steady_bps(&self) -> Option<f64> {
        let half = self.receiver_s / 2.0;
        let before = self.progress.iter().rev().find(|(at, _)| *at <= half)?;
        let last = self.progress.last()?;
        let (end_s, end) = if last.1 >= self.bytes {
            *last
        } else {
            (self.receiver_s, self.bytes)
        };
        let seconds = end_s - before.0;
        let bytes = end.checked_sub(before.1)?;
        (seconds > 0.0).then(|| bits(bytes) / seconds)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn document() -> Document {
        let text = r#"{
            "began_unix_s": 100.0,
            "flows": [
                { "started_s": 0.0, "connect_s": 0.5, "total_s": 2.25, "bytes": 4000, "samples": [
                    { "at_s": 0.25, "acknowledged": 1000, "cwnd": 2000, "rtt_s": 0.1,
                      "in_flight": 500, "retransmits": 1 },
                    { "at_s": 0.5, "acknowledged": 1500, "cwnd": 2000, "rtt_s": 0.0,
                      "in_flight": 0, "retransmits": 1 } ],
                  "transfers": [
                    { "bytes": 4000, "started_s": 0.75, "seconds": 1.5, "receiver_s": 1.0,
                      "progress": [[0.25, 1000], [0.5, 1500], [0.75, 2500], [1.0, 4000]] } ],
                  "exchanges": { "samples_s": [0.25, 0.5] }, "error": null },
                { "started_s": 0.25, "connect_s": 0.25, "total_s": 2.75, "bytes": 16, "samples": [
                    { "at_s": 0.2501, "acknowledged": 7, "cwnd": 20, "rtt_s": 0.1,
                      "in_flight": 5, "retransmits": 0 } ],
                  "transfers": [
                    { "bytes": 8, "started_s": 0.25, "seconds": 1.0, "receiver_s": 0.25, "progress": [] },
                    { "bytes": 8, "started_s": 1.25, "seconds": 1.5, "receiver_s": 1.0, "progress": [] } ],
                  "exchanges": null, "error": null } ],
            "totals": { "bytes": 4016, "seconds": 3.0, "data_ok": true }
        }"#;
        serde_json::from_str(text).unwrap()
    }

    #[test]
    fn each_kind_has_its_own_clock() {
        let seconds = |kind, lasts| document().transfer(kind, lasts).seconds;
        assert!((seconds(Kind::Stream, false) - 3.0).abs() < 1e-9);
        assert!((seconds(Kind::Stream, true) - 1.0).abs() < 1e-9);
        assert!((seconds(Kind::Burst, false) - 2.5).abs() < 1e-9);
        assert!((seconds(Kind::Exchange, false) - 0.75).abs() < 1e-9);
    }

    #[test]
    fn the_last_half_is_the_steady_one() {
        let transfer = document().transfer(Kind::Stream, true);
        assert_eq!((transfer.bytes, transfer.failure), (4_016, None));
        // 2500 bytes in the last half second.
        let steady = transfer.steady_bps.unwrap();
        assert!((steady - 40_000.0).abs() < 1e-6, "{steady}");
    }

    #[test]
    fn flows_share_the_time_from_the_first_counted_byte_to_the_last_receipt() {
        let document = document();
        assert_eq!(document.span(), (100.0, 103.0));
        // The first stream counts from 101.25 to 102.25; the others from 101.25 to 101.5 and 102 to 103.
        let share = document.share().unwrap();
        assert_eq!((share.from_s, share.to_s), (101.25, 103.0));
        assert_eq!(share.own_bps, [32_000.0 / 1.75, 128.0 / 1.75]);
    }

    #[test]
    fn samples_of_flows_at_the_same_moment_are_one_look() {
        // Both connections were open half a second after the beginning.
        let looks = document().snapshots(2);
        let (first, second) = (2 << 32, (2 << 32) + 1);
        let sockets: Vec<Vec<u64>> = looks
            .iter()
            .map(|look| look.sockets.keys().copied().collect())
            .collect();
        assert_eq!(sockets, [vec![first, second], vec![first]]);
        assert!((looks[0].at_unix_s - 100.75).abs() < 1e-9);
        assert_eq!(looks[0].sockets[&first].rtt_s, Some(0.1));
        assert_eq!(looks[1].sockets[&first].rtt_s, None);
    }
}
