//! `longhaul explain --interface`: what passes an interface of this host, while it passes.

use std::fmt::Write as _;
use std::io::IsTerminal as _;
use std::net::IpAddr;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, SyncSender};
use std::time::{Duration, Instant};

use capture::Filter;
use record::explain::Capture;
use sys::namespace::NetworkNamespace;
use sys::packet_socket::{self, FrameCapture};
use units::Time;
use wire::LinkType;

use super::arguments::Explain;
use super::feed::Feed;
use super::{document, print};
use crate::commands::flow::on_signal;
use crate::failure::{Blame as _, Failure, Kind};
use crate::output;

/// Frames on their way from the kernel's ring to the analysis; 128 bytes each by default.
const QUEUED: usize = 1 << 16;
/// Between two looks at once, where explaining is quick.
const TICK: Duration = Duration::from_secs(1);

/// A frame as it passed.
struct Frame {
    at: Time,
    original_len: u32,
    data: Box<[u8]>,
}

/// Captures until the time is up or a signal comes, and explains.
pub(super) fn run(arguments: &Explain, interface: &str) -> Result<ExitCode, Failure> {
    let filter = filter(arguments)?;
    let stopped = Arc::new(AtomicBool::new(false));
    let stop = Arc::clone(&stopped);
    on_signal(Arc::new(move || stop.store(true, Ordering::Relaxed)))?;
    let lost = Arc::new(AtomicBool::new(false));
    let (sender, frames) = mpsc::sync_channel(QUEUED);
    let capture = start(arguments, interface, sender, Arc::clone(&lost))?;
    let mut session = Session {
        arguments,
        filter,
        interface,
        link: match capture.link_type() {
            packet_socket::LinkType::Ethernet => LinkType::ETHERNET,
            packet_socket::LinkType::Raw => LinkType::RAW,
        },
        feed: Feed::new(arguments)?,
        frames: 0,
        times: None,
    };
    if !arguments.follow {
        output::say(&format!(
            "capturing at {interface}; Ctrl-C ends and explains"
        ));
    }
    session.receive(&frames, &stopped)?;
    let summary = capture.stop().environment("the capture broke")?;
    while let Ok(frame) = frames.try_recv() {
        session.take(&frame);
    }
    session.finish(summary.dropped, lost.load(Ordering::Relaxed))
}

fn start(
    arguments: &Explain,
    interface: &str,
    sender: SyncSender<Frame>,
    lost: Arc<AtomicBool>,
) -> Result<FrameCapture, Failure> {
    let here = NetworkNamespace::current("this host").environment("cannot capture")?;
    // Every packet of the loopback passes twice, out and in.
    let once = interface == "lo";
    FrameCapture::start(&here, interface, arguments.snaplen, move |frame| {
        if once && frame.outgoing {
            return;
        }
        let frame = Frame {
            at: Time::from_nanos(frame.timestamp_ns),
            original_len: frame.original_length,
            data: frame.data.into(),
        };
        if sender.try_send(frame).is_err() {
            lost.store(true, Ordering::Relaxed);
        }
    })
    .map_err(|error| {
        Failure::new(Kind::Environment, error)
            .hint("capturing needs root or CAP_NET_RAW; `ip link` lists interfaces")
    })
}

/// What the user asked for, without the remote session that he or she sits in.
fn filter(arguments: &Explain) -> Result<Filter, Failure> {
    let asked: Option<Filter> = match &arguments.filter {
        Some(text) => Some(text.parse().usage("`--filter` cannot be understood")?),
        None => None,
    };
    let session = std::env::var("SSH_CONNECTION").ok();
    let own = session
        .as_deref()
        .and_then(session_ends)
        .map(|(client, server)| Filter::without_session(client, server));
    Ok(match (asked, own) {
        (Some(asked), Some(own)) => Filter::And(Box::new(own), Box::new(asked)),
        (Some(one), None) | (None, Some(one)) => one,
        (None, None) => Filter::Or(
            Box::new(Filter::Tcp),
            Box::new(Filter::Not(Box::new(Filter::Tcp))),
        ),
    })
}

/// `client-address client-port server-address server-port`, as sshd(8) sets it.
fn session_ends(text: &str) -> Option<((IpAddr, u16), (IpAddr, u16))> {
    let mut words = text.split(' ');
    let mut end = || Some((words.next()?.parse().ok()?, words.next()?.parse().ok()?));
    Some((end()?, end()?))
}

