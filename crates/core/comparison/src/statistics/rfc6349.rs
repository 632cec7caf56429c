//! The metrics of RFC 6349 section 4 (Framework for TCP Throughput Testing), as shares of one where the
//! RFC gives percentages.

/// Section 4.1: the actual over the ideal TCP transfer time, which is the payload at the highest
/// throughput that the bottleneck and all headers allow. `None` where the ideal takes no time.
#[must_use]
pub fn transfer_time_ratio(actual_s: f64, ideal_s: f64) -> Option<f64> {
    (ideal_s > 0.0).then(|| actual_s / ideal_s)
}

/// Section 4.2: bytes transmitted less bytes retransmitted, over bytes transmitted. `None` where nothing
/// was transmitted.
#[must_use]
pub fn tcp_efficiency(transmitted: f64, retransmitted: f64) -> Option<f64> {
    (transmitted > 0.0).then(|| (transmitted - retransmitted) / transmitted)
}

/// Section 4.3: how much the average RTT during a transfer lies above the baseline, over the baseline.
/// `None` without a baseline.
#[must_use]
pub fn buffer_delay(average_rtt_s: f64, baseline_rtt_s: f64) -> Option<f64> {
    (baseline_rtt_s > 0.0).then(|| (average_rtt_s - baseline_rtt_s) / baseline_rtt_s)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::statistics::tests::assert_near;

    /// Sections 4.2 and 4.3: 100,000 bytes sent of which 2,000 had to be sent again are 98.03 %; an RTT of
    /// 32 ms over a baseline of 25 ms is a buffer delay of 28 %.
    #[test]
    fn the_examples_of_the_rfc() {
        assert_near(tcp_efficiency(102_000.0, 2_000.0).unwrap(), 0.9803, 1e-4);
        assert_near(buffer_delay(0.032, 0.025).unwrap(), 0.28, 1e-12);
        assert_near(transfer_time_ratio(12.0, 8.0).unwrap(), 1.5, 1e-12);
    }

    #[test]
    fn nothing_has_no_ratio() {
        assert_eq!(tcp_efficiency(0.0, 0.0), None);
        assert_eq!(buffer_delay(0.1, 0.0), None);
        assert_eq!(transfer_time_ratio(1.0, 0.0), None);
    }
}
