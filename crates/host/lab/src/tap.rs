//! Captures of the lab: what passes an interface of a host, as pcapng.

use std::fs::File;
use std::io::{self, BufWriter, Write as _};
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use capture::{Interface, InterfaceId, Section, Writer};
use sys::namespace::NetworkNamespace;
use sys::packet_socket::{self, CapturedFrame, FrameCapture};
use units::Time;
use wire::LinkType;

/// Bytes kept of each frame: all headers, and of a request its first line, which names it.
const SNAPLEN: u32 = 256;

/// A capture under way.
#[derive(Debug)]
pub(crate) struct Tap {
    frames: FrameCapture,
    sink: Arc<Mutex<Sink>>,
    path: PathBuf,
}

/// A capture could not be made, or is not complete.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TapError {
    /// No packet socket.
    #[error("cannot see the packets")]
    Socket(#[source] packet_socket::CaptureError),
    /// The file.
    #[error("cannot write the capture `{}`", path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// What the kernel said.
        #[source]
        source: io::Error,
    },
    /// The kernel had to drop packets.
    #[error("the kernel dropped {dropped} packets of the capture `{}`", path.display())]
    Dropped {
        /// The file.
        path: PathBuf,
        /// How many.
        dropped: u64,
    },
}

impl Tap {
    /// Captures `device` in `namespace`, whose frames are of type `link`, into `path`; with a `peer` only
    /// packets that come from it or go there.
    pub(crate) fn start(
        namespace: &NetworkNamespace,
        device: &str,
        (link, peer): (LinkType, Option<IpAddr>),
        path: &Path,
    ) -> Result<Self, TapError> {
        let fail = |source| TapError::Write {
            path: path.to_owned(),
            source,
        };
        let file = File::create(path).map_err(fail)?;
        let sink = Arc::new(Mutex::new(Sink::new(file, device, link)));
        let of_thread = Arc::clone(&sink);
        let frames = FrameCapture::start(namespace, device, SNAPLEN, move |frame| {
            if !peer.is_none_or(|peer| concerns(&frame, link, peer)) {
                return;
            }
            // A panic of the other holder does not make the buffer wrong: it only ever grows.
            of_thread
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .write(&frame);
        })
        .map_err(TapError::Socket)?;
        Ok(Self {
            frames,
            sink,
            path: path.to_owned(),
        })
    }

    /// Ends the capture. Everything that passed before is in the file, or this is an error.
    pub(crate) fn stop(self) -> Result<(), TapError> {
        let summary = self.frames.stop().map_err(TapError::Socket)?;
        let mut sink = self.sink.lock().unwrap_or_else(PoisonError::into_inner);
        sink.finish(summary.frames, summary.dropped)
            .map_err(|source| TapError::Write {
                path: self.path.clone(),
                source,
            })?;
        if summary.dropped > 0 {
            return Err(TapError::Dropped {
                path: self.path,
                dropped: summary.dropped,
            });
        }
        Ok(())
    }
}

/// Whether `peer` has sent or is to get the packet of a frame.
fn concerns(frame: &CapturedFrame<'_>, link: LinkType, peer: IpAddr) -> bool {
    const ETHERNET_HEADER: usize = 14;
    let before = if link == LinkType::ETHERNET {
        ETHERNET_HEADER
    } else {
        0
    };
    let packet = frame.data.get(before..).unwrap_or_default();
    let is_peer = |from: usize, to: usize| match (packet.get(from..to), peer) {
        (Some(address), IpAddr::V4(peer)) => address == peer.octets(),
        (Some(address), IpAddr::V6(peer)) => address == peer.octets(),
        (None, _) => false,
    };
    match (packet.first().map(|first| first >> 4), peer) {
        (Some(4), IpAddr::V4(_)) => is_peer(12, 16) || is_peer(16, 20),
        (Some(6), IpAddr::V6(_)) => is_peer(8, 24) || is_peer(24, 40),
        _ => false,
    }
}

/// The file, and the first thing that went wrong with it: frames come on a thread that cannot stop for it.
#[derive(Debug)]
struct Sink {
    file: BufWriter<File>,
    writer: Writer,
    interface: InterfaceId,
    buffer: Vec<u8>,
    last_at: Time,
    failed: Option<io::Error>,
}

impl Sink {
    fn new(file: File, device: &str, link: LinkType) -> Self {
        let mut buffer = Vec::new();
        let section = Section {
            application: concat!("longhaul ", env!("CARGO_PKG_VERSION")).to_owned(),
            ..Section::default()
        };
        let mut writer = Writer::new(&mut buffer, &section);
        let interface = Interface {
            name: device.to_owned(),
            link,
            snaplen: SNAPLEN,
        };
        let interface = writer.interface(&mut buffer, &interface);
        Self {
            file: BufWriter::new(file),
            writer,
            interface,
            buffer,
            last_at: Time::ZERO,
            failed: None,
        }
    }

    fn write(&mut self, frame: &CapturedFrame<'_>) {
        self.last_at = Time::from_nanos(frame.timestamp_ns);
        let length = frame.original_length;
        self.writer.packet(
            &mut self.buffer,
            self.interface,
            self.last_at,
            frame.data,
            length,
        );
        self.flush_buffer();
    }

    fn flush_buffer(&mut self) {
        if self.failed.is_none() {
            self.failed = self.file.write_all(&self.buffer).err();
        }
        self.buffer.clear();
    }

    fn finish(&mut self, received: u64, dropped: u64) -> io::Result<()> {
        let at = self.last_at;
        self.writer
            .statistics(&mut self.buffer, self.interface, at, received, dropped);
        self.flush_buffer();
        match self.failed.take() {
            Some(error) => Err(error),
            None => self.file.flush(),
        }
    }
}
