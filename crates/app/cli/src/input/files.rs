//! Which files are meant, and in which order they make one timeline.

use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, bail};
use units::Time;

/// Most bytes looked at for the first packet's time; a capture has one sooner.
const PROBED: u64 = 1 << 20;
/// Below this a time counts from midnight or from the first packet, not from the epoch.
const ABSOLUTE: Time = Time::from_nanos(2 * 86_400 * 1_000_000_000);

/// The captures that `arguments` name: files as they are, of a folder or pattern those that hold packets. Rotated files
/// are put in order of their first packets, whatever their names.
pub(crate) fn expand(arguments: &[PathBuf]) -> anyhow::Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for argument in arguments {
        if argument.as_os_str() == "-" || argument.is_file() {
            files.push(argument.clone());
        } else if argument.is_dir() {
            files.extend(in_folder(argument)?);
        } else {
            files.extend(matching(argument)?);
        }
    }
    Ok(in_order_of_time(files))
}

/// The captures in a folder; what holds no packet, such as a note, is passed over.
fn in_folder(folder: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let shown = folder.display();
    let entries =
        std::fs::read_dir(folder).with_context(|| format!("cannot list the folder `{shown}`"))?;
    let mut found = Vec::new();
    for entry in entries {
        let path = entry
            .with_context(|| format!("cannot list the folder `{shown}`"))?
            .path();
        if holds_packets(&path) {
            found.push(path);
        }
    }
    if found.is_empty() {
        bail!("the folder `{shown}` holds no file with packets");
    }
    found.sort();
    Ok(found)
}

/// The files with packets that match a pattern, for shells that leave it as it is. The newest of rotated files may have
/// none yet.
fn matching(pattern: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let shown = pattern.display();
    let Some(text) = pattern
        .to_str()
        .filter(|text| text.contains(['*', '?', '[']))
    else {
        // Opening it says what is wrong.
        return Ok(vec![pattern.to_owned()]);
    };
    let paths = glob::glob(text).with_context(|| format!("`{shown}` is no pattern"))?;
    let (mut found, mut matched) = (Vec::new(), false);
    for path in paths {
        let path = path.with_context(|| format!("cannot look through `{shown}`"))?;
        matched |= path.is_file();
        if holds_packets(&path) {
            found.push(path);
        }
    }
    if !matched {
        bail!("no file matches `{shown}`");
    }
    if found.is_empty() {
        bail!("no file that matches `{shown}` holds packets");
    }
    Ok(found)
}

fn holds_packets(path: &Path) -> bool {
    path.is_file() && first_packet(path) != First::None
}

/// Files by the time of their first packets, those without packets last. Where one has no time since the epoch (a text
/// without dates), or can be read only once (standard input, a pipe), the order given is all there is.
fn in_order_of_time(files: Vec<PathBuf>) -> Vec<PathBuf> {
    if files.len() < 2 || !files.iter().all(|file| can_be_read_again(file)) {
        return files;
    }
    let times: Option<Vec<Time>> = files
        .iter()
        .map(|file| match first_packet(file) {
            First::At(at) if at >= ABSOLUTE => Some(at),
            First::None => Some(Time::MAX),
            First::At(_) | First::Untimed => None,
        })
        .collect();
    let Some(times) = times else {
        return files;
    };
    let mut timed: Vec<(Time, PathBuf)> = times.into_iter().zip(files).collect();
    // Stable: files that begin at one moment stay as they were.
    timed.sort_by_key(|(at, _)| *at);
    timed.into_iter().map(|(_, file)| file).collect()
}

/// Whether looking at its first bytes takes nothing from who reads it: a pipe has them once.
pub(crate) fn can_be_read_again(path: &Path) -> bool {
    path.is_file()
}

/// What a file begins with.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum First {
    /// No packet: it is no capture.
    None,
    /// Packets, but none with a time among the first.
    Untimed,
    /// A packet of this time.
    At(Time),
}

fn first_packet(path: &Path) -> First {
    let Ok(input) = super::open(path) else {
        return First::None;
    };
    let mut input = input.reader.take(PROBED);
    let mut source = capture::Capture::new();
    let mut chunk = vec![0; 1 << 16];
    loop {
        let count = input.read(&mut chunk).unwrap_or(0);
        source.feed(&chunk[..count]);
        if count == 0 {
            source.finish();
        }
        while let Ok(Some(observation)) = source.next_observation() {
            if let Some(at) = observation.at() {
                return First::At(at);
            }
        }
        if count == 0 {
            return if source.summary().frames > 0 {
                First::Untimed
            } else {
                First::None
            };
        }
    }
}

/// By how much a file begins before the one ahead of it ended; such files are no rotation.
pub(crate) fn overlap(before: (Time, Time), next: (Time, Time)) -> Option<Duration> {
    // Rotation may put packets of one moment into either file.
    const TOLERATED: Duration = Duration::from_millis(10);
    Some(before.1.since(next.0)).filter(|overlap| *overlap > TOLERATED)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(second: u64) -> String {
        format!("{second}.5 IP 10.0.0.1.5 > 10.0.0.2.80: Flags [.], ack 1, win 9, length 0\n")
    }

    fn names(files: &[PathBuf]) -> Vec<String> {
        let name = |file: &PathBuf| file.file_name().unwrap().to_string_lossy().into_owned();
        files.iter().map(name).collect()
    }

    #[test]
    fn rotated_files_are_put_in_order_of_time_and_notes_are_passed_over() {
        let folder = tempfile::tempdir().unwrap();
        let put = |name: &str, text: &str| std::fs::write(folder.path().join(name), text).unwrap();
        put("slow.pcap10", &line(1_700_000_030));
        put("slow.pcap9", &line(1_700_000_020));
        put("slow.pcap", &line(1_700_000_010));
        put("NOTES.md", "captured on Monday\n");
        let sorted = ["slow.pcap", "slow.pcap9", "slow.pcap10"];
        assert_eq!(names(&expand(&[folder.path().into()]).unwrap()), sorted);
        let pattern = folder.path().join("slow.pcap*");
        assert_eq!(names(&expand(&[pattern]).unwrap()), sorted);
        let backwards = [
            folder.path().join("slow.pcap9"),
            folder.path().join("slow.pcap"),
        ];
        assert_eq!(
            names(&expand(&backwards).unwrap()),
            ["slow.pcap", "slow.pcap9"]
        );
        // Times of day do not tell which day: the order given stands.
        put(
            "b.txt",
            "00:00:01.5 IP 10.0.0.1.5 > 10.0.0.2.80: Flags [.], ack 1, win 9, length 0\n",
        );
        let given = [
            folder.path().join("slow.pcap9"),
            folder.path().join("b.txt"),
        ];
        assert_eq!(names(&expand(&given).unwrap()), ["slow.pcap9", "b.txt"]);
        for (pattern, why) in [
            ("none*", "no file matches"),
            ("NOTES*", "no file that matches"),
        ] {
            let message = expand(&[folder.path().join(pattern)])
                .unwrap_err()
                .to_string();
            assert!(message.starts_with(why), "{message}");
        }
        // What was begun and has no packet yet is nobody's first.
        put("slow.pcap11", "");
        let pattern = folder.path().join("slow.pcap*");
        assert_eq!(names(&expand(&[pattern]).unwrap()), sorted);
        let named = ["slow.pcap11", "slow.pcap9", "slow.pcap"].map(|name| folder.path().join(name));
        assert_eq!(
            names(&expand(&named).unwrap()),
            ["slow.pcap", "slow.pcap9", "slow.pcap11"]
        );
    }
}
