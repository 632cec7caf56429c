//! One connection at the serving end.

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, TryRecvError, channel};
use std::thread;
use std::time::{Duration, Instant};

use units::Rate;

use crate::engine::{EngineError, Stream};
use crate::failure::FlowError;
use crate::incoming::Incoming;
use crate::live::{Live, Sampler};
use crate::outgoing::Outgoing;
use crate::pattern::to_u64;
use crate::protocol::{Ask, Frame, Hello, Receipt, Report};
use crate::reading::{Next, Reading};

/// How long a stranger may take to introduce itself.
const INTRODUCTION: Duration = Duration::from_secs(10);

/// What a connection carried.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Served {
    /// Payload bytes received.
    pub received: u64,
    /// Payload bytes sent.
    pub sent: u64,
    /// Since the connection was accepted.
    pub seconds: f64,
    /// Offset of the first byte received that was not the one sent.
    pub first_difference: Option<u64>,
    /// What the client said of the streams that it received.
    pub receipts: u64,
}

/// What the reading half wants the writing half to do.
enum Job {
    Send(Ask),
    Give(Receipt),
}

/// Serves to the end of the connection.
pub(super) fn serve(stream: &Arc<dyn Stream>) -> (Served, Option<FlowError>) {
    let start = Instant::now();
    let mut served = Served::default();
    let error = attend(stream, &mut served).err();
    served.seconds = start.elapsed().as_secs_f64();
    (served, error)
}

fn attend(stream: &Arc<dyn Stream>, served: &mut Served) -> Result<(), FlowError> {
    let mut reading = Reading::new(&**stream);
    stream
        .limit_wait(Some(INTRODUCTION))
        .map_err(FlowError::Receive)?;
    let Some(hello) = introduction(&mut reading)? else {
        // A port scan or a health check: connected, said nothing, went.
        return Ok(());
    };
    stream.limit_wait(None).map_err(FlowError::Receive)?;
    let pace = hello.pace_bps.map(Rate::bit_per_s);
    if let Err(error) = stream.adjust(hello.congestion_control.as_deref(), pace) {
        return Err(refuse(stream, error));
    }
    let session = Session {
        stream,
        hello: &hello,
    };
    match hello.response {
        Some(response) => session.exchanges(&mut reading, response, served),
        None => session.streams(&mut reading, served),
    }
}

fn introduction(reading: &mut Reading<'_>) -> Result<Option<Hello>, FlowError> {
    let mut hello = None;
    reading.frames(|frame, _| {
        let Frame::Hello(said) = frame else {
            return Err(FlowError::Unexpected {
                what: "something before its introduction",
            });
        };
        hello = Some(said);
        Ok(Next::Enough)
    })?;
    Ok(hello)
}

/// Says why not; the client gets the chain of causes in one line.
fn refuse(stream: &Arc<dyn Stream>, error: EngineError) -> FlowError {
    let mut why = error.to_string();
    let mut cause = std::error::Error::source(&error);
    while let Some(next) = cause {
        why = format!("{why}: {next}");
        cause = next.source();
    }
    // The peer may have gone; what counts is the error that is returned.
    let _ = Outgoing::new(&**stream, 0).frame(&Frame::Refusal(why));
    FlowError::Open(error)
}

struct Session<'a> {
    stream: &'a Arc<dyn Stream>,
    hello: &'a Hello,
}

// === impl Session ===

