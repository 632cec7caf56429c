//! Where observations go: to the analysis, and where that is wanted to a capture that can be shown to
//! strangers.

use std::fs::File;
use std::io::{self, BufWriter, Read as _, Write as _};
use std::path::{Path, PathBuf};

use anonymity::{Anonymizer, Key};
use anyhow::{Context as _, ensure};
use capture::{Interface, InterfaceId, Section, Writer};
use connections::{Fragments, Room, Tracked, Tracker};
use explain::Judged;
use units::Time;
use wire::{Host, IcmpEcho, LinkType, Observation, Segment, write};

use super::arguments::Explain;
use super::outputs;
use crate::failure::{Blame as _, Failure};
use crate::output;

/// Takes observations in order of time.
#[derive(Debug)]
pub(super) struct Feed {
    tracker: Tracker,
    /// Connections for whose packets there was no room any more.
    judged: Judged,
    series: bool,
    mask: Option<Mask>,
}

/// Everything that was fed.
#[derive(Debug)]
pub(super) struct Fed {
    pub(super) judged: Judged,
    pub(super) tracked: Tracked,
}

/// What one tracker may hold, where all packets come to one: as much as all of a survey's together.
const ROOM: Room = Room {
    over: 64_000,
    packets: 200_000,
    most: 16 << 20,
};

/// What stands between a capture and everything made of it.
#[derive(Debug)]
struct Mask {
    anonymizer: Anonymizer,
    copy: Option<Copy>,
}

impl Feed {
    pub(super) fn new(arguments: &Explain) -> Result<Self, Failure> {
        let mask = if arguments.anonymize {
            let key = key(arguments.anonymize_key.as_deref())
                .usage("addresses cannot be replaced without a key")?;
            let copy = arguments.anonymized_capture.as_deref().map(Copy::create);
            Some(Mask {
                anonymizer: Anonymizer::new(key),
                copy: copy.transpose().usage("no capture can be written")?,
            })
        } else {
            None
        };
        Ok(Self {
            tracker: Tracker::with_room(ROOM),
            judged: Judged::default(),
            series: outputs::needs_series(arguments),
            mask,
        })
    }

    pub(super) fn take(&mut self, observation: &Observation<'_>) {
        let tracker = &mut self.tracker;
        match &mut self.mask {
            None => tracker.observe(observation),
            Some(Mask { anonymizer, copy }) => anonymizer.observe(observation, |observation| {
                tracker.observe(observation);
                if let Some(copy) = copy {
                    copy.take(observation);
                }
            }),
        }
        while let Some(done) = self.tracker.next_done() {
            self.judged.push(done, self.series);
        }
    }

    /// What follows comes from another capture.
    pub(super) fn next_capture(&mut self) {
        self.tracker.next_capture();
    }

    /// Everything that was seen so far, for a look while more comes.
    pub(super) fn so_far(&self) -> Fed {
        Fed {
            judged: self.judged.clone(),
            tracked: self.tracker.clone().finish(),
        }
    }

    pub(super) fn finish(self) -> Result<Fed, Failure> {
        if let Some(copy) = self.mask.and_then(|mask| mask.copy) {
            copy.finish()
                .environment("the anonymous capture is not complete")?;
        }
        Ok(Fed {
            judged: self.judged,
            tracked: self.tracker.finish(),
        })
    }
}

/// The key in a file, or one that nobody will know again.
fn key(file: Option<&Path>) -> anyhow::Result<Key> {
    let path = file.unwrap_or_else(|| Path::new("/dev/urandom"));
    let mut key = [0; 16];
    let read = File::open(path).and_then(|file| {
        let mut short = file.take(16);
        let mut filled = 0;
        while filled < key.len() {
            match short.read(&mut key[filled..])? {
                0 => break,
                count => filled += count,
            }
        }
        Ok(filled)
    });
    let filled = read.with_context(|| format!("cannot read the key in `{}`", path.display()))?;
    ensure!(
        filled == key.len(),
        "the key in `{}` has {filled} bytes; 16 are needed (`head -c16 /dev/urandom`)",
        path.display()
    );
    Ok(Key(key))
}

