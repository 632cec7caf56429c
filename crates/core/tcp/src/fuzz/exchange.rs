use core::time::Duration;

use alloc::boxed::Box;

use units::{SeqNum, Time};

use super::choices::Choices;
use super::pair::{Fate, Pair};
use crate::State;

/// Two endpoints with any configurations and initial sequence numbers send each other what the bytes say,
/// over a wire that loses, repeats, marks and delays the first packets as they say. No byte may be lost,
/// moved or invented, no right edge of a window may move left, and both ends must close.
pub fn fuzz_exchange(bytes: &[u8]) {
    let mut choices = Choices::new(bytes);
    let (client, server) = (choices.config(), choices.config());
    let iss = [choices.word(), choices.word()].map(SeqNum::new);
    // Ends that fill every crumb of window come to one byte per segment.
    let crumbs = [&client, &server].map(|config| !config.silly_window_avoidance);
    let factor = if crumbs.contains(&true) { 0 } else { 3 };
    let mut size = || u64::from(choices.short()) * factor + u64::from(choices.short() >> 4);
    let sizes = [size(), size()];
    let lazy = choices.byte();
    let fates = choices.rest();
    let mut pair = Pair::with_iss(client, server, Duration::from_millis(30), iss[0], iss[1]);
    let mut count: usize = 0;
    // Behind the list every packet gets through, so that all ends.
    pair.fate = Box::new(move |_, _, _| {
        let fate = fates.get(count).copied().unwrap_or(u8::MAX);
        count += 1;
        match fate {
            0..24 => Fate::Lose,
            24..36 => Fate::Repeat,
            36..56 => Fate::Delay(Duration::from_millis(u64::from(fate) * 2)),
            56..80 => Fate::Mark,
            80.. => Fate::Deliver,
        }
    });
    for (side, bytes) in sizes.into_iter().enumerate() {
        pair.ends[side].reads = lazy >> side & 1 == 0;
        pair.send(side, bytes, true);
    }
    // Who does not read at first lets the window close, and reads on a minute later.
    pair.run(Time::from_millis(60_000));
    for end in &mut pair.ends {
        end.reads = true;
    }
    pair.run(Time::from_millis(40_000_000));
    for (side, bytes) in sizes.into_iter().enumerate() {
        let receiver = &pair.ends[1 - side];
        assert_eq!(
            receiver.received(),
            bytes,
            "what side {side} sent came whole"
        );
        assert_eq!(receiver.read, bytes, "what side {side} sent was read");
    }
    assert_eq!(
        [pair.ends[0].state(), pair.ends[1].state()],
        [State::Closed; 2]
    );
}
