//! Cases rebuilt from the text of the RFCs: congestion marks, spurious timeouts, forged and lost peers,
//! paths that become narrower, windows that go unused.

use core::time::Duration;

use super::script::play;
use crate::{AckPolicy, Config, Ecn, KeepAlive};

/// No timestamps and no probes, so that scripts stay short; acknowledgements at once.
fn plain() -> Config {
    Config {
        timestamps: false,
        tail_loss_probe: false,
        nagle: false,
        proportional_rate_reduction: false,
        ack_policy: AckPolicy::Immediate,
        algorithm: congestion::Algorithm::NewReno,
        initial_cwnd: 4,
        ..Config::linux()
    }
}

#[track_caller]
fn established(config: Config, script: &str) {
    play(
        config,
        &std::format!(
            "
        +0   < S 0:0(0) win 65535 <mss 1000,sackOK,wscale 0>
        +0   > S. 0:0(0) ack 1
        +.1  < . 1:1(0) ack 1 win 65535
        {script}"
        ),
    );
}

const MARKED: &str = "
    +0   < SEW 0:0(0) win 65535 <mss 1000,sackOK,wscale 0>
    +0   > SE. 0:0(0) ack 1
    +.1  < . 1:1(0) ack 1 win 65535";

#[test]
fn rfc3168_a_syn_asks_with_two_flags_and_is_granted_with_one() {
    let config = Config {
        ecn: Ecn::Request,
        ..plain()
    };
    play(
        config,
        "
        +0   ! connect 0
        +0   > SEW 0:0(0) ecn 0
        +.1  < SE. 0:0(0) ack 1 win 65535 <mss 1000>
        +0   > . 1:1(0) ack 1 ecn 0
        +0   ! write 1000
        +0   > P. 1:1001(1000) ack 1 ecn 2
        # What is sent again must not be marked.
        +.3  > P. 1:1001(1000) ack 1 ecn 0
        +.1  < . 1:1(0) ack 1001 win 65535",
    );
}

#[test]
fn rfc3168_an_unanswered_syn_asks_no_more_and_an_unasked_grant_counts_for_nothing() {
    let config = Config {
        ecn: Ecn::Request,
        ..plain()
    };
    play(
        config,
        "
        +0   ! connect 0
        +0   > SEW 0:0(0)
        +1   > S 0:0(0)
        +.1  < SE. 0:0(0) ack 1 win 65535 <mss 1000>
        +0   > . 1:1(0) ack 1
        +0   ! write 1000
        +0   > P. 1:1001(1000) ack 1 ecn 0
        +.1  < . 1:1(0) ack 1001 win 65535",
    );
}

#[test]
fn rfc3168_it_is_not_granted_where_it_is_off() {
    let config = Config {
        ecn: Ecn::Off,
        ..plain()
    };
    play(
        config,
        "
        +0   < SEW 0:0(0) win 65535 <mss 1000>
        +0   > S. 0:0(0) ack 1",
    );
}

#[test]
fn rfc3168_a_mark_is_echoed_until_the_peer_has_reduced() {
    play(
        plain(),
        &std::format!(
            "{MARKED}
        +0   < . 1:1001(1000) ack 1 win 65535 ecn 3
        +0   > E. 1:1(0) ack 1001
        +0   < . 1001:2001(1000) ack 1 win 65535 ecn 2
        +0   > E. 1:1(0) ack 2001
        +0   < W. 2001:3001(1000) ack 1 win 65535 ecn 2
        +0   > . 1:1(0) ack 3001
        # The notice itself may be marked: that is a new mark.
        +0   < W. 3001:4001(1000) ack 1 win 65535 ecn 3
        +0   > E. 1:1(0) ack 4001"
        ),
    );
}

#[test]
fn rfc3168_an_echo_halves_the_window_once_per_flight_and_the_peer_is_told() {
    play(
        plain(),
        &std::format!(
            "{MARKED}
        +0   ! write 20000
        +0   > . 1:1001(1000) ack 1
        +0   > . 1001:2001(1000) ack 1
        +0   > . 2001:3001(1000) ack 1
        +0   > . 3001:4001(1000) ack 1
        +.1  < E. 1:1(0) ack 1001 win 65535
        +0   = cwnd 2
        +0   < E. 1:1(0) ack 2001 win 65535
        +0   = cwnd 2
        +0   < E. 1:1(0) ack 3001 win 65535
        +0   > W. 4001:5001(1000) ack 1 ecn 2
        +0   < E. 1:1(0) ack 4001 win 65535
        +0   > . 5001:6001(1000) ack 1 ecn 2
        # Sent after the reduction: the next echo counts again.
        +.1  < . 1:1(0) ack 5001 win 65535
        +0   > . 6001:7001(1000) ack 1 ecn 2
        +0   = cwnd 2"
        ),
    );
}

