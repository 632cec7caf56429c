use proptest::prelude::*;

use super::*;

/// The fuzz body: any bytes, cut anywhere, are frames or an error, and never more than was sent.
fn decode_anything(bytes: &[u8], cut: usize) -> usize {
    let mut decoder = Decoder::default();
    let mut data = 0;
    for piece in bytes.chunks(cut.max(1)) {
        let mut input = piece;
        loop {
            match decoder.decode(&mut input) {
                Ok(Some(Frame::Data(bytes))) => data += bytes.len(),
                Ok(Some(_)) => {}
                Ok(None) => break,
                Err(_) => return data,
            }
        }
        assert!(input.is_empty(), "what is not taken would be lost");
    }
    data
}

fn frames() -> impl Strategy<Value = Frame<'static>> {
    prop_oneof![
        any::<(u64, u64, Option<u64>, Option<u64>)>().prop_map(
            |(seed, interval_ns, window_ns, response)| {
                Frame::Hello(Hello {
                    seed,
                    interval_ns,
                    window_ns,
                    response,
                    congestion_control: Some("reno".into()),
                    ..Hello::default()
                })
            }
        ),
        any::<u64>().prop_map(|bytes| Frame::Ask(Ask::Bytes(bytes))),
        prop::sample::select(vec![&b"one"[..], b"another piece", &[0; 300]]).prop_map(Frame::Data),
        Just(Frame::End),
        any::<(u64, u64, Vec<(u64, u64)>)>().prop_map(|(bytes, duration_ns, progress)| {
            Frame::Receipt(Receipt {
                bytes,
                duration_ns,
                progress,
                first_difference: None,
            })
        }),
        ".{0,40}".prop_map(Frame::Refusal),
    ]
}

proptest! {
    #[test]
    fn frames_survive_their_bytes_wherever_these_are_cut(
        sent in prop::collection::vec(frames(), 0..6),
        cut in 1_usize..400,
    ) {
        let bytes: Vec<u8> = sent.iter().flat_map(|frame| encode(frame).unwrap()).collect();
        let mut decoder = Decoder::default();
        let (mut came, mut data) = (Vec::new(), Vec::new());
        for piece in bytes.chunks(cut) {
            let mut input = piece;
            while let Some(frame) = decoder.decode(&mut input).unwrap() {
                if let Frame::Data(bytes) = frame {
                    data.extend_from_slice(bytes);
                } else {
                    came.push(encode(&frame).unwrap());
                }
            }
        }
        let is_data = |frame: &&Frame<'_>| matches!(frame, Frame::Data(_));
        let others: Vec<_> = sent.iter().filter(|frame| !is_data(frame)).map(|frame| encode(frame).unwrap()).collect();
        prop_assert_eq!(came, others);
        let mut all = Vec::new();
        for frame in &sent {
            if let Frame::Data(bytes) = frame {
                all.extend_from_slice(bytes);
            }
        }
        prop_assert_eq!(data, all);
    }

    #[test]
    fn anything_at_all_is_read_without_a_panic(bytes in prop::collection::vec(any::<u8>(), 0..400), cut in 1_usize..50) {
        prop_assert!(decode_anything(&bytes, cut) <= bytes.len());
    }

    #[test]
    fn any_body_behind_a_good_header_is_read_without_a_panic(
        kind in 0_u8..9,
        length: u64,
        small: bool,
        body in prop::collection::vec(any::<u8>(), 0..300),
    ) {
        let length = if small { length % 300 } else { length };
        let bytes = [&header(kind, length)[..], &body].concat();
        prop_assert!(decode_anything(&bytes, 7) <= body.len());
    }
}

#[test]
fn a_stranger_cannot_announce_more_than_a_small_introduction() {
    let mut decoder = Decoder::default();
    let bytes = header(HELLO, 1 << 20);
    let refused = decoder.decode(&mut &bytes[..]);
    assert!(
        matches!(refused, Err(FrameError::Length { most: 4096, .. })),
        "{refused:?}"
    );
}

#[test]
fn another_protocol_and_another_version_are_told_apart() {
    let http = Decoder::default()
        .decode(&mut &b"GET / HTTP/1.1\r\n"[..])
        .unwrap_err();
    assert!(http.to_string().contains("does not speak"), "{http}");
    let mut bytes = header(HELLO, 0);
    bytes[2] = 9;
    let newer = Decoder::default().decode(&mut &bytes[..]).unwrap_err();
    assert!(newer.to_string().contains("version 9"), "{newer}");
}
