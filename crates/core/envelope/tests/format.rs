//! The format as strangers meet it: what was written comes back, what was changed does not, and the same input gives
//! the same bytes for ever.

#![allow(clippy::unwrap_used, reason = "tests fail by panicking")]

use bytes::Bytes;
use longhaul_envelope::fuzz::fuzz_stored;
use longhaul_envelope::{
    CHUNK, DataKey, Envelope, Footer, KeyRing, Kind, Layout, Manifest, Name, NotAuthentic,
    PartSalt, Piece, Sealing, Segment, WrappingKey, segment_length,
};
use proptest::prelude::*;

const NAME: Name<'_> = Name {
    bucket: "photos",
    key: "2026/cat.jpg",
};

fn sealed(mut sealing: Sealing, plain: &[u8], pieces: usize) -> Vec<u8> {
    let mut out = Vec::new();
    for piece in plain.chunks(pieces.max(1)) {
        sealing.push(piece, &mut out);
    }
    sealing.finish(&mut out);
    out.concat()
}

fn whole(key: &DataKey, plain: &[u8]) -> Vec<u8> {
    sealed(Sealing::whole(key), plain, 100_000)
}

/// However the stored bytes are cut on their way, into less than a chunk or several chunks at once, and whether or not whole
/// chunks are opened before their turn.
fn read(layout: &Layout, stored: &[u8], first: u64, last: u64) -> Result<Vec<u8>, NotAuthentic> {
    let plain = read_in(50_021, false, layout, stored, first, last);
    for (pieces, is_early) in [(200_003, false), (50_021, true), (200_003, true)] {
        let same = read_in(pieces, is_early, layout, stored, first, last);
        assert_eq!(plain, same, "{pieces} {is_early}");
    }
    plain
}

fn read_in(
    pieces: usize,
    is_early: bool,
    layout: &Layout,
    stored: &[u8],
    first: u64,
    last: u64,
) -> Result<Vec<u8>, NotAuthentic> {
    let mut plan = layout.plan(first, last).unwrap();
    let at = |place: u64| usize::try_from(place).unwrap();
    let range = stored
        .get(at(plan.first)..=at(plan.last))
        .ok_or(NotAuthentic::Truncated)?;
    let mut turn = Vec::new();
    let mut failed = Ok(());
    // The last come first.
    for (number, part) in range.chunks(pieces).enumerate().rev() {
        let mut opened = Vec::new();
        let mut outcome = Ok(());
        if is_early {
            let (mut early, mut at) = (plan.opening.early(), plan.first + (number * pieces) as u64);
            for piece in part.chunks(30_011) {
                let piece = Bytes::copy_from_slice(piece);
                let length = piece.len() as u64;
                outcome = outcome.and_then(|()| early.open(at, piece, &mut opened));
                at += length;
            }
            opened.extend(early.give_up());
            let stands_for: u64 = opened.iter().map(Piece::stored).sum();
            assert!(stands_for == part.len() as u64 || outcome.is_err());
        } else {
            opened.push(Bytes::copy_from_slice(part).into());
        }
        failed = outcome.and(failed);
        turn.push(opened);
    }
    let mut out = Vec::new();
    for piece in turn.into_iter().rev().flatten() {
        plan.opening.push(piece, &mut out)?;
    }
    failed?;
    plan.opening.finish()?;
    Ok(out.concat())
}

fn content(length: usize, seed: u8) -> Vec<u8> {
    (0..length)
        .map(|at| seed.wrapping_add(u8::try_from(at % 251).unwrap()))
        .collect()
}

