//! Bodies for fuzzing: plain functions of bytes that panic where something is wrong.

use bytes::Bytes;

use crate::{DataKey, Envelope, Footer, KeyRing, Layout, Manifest, Name, WrappingKey};

/// Whatever a store may give instead of what was written: nothing of it may panic, and nothing may pass.
pub fn fuzz_stored(bytes: &[u8]) {
    let ring = KeyRing::new(WrappingKey::new([1; 32]), []);
    let name = Name {
        bucket: "b",
        key: "k",
    };
    if let Ok(text) = std::str::from_utf8(bytes)
        && let Ok(envelope) = Envelope::parse(text)
    {
        assert_eq!(envelope.text(), text, "an envelope has one text");
        assert!(
            envelope.open(&ring, name).is_err(),
            "nobody made this envelope"
        );
    }
    let _ = Footer::read(bytes);
    let key = DataKey::new([2; 32]);
    assert!(
        Manifest::open(&key, bytes).is_err(),
        "nobody made this manifest"
    );
    let stored = bytes.len() as u64;
    if let Ok(layout) = Layout::whole(key, stored, None)
        && let Some(mut plan) = layout.plan(0, layout.plain().saturating_sub(1))
    {
        let mut pieces = Vec::new();
        let stored = Bytes::copy_from_slice(bytes);
        let early = plan.opening.early().open(0, stored, &mut pieces);
        assert!(
            early.is_err() && pieces.is_empty(),
            "nobody sealed these bytes"
        );
        let mut out = Vec::new();
        let pushed = plan.opening.push(Bytes::copy_from_slice(bytes), &mut out);
        assert!(
            pushed.is_err() && out.is_empty(),
            "nobody sealed these bytes"
        );
    }
}
