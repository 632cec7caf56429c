//! The kernel's TCP over the emulated path, in namespaces of its own for each run, so that the n-th packet
//! of a direction is the n-th of the transfer and meets the fate that the seed gives it.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use link::PathSpec;
use longhaul_lab::emulator::{self, Event, Interval};
use sys::namespace::NetworkNamespace;
use sys::realtime::{self, Priority};
use sys::tcp_info::TcpInfo;
use sys::tun::Tun;
use units::Bytes;

use crate::{Result, Trace, Windows};

const FAR: Ipv4Addr = Ipv4Addr::new(10, 200, 0, 2);

/// Distinguishes the namespaces of runs that go on at the same time.
static NUMBER: AtomicU32 = AtomicU32::new(0);

pub(crate) struct Bench {
    near: NetworkNamespace,
    far: NetworkNamespace,
    emulator: Child,
    reports: BufReader<ChildStdout>,
}

/// Lateness of the link that changes no transfer here: two in a hundred of the shortest round trip.
const GRAIN: Duration = Duration::from_millis(1);

/// Seconds from the SYN to the last byte read, and the sender's windows on the way, every few ms.
pub(crate) fn bulk(path: &PathSpec, algorithm: &str, bytes: u64, step: Duration) -> Result<Trace> {
    in_time(path, algorithm, &fair, |bench| one_bulk(bench, bytes, step))
}

/// The same where single packets decide: none may come later than `spare`.
pub(crate) fn bulk_to_the_packet(
    path: &PathSpec,
    algorithm: &str,
    bytes: u64,
    step: Duration,
    spare: Duration,
) -> Result<Trace> {
    let no_later = |link: &Interval, rtt| {
        let mut problems = fair(link, rtt);
        let latest = link.counters.lateness.max_s;
        if latest > spare.as_secs_f64() {
            problems.push(format!("a packet came {:.2} ms late", latest * 1e3));
        }
        problems
    };
    in_time(path, algorithm, &no_later, |bench| {
        one_bulk(bench, bytes, step)
    })
}

/// What is wrong with a link on which single packets decide nothing.
fn fair(link: &Interval, rtt: Duration) -> Vec<String> {
    link.problems(rtt, GRAIN)
}

fn one_bulk(bench: &Bench, bytes: u64, step: Duration) -> Result<Trace> {
    let listener = bench.far.enter(|| TcpListener::bind((FAR, 0)))??;
    let address = listener.local_addr()?;
    let begun = Instant::now();
    let sender = bench.near.enter(|| TcpStream::connect(address))??;
    let done = AtomicBool::new(false);
    let (seconds, (windows, ssthresh)) = thread::scope(|scope| -> Result<_> {
        let feeder = scope.spawn(|| feed(&sender, bytes));
        let watcher = scope.spawn(|| watch(&sender, step, &done));
        // The connection is accepted half a round trip after the sender may begin.
        let took = listener.accept().and_then(|(mut receiver, _)| {
            drain(&mut receiver, bytes)?;
            Ok(begun.elapsed())
        });
        done.store(true, Ordering::Relaxed);
        let windows = watcher.join().map_err(|_| "the watcher panicked")??;
        feeder.join().map_err(|_| "the sender panicked")??;
        Ok((took?.as_secs_f64(), windows))
    })?;
    Ok(Trace {
        seconds,
        windows,
        ssthresh,
    })
}

/// Milliseconds of `count` uploads on one connection: a head, an object, an answer; the next one follows
/// `pause` later. The first includes the handshake.
pub(crate) fn uploads(
    path: &PathSpec,
    sizes: (u64, u64, u64),
    count: u32,
    pause: Duration,
) -> Result<Vec<f64>> {
    in_time(path, "cubic", &fair, |bench| {
        some_uploads(bench, sizes, count, pause)
    })
}

fn some_uploads(
    bench: &Bench,
    (head, object, answer): (u64, u64, u64),
    count: u32,
    pause: Duration,
) -> Result<Vec<f64>> {
    let listener = bench.far.enter(|| TcpListener::bind((FAR, 0)))??;
    let address = listener.local_addr()?;
    let server = thread::spawn(move || -> io::Result<()> {
        realtime::request(Priority::Low, false);
        let (mut stream, _) = listener.accept()?;
        stream.set_nodelay(true)?;
        for _ in 0..count {
            drain(&mut stream, head + object)?;
            stream.write_all(&vec![1; usize::try_from(answer).unwrap_or(0)])?;
        }
        Ok(())
    });
    let mut times = Vec::new();
    let mut begun = Instant::now();
    let mut client = bench.near.enter(|| TcpStream::connect(address))??;
    client.set_nodelay(true)?;
    for _ in 0..count {
        feed(&client, head)?;
        feed(&client, object)?;
        drain(&mut client, answer)?;
        times.push(begun.elapsed().as_secs_f64() * 1e3);
        thread::sleep(pause);
        begun = Instant::now();
    }
    server.join().map_err(|_| "the server panicked")??;
    Ok(times)
}