/// An object of parts, as a gateway writes it.
fn object_of_parts(key: &DataKey, lengths: &[usize]) -> (Vec<u8>, Vec<u8>, Manifest, u64) {
    let (mut plain, mut stored, mut segments) = (Vec::new(), Vec::new(), Vec::new());
    for (number, &length) in lengths.iter().enumerate() {
        let number = u8::try_from(number).unwrap() + 1;
        let part = content(length, number);
        let salt = PartSalt([number; 16]);
        let mut bytes = sealed(Sealing::part(key, salt), &part, 33_333);
        bytes.resize(usize::try_from(segment_length(length as u64)).unwrap(), 0);
        segments.push(Segment {
            number: u16::from(number),
            plain: length as u64,
            salt,
        });
        plain.extend(part);
        stored.extend(bytes);
    }
    let manifest = Manifest::new(segments).unwrap();
    let sealed = manifest.seal(key, PartSalt([99; 16]));
    stored.extend_from_slice(&sealed);
    (plain, stored, manifest, sealed.len() as u64)
}

#[test]
fn these_inputs_give_these_bytes_for_ever() {
    let hex = |bytes: &[u8]| {
        bytes
            .iter()
            .fold(String::new(), |text, byte| format!("{text}{byte:02x}"))
    };
    let wrapping = WrappingKey::new([0x11; 32]);
    let key = DataKey::new([0x22; 32]);
    assert_eq!(
        wrapping.id().to_string(),
        include_str!("vectors/key-id").trim()
    );
    let envelope = Envelope::seal(&wrapping, &key, Kind::Whole, Some(5), NAME, [0x33; 16]);
    assert_eq!(envelope.text(), include_str!("vectors/envelope").trim());
    assert_eq!(
        hex(&whole(&key, b"hello")),
        include_str!("vectors/whole").trim()
    );
    assert_eq!(hex(&whole(&key, b"")), include_str!("vectors/empty").trim());
    let part = sealed(Sealing::part(&key, PartSalt([0x44; 16])), b"hello", 5);
    assert_eq!(hex(&part), include_str!("vectors/part").trim());
    let segment = Segment {
        number: 1,
        plain: 5,
        salt: PartSalt([0x44; 16]),
    };
    let manifest = Manifest::new(vec![segment]).unwrap();
    let manifest = manifest.seal(&key, PartSalt([0x55; 16]));
    assert_eq!(hex(&manifest), include_str!("vectors/manifest").trim());
}

#[test]
fn an_envelope_opens_for_its_own_object_and_no_other() {
    let (old, new) = (WrappingKey::new([1; 32]), WrappingKey::new([2; 32]));
    let key = DataKey::new([3; 32]);
    let envelope = Envelope::seal(&old, &key, Kind::Parts, None, NAME, [4; 16]);
    let envelope = Envelope::parse(&envelope.text()).unwrap();
    let ring = KeyRing::new(new.clone(), [old]);
    let opened = envelope.open(&ring, NAME).unwrap();
    assert_eq!((opened.kind, opened.length), (Kind::Parts, None));
    let others = [
        Name {
            bucket: "photos2",
            ..NAME
        },
        Name {
            key: "2026/dog.jpg",
            ..NAME
        },
        // The same letters, cut elsewhere.
        Name {
            bucket: "photos2",
            key: "026/cat.jpg",
        },
    ];
    for other in others {
        assert_eq!(
            envelope.open(&ring, other).unwrap_err(),
            NotAuthentic::Binding
        );
    }
    let without = KeyRing::new(new, []);
    assert_eq!(
        envelope.open(&without, NAME).unwrap_err(),
        NotAuthentic::UnknownKey
    );
}

#[test]
fn a_rewrapped_envelope_holds_the_same_key_and_the_old_wrapping_key_opens_it_no_more() {
    let (old, new) = (WrappingKey::new([1; 32]), WrappingKey::new([2; 32]));
    let key = DataKey::new([3; 32]);
    let envelope = Envelope::seal(&old, &key, Kind::Whole, Some(5), NAME, [4; 16]);
    let before = KeyRing::new(old, []);
    let rewrapped = envelope.rewrap(&before, &new, NAME, [5; 16]).unwrap();
    assert_eq!(
        rewrapped.open(&before, NAME).unwrap_err(),
        NotAuthentic::UnknownKey
    );
    let opened = rewrapped
        .open(&KeyRing::new(new.clone(), []), NAME)
        .unwrap();
    assert_eq!((opened.kind, opened.length), (Kind::Whole, Some(5)));
    // What the object's own key has sealed opens as before.
    assert_eq!(whole(&opened.key, b"hello"), whole(&key, b"hello"));
    let other = Name {
        key: "dog.jpg",
        ..NAME
    };
    assert_eq!(
        envelope.rewrap(&before, &new, other, [5; 16]).unwrap_err(),
        NotAuthentic::Binding
    );
}