/// Broke: the window was reduced to what was in flight, which was nothing, and stayed there for ever.
#[test]
fn rfc3168_a_mark_with_nothing_in_flight_leaves_a_segment_to_send() {
    let config = Config {
        proportional_rate_reduction: true,
        ..plain()
    };
    play(
        config,
        &std::format!(
            "{MARKED}
        +0   < P. 1:101(100) ack 1 win 65535
        +0   > . 1:1(0) ack 101
        +0   < EP. 101:201(100) ack 1 win 65535
        +0   > . 1:1(0) ack 201
        +0   ! write 1000
        +0   > WP. 1:1001(1000) ack 201 ecn 2
        +.1  < . 201:201(0) ack 1001 win 65535"
        ),
    );
}

#[test]
fn rfc5682_new_data_shows_that_a_timeout_was_spurious() {
    // The four segments were late by a second, and none was lost.
    established(
        plain(),
        "
        +0   ! write 8000
        +0   > . 1:1001(1000) ack 1
        +0   > . 1001:2001(1000) ack 1
        +0   > . 2001:3001(1000) ack 1
        +0   > . 3001:4001(1000) ack 1
        +.3  > . 1:1001(1000) ack 1
        +0   = cwnd 1
        # Step 2b: two new segments.
        +.05 < . 1:1(0) ack 1001 win 65535
        +0   > . 4001:5001(1000) ack 1
        +0   > . 5001:6001(1000) ack 1
        # Step 3b: what was never repeated arrived.
        +.01 < . 1:1(0) ack 2001 win 65535
        +0   = cwnd 4
        +0   < . 1:1(0) ack 4001 win 65535
        +0   > . 6001:7001(1000) ack 1
        +0   > P. 7001:8001(1000) ack 1
        +.1  < . 1:1(0) ack 8001 win 65535",
    );
}

#[test]
fn rfc5682_a_real_timeout_is_repaired() {
    established(
        plain(),
        "
        +0   ! write 8000
        +0   > . 1:1001(1000) ack 1
        +0   > . 1001:2001(1000) ack 1
        +0   > . 2001:3001(1000) ack 1
        +0   > . 3001:4001(1000) ack 1
        +.3  > . 1:1001(1000) ack 1
        +.1  < . 1:1(0) ack 1001 win 65535
        +0   > . 4001:5001(1000) ack 1
        +0   > . 5001:6001(1000) ack 1
        # Step 3a: the new segments arrived above a hole.
        +.1  < . 1:1(0) ack 1001 win 65535 <sack 4001:5001>
        +0   > . 1001:2001(1000) ack 1
        +0   < . 1:1(0) ack 1001 win 65535 <sack 4001:6001>
        +0   > . 2001:3001(1000) ack 1
        +.1  < . 1:1(0) ack 3001 win 65535 <sack 4001:6001>
        +0   > . 3001:4001(1000) ack 1
        +0   > . 6001:7001(1000) ack 1
        +0   > P. 7001:8001(1000) ack 1
        +.1  < . 1:1(0) ack 8001 win 65535",
    );
}

#[test]
fn rfc5682_without_it_everything_is_sent_again() {
    let config = Config {
        forward_rto: false,
        ..plain()
    };
    established(
        config,
        "
        +0   ! write 4000
        +0   > . 1:1001(1000) ack 1
        +0   > . 1001:2001(1000) ack 1
        +0   > . 2001:3001(1000) ack 1
        +0   > P. 3001:4001(1000) ack 1
        +.3  > . 1:1001(1000) ack 1
        +.05 < . 1:1(0) ack 1001 win 65535
        +0   > . 1001:2001(1000) ack 1
        +0   > . 2001:3001(1000) ack 1
        +.1  < . 1:1(0) ack 4001 win 65535",
    );
}

