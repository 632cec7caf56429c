//! What must hold whatever comes.

use core::time::Duration;

use proptest::prelude::*;
use std::format;
use units::{SeqNum, Time};

use crate::Config;
use crate::fuzz::pair::Pair;
use crate::fuzz::{fuzz_exchange, fuzz_segments};

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn no_byte_is_lost_or_invented_and_no_edge_shrinks(
        bytes in prop::collection::vec(any::<u8>(), 80..500),
    ) {
        fuzz_exchange(&bytes);
    }

    #[test]
    fn arbitrary_segments_into_any_state_keep_the_endpoint_whole(
        bytes in prop::collection::vec(any::<u8>(), 60..1_500),
    ) {
        fuzz_segments(&bytes);
    }

    #[test]
    fn sequence_numbers_may_wrap_at_any_byte(before in 0_u32..100_000) {
        let iss = SeqNum::new(u32::MAX - before);
        let mut pair = Pair::with_iss(Config::linux(), Config::linux(), Duration::from_millis(10), iss, iss);
        pair.send(0, 150_000, true);
        pair.send(1, 150_000, true);
        pair.run(Time::from_millis(600_000));
        prop_assert_eq!(pair.ends[1].received(), 150_000);
        prop_assert_eq!(pair.ends[0].received(), 150_000);
    }
}

/// What once failed stays here: `cargo xtask fuzz` puts it there.
#[test]
fn what_fuzzing_found_stays_found() {
    for (target, body) in [
        ("exchange", fuzz_exchange as fn(&[u8])),
        ("segments", fuzz_segments),
    ] {
        let folder = format!("{}/corpus/{target}", env!("CARGO_MANIFEST_DIR"));
        let mut replayed = 0;
        for file in std::fs::read_dir(&folder).unwrap() {
            body(&std::fs::read(file.unwrap().path()).unwrap());
            replayed += 1;
        }
        assert!(replayed > 0, "{folder} is empty");
    }
}