#[test]
fn no_changed_envelope_opens() {
    let wrapping = WrappingKey::new([1; 32]);
    let ring = KeyRing::new(wrapping.clone(), []);
    let key = DataKey::new([3; 32]);
    let text = Envelope::seal(&wrapping, &key, Kind::Whole, Some(77), NAME, [4; 16]).text();
    for at in 0..text.len() {
        let mut changed = text.clone().into_bytes();
        changed[at] = if changed[at] == b'A' { b'B' } else { b'A' };
        let changed = String::from_utf8(changed).unwrap();
        let opened = Envelope::parse(&changed).and_then(|envelope| envelope.open(&ring, NAME));
        assert!(opened.is_err(), "{at}");
    }
}

#[test]
fn chunks_cannot_be_moved_left_out_or_taken_from_another_object() {
    let (one, two) = (DataKey::new([1; 32]), DataKey::new([2; 32]));
    let plain = content(3 * 65_536, 9);
    let stored = whole(&one, &plain);
    let sealed = 65_552;
    let (a, b, c) = (
        &stored[..sealed],
        &stored[sealed..2 * sealed],
        &stored[2 * sealed..],
    );
    let other = whole(&two, &plain);
    let mixtures = [
        [b, a, c].concat(),
        [a, a, c].concat(),
        [a, &other[sealed..2 * sealed], c].concat(),
        // Whole chunks missing: lengths that another plaintext could have.
        [a, c].concat(),
        [a, b].concat(),
        a.to_vec(),
    ];
    for (number, stored) in mixtures.iter().enumerate() {
        let layout = Layout::whole(one.clone(), stored.len() as u64, None).unwrap();
        let outcome = read(&layout, stored, 0, layout.plain() - 1);
        assert_eq!(outcome.unwrap_err(), NotAuthentic::Chunk, "{number}");
        // What was written says how long it is, so that nothing at all is served.
        if stored.len() != 3 * sealed {
            let layout = Layout::whole(one.clone(), stored.len() as u64, Some(3 * 65_536));
            assert_eq!(layout.unwrap_err(), NotAuthentic::Length);
        }
    }
}

#[test]
fn what_was_opened_for_one_place_is_not_taken_in_another() {
    let key = DataKey::new([5; 32]);
    let stored = Bytes::from(whole(&key, &content(3 * 65_536 + 5, 3)));
    let layout = Layout::whole(key, stored.len() as u64, None).unwrap();
    let opened = |from: usize, to: usize| {
        let plan = layout.plan(0, layout.plain() - 1).unwrap();
        let mut out = Vec::new();
        let piece = stored.slice(from..to);
        plan.opening
            .early()
            .open(from as u64, piece, &mut out)
            .unwrap();
        out.pop().unwrap()
    };
    let chunk = 65_552;
    let refused = |before: usize, piece: Piece| {
        let mut opening = layout.plan(0, layout.plain() - 1).unwrap().opening;
        opening
            .push(stored.slice(..before), &mut Vec::new())
            .unwrap();
        opening.push(piece, &mut Vec::new()).is_err()
    };
    assert!(!refused(0, opened(0, chunk)));
    assert!(!refused(chunk, opened(chunk, 2 * chunk)));
    assert!(!refused(3 * chunk, opened(3 * chunk, stored.len())));
    // In the middle of a chunk, between two, for one of another length, and behind the last.
    assert!(refused(1, opened(chunk, 2 * chunk)));
    assert!(refused(chunk + 7, opened(chunk, 2 * chunk)));
    assert!(refused(0, opened(3 * chunk, stored.len())));
    assert!(refused(stored.len(), opened(0, chunk)));
}