/// A capture under way, and what is known of it.
struct Session<'a> {
    arguments: &'a Explain,
    filter: Filter,
    interface: &'a str,
    link: LinkType,
    feed: Feed,
    frames: u64,
    times: Option<(Time, Time)>,
}

impl Session<'_> {
    fn receive(&mut self, frames: &Receiver<Frame>, stopped: &AtomicBool) -> Result<(), Failure> {
        let started = Instant::now();
        let end = self.arguments.duration.map(|span| started + span.get());
        let mut look_at = started + TICK;
        while !stopped.load(Ordering::Relaxed) && end.is_none_or(|end| Instant::now() < end) {
            let until = end.map_or(look_at, |end| end.min(look_at));
            // Short enough to hear of a signal.
            let patience = until
                .saturating_duration_since(Instant::now())
                .min(Duration::from_millis(100));
            match frames.recv_timeout(patience) {
                Ok(frame) => self.take(&frame),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return Ok(()),
            }
            if self.arguments.follow && Instant::now() >= look_at {
                let began = Instant::now();
                self.look()?;
                // A long capture takes long to explain: a tenth of the time at most goes there.
                look_at = Instant::now() + TICK.max(began.elapsed() * 9);
            }
        }
        Ok(())
    }

    fn take(&mut self, frame: &Frame) {
        self.frames += 1;
        let decoded = wire::decode(
            self.link,
            frame.at,
            self.frames,
            &frame.data,
            frame.original_len,
        );
        let Ok(observation) = decoded else { return };
        if self.filter.matches(&observation) {
            let (first, last) = self.times.unwrap_or((frame.at, frame.at));
            self.times = Some((first.min(frame.at), last.max(frame.at)));
            self.feed.take(&observation);
        }
    }

    /// What is known by now: a screen that is drawn again, or a line of JSON.
    fn look(&self) -> Result<(), Failure> {
        let fed = self.feed.so_far();
        let document = document(self.arguments, fed, vec![self.capture(Vec::new())]);
        if self.arguments.json {
            return output::json_line(&document);
        }
        let text = report::text::explain(&document, output::style());
        if !std::io::stdout().is_terminal() {
            return output::data(&text);
        }
        output::data(&screen(&text))
    }

    fn finish(self, dropped: u64, lost: bool) -> Result<ExitCode, Failure> {
        let mut caveats = Vec::new();
        if dropped > 0 {
            caveats.push(format!(
                "the kernel dropped {dropped} packets of the capture"
            ));
        }
        if lost {
            caveats.push("frames came faster than they could be read; some are missing".to_owned());
        }
        let capture = self.capture(caveats);
        let arguments = self.arguments;
        let fed = self.feed.finish()?;
        print(arguments, &document(arguments, fed, vec![capture]))
    }

    fn capture(&self, caveats: Vec<String>) -> Capture {
        Capture {
            file: self.interface.to_owned(),
            format: "live".to_owned(),
            packets: self.frames,
            duration_s: self
                .times
                .map_or(0.0, |(first, last)| last.since(first).as_secs_f64()),
            caveats,
            ..Capture::default()
        }
    }
}

/// As much of `text` as the terminal has lines, over what stood there.
fn screen(text: &str) -> String {
    const CLEAR: &str = "\x1b[H\x1b[2J";
    let rows = terminal_size::terminal_size().map_or(24, |(_, height)| usize::from(height.0));
    let mut shown = String::from(CLEAR);
    for line in text.lines().take(rows.saturating_sub(1)) {
        // Writing to a String cannot fail.
        let _ = writeln!(shown, "{line}");
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ends_of_a_remote_session_are_read_as_sshd_writes_them() {
        let (client, server) = session_ends("203.0.113.7 50514 10.0.0.2 22").unwrap();
        assert_eq!(
            (client.0.to_string(), client.1),
            ("203.0.113.7".to_owned(), 50514)
        );
        assert_eq!(
            (server.0.to_string(), server.1),
            ("10.0.0.2".to_owned(), 22)
        );
        assert!(session_ends("2001:db8::1 50514 2001:db8::2 22").is_some());
        assert!(session_ends("").is_none() && session_ends("a b c d").is_none());
    }
}
