//! Cases rebuilt from the text of the RFCs, as packet scripts.

use core::time::Duration;

use units::Bytes;

use super::script::play;
use crate::{AckPolicy, Config, LossDetection, ReceiveBuffer};

/// No timestamps and no probes, so that scripts stay short; acknowledgements at once.
fn plain() -> Config {
    Config {
        timestamps: false,
        tail_loss_probe: false,
        nagle: false,
        ack_policy: AckPolicy::Immediate,
        algorithm: congestion::Algorithm::NewReno,
        ..Config::linux()
    }
}

const ESTABLISHED: &str = "
    +0   < S 0:0(0) win 65535 <mss 1000,sackOK,wscale 0>
    +0   > S. 0:0(0) ack 1
    +.1  < . 1:1(0) ack 1 win 65535
    +0   ? ESTABLISHED";

#[track_caller]
fn established(config: Config, script: &str) {
    play(config, &std::format!("{ESTABLISHED}\n{script}"));
}

#[test]
fn rfc9293_figure_6_handshake() {
    play(
        plain(),
        "
        +0   ! connect 0
        +0   > S 0:0(0) <mss 1460>
        +0   ? SYN-SENT
        +.1  < S. 0:0(0) ack 1 win 65535 <mss 1460>
        +0   > . 1:1(0) ack 1
        +0   ? ESTABLISHED",
    );
}

#[test]
fn rfc9293_figure_7_simultaneous_open() {
    play(
        plain(),
        "
        +0   ! connect 0
        +0   > S 0:0(0)
        +.05 < S 0:0(0) win 65535 <mss 1460>
        +0   > S. 0:0(0) ack 1
        +0   ? SYN-RECEIVED
        +.05 < . 1:1(0) ack 1 win 65535
        +0   ? ESTABLISHED",
    );
}

#[test]
fn rfc9293_figure_12_normal_close() {
    established(
        plain(),
        "
        +0   ! close 0
        +0   > F. 1:1(0) ack 1
        +0   ? FIN-WAIT-1
        +.1  < . 1:1(0) ack 2 win 65535
        +0   ? FIN-WAIT-2
        +.1  < F. 1:1(0) ack 2 win 65535
        +0   > . 2:2(0) ack 2
        +0   ? TIME-WAIT
        # The last ACK was lost: the FIN comes again and is answered again.
        +1   < F. 1:1(0) ack 2 win 65535
        +0   > . 2:2(0) ack 2
        +60  ? CLOSED",
    );
}

#[test]
fn rfc9293_figure_13_simultaneous_close() {
    established(
        plain(),
        "
        +0   ! close 0
        +0   > F. 1:1(0) ack 1
        +.05 < F. 1:1(0) ack 1 win 65535
        +0   > . 2:2(0) ack 2
        +0   ? CLOSING
        +.05 < . 2:2(0) ack 2 win 65535
        +0   ? TIME-WAIT",
    );
}

#[test]
fn rfc9293_half_close_lets_the_other_side_go_on() {
    established(
        plain(),
        "
        +0   < F. 1:1(0) ack 1 win 65535
        +0   > . 1:1(0) ack 2
        +0   ? CLOSE-WAIT
        +0   ! write 500
        +0   > P. 1:501(500) ack 2
        +.1  < . 2:2(0) ack 501 win 65535
        +0   ! close 0
        +0   > F. 501:501(0) ack 2
        +0   ? LAST-ACK
        +.1  < . 2:2(0) ack 502 win 65535
        +0   ? CLOSED",
    );
}

#[test]
fn rfc5961_only_an_exact_reset_ends_a_connection() {
    established(
        plain(),
        "
        +0   < R. 100:100(0) ack 1 win 0
        +0   > . 1:1(0) ack 1
        +0   < S 10:10(0) win 1000
        +0   > . 1:1(0) ack 1
        +0   ? ESTABLISHED
        +0   < R. 1:1(0) ack 1 win 0
        +0   ? CLOSED",
    );
}

