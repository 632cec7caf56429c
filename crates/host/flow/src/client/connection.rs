//! One connection of a client, from connect to its last receipt.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread;
use std::time::{Duration, Instant};

use record::flow::{Direction, Exchanges, Flow, Transfer};

use units::Bytes;

use super::totals::rate;
use super::{Directions, GRACE, Run, Workload, sink};
use crate::engine::{LOOK, Opened, Stream};
use crate::failure::FlowError;
use crate::incoming::Incoming;
use crate::limits;
use crate::live::Live;
use crate::outgoing::Outgoing;
use crate::pattern::to_u64;
use crate::protocol::{Ask, Frame, Hello, Receipt, Report};
use crate::reading::{Next, Reading};

/// How long a report may take after the stream: what the server had buffered comes before it.
const REPORT: Duration = Duration::from_secs(10);

/// What the reading half has seen.
enum Came {
    /// The server has received a stream.
    Receipt(Receipt, Instant),
    /// We have received a stream, the last byte at that time.
    Received(Receipt, Instant),
    /// The server's samples.
    Report(Report),
}

/// Runs one connection; what went wrong is in the record.
pub(super) fn run(run: &Run<'_>, lane: u64, index: u64, asks: &[Ask]) -> Flow {
    let begun = Instant::now();
    let mut flow = Flow {
        index,
        lane,
        started_s: begun.duration_since(run.start).as_secs_f64(),
        ..Flow::default()
    };
    if let Err(error) = open(run, &mut flow, begun, asks) {
        flow.error = Some(chain(&error));
    }
    flow.limits = limits::of(&flow.samples);
    flow
}

fn open(run: &Run<'_>, flow: &mut Flow, begun: Instant, asks: &[Ask]) -> Result<(), FlowError> {
    let opened = run
        .engine
        .connect(run.plan.server, &run.plan.socket, &|| {
            run.control.is_stopped()
        })
        .map_err(FlowError::Open)?;
    flow.connect_s = Some(begun.elapsed().as_secs_f64());
    let Opened { stream, settings } = opened;
    flow.settings = settings;
    flow.local = stream.local().map(|address| address.to_string());
    flow.peer = stream.peer().map(|address| address.to_string());
    flow.congestion_control = stream.congestion_control();
    let live = Arc::new(Live::new(flow.index, Arc::clone(&stream)));
    run.sampler.add(&live);
    let mut connection = Connection {
        run,
        stream: &*stream,
        live: &live,
        begun,
        flow,
    };
    let result = connection.drive(asks);
    live.sample();
    stream.shut_down();
    run.sampler.remove(&live, flow.bytes);
    if run.plan.workload.direction() != Directions::Down {
        flow.samples = live.take_samples();
    }
    flow.goodput_bps = rate(flow.bytes, flow.seconds);
    let judged = flow.transfers.iter().map(|transfer| transfer.data_ok);
    let data_ok = judged.fold(flow.data_ok.unwrap_or(true), |all, ok| all && ok);
    flow.data_ok = (!run.plan.sink).then_some(data_ok);
    result
}

struct Connection<'a> {
    run: &'a Run<'a>,
    stream: &'a dyn Stream,
    live: &'a Live,
    begun: Instant,
    flow: &'a mut Flow,
}

// === impl Connection ===