#[test]
fn a_chunk_is_not_put_together_where_something_between_was_left_out() {
    let key = DataKey::new([5; 32]);
    let stored = Bytes::from(whole(&key, &content(2 * 65_536, 3)));
    let layout = Layout::whole(key, stored.len() as u64, None).unwrap();
    let mut early = layout.plan(0, layout.plain() - 1).unwrap().opening.early();
    let mut out = Vec::new();
    early.open(0, stored.slice(..100), &mut out).unwrap();
    let beyond = early.open(101, stored.slice(101..), &mut out);
    assert_eq!(beyond.unwrap_err(), NotAuthentic::Chunk);
    assert!(out.is_empty());
}

#[test]
fn what_stands_before_the_first_chunk_that_is_wanted_is_passed_over() {
    let key = DataKey::new([5; 32]);
    let plain = content(5 * 65_536, 3);
    let stored = whole(&key, &plain);
    let layout = Layout::whole(key, stored.len() as u64, None).unwrap();
    let plan = layout.plan(3 * 65_536 + 9, 3 * 65_536 + 20).unwrap();
    for before in [0, 1, 65_551, 65_552, 3 * 65_552] {
        let at = plan.first - before;
        for is_early in [false, true] {
            let plan = layout.plan(3 * 65_536 + 9, 3 * 65_536 + 20).unwrap();
            let mut opening = plan.opening.beginning_at(at);
            let piece = stored[usize::try_from(at).unwrap()..].to_vec();
            let mut pieces = vec![Piece::from(piece.clone())];
            if is_early {
                pieces.clear();
                opening.early().open(at, piece.into(), &mut pieces).unwrap();
            }
            let mut out = Vec::new();
            for piece in pieces {
                opening.push(piece, &mut out).unwrap();
            }
            opening.finish().unwrap();
            assert_eq!(out.concat(), plain[3 * 65_536 + 9..=3 * 65_536 + 20]);
        }
    }
}

#[test]
fn parts_cannot_be_mixed_reordered_or_dropped() {
    let key = DataKey::new([1; 32]);
    let (plain, stored, manifest, tail) = object_of_parts(&key, &[6 << 20, 100, 70_000]);
    let tail_at = stored.len() - usize::try_from(tail).unwrap();
    let opened = Manifest::open(&key, &stored[tail_at..]).unwrap();
    assert_eq!(opened, manifest);
    assert_eq!(Footer::read(&stored).unwrap().manifest, tail);
    let layout =
        |stored: &[u8]| Layout::parts(key.clone(), manifest.clone(), stored.len() as u64, tail);
    let good = layout(&stored).unwrap();
    assert_eq!(read(&good, &stored, 0, good.plain() - 1).unwrap(), plain);

    // A part that was written for the same number and replaced: its salt was another.
    let mut mixed = stored.clone();
    let old = sealed(
        Sealing::part(&key, PartSalt([77; 16])),
        &content(6 << 20, 1),
        9999,
    );
    mixed[..old.len()].copy_from_slice(&old);
    assert_eq!(read(&good, &mixed, 0, 9).unwrap_err(), NotAuthentic::Chunk);

    let five = 5 << 20;
    let first = usize::try_from(segment_length(6 << 20)).unwrap();
    let mut swapped = stored.clone();
    swapped[first..first + five].copy_from_slice(&stored[first + five..first + 2 * five]);
    assert!(read(&good, &swapped, 6 << 20, (6 << 20) + 5).is_err());

    let dropped = [&stored[..first + five], &stored[tail_at..]].concat();
    assert_eq!(layout(&dropped).unwrap_err(), NotAuthentic::Length);

    for at in [0, 20, 40, usize::try_from(tail).unwrap() - 13] {
        let mut changed = stored[tail_at..].to_vec();
        changed[at] ^= 1;
        assert_eq!(
            Manifest::open(&key, &changed).unwrap_err(),
            NotAuthentic::Manifest
        );
    }
}