#[test]
fn rfc2883_reports_of_duplicates_take_a_reduction_back() {
    // The first segment was late by more than RACK waits, and its repair was needless.
    established(
        plain(),
        "
        +0   ! write 4000
        +0   > . 1:1001(1000) ack 1
        +0   > . 1001:2001(1000) ack 1
        +0   > . 2001:3001(1000) ack 1
        +0   > P. 3001:4001(1000) ack 1
        +.1  < . 1:1(0) ack 1 win 65535 <sack 1001:2001>
        +0   < . 1:1(0) ack 1 win 65535 <sack 1001:3001>
        +0   < . 1:1(0) ack 1 win 65535 <sack 1001:4001>
        +0   > . 1:1001(1000) ack 1
        +0   = cwnd 2
        +.03 < . 1:1(0) ack 4001 win 65535
        +0   ! write 4000
        +0   > . 4001:5001(1000) ack 1
        +0   > . 5001:6001(1000) ack 1
        +.07 < . 1:1(0) ack 4001 win 65535 <sack 1:1001>
        +0   = cwnd 4
        +0   > . 6001:7001(1000) ack 1
        +0   > P. 7001:8001(1000) ack 1
        +.1  < . 1:1(0) ack 8001 win 65535",
    );
}

#[test]
fn rfc2883_part_of_a_segment_is_reported_too_and_nothing_where_it_is_off() {
    established(
        plain(),
        "
        +0   < . 1001:2001(1000) ack 1 win 65535
        +0   > . 1:1(0) ack 1 <sack 1001:2001>
        +0   < . 1501:2501(1000) ack 1 win 65535
        +0   > . 1:1(0) ack 1 <sack 1501:2001 1001:2501>",
    );
    let config = Config {
        duplicate_sack: false,
        ..plain()
    };
    established(
        config,
        "
        +0   < . 1:1001(1000) ack 1 win 65535
        +0   > . 1:1(0) ack 1001
        +0   < . 1:1001(1000) ack 1 win 65535
        +0   > . 1:1(0) ack 1001",
    );
}

#[test]
fn rfc9293_a_silent_peer_is_asked_and_given_up() {
    let keep_alive = KeepAlive {
        idle: Duration::from_mins(1),
        interval: Duration::from_secs(10),
        probes: 2,
    };
    let config = Config {
        keep_alive: Some(keep_alive),
        ..plain()
    };
    established(
        config,
        "
        +60  > . 0:0(0) ack 1
        +.1  < . 1:1(0) ack 1 win 65535
        # Answered: the silence begins anew.
        +60  > . 0:0(0) ack 1
        +10  > . 0:0(0) ack 1
        +10  > R. 1:1(0) ack 1
        +0   ? CLOSED",
    );
}

#[test]
fn rfc5961_an_acknowledgement_from_before_any_window_is_refused() {
    let script = "
        +0   ! write 4000
        +0   > . 1:1001(1000) ack 1
        +0   > . 1001:2001(1000) ack 1
        +0   > . 2001:3001(1000) ack 1
        +0   > P. 3001:4001(1000) ack 1
        +.1  < . 1:1(0) ack 4001 win 2000";
    play(
        plain(),
        &std::format!(
            "
        +0   < S 0:0(0) win 2000 <mss 1000,sackOK>
        +0   > S. 0:0(0) ack 1
        +.1  < . 1:1(0) ack 1 win 4000
        {script}
        +0   < P. 1:11(10) ack 1 win 2000
        +0   > . 4001:4001(0) ack 11
        +0   < P. 11:21(10) ack 0 win 2000
        +0   > . 4001:4001(0) ack 11
        +0   < P. 11:21(10) ack 4001 win 2000
        +0   > . 4001:4001(0) ack 21"
        ),
    );
}

#[test]
fn rfc5961_answers_to_forgeries_are_counted() {
    let forged = "
        +0   < R. 100:100(0) ack 1 win 0
        +0   > . 1:1(0) ack 1"
        .repeat(10);
    established(
        plain(),
        &std::format!(
            "{forged}
        +0   < R. 100:100(0) ack 1 win 0
        +0   ? ESTABLISHED
        +5   < R. 100:100(0) ack 1 win 0
        +0   > . 1:1(0) ack 1"
        ),
    );
    let config = Config {
        challenge_acks: false,
        ..plain()
    };
    established(
        config,
        "
        +0   < R. 100:100(0) ack 1 win 0
        +0   ? CLOSED",
    );
}