impl Connection<'_> {
    fn drive(&mut self, asks: &[Ask]) -> Result<(), FlowError> {
        let seed = self
            .run
            .plan
            .seed
            .wrapping_add(self.flow.index.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        if self.run.plan.sink {
            return self.sink(seed, asks);
        }
        let mut outgoing = Outgoing::new(self.stream, seed);
        outgoing
            .frame(&Frame::Hello(self.hello(seed)))
            .map_err(FlowError::Send)?;
        match self.run.plan.workload {
            Workload::Exchanges {
                request,
                response,
                count,
                idle,
            } => self.exchanges(&mut outgoing, seed, [request, response], (count, idle)),
            Workload::Sizes {
                direction, idle, ..
            } => self.streams(&mut outgoing, seed, direction, idle, asks),
            Workload::Duration { direction, .. } => {
                self.streams(&mut outgoing, seed, direction, Duration::ZERO, asks)
            }
        }
    }

    /// Streams to whoever takes them.
    fn sink(&mut self, seed: u64, asks: &[Ask]) -> Result<(), FlowError> {
        let idle = match self.run.plan.workload {
            Workload::Sizes { idle, .. } => idle,
            Workload::Duration { .. } | Workload::Exchanges { .. } => Duration::ZERO,
        };
        for (index, &ask) in asks.iter().enumerate() {
            if index > 0 {
                self.run.control.wait(idle);
            }
            if self.run.control.is_stopped() {
                break;
            }
            let carried = sink::stream(self.run, self.stream, seed, ask)?;
            self.flow.bytes += carried.bytes;
            self.flow.seconds += carried.seconds;
        }
        self.flow.total_s = self.begun.elapsed().as_secs_f64();
        Ok(())
    }

    fn hello(&self, seed: u64) -> Hello {
        let plan = self.run.plan;
        let server_sends = plan.workload.direction().down();
        let of_sender = plan.socket.congestion_control.as_ref();
        Hello {
            seed,
            interval_ns: nanos(plan.interval),
            window_ns: window(&plan.workload).map(nanos),
            read_pause: plan.read_pause,
            response: match plan.workload {
                Workload::Exchanges { response, .. } => Some(response.get()),
                Workload::Sizes { .. } | Workload::Duration { .. } => None,
            },
            congestion_control: of_sender.filter(|_| server_sends).cloned(),
            pace_bps: plan
                .socket
                .pace
                .filter(|_| server_sends)
                .map(units::Rate::bits_per_s),
        }
    }

    fn incoming(&self, seed: u64) -> Incoming {
        let plan = self.run.plan;
        Incoming::new(
            !seed,
            Some(plan.interval),
            window(&plan.workload),
            plan.read_pause,
        )
    }

    /// Requests and responses, from one thread.
    fn exchanges(
        &mut self,
        outgoing: &mut Outgoing<'_>,
        seed: u64,
        [request, response]: [Bytes; 2],
        (count, idle): (u64, Duration),
    ) -> Result<(), FlowError> {
        let request = request.get();
        let mut incoming = self.incoming(seed);
        let mut reading = Reading::new(self.stream);
        let mut spans = Vec::new();
        let mut result = Ok(());
        for number in 0..count {
            if number > 0 {
                self.run.control.wait(idle);
            }
            if self.run.control.is_stopped() {
                break;
            }
            let start = Instant::now();
            result = outgoing
                .stream(Ask::Bytes(request), |_| Ok(true))
                .map_err(FlowError::Send)
                .and_then(|_| self.response(&mut reading, &mut incoming))
                .map(|(receipt, at)| {
                    let whole = receipt.bytes == response.get();
                    let right = whole && receipt.first_difference.is_none();
                    self.flow.data_ok = Some(self.flow.data_ok.unwrap_or(true) && right);
                    self.flow.bytes += receipt.bytes + request;
                    spans.push(at.duration_since(start).as_secs_f64());
                });
            if result.is_err() {
                break;
            }
        }
        self.flow.total_s = self.begun.elapsed().as_secs_f64();
        self.flow.seconds = spans.iter().sum();
        self.flow.exchanges = Some(Exchanges {
            request,
            response: response.get(),
            ..quantiles(spans)
        });
        result
    }

    fn response(
        &self,
        reading: &mut Reading<'_>,
        incoming: &mut Incoming,
    ) -> Result<(Receipt, Instant), FlowError> {
        let mut last_at = Instant::now();
        let mut receipt = None;
        let whole = reading.frames(|frame, now| match frame {
            Frame::Data(bytes) => {
                last_at = now;
                self.live
                    .received
                    .fetch_add(to_u64(bytes.len()), Ordering::Relaxed);
                incoming.data(bytes, now);
                pause(incoming);
                Ok(Next::More)
            }
            Frame::End => {
                receipt = incoming.end();
                Ok(Next::Enough)
            }
            Frame::Refusal(why) => Err(FlowError::Refused { why }),
            Frame::Hello(_) | Frame::Ask(_) | Frame::Receipt(_) | Frame::Report(_) => {
                Err(out_of_place())
            }
        })?;
        let receipt = receipt.filter(|_| whole);
        receipt
            .map(|receipt| (receipt, last_at))
            .ok_or(FlowError::Ended {
                missing: "the response was complete",
            })
    }

    /// Streams one way or both: this thread writes, another one reads.
    fn streams(
        &mut self,
        outgoing: &mut Outgoing<'_>,
        seed: u64,
        direction: Directions,
        idle: Duration,
        asks: &[Ask],
    ) -> Result<(), FlowError> {
        let (tell, came) = channel();
        let mut incoming = self.incoming(seed);
        let (stream, live, run) = (self.stream, self.live, self.run);
        thread::scope(|scope| {
            let reader = scope.spawn(move || read(stream, live, run, &mut incoming, &tell));
            let mut result = Ok(());
            for (index, &ask) in asks.iter().enumerate() {
                if index > 0 {
                    run.control.wait(idle);
                }
                if run.control.is_stopped() {
                    break;
                }
                result = self.step(outgoing, direction, ask, &came);
                if result.is_err() {
                    break;
                }
            }
            self.flow.total_s = self.begun.elapsed().as_secs_f64();
            stream.shut_down();
            match reader.join() {
                // What the reader saw explains what the writer misses.
                Ok(Err(seen)) if result.is_err() => Err(seen),
                _ => result,
            }
        })
    }

    /// One stream one way, or one each way at the same time.
    fn step(
        &mut self,
        outgoing: &mut Outgoing<'_>,
        direction: Directions,
        ask: Ask,
        came: &Receiver<Came>,
    ) -> Result<(), FlowError> {
        let started = Instant::now();
        let control = self.run.control;
        let mut arrived = Vec::new();
        if direction.down() {
            outgoing.frame(&Frame::Ask(ask)).map_err(FlowError::Send)?;
        }
        if direction.up() {
            outgoing
                .stream(ask, |outgoing| {
                    while let Ok(next) = came.try_recv() {
                        acknowledge(outgoing, &next)?;
                        arrived.push(next);
                    }
                    let enough = arrived
                        .iter()
                        .any(|came| matches!(came, Came::Receipt(_, _)));
                    Ok(!enough && !control.is_stopped())
                })
                .map_err(FlowError::Send)?;
        }
        let mut wanted = Wanted {
            receipt: direction.up(),
            received: direction.down(),
            report: direction.down(),
        };
        let mut longest: f64 = 0.0;
        let mut patience = None;
        loop {
            for came in arrived.drain(..) {
                longest = longest.max(self.note(came, ask, started, &mut wanted));
            }
            if wanted.none() {
                break;
            }
            match came.recv_timeout(LOOK) {
                Ok(next) => {
                    acknowledge(outgoing, &next).map_err(FlowError::Send)?;
                    arrived.push(next);
                }
                Err(RecvTimeoutError::Disconnected) => {
                    if wanted.only_report() {
                        break;
                    }
                    return Err(FlowError::Ended {
                        missing: wanted.first(),
                    });
                }
                Err(RecvTimeoutError::Timeout) => {
                    if patience.is_none() {
                        patience = if control.is_stopped() {
                            Some((Instant::now(), GRACE))
                        } else if wanted.only_report() {
                            Some((Instant::now(), REPORT))
                        } else {
                            None
                        };
                    }
                    if patience.is_some_and(|(since, span)| since.elapsed() > span) {
                        if wanted.only_report() {
                            break;
                        }
                        return Err(FlowError::Stopped);
                    }
                }
            }
        }
        self.flow.seconds += longest;
        Ok(())
    }

    /// Puts what came into the record; the seconds of a transfer that it completes.
    fn note(&mut self, came: Came, ask: Ask, started: Instant, wanted: &mut Wanted) -> f64 {
        let (direction, receipt, at) = match came {
            Came::Receipt(receipt, at) => {
                wanted.receipt = false;
                (Direction::Up, receipt, at)
            }
            Came::Received(receipt, at) => {
                wanted.received = false;
                (Direction::Down, receipt, at)
            }
            Came::Report(report) => {
                wanted.report = false;
                if self.run.plan.workload.direction() == Directions::Down {
                    self.flow.congestion_control = report.congestion_control;
                    let earlier = self.flow.samples.last().map_or(0.0, |last| last.at_s);
                    self.flow
                        .samples
                        .extend(report.samples.into_iter().map(|mut sample| {
                            sample.at_s += earlier;
                            sample
                        }));
                }
                return 0.0;
            }
        };
        let seconds = at.duration_since(started).as_secs_f64();
        let receiver_s = Duration::from_nanos(receipt.duration_ns).as_secs_f64();
        let (whole, counts) = match ask {
            Ask::Bytes(bytes) => (receipt.bytes == bytes, seconds),
            Ask::Nanoseconds(_) => (true, receiver_s),
        };
        self.flow.bytes += receipt.bytes;
        self.flow.transfers.push(Transfer {
            direction,
            bytes: receipt.bytes,
            started_s: started.duration_since(self.begun).as_secs_f64(),
            seconds,
            receiver_s,
            goodput_bps: rate(receipt.bytes, counts),
            data_ok: whole && receipt.first_difference.is_none(),
            first_difference: receipt.first_difference,
            progress: receipt
                .progress
                .into_iter()
                .map(|(at, bytes)| (Duration::from_nanos(at).as_secs_f64(), bytes))
                .collect(),
        });
        counts
    }
}

