//! Bodies of fuzz targets: plain functions, so that `cargo test` runs them too.

use alloc::string::String;
use alloc::vec::Vec;

use crate::{Capture, Ending, Framer, Observations, Packets, ReadError, Reader, Summary};

/// Reads a capture as a whole and in pieces of the size that its first byte gives; the results must be
/// equal whatever the bytes are.
pub fn fuzz_capture(bytes: &[u8]) {
    let Some((&size, data)) = bytes.split_first() else {
        return;
    };
    let size = usize::from(size).max(1);
    assert_eq!(observations(data), observations_in_pieces(data, size));
    assert_eq!(packets(data), packets_in_pieces(data, size));
    assert_eq!(packets(data), packets_framed(data, size));
}

/// What a capture came out as: every observation as text, the end, and the counts.
type Outcome = (Vec<String>, Option<ReadError>, Summary);

fn observations(data: &[u8]) -> Outcome {
    let mut capture = Observations::new(data);
    let mut seen = Vec::new();
    let error = loop {
        match capture.next_observation() {
            Ok(Some(observation)) => seen.push(alloc::format!("{observation:?}")),
            Ok(None) => break None,
            Err(error) => break Some(error),
        }
    };
    (seen, error, without_ending(capture.summary(), error))
}

fn observations_in_pieces(data: &[u8], size: usize) -> Outcome {
    let mut capture = Capture::new();
    let mut seen = Vec::new();
    let mut error = None;
    // One piece of nothing at the end, for `finish`.
    for piece in data.chunks(size).chain([&[][..]]) {
        if piece.is_empty() {
            capture.finish();
        }
        capture.feed(piece);
        error = loop {
            match capture.next_observation() {
                Ok(Some(observation)) => seen.push(alloc::format!("{observation:?}")),
                Ok(None) => break None,
                Err(error) => break Some(error),
            }
        };
    }
    (seen, error, without_ending(capture.summary(), error))
}

/// Behind an error nothing is read, so how many bytes are left says nothing.
fn without_ending(mut summary: Summary, error: Option<ReadError>) -> Summary {
    if error.is_some() {
        summary.ending = Ending::Complete;
    }
    summary
}

fn packets(data: &[u8]) -> (Vec<String>, Option<ReadError>) {
    let mut packets = Packets::new(data);
    let mut seen = Vec::new();
    loop {
        match packets.next_packet() {
            Ok(Some(packet)) => seen.push(alloc::format!("{packet:?}")),
            Ok(None) => return (seen, None),
            Err(error) => return (seen, Some(error)),
        }
    }
}

fn packets_in_pieces(data: &[u8], size: usize) -> (Vec<String>, Option<ReadError>) {
    let mut reader = Reader::new();
    let mut seen = Vec::new();
    for piece in data.chunks(size) {
        reader.feed(piece);
        loop {
            match reader.next_packet() {
                Ok(Some(packet)) => seen.push(alloc::format!("{packet:?}")),
                Ok(None) => break,
                Err(error) => return (seen, Some(error)),
            }
        }
    }
    (seen, None)
}

/// The same where the caller keeps the pieces, and what is left of each stands in front of the next.
fn packets_framed(data: &[u8], size: usize) -> (Vec<String>, Option<ReadError>) {
    let mut framer = Framer::new();
    let (mut seen, mut piece) = (Vec::new(), Vec::new());
    for more in data.chunks(size) {
        piece.extend_from_slice(more);
        framer.begin(&piece);
        loop {
            match framer.next_packet(&piece) {
                Ok(Some(packet)) => seen.push(alloc::format!("{packet:?}")),
                Ok(None) => break,
                Err(error) => return (seen, Some(error)),
            }
        }
        piece = framer.rest(&piece).to_vec();
    }
    let whole = Packets::new(data);
    assert_eq!(framer.summary(&piece).ending, ending(whole));
    (seen, None)
}

fn ending(mut packets: Packets<'_>) -> Ending {
    while let Ok(Some(_)) = packets.next_packet() {}
    packets.finish()
}
