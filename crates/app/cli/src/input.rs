//! Opening captures: files, standard input, and whatever they are compressed with.

use std::fs::File;
use std::io::{self, BufReader, Read};
use std::path::Path;

use anyhow::Context as _;

/// A capture that is open for reading, decompressed on the way.
pub(crate) struct Input {
    pub(crate) reader: Box<dyn Read>,
    /// The compression around it, by name.
    pub(crate) compression: Option<&'static str>,
}

/// Opens `path`, or standard input for `-`, and looks at its first bytes for gzip or Zstandard.
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
        _ => (Box::new(whole), None),
    };
    Ok(Input {
        reader,
        compression,
    })
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
        assert_eq!(
            read(b"ab".to_vec()),
            (b"ab".to_vec(), None),
            "shorter than any magic"
        );
        assert_eq!(read(Vec::new()), (Vec::new(), None));
    }
}