#[test]
fn stored_bytes_that_nobody_wrote_are_refused() {
    let corpus = concat!(env!("CARGO_MANIFEST_DIR"), "/corpus");
    let mut files = 0;
    for file in std::fs::read_dir(corpus).unwrap() {
        fuzz_stored(&std::fs::read(file.unwrap().path()).unwrap());
        files += 1;
    }
    assert!(files >= 4);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn every_range_of_a_whole_object_comes_back(
        length in 1_usize..300_000, first in 0_u64..300_000, span in 0_u64..200_000, pieces in 1_usize..150_000,
    ) {
        let key = DataKey::new([5; 32]);
        let plain = content(length, 3);
        let stored = sealed(Sealing::whole(&key), &plain, pieces);
        let layout = Layout::whole(key, stored.len() as u64, Some(length as u64)).unwrap();
        let first = first % length as u64;
        let last = (first + span).min(length as u64 - 1);
        let at = |place: u64| usize::try_from(place).unwrap();
        prop_assert_eq!(read(&layout, &stored, first, last).unwrap(), &plain[at(first)..=at(last)]);
        // Nothing beyond the chunks that hold the range is read.
        let plan = layout.plan(first, last).unwrap();
        prop_assert!(plan.last - plan.first < (last - first) + 2 * CHUNK + 64 + (last - first) / CHUNK * 16);
    }

    #[test]
    fn a_changed_byte_is_found_before_its_chunk_is_served(
        length in 1_usize..200_000, at in 0_usize..200_000, bit in 0_u8..8, is_early: bool,
    ) {
        let key = DataKey::new([5; 32]);
        let plain = content(length, 3);
        let mut stored = whole(&key, &plain);
        let at = at % stored.len();
        stored[at] ^= 1 << bit;
        let layout = Layout::whole(key, stored.len() as u64, None).unwrap();
        let mut plan = layout.plan(0, length as u64 - 1).unwrap();
        let mut pieces = vec![Piece::from(stored.clone())];
        let mut outcome = Ok(());
        if is_early {
            pieces.clear();
            outcome = plan.opening.early().open(0, stored.into(), &mut pieces);
        }
        let mut out = Vec::new();
        for piece in pieces {
            outcome = plan.opening.push(piece, &mut out).and(outcome);
        }
        prop_assert_eq!(outcome.unwrap_err(), NotAuthentic::Chunk);
        let served = out.concat();
        prop_assert_eq!(served.len(), at / 65_552 * 65_536);
        prop_assert_eq!(&served, &plain[..served.len()]);
    }

    #[test]
    fn every_range_of_an_object_of_parts_comes_back(
        lengths in proptest::collection::vec(prop_oneof![Just(0_usize), 1_usize..100_000], 1..4),
        first in 0_u64..300_000, span in 0_u64..300_000,
    ) {
        let key = DataKey::new([6; 32]);
        let (plain, stored, manifest, tail) = object_of_parts(&key, &lengths);
        prop_assume!(!plain.is_empty());
        let layout = Layout::parts(key, manifest, stored.len() as u64, tail).unwrap();
        let first = first % plain.len() as u64;
        let last = (first + span).min(plain.len() as u64 - 1);
        let at = |place: u64| usize::try_from(place).unwrap();
        prop_assert_eq!(read(&layout, &stored, first, last).unwrap(), &plain[at(first)..=at(last)]);
    }

    #[test]
    fn hostile_bytes_never_pass(bytes: Vec<u8>, text in "1\\.[A-Za-z0-9_-]{100,112}") {
        fuzz_stored(&bytes);
        fuzz_stored(text.as_bytes());
        let mut footer = bytes;
        footer.extend_from_slice(b"LHPARTS1");
        fuzz_stored(&footer);
    }
}