impl Session<'_> {
    fn incoming(&self) -> Incoming {
        Incoming::new(
            self.hello.seed,
            Some(Duration::from_nanos(self.hello.interval_ns)),
            self.hello.window_ns.map(Duration::from_nanos),
            self.hello.read_pause,
        )
    }

    /// Every stream that ends is answered by one of `response` bytes, from one thread.
    fn exchanges(
        &self,
        reading: &mut Reading<'_>,
        response: u64,
        served: &mut Served,
    ) -> Result<(), FlowError> {
        let mut incoming = self.incoming();
        let mut outgoing = Outgoing::new(&**self.stream, !self.hello.seed);
        reading.frames(|frame, now| {
            match frame {
                Frame::Data(bytes) => {
                    served.received = served.received.saturating_add(to_u64(bytes.len()));
                    incoming.data(bytes, now);
                    pause(&mut incoming);
                }
                Frame::End => {
                    let receipt = incoming.end();
                    served.first_difference = receipt.and_then(|receipt| receipt.first_difference);
                    served.sent += outgoing
                        .stream(Ask::Bytes(response), |_| Ok(true))
                        .map_err(FlowError::Send)?;
                }
                Frame::Hello(_)
                | Frame::Ask(_)
                | Frame::Receipt(_)
                | Frame::Report(_)
                | Frame::Refusal(_) => return Err(out_of_place()),
            }
            Ok(Next::More)
        })?;
        Ok(())
    }

    /// Streams both ways: this thread reads, another one writes.
    fn streams(&self, reading: &mut Reading<'_>, served: &mut Served) -> Result<(), FlowError> {
        let (jobs, todo) = channel();
        thread::scope(|scope| {
            let writer = scope.spawn(move || self.write(&todo));
            let read = self.read(reading, &jobs, served);
            drop(jobs);
            // The client has gone, or is not understood: nobody waits for the rest.
            self.stream.shut_down();
            // A panic of the writer is one of ours.
            if let Ok(sent) = writer.join() {
                served.sent = sent;
            }
            read
        })
    }

    fn read(
        &self,
        reading: &mut Reading<'_>,
        jobs: &Sender<Job>,
        served: &mut Served,
    ) -> Result<(), FlowError> {
        let mut incoming = self.incoming();
        let result = reading.frames(|frame, now| {
            let receipt = match frame {
                Frame::Data(bytes) => {
                    served.received = served.received.saturating_add(to_u64(bytes.len()));
                    let receipt = incoming.data(bytes, now);
                    pause(&mut incoming);
                    receipt
                }
                Frame::End => incoming.end(),
                Frame::Ask(ask) => {
                    // A writer that has gone shows as an error of the stream here, too.
                    let _ = jobs.send(Job::Send(ask));
                    None
                }
                Frame::Receipt(_) => {
                    served.receipts += 1;
                    None
                }
                Frame::Hello(_) | Frame::Report(_) | Frame::Refusal(_) => {
                    return Err(out_of_place());
                }
            };
            if let Some(receipt) = receipt {
                served.first_difference = receipt.first_difference;
                let _ = jobs.send(Job::Give(receipt));
            }
            Ok(Next::More)
        });
        match result {
            Ok(_) => Ok(()),
            // A client that has all it asked for goes without reading what is still under way.
            Err(FlowError::Receive(_)) if served.receipts > 0 => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Does jobs in order, receipts before the rest; returns the payload bytes sent.
    fn write(&self, todo: &Receiver<Job>) -> u64 {
        let mut outgoing = Outgoing::new(&**self.stream, !self.hello.seed);
        let mut waiting = VecDeque::new();
        let mut sent = 0;
        while let Some(job) = waiting.pop_front().or_else(|| todo.recv().ok()) {
            let done = match job {
                Job::Give(receipt) => outgoing.frame(&Frame::Receipt(receipt)),
                Job::Send(ask) => self
                    .send(&mut outgoing, ask, todo, &mut waiting)
                    .map(|bytes| sent += bytes),
            };
            if done.is_err() {
                // The reading half sees the same and says so.
                self.stream.shut_down();
                break;
            }
        }
        sent
    }

    fn send(
        &self,
        outgoing: &mut Outgoing<'_>,
        ask: Ask,
        todo: &Receiver<Job>,
        waiting: &mut VecDeque<Job>,
    ) -> io::Result<u64> {
        let interval = Duration::from_nanos(self.hello.interval_ns);
        let live = Arc::new(Live::new(0, Arc::clone(self.stream)));
        let sampler = Sampler::default();
        sampler.add(&live);
        let sent = thread::scope(|scope| {
            if !interval.is_zero() {
                scope.spawn(|| sampler.run(interval, &mut |_| {}));
            }
            let sent = outgoing.stream(ask, |outgoing| {
                loop {
                    match todo.try_recv() {
                        Ok(Job::Give(receipt)) => outgoing.frame(&Frame::Receipt(receipt))?,
                        Ok(job @ Job::Send(_)) => waiting.push_back(job),
                        Err(TryRecvError::Empty) => return Ok(true),
                        Err(TryRecvError::Disconnected) => return Ok(false),
                    }
                }
            });
            sampler.stop();
            sent
        })?;
        live.sample();
        let report = Report {
            congestion_control: self.stream.congestion_control(),
            samples: live.take_samples(),
        };
        outgoing.frame(&Frame::Report(report))?;
        Ok(sent)
    }
}

fn pause(incoming: &mut Incoming) {
    if let Some(pause) = incoming.pause() {
        thread::sleep(pause);
    }
}

const fn out_of_place() -> FlowError {
    FlowError::Unexpected {
        what: "a frame that has no place here",
    }
}