/// What a step still waits for.
#[derive(Clone, Copy, Debug)]
struct Wanted {
    receipt: bool,
    received: bool,
    report: bool,
}

// === impl Wanted ===

impl Wanted {
    const fn none(self) -> bool {
        !self.receipt && !self.received && !self.report
    }

    const fn only_report(self) -> bool {
        !self.receipt && !self.received
    }

    const fn first(self) -> &'static str {
        if self.receipt {
            "its receipt came"
        } else {
            "its stream was complete"
        }
    }
}

/// Gives the server our receipt for what we received.
fn acknowledge(outgoing: &mut Outgoing<'_>, came: &Came) -> std::io::Result<()> {
    match came {
        Came::Received(receipt, _) => outgoing.frame(&Frame::Receipt(Receipt {
            progress: Vec::new(),
            ..receipt.clone()
        })),
        Came::Receipt(..) | Came::Report(_) => Ok(()),
    }
}

/// The reading half: until the connection ends.
fn read(
    stream: &dyn Stream,
    live: &Live,
    run: &Run<'_>,
    incoming: &mut Incoming,
    tell: &Sender<Came>,
) -> Result<(), FlowError> {
    let mut last_at = Instant::now();
    let mut cut = false;
    Reading::new(stream).frames(|frame, now| {
        let came = match frame {
            Frame::Data(bytes) => {
                let receipt = incoming.data(bytes, now);
                live.received
                    .fetch_add(to_u64(bytes.len()), Ordering::Relaxed);
                pause(incoming);
                if receipt.is_none() {
                    last_at = now;
                }
                if receipt.is_none() && run.control.is_stopped() && !cut {
                    cut = true;
                    incoming.end().map(|receipt| Came::Received(receipt, now))
                } else {
                    receipt
                        .filter(|_| !cut)
                        .map(|receipt| Came::Received(receipt, last_at))
                }
            }
            Frame::End => incoming
                .end()
                .filter(|_| !cut)
                .map(|receipt| Came::Received(receipt, last_at)),
            Frame::Receipt(receipt) => Some(Came::Receipt(receipt, now)),
            Frame::Report(report) => Some(Came::Report(report)),
            Frame::Refusal(why) => return Err(FlowError::Refused { why }),
            Frame::Hello(_) | Frame::Ask(_) => return Err(out_of_place()),
        };
        if let Some(came) = came {
            // The writing half may have gone, and then shuts the stream down.
            let _ = tell.send(came);
        }
        Ok(Next::More)
    })?;
    Ok(())
}