#[test]
fn rfc9293_what_acknowledges_the_unsent_is_answered_and_dropped() {
    established(
        plain(),
        "
        +0   < P. 1:101(100) ack 5000 win 65535
        +0   > . 1:1(0) ack 1
        +0   < P. 1:101(100) ack 1 win 65535
        +0   > . 1:1(0) ack 101",
    );
}

#[test]
fn rfc2018_blocks_come_newest_first_and_rfc2883_reports_duplicates() {
    established(
        plain(),
        "
        +0   < . 1001:2001(1000) ack 1 win 65535
        +0   > . 1:1(0) ack 1 <sack 1001:2001>
        +0   < . 3001:4001(1000) ack 1 win 65535
        +0   > . 1:1(0) ack 1 <sack 3001:4001 1001:2001>
        +0   < . 5001:6001(1000) ack 1 win 65535
        +0   > . 1:1(0) ack 1 <sack 5001:6001 3001:4001 1001:2001>
        # The hole between the last two is filled: they become one block.
        +0   < . 4001:5001(1000) ack 1 win 65535
        +0   > . 1:1(0) ack 1 <sack 3001:6001 1001:2001>
        # A duplicate of what is already reported stands first, and the block it lies in next.
        +0   < . 1001:2001(1000) ack 1 win 65535
        +0   > . 1:1(0) ack 1 <sack 1001:2001 1001:2001 3001:6001>
        +0   < . 1:1001(1000) ack 1 win 65535
        +0   > . 1:1(0) ack 2001 <sack 3001:6001>
        +0   < . 2001:3001(1000) ack 1 win 65535
        +0   > . 1:1(0) ack 6001
        # All of it is old.
        +0   < . 1:1001(1000) ack 1 win 65535
        +0   > . 1:1(0) ack 6001 <sack 1:1001>",
    );
}

#[test]
fn rfc6298_timeouts_back_off() {
    // The handshake took 100 ms: SRTT 100, RTTVAR 50, RTO 100 + max(200, 4 x 50) = 300 ms.
    established(
        plain(),
        "
        +0   ! write 1000
        +0   > P. 1:1001(1000) ack 1
        +.3  > P. 1:1001(1000) ack 1
        +.6  > P. 1:1001(1000) ack 1
        +1.2 > P. 1:1001(1000) ack 1
        +.1  < . 1:1(0) ack 1001 win 65535
        +9   ? ESTABLISHED",
    );
}

#[test]
fn rfc8985_a_probe_asks_about_the_tail_before_the_timeout() {
    let config = Config {
        tail_loss_probe: true,
        ..plain()
    };
    // Two segments out: PTO = 2 x SRTT + 2 ms.
    established(
        config,
        "
        +0    ! write 2000
        +0    > . 1:1001(1000) ack 1
        +0    > P. 1001:2001(1000) ack 1
        +.202 > P. 1001:2001(1000) ack 1
        # The probe shows that the first one is missing; it follows at once.
        +.1   < . 1:1(0) ack 1 win 65535 <sack 1001:2001>
        +0    > . 1:1001(1000) ack 1
        +.1   < . 1:1(0) ack 2001 win 65535",
    );
}

#[test]
fn rfc6582_partial_acknowledgements_repair_one_hole_per_round_trip() {
    let config = Config {
        sack: false,
        limited_transmit: false,
        proportional_rate_reduction: false,
        initial_cwnd: 6,
        ..plain()
    };
    established(
        config,
        "
        +0   ! write 6000
        +0   > . 1:1001(1000) ack 1
        +0   > . 1001:2001(1000) ack 1
        +0   > . 2001:3001(1000) ack 1
        +0   > . 3001:4001(1000) ack 1
        +0   > . 4001:5001(1000) ack 1
        +0   > P. 5001:6001(1000) ack 1
        # 1 and 1001 are lost: four duplicates come, the third starts fast retransmit.
        +.1  < . 1:1(0) ack 1 win 65535
        +0   < . 1:1(0) ack 1 win 65535
        +0   < . 1:1(0) ack 1 win 65535
        +0   > . 1:1001(1000) ack 1
        +0   < . 1:1(0) ack 1 win 65535
        +.1  < . 1:1(0) ack 1001 win 65535
        +0   > . 1001:2001(1000) ack 1
        +.1  < . 1:1(0) ack 6001 win 65535",
    );
}

