//! Captures in files and on standard input.

use std::collections::BTreeMap;
use std::io::{IsTerminal as _, Read};
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context as _;
use capture::{Ending, Format, Framer, Summary};
use indicatif::{ProgressBar, ProgressStyle};
use record::explain::Capture;
use survey::{Stopped, Survey, Surveyed};
use units::Time;

use super::arguments::Explain;
use super::feed::{Fed, Feed};
use super::outputs;
use crate::failure::{Blame as _, Failure};
use crate::input;

/// Bytes read at once; larger chunks bring nothing, smaller ones cost system calls.
const CHUNK: usize = 1 << 20;

/// Reads everything that is named, in order of time, and says what it was.
pub(super) fn read_all(
    arguments: &Explain,
    named: &[PathBuf],
) -> Result<(Vec<Capture>, Fed), Failure> {
    let files = input::expand(named).usage("there is nothing to explain")?;
    let progress = progress(&files);
    let mut source = Source::of(arguments, &files)?;
    let mut captures: Vec<Capture> = Vec::new();
    let mut last: Option<(Time, Time)> = None;
    for (index, path) in files.iter().enumerate() {
        let (mut capture, times) =
            read(path, &mut source, &progress).usage("this capture can't be explained")?;
        if let Some(overlap) = last
            .zip(times)
            .and_then(|(one, next)| input::overlap(one, next))
        {
            capture.caveats.push(format!(
                "it begins {:.3} s before the capture ahead of it ends: captures made at the same time are \
                 explained one by one",
                overlap.as_secs_f64()
            ));
        }
        last = times.or(last);
        if arguments.anonymize {
            // A file's name may be a customer's.
            capture.file = format!("capture {}", index + 1);
        }
        captures.push(capture);
    }
    progress.finish_and_clear();
    // Among others a capture without a packet is no reason to explain none of them.
    if captures.iter().all(|capture| capture.packets == 0) {
        return Err(anyhow::anyhow!(
            "`{}` begins as a capture does, and holds no packet",
            captures.first().map_or("", |capture| capture.file.as_str())
        ))
        .usage("this capture can't be explained");
    }
    Ok((captures, source.finish()?))
}

/// Who takes what is read.
enum Source {
    /// Every core: packets, as they are.
    Survey(Box<Survey>),
    /// One after the other: lines, and packets that are to be anonymous.
    Feed(Box<Feed>, usize),
}

impl Source {
    fn of(arguments: &Explain, files: &[PathBuf]) -> Result<Self, Failure> {
        let packets = !arguments.anonymize && files.iter().all(|path| holds_packets(path));
        Ok(if packets {
            Self::Survey(Box::new(Survey::new(outputs::needs_series(arguments))))
        } else {
            Self::Feed(Box::new(Feed::new(arguments)?), 0)
        })
    }

    /// Takes a capture to its end: what it held, its first and last moment, and why it was not read further.
    fn take(
        &mut self,
        reader: &mut dyn Read,
        progress: &ProgressBar,
    ) -> (Summary, Option<(Time, Time)>, Option<Stopped>) {
        match self {
            Self::Survey(survey) => {
                let reading = survey.read(reader, |count| progress.inc(len64(count)));
                (reading.summary, reading.span, reading.stopped)
            }
            Self::Feed(feed, captures) => {
                if *captures > 0 {
                    feed.next_capture();
                }
                *captures += 1;
                let (mut source, mut times) = (capture::Capture::new(), None);
                let stopped = feed_all(&mut source, reader, feed, &mut times, progress);
                (source.summary(), times, stopped)
            }
        }
    }

    fn finish(self) -> Result<Fed, Failure> {
        match self {
            Self::Survey(survey) => {
                let Surveyed { judged, tracked } = survey.finish();
                Ok(Fed { judged, tracked })
            }
            Self::Feed(feed, _) => feed.finish(),
        }
    }
}

/// Whether a file begins as pcap and pcapng do. Standard input and pipes are looked at when they are read; until then
/// they may be text.
fn holds_packets(path: &Path) -> bool {
    let mut start = [0; 4];
    input::can_be_read_again(path)
        && input::open(path).is_ok_and(|mut input| input.reader.read_exact(&mut start).is_ok())
        && Framer::frames(start)
}

/// Reads one file and says what it was.
fn read(
    path: &Path,
    source: &mut Source,
    progress: &ProgressBar,
) -> anyhow::Result<(Capture, Option<(Time, Time)>)> {
    let name = path.display().to_string();
    let mut input = input::open(path)?;
    let (summary, times, stopped) = source.take(&mut input.reader, progress);
    let broken = match stopped {
        None => None,
        // A compressed file that ends early still holds all packets before.
        Some(Stopped::Read(error)) if error.kind() == std::io::ErrorKind::UnexpectedEof => {
            Some(format!("the compressed file is cut short: {error}"))
        }
        Some(Stopped::Read(error)) => {
            return Err(error).with_context(|| format!("cannot read `{name}`"));
        }
        Some(Stopped::Frame(error)) if summary.frames == 0 => {
            return Err(error).with_context(|| format!("cannot read `{name}`"));
        }
        // What was read before stands.
        Some(Stopped::Frame(error)) => Some(format!("nothing behind this was read: {error}")),
    };
    anyhow::ensure!(
        summary.frames > 0 || summary.text.untimed == 0,
        "`{name}` holds {} packets without a time, as `tcpdump -t` prints them: print them again without `-t`",
        summary.text.untimed
    );
    let is_text = summary
        .format
        .is_none_or(|format| format == Format::TcpdumpText);
    anyhow::ensure!(
        summary.frames > 0 || !is_text,
        "`{name}` holds no packet: is it a capture, or the text that tcpdump prints?"
    );
    let mut caveats = caveats(&summary);
    if summary.frames == 0 {
        caveats.push("it holds no packet".to_owned());
    }
    caveats.extend(broken);
    let capture = Capture {
        file: name,
        format: summary
            .format
            .map_or_else(|| "unknown".to_owned(), |format| format.to_string()),
        compression: input.compression.map(str::to_owned),
        packets: summary.frames,
        other: other(&summary),
        duration_s: times.map_or(0.0, |(first, last)| last.since(first).as_secs_f64()),
        caveats,
    };
    Ok((capture, times))
}