fn pause(incoming: &mut Incoming) {
    if let Some(pause) = incoming.pause() {
        thread::sleep(pause);
    }
}

/// The window in which a receiver counts.
const fn window(workload: &Workload) -> Option<Duration> {
    match workload {
        Workload::Duration { duration, .. } => Some(*duration),
        Workload::Sizes { .. } | Workload::Exchanges { .. } => None,
    }
}

fn nanos(span: Duration) -> u64 {
    u64::try_from(span.as_nanos()).unwrap_or(u64::MAX)
}

/// The nearest rank, so that every quantile is a time that was measured.
fn quantiles(samples_s: Vec<f64>) -> Exchanges {
    let mut sorted = samples_s.clone();
    sorted.sort_by(f64::total_cmp);
    let at = |percent: usize| {
        let rank = (sorted.len() * percent).div_ceil(100);
        sorted.get(rank.saturating_sub(1)).copied()
    };
    Exchanges {
        median_s: at(50),
        p95_s: at(95),
        p99_s: at(99),
        max_s: at(100),
        samples_s,
        ..Exchanges::default()
    }
}

fn chain(error: &FlowError) -> String {
    let mut text = error.to_string();
    let mut cause = std::error::Error::source(error);
    while let Some(next) = cause {
        text = format!("{text}: {next}");
        cause = next.source();
    }
    text
}

const fn out_of_place() -> FlowError {
    FlowError::Unexpected {
        what: "a frame that has no place here",
    }
}