#[test]
fn rfc3042_the_first_two_duplicates_let_new_segments_go() {
    let config = Config {
        sack: false,
        initial_cwnd: 3,
        ..plain()
    };
    established(
        config,
        "
        +0   ! write 9000
        +0   > . 1:1001(1000) ack 1
        +0   > . 1001:2001(1000) ack 1
        +0   > . 2001:3001(1000) ack 1
        +.1  < . 1:1(0) ack 1 win 65535
        +0   > . 3001:4001(1000) ack 1
        +0   < . 1:1(0) ack 1 win 65535
        +0   > . 4001:5001(1000) ack 1
        +0   < . 1:1(0) ack 1 win 65535
        +0   > . 1:1001(1000) ack 1
        +.1  < . 1:1(0) ack 5001 win 65535
        +0   > . 5001:6001(1000) ack 1
        +0   > . 6001:7001(1000) ack 1
        +.1  < . 1:1(0) ack 7001 win 65535
        +0   > . 7001:8001(1000) ack 1
        +0   > P. 8001:9001(1000) ack 1
        +.1  < . 1:1(0) ack 9001 win 65535",
    );
}

#[test]
fn rfc6675_three_segments_above_a_hole_make_it_lost() {
    let config = Config {
        loss_detection: LossDetection::DuplicateAcks,
        proportional_rate_reduction: false,
        initial_cwnd: 5,
        ..plain()
    };
    established(
        config,
        "
        +0   ! write 5000
        +0   > . 1:1001(1000) ack 1
        +0   > . 1001:2001(1000) ack 1
        +0   > . 2001:3001(1000) ack 1
        +0   > . 3001:4001(1000) ack 1
        +0   > P. 4001:5001(1000) ack 1
        +.1  < . 1:1(0) ack 1 win 65535 <sack 1001:2001>
        +0   < . 1:1(0) ack 1 win 65535 <sack 1001:3001>
        +0   < . 1:1(0) ack 1 win 65535 <sack 1001:4001>
        +0   > . 1:1001(1000) ack 1
        +.1  < . 1:1(0) ack 5001 win 65535",
    );
}

#[test]
fn rfc9293_a_closed_window_is_probed_and_resumed() {
    established(
        plain(),
        "
        +0   < . 1:1(0) ack 1 win 0
        +0   ! write 1000
        # The probe carries an old byte's number, which obliges the peer to answer.
        +.3  > . 0:0(0) ack 1
        +.01 < . 1:1(0) ack 1 win 0
        # The next one is backed off, counted from the answer.
        +.6  > . 0:0(0) ack 1
        +.01 < . 1:1(0) ack 1 win 5000
        +0   > P. 1:1001(1000) ack 1
        +.1  < . 1:1(0) ack 1001 win 5000",
    );
}

#[test]
fn rfc9293_a_sender_does_not_fill_crumbs_of_window() {
    established(
        plain(),
        "
        +0   ! write 3000
        +0   > . 1:1001(1000) ack 1
        +0   > . 1001:2001(1000) ack 1
        +0   > P. 2001:3001(1000) ack 1
        +.1  < . 1:1(0) ack 3001 win 300
        +0   ! write 2000
        +.05 < . 1:1(0) ack 3001 win 1000
        +0   > . 3001:4001(1000) ack 1
        +.1  < . 1:1(0) ack 4001 win 65535
        +0   > P. 4001:5001(1000) ack 1
        +.1  < . 1:1(0) ack 5001 win 65535",
    );
}