/// Feeds a capture to its end.
fn feed_all(
    source: &mut capture::Capture,
    reader: &mut dyn Read,
    feed: &mut Feed,
    times: &mut Option<(Time, Time)>,
    progress: &ProgressBar,
) -> Option<Stopped> {
    let mut chunk = vec![0; CHUNK];
    loop {
        let (count, failed) = match reader.read(&mut chunk) {
            Ok(count) => (count, None),
            Err(error) => (0, Some(error)),
        };
        if count == 0 {
            source.finish();
        }
        source.feed(&chunk[..count]);
        progress.inc(len64(count));
        if let Err(error) = observe(source, feed, times) {
            return Some(Stopped::Frame(error));
        }
        if count == 0 {
            return failed.map(Stopped::Read);
        }
    }
}

fn len64(count: usize) -> u64 {
    u64::try_from(count).unwrap_or(u64::MAX)
}

/// Hands over everything that `source` has, and widens `times` to its first and last moment.
fn observe(
    source: &mut capture::Capture,
    feed: &mut Feed,
    times: &mut Option<(Time, Time)>,
) -> Result<(), capture::ReadError> {
    while let Some(observation) = source.next_observation()? {
        if let Some(at) = observation.at() {
            let (first, last) = times.unwrap_or((at, at));
            *times = Some((first.min(at), last.max(at)));
        }
        feed.take(&observation);
    }
    Ok(())
}

/// Packets that are not TCP, by kind, and those that could not be decoded, with the reason.
fn other(summary: &Summary) -> BTreeMap<String, u64> {
    let mut other: BTreeMap<String, u64> = summary
        .others
        .iter()
        .map(|(name, count)| ((*name).to_owned(), *count))
        .collect();
    for (field, count) in &summary.cut {
        other.insert(format!("cut by the snapshot length in {field}"), *count);
    }
    for (field, count) in &summary.malformed {
        other.insert(format!("malformed {field}"), *count);
    }
    if summary.echoes > 0 {
        other.insert("ICMP echo".to_owned(), summary.echoes);
    }
    other
}

fn caveats(summary: &Summary) -> Vec<String> {
    let mut caveats = Vec::new();
    if let Ending::CutShort { offset, present } = summary.ending {
        caveats.push(format!(
            "the last record, at byte {offset}, is cut short after {present} bytes; all before it was read"
        ));
    }
    if summary.dropped > 0 {
        caveats.push(format!(
            "the capturing system reports {} packets that it dropped",
            summary.dropped
        ));
    }
    if summary.untimed > 0 {
        caveats.push(format!(
            "{} packets carry no time stamp of their own",
            summary.untimed
        ));
    }
    if summary.unreadable_blocks > 0 {
        caveats.push(format!(
            "{} blocks contradict themselves",
            summary.unreadable_blocks
        ));
    }
    if summary.text.untimed > 0 {
        caveats.push(format!(
            "packets without a time, as `tcpdump -t` prints them, are left out: {}",
            summary.text.untimed
        ));
    }
    if summary.text.unreadable > 0 {
        caveats.push(format!(
            "lines that begin like packets and cannot be read on are left out: {}",
            summary.text.unreadable
        ));
    }
    if summary.text.spans_guessed {
        caveats.push(
            "the time stamps are spans that count from the packet before (`tcpdump -ttt`) or from the first \
             (`-ttttt`), and are too few to tell: they are read as the former; print them as `-tt` does"
                .to_owned(),
        );
    }
    caveats
}

/// A bar over the bytes of all files, where stderr is a terminal and there is much to read. Compressed
/// bytes count once they are unpacked, so that a bar for them would lie: they get a counter.
fn progress(files: &[PathBuf]) -> ProgressBar {
    const WORTH_IT: u64 = 64 << 20;
    let sizes: Option<u64> = files
        .iter()
        .map(|path| std::fs::metadata(path).ok().map(|data| data.len()))
        .sum();
    match sizes {
        Some(total) if total >= WORTH_IT && std::io::stderr().is_terminal() => {
            let bar = ProgressBar::new(total);
            if let Ok(style) =
                ProgressStyle::with_template("{bar:40} {bytes}/{total_bytes}, {eta} left")
            {
                bar.set_style(style);
            }
            bar.enable_steady_tick(Duration::from_millis(250));
            bar
        }
        _ => ProgressBar::hidden(),
    }
}
