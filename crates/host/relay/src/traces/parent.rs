//! `traceparent`, by which a client says which trace its request belongs to (W3C Trace Context, §3.2).

/// The trace that a request belongs to, and the client's span in it.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct TraceParent {
    pub(crate) trace: [u8; 16],
    pub(crate) span: [u8; 8],
    /// Whether the client records the trace, and so this relay does.
    pub(crate) sampled: bool,
}

impl TraceParent {
    /// Reads a field's value; `None` where it says nothing that can be followed.
    pub(crate) fn parse(value: &[u8]) -> Option<Self> {
        let text = str::from_utf8(value).ok()?;
        let mut parts = text.split('-');
        let version = byte(parts.next()?)?;
        let trace: [u8; 16] = bytes(parts.next()?)?;
        let span: [u8; 8] = bytes(parts.next()?)?;
        let flags = byte(parts.next()?)?;
        // 255 is no version, 0 has these four parts and no more; later ones may have more behind them.
        let sound = version != 0xff && (version != 0 || parts.next().is_none());
        // All zeroes name nothing.
        let named = trace != [0; 16] && span != [0; 8];
        (sound && named).then_some(Self {
            trace,
            span,
            sampled: flags & 1 == 1,
        })
    }
}

fn byte(text: &str) -> Option<u8> {
    bytes::<1>(text).map(|[byte]| byte)
}

/// Lower-case hexadecimal digits, exactly as many as there are bytes.
fn bytes<const N: usize>(text: &str) -> Option<[u8; N]> {
    let digits = text.as_bytes();
    let plain = |digit: &u8| matches!(digit, b'0'..=b'9' | b'a'..=b'f');
    if digits.len() != 2 * N || !digits.iter().all(plain) {
        return None;
    }
    let mut bytes = [0; N];
    for (byte, pair) in bytes.iter_mut().zip(text.as_bytes().chunks_exact(2)) {
        *byte = u8::from_str_radix(str::from_utf8(pair).ok()?, 16).ok()?;
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";
    const SPAN: &str = "00f067aa0ba902b7";

    #[test]
    fn the_standards_example_is_read() {
        let parent = TraceParent::parse(format!("00-{TRACE}-{SPAN}-01").as_bytes()).unwrap();
        assert_eq!(parent.trace[..2], [0x4b, 0xf9]);
        assert_eq!(parent.span[7], 0xb7);
        assert!(parent.sampled);
        let parent = TraceParent::parse(format!("00-{TRACE}-{SPAN}-00").as_bytes()).unwrap();
        assert!(!parent.sampled);
        // A later version may say more, and means the same so far.
        assert!(TraceParent::parse(format!("cc-{TRACE}-{SPAN}-01-more").as_bytes()).is_some());
    }

    #[test]
    fn what_names_no_span_is_no_parent() {
        let (no_trace, no_span) = ("0".repeat(32), "0".repeat(16));
        for text in [
            String::new(),
            format!("00-{TRACE}-{SPAN}"),
            format!("ff-{TRACE}-{SPAN}-01"),
            format!("00-{TRACE}-{SPAN}-01-more"),
            format!("00-{no_trace}-{SPAN}-01"),
            format!("00-{TRACE}-{no_span}-01"),
            format!("00-{}-{SPAN}-01", TRACE.to_uppercase()),
            format!("00-{TRACE}0-{SPAN}-01"),
            format!("+0-{TRACE}-{SPAN}-01"),
        ] {
            assert_eq!(TraceParent::parse(text.as_bytes()), None, "{text}");
        }
    }
}
