//! Opening captures: files, standard input, and whatever they are compressed with.

mod files;

pub(crate) use files::{can_be_read_again, expand, overlap};

use std::fs::File;
use std::io::{self, BufReader, Read};
use std::path::Path;

use anyhow::{Context as _, bail};

/// A capture that is open for reading, decompressed on the way.
pub(crate) struct Input {
    pub(crate) reader: Box<dyn Read>,
    /// The compression around it, by name.
    pub(crate) compression: Option<&'static str>,
}

/// Opens `path`, or standard input for `-`, and looks at its first bytes for gzip, Zstandard or LZ4.
pub(crate) fn open(path: &Path) -> anyhow::Result<Input> {
    let raw: Box<dyn Read> = if path.as_os_str() == "-" {
        Box::new(io::stdin().lock())
    } else {
        let file = File::open(path).with_context(|| format!("cannot open `{}`", path.display()))?;
        Box::new(file)
    };
    decompress(raw).with_context(|| format!("cannot read `{}`", path.display()))
}

fn decompress(mut raw: Box<dyn Read>) -> anyhow::Result<Input> {
    let mut magic = Vec::with_capacity(4);
    raw.by_ref().take(4).read_to_end(&mut magic)?;
    let whole = io::Cursor::new(magic.clone()).chain(raw);
    let (reader, compression): (Box<dyn Read>, _) = match magic.as_slice() {
        // RFC 1952 §2.3.1; a rotated capture may hold several members.
        [0x1f, 0x8b, ..] => (
            Box::new(flate2::read::MultiGzDecoder::new(whole)),
            Some("gzip"),
        ),
        // RFC 8878 §3.1.1.
        [0x28, 0xb5, 0x2f, 0xfd] => {
            let decoder = zstd::stream::read::Decoder::with_buffer(BufReader::new(whole))?;
            (Box::new(decoder), Some("zstd"))
        }
        // LZ4 Frame Format 1.6.4, "General structure".
        [0x04, 0x22, 0x4d, 0x18] => {
            let decoder = lz4_flex::frame::FrameDecoder::new(whole);
            (Box::new(Frames(decoder)), Some("lz4"))
        }
        [b'B', b'Z', b'h', _] => {
            bail!("it is compressed with bzip2: `bzip2 -dc FILE | longhaul explain -`")
        }
        // The .xz File Format 1.2.1, section 2.1.1.1.
        [0xfd, b'7', b'z', b'X'] => {
            bail!("it is compressed with xz: `xz -dc FILE | longhaul explain -`")
        }
        _ => (Box::new(whole), None),
    };
    Ok(Input {
        reader,
        compression,
    })
}

/// Frames one behind the other: the decoder says that nothing is left at the end of each.
struct Frames<R: Read>(lz4_flex::frame::FrameDecoder<R>);

impl<R: Read> Read for Frames<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self.0.read(buffer)? {
            0 => self.0.read(buffer),
            count => Ok(count),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use super::*;

    fn read(bytes: Vec<u8>) -> (Vec<u8>, Option<&'static str>) {
        let mut input = decompress(Box::new(io::Cursor::new(bytes))).unwrap();
        let mut out = Vec::new();
        input.reader.read_to_end(&mut out).unwrap();
        (out, input.compression)
    }

    #[test]
    fn compression_is_recognised_by_its_magic() {
        let mut gzip = Vec::new();
        for part in [b"hello ".as_slice(), b"world"] {
            let mut encoder = flate2::write::GzEncoder::new(&mut gzip, flate2::Compression::fast());
            encoder.write_all(part).unwrap();
            encoder.finish().unwrap();
        }
        assert_eq!(read(gzip), (b"hello world".to_vec(), Some("gzip")));
        let zstd = zstd::encode_all(b"hello".as_slice(), 1).unwrap();
        assert_eq!(read(zstd), (b"hello".to_vec(), Some("zstd")));
        let mut lz4 = Vec::new();
        for part in [b"hello ".as_slice(), b"world"] {
            let mut encoder = lz4_flex::frame::FrameEncoder::new(&mut lz4);
            encoder.write_all(part).unwrap();
            encoder.finish().unwrap();
        }
        assert_eq!(read(lz4), (b"hello world".to_vec(), Some("lz4")));
        assert_eq!(
            read(b"ab".to_vec()),
            (b"ab".to_vec(), None),
            "shorter than any magic"
        );
        assert_eq!(read(Vec::new()), (Vec::new(), None));
        for (magic, name) in [(b"BZh91AY".as_slice(), "bzip2"), (b"\xfd7zXZ\0", "xz")] {
            let refused = decompress(Box::new(io::Cursor::new(magic))).err().unwrap();
            assert!(refused.to_string().contains(name), "{refused}");
        }
    }
}