/// What `measure` finds on `path`. Its thread waits behind no ordinary one; and where `problems` finds that the link
/// was late it is repeated, twice at most, as blocks of the lab are.
fn in_time<T: Send>(
    path: &PathSpec,
    algorithm: &str,
    problems: &dyn Fn(&Interval, Duration) -> Vec<String>,
    measure: impl Fn(&Bench) -> Result<T> + Sync,
) -> Result<T> {
    const TRIES: u32 = 3;
    let mut why = Vec::new();
    for _ in 0..TRIES {
        let bench = Bench::new(path, algorithm)?;
        let found = thread::scope(|scope| {
            let measuring = scope.spawn(|| {
                realtime::request(Priority::Low, false);
                measure(&bench)
            });
            measuring.join().map_err(|_| "a measuring thread panicked")
        })??;
        why = problems(&bench.stop()?, path.rtt());
        if why.is_empty() {
            return Ok(found);
        }
    }
    Err(format!("too late to be judged, {TRIES} times: {}", why.join("; ")).into())
}

fn feed(mut stream: &TcpStream, bytes: u64) -> io::Result<()> {
    let block = vec![0; 1 << 16];
    let mut left = bytes;
    while left > 0 {
        let part = usize::try_from(left).map_or(block.len(), |left| left.min(block.len()));
        stream.write_all(&block[..part])?;
        left -= part as u64;
    }
    Ok(())
}

fn drain(stream: &mut TcpStream, bytes: u64) -> io::Result<()> {
    let mut buffer = vec![0; 1 << 18];
    let mut left = bytes;
    while left > 0 {
        let length = stream.read(&mut buffer)?;
        if length == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        left = left.saturating_sub(length as u64);
    }
    Ok(())
}

/// The windows, and the threshold at the end.
fn watch(stream: &TcpStream, step: Duration, done: &AtomicBool) -> Result<(Windows, Option<u32>)> {
    let mut windows = Vec::new();
    let mut ssthresh = None;
    while !done.load(Ordering::Relaxed) {
        let info = TcpInfo::of(stream)?;
        ssthresh = info.snd_ssthresh;
        let acknowledged = info.bytes_acked.map_or(0, Bytes::get);
        windows.push((acknowledged, info.snd_cwnd));
        thread::sleep(step);
    }
    Ok((windows, ssthresh))
}

impl Bench {
    fn new(path: &PathSpec, algorithm: &str) -> Result<Self> {
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let near = NetworkNamespace::create(&format!("near{number}"))?;
        let far = NetworkNamespace::create(&format!("far{number}"))?;
        let near_tun = Tun::create_in(&near, "wan0")?;
        let far_tun = Tun::create_in(&far, "wan0")?;
        for (namespace, local, remote) in [(&near, 1, 2), (&far, 2, 1)] {
            // Nothing but the transfer may take a place in the order of packets.
            namespace.set_sysctl("net.ipv6.conf.all.disable_ipv6", "1")?;
            namespace.set_sysctl("net.ipv4.tcp_no_metrics_save", "1")?;
            namespace.set_sysctl("net.ipv4.tcp_rmem", "4096 131072 33554432")?;
            namespace.set_sysctl("net.ipv4.tcp_wmem", "4096 16384 67108864")?;
            namespace.ip(&format!(
                "link set wan0 up\n\
                 addr add 10.200.0.{local} peer 10.200.0.{remote} dev wan0\n\
                 route change 10.200.0.{remote} dev wan0 congctl {algorithm}"
            ))?;
        }
        let mut command = Command::new("/proc/self/exe");
        command
            .arg("emulator")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped());
        let setup = emulator::hand_over(&mut command, path.clone(), near_tun, far_tun);
        let mut emulator = command.spawn()?;
        let input = emulator.stdin.as_mut().ok_or("no input")?;
        writeln!(input, "{}", serde_json::to_string(&setup)?)?;
        let mut reports = BufReader::new(emulator.stdout.take().ok_or("no output")?);
        let Event::Ready { .. } = next_event(&mut reports)? else {
            return Err("the emulator did not start with its readiness".into());
        };
        Ok(Self {
            near,
            far,
            emulator,
            reports,
        })
    }

    /// Ends it; what the link says of itself.
    fn stop(mut self) -> Result<Interval> {
        let mut input = self.emulator.stdin.take().ok_or("no input")?;
        writeln!(input, "read")?;
        let Event::Interval(interval) = next_event(&mut self.reports)? else {
            return Err("a command was not answered by an interval".into());
        };
        drop(input);
        let Event::Stopped(_) = next_event(&mut self.reports)? else {
            return Err("the emulator did not say that it stopped".into());
        };
        if self.emulator.wait()?.success() {
            Ok(interval)
        } else {
            Err("the emulator failed".into())
        }
    }
}

fn next_event(reports: &mut impl BufRead) -> Result<Event> {
    let mut line = String::new();
    reports.read_line(&mut line)?;
    Ok(serde_json::from_str(&line)?)
}
