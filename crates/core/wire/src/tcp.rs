use units::SeqNum;

use crate::{TcpOptions, Timestamps};

/// Option kinds (RFC 9293 §3.2, RFC 7323, RFC 2018).
pub(crate) mod kind {
    pub(crate) const END: u8 = 0;
    pub(crate) const NOP: u8 = 1;
    pub(crate) const MSS: u8 = 2;
    pub(crate) const WINDOW_SCALE: u8 = 3;
    pub(crate) const SACK_PERMITTED: u8 = 4;
    pub(crate) const SACK: u8 = 5;
    pub(crate) const TIMESTAMPS: u8 = 8;
}

/// Reads an option list up to its end, or up to the first option that is malformed or cut: what came
/// before a fault is what the receiver's stack understood as well.
#[inline]
pub(crate) fn options(mut bytes: &[u8]) -> TcpOptions {
    let mut options = TcpOptions::default();
    // Nearly every segment of a modern connection carries exactly this, aligned as RFC 7323
    // appendix A recommends.
    if let [kind::NOP, kind::NOP, kind::TIMESTAMPS, 10, value @ ..] = bytes
        && let Some(timestamps) = timestamps(value)
    {
        options.timestamps = Some(timestamps);
        return options;
    }
    while let Some((&kind, rest)) = bytes.split_first() {
        match kind {
            kind::END => break,
            kind::NOP => bytes = rest,
            _ => {
                //= https://www.rfc-editor.org/rfc/rfc9293#section-3.1
                //# The option-length counts the two octets of option-kind and
                //# option-length as well as the option-data octets.
                let Some(length) = rest.first().copied().map(usize::from) else {
                    break;
                };
                let Some(value) = bytes.get(2..length) else {
                    break;
                };
                read(&mut options, kind, value);
                bytes = &bytes[length..];
            }
        }
    }
    options
}

fn read(options: &mut TcpOptions, kind: u8, value: &[u8]) {
    match (kind, value) {
        (kind::MSS, &[high, low]) => options.mss = Some(u16::from_be_bytes([high, low])),
        (kind::WINDOW_SCALE, &[shift]) => options.window_scale = Some(shift),
        (kind::SACK_PERMITTED, []) => options.sack_permitted = true,
        (kind::SACK, blocks) => {
            for block in blocks.chunks_exact(8) {
                if let (Some(left), Some(right)) = (u32_at(block, 0), u32_at(block, 4)) {
                    options.sack.push(SeqNum::new(left), SeqNum::new(right));
                }
            }
        }
        (kind::TIMESTAMPS, value) => options.timestamps = timestamps(value),
        _ => {}
    }
}

fn timestamps(value: &[u8]) -> Option<Timestamps> {
    let (value, echo) = value.split_first_chunk()?;
    Some(Timestamps {
        value: u32::from_be_bytes(*value),
        echo: u32::from_be_bytes(echo.try_into().ok()?),
    })
}

fn u32_at(bytes: &[u8], offset: usize) -> Option<u32> {
    bytes
        .get(offset..)?
        .first_chunk()
        .copied()
        .map(u32::from_be_bytes)
}