#[test]
fn rfc9293_a_receiver_does_not_offer_crumbs_of_window() {
    let config = Config {
        window_scaling: false,
        receive_buffer: ReceiveBuffer::Fixed(Bytes::new(4_000)),
        ..plain()
    };
    play(
        config,
        "
        +0   < S 0:0(0) win 65535 <mss 1000>
        +0   > S. 0:0(0) ack 1 win 4000
        +.1  < . 1:1(0) ack 1 win 65535
        +0   < . 1:1001(1000) ack 1 win 65535
        +0   > . 1:1(0) ack 1001 win 3000
        +0   < . 1001:2001(1000) ack 1 win 65535
        +0   > . 1:1(0) ack 2001 win 2000
        +0   < . 2001:3001(1000) ack 1 win 65535
        +0   > . 1:1(0) ack 3001 win 1000
        +0   < . 3001:4001(1000) ack 1 win 65535
        +0   > . 1:1(0) ack 4001 win 0
        # A few bytes are read: nothing worth telling.
        +0   ! read 500
        +0   ! read 500
        +0   > . 1:1(0) ack 4001 win 1000",
    );
}

#[test]
fn rfc7323_an_older_timestamp_is_refused() {
    let config = Config {
        timestamps: true,
        ..plain()
    };
    play(
        config,
        "
        +0   < S 0:0(0) win 65535 <mss 1000,TS val 100 ecr 0>
        +0   > S. 0:0(0) ack 1
        +.1  < . 1:1(0) ack 1 win 65535 <TS val 200 ecr 0>
        +0   < P. 1:101(100) ack 1 win 65535 <TS val 300 ecr 0>
        +0   > . 1:1(0) ack 101
        +0   < P. 101:201(100) ack 1 win 65535 <TS val 250 ecr 0>
        +0   > . 1:1(0) ack 101
        +0   < P. 101:201(100) ack 1 win 65535 <TS val 300 ecr 0>
        +0   > . 1:1(0) ack 201",
    );
}

#[test]
fn rfc9293_every_second_segment_is_acknowledged_and_one_alone_after_the_delay() {
    let config = Config {
        ack_policy: AckPolicy::Every2 {
            delay: Duration::from_millis(200),
        },
        ..plain()
    };
    established(
        config,
        "
        +0   < . 1:1001(1000) ack 1 win 65535
        +.05 < . 1001:2001(1000) ack 1 win 65535
        +0   > . 1:1(0) ack 2001
        +0   < . 2001:3001(1000) ack 1 win 65535
        +.2  > . 1:1(0) ack 3001",
    );
}

#[test]
fn rfc5681_a_filled_gap_is_acknowledged_at_once() {
    let config = Config {
        ack_policy: AckPolicy::Every2 {
            delay: Duration::from_millis(200),
        },
        ..plain()
    };
    established(
        config,
        "
        +0   < . 1001:2001(1000) ack 1 win 65535
        +0   > . 1:1(0) ack 1 <sack 1001:2001>
        +0   < . 1:501(500) ack 1 win 65535
        +0   > . 1:1(0) ack 501 <sack 1001:2001>",
    );
}

/// Broke: both ends found each other's acknowledgements unacceptable and answered them for ever.
#[test]
fn an_acknowledgement_from_behind_a_full_window_that_was_lost_is_heard() {
    let config = Config {
        window_scaling: false,
        receive_buffer: ReceiveBuffer::Fixed(Bytes::new(2_000)),
        ..plain()
    };
    established(
        config,
        "
        +0   ! write 1000
        +0   > P. 1:1001(1000) ack 1 win 2000
        # The peer has filled our window, and nothing of it arrived.
        +.1  < . 2001:2001(0) ack 1001 win 5000
        +0   ! write 1000
        +0   > P. 1001:2001(1000) ack 1
        +.1  < . 2001:2001(0) ack 2001 win 5000",
    );
}

#[test]
fn rfc5961_unacceptable_acknowledgements_are_answered_twice_a_second_at_most() {
    established(
        plain(),
        "
        +0   < . 90000:90000(0) ack 1 win 5000
        +0   > . 1:1(0) ack 1
        +.1  < . 90000:90000(0) ack 1 win 5000
        +.3  < . 90000:90000(0) ack 1 win 5000
        +.2  < . 90000:90000(0) ack 1 win 5000
        +0   > . 1:1(0) ack 1",
    );
}