/// A capture made of observations: IP packets with their own lengths and checksums, in pcapng.
#[derive(Debug)]
struct Copy {
    path: PathBuf,
    file: BufWriter<File>,
    writer: Writer,
    interface: InterfaceId,
    block: Vec<u8>,
    fragments: Fragments,
    packet: Vec<u8>,
    packets: u64,
    left_out: u64,
    failed: Option<io::Error>,
}

impl Copy {
    fn create(path: &Path) -> anyhow::Result<Self> {
        let file =
            File::create(path).with_context(|| format!("cannot create `{}`", path.display()))?;
        let mut block = Vec::new();
        let section = Section {
            application: concat!("longhaul ", env!("CARGO_PKG_VERSION")).to_owned(),
            ..Section::default()
        };
        let mut writer = Writer::new(&mut block, &section);
        let interface = Interface {
            name: "anonymous".to_owned(),
            link: LinkType::RAW,
            snaplen: 0,
        };
        let interface = writer.interface(&mut block, &interface);
        Ok(Self {
            path: path.to_owned(),
            file: BufWriter::new(file),
            writer,
            interface,
            block,
            fragments: Fragments::default(),
            packet: Vec::new(),
            packets: 0,
            left_out: 0,
            failed: None,
        })
    }

    fn take(&mut self, observation: &Observation<'_>) {
        if let Observation::IcmpEcho(echo) = observation {
            self.echo(echo);
        } else if let Some(segment) = self.fragments.join(observation) {
            // Fragments become segments of their own.
            self.segment(&segment);
        } else {
            // Nothing of it can be written that tells more than its kind.
            self.left_out += 1;
        }
    }

    /// A segment as one packet, or as many as IP needs: offload makes them larger than a packet can be.
    fn segment(&mut self, segment: &Segment<'_>) {
        const MOST: u32 = 60_000;
        let mut rest = *segment;
        while rest.payload_len > MOST {
            let most = usize::try_from(MOST).unwrap_or(usize::MAX);
            let (payload, behind) = rest.payload.split_at(rest.payload.len().min(most));
            self.packet(&Segment {
                payload,
                payload_len: MOST,
                ..rest
            });
            rest = Segment {
                payload: behind,
                payload_len: rest.payload_len - MOST,
                seq: rest.seq + MOST,
                ..rest
            };
        }
        self.packet(&rest);
    }

    fn packet(&mut self, segment: &Segment<'_>) {
        self.packet.clear();
        match write::segment(&mut self.packet, segment) {
            Ok(len) => self.put(segment.at, len),
            Err(_) => self.left_out += 1,
        }
    }

    fn echo(&mut self, echo: &IcmpEcho<'_>) {
        self.packet.clear();
        let (Host::Ip(source), Host::Ip(destination)) = (echo.source, echo.destination) else {
            self.left_out += 1;
            return;
        };
        let id = (echo.id, echo.seq);
        match write::icmp_echo(&mut self.packet, source, destination, echo.reply, id, &[]) {
            Ok(len) => self.put(echo.at, len),
            Err(_) => self.left_out += 1,
        }
    }

    fn put(&mut self, at: Time, len: u32) {
        self.writer
            .packet(&mut self.block, self.interface, at, &self.packet, len);
        if self.failed.is_none() {
            self.failed = self.file.write_all(&self.block).err();
        }
        self.block.clear();
        self.packets += 1;
    }

    fn finish(mut self) -> anyhow::Result<()> {
        let shown = self.path.display();
        let written = match self.failed.take() {
            Some(error) => Err(error),
            None => self.file.flush(),
        };
        written.with_context(|| format!("cannot write `{shown}`"))?;
        output::say(&format!(
            "anonymous capture: {shown}, {} packets; {} that are neither TCP nor ICMP echo are left out",
            self.packets, self.left_out
        ));
        Ok(())
    }
}