#[test]
fn rfc1191_a_narrower_path_cuts_what_is_under_way() {
    established(
        plain(),
        "
        +0   ! write 3000
        +0   > . 1:1001(1000) ack 1
        +0   > . 1001:2001(1000) ack 1
        +0   > P. 2001:3001(1000) ack 1
        # 640 - 20 - 20 = 600.
        +0   ! mtu 640
        +0   > . 1:601(600) ack 1
        +0   > . 601:1001(400) ack 1
        +0   > . 1001:1601(600) ack 1
        +0   > . 1601:2001(400) ack 1
        +0   = cwnd 4
        +.1  < . 1:1(0) ack 2001 win 65535
        +0   > . 2001:2601(600) ack 1
        +0   > P. 2601:3001(400) ack 1
        +.1  < . 1:1(0) ack 3001 win 65535
        +0   ! write 1000
        +0   > . 3001:3601(600) ack 1
        +0   > P. 3601:4001(400) ack 1
        +.1  < . 1:1(0) ack 4001 win 65535",
    );
}

#[test]
fn rfc9293_after_the_override_timeout_a_crumb_of_window_is_used() {
    established(
        plain(),
        "
        +0   < . 1:1(0) ack 1 win 300
        +0   ! write 1000
        +.3  > . 1:301(300) ack 1
        +.1  < . 1:1(0) ack 301 win 65535
        +0   > P. 301:1001(700) ack 1
        +.1  < . 1:1(0) ack 1001 win 65535",
    );
    let config = Config {
        silly_window_avoidance: false,
        ..plain()
    };
    established(
        config,
        "
        +0   < . 1:1(0) ack 1 win 300
        +0   ! write 1000
        +0   > . 1:301(300) ack 1
        +.1  < . 1:1(0) ack 301 win 65535
        +0   > P. 301:1001(700) ack 1
        +.1  < . 1:1(0) ack 1001 win 65535",
    );
}

/// Four segments, then four more after ten seconds of silence.
const AFTER_IDLE: &str = "
        +0   ! write 4000
        +0   > . 1:1001(1000) ack 1
        +0   > . 1001:2001(1000) ack 1
        +0   > . 2001:3001(1000) ack 1
        +0   > P. 3001:4001(1000) ack 1
        +.1  < . 1:1(0) ack 4001 win 65535
        +0   = cwnd 8
        +0   ! write 8000
        +0   > . 4001:5001(1000) ack 1
        +0   > . 5001:6001(1000) ack 1
        +0   > . 6001:7001(1000) ack 1
        +0   > . 7001:8001(1000) ack 1
        +0   > . 8001:9001(1000) ack 1
        +0   > . 9001:10001(1000) ack 1
        +0   > . 10001:11001(1000) ack 1
        +0   > P. 11001:12001(1000) ack 1
        +.1  < . 1:1(0) ack 12001 win 65535
        +0   = cwnd 16
        +10  ! write 1000
        +0   > P. 12001:13001(1000) ack 1";

#[test]
fn rfc2861_an_idle_window_shrinks() {
    established(
        plain(),
        &std::format!(
            "{AFTER_IDLE}
        +0   = cwnd 4
        +.1  < . 1:1(0) ack 13001 win 65535"
        ),
    );
}

#[test]
fn rfc7661_an_idle_window_is_kept_for_five_minutes_and_lost_with_a_loss() {
    let config = Config {
        keep_unused_window: true,
        forward_rto: false,
        ..plain()
    };
    established(
        config.clone(),
        &std::format!(
            "{AFTER_IDLE}
        +0   = cwnd 16
        +.1  < . 1:1(0) ack 13001 win 65535
        +0   = cwnd 16
        # Two round trips of single segments later half of the window is not validated any more.
        +10  ! write 1000
        +0   > P. 13001:14001(1000) ack 1
        +.1  < . 1:1(0) ack 14001 win 65535
        +10  ! write 1000
        +0   > P. 14001:15001(1000) ack 1
        +.1  < . 1:1(0) ack 15001 win 65535
        +0   = cwnd 16
        +10  ! write 1000
        +0   > P. 15001:16001(1000) ack 1
        # A timeout: what was carried lately counts, not the sixteen.
        +.3  > P. 15001:16001(1000) ack 1
        +0   = ssthresh 2
        +.1  < . 1:1(0) ack 16001 win 65535"
        ),
    );
    established(
        config,
        &std::format!(
            "{AFTER_IDLE}
        +.1  < . 1:1(0) ack 13001 win 65535
        +10  ! write 1000
        +0   > P. 13001:14001(1000) ack 1
        +.1  < . 1:1(0) ack 14001 win 65535
        +10  ! write 1000
        +0   > P. 14001:15001(1000) ack 1
        +.1  < . 1:1(0) ack 15001 win 65535
        +299 ! write 1000
        +0   > P. 15001:16001(1000) ack 1
        +0   = cwnd 8
        +.1  < . 1:1(0) ack 16001 win 65535"
        ),
    );
}
