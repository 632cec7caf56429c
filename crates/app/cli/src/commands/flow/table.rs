//! What a person sees of a flow in the end: a table.

use std::fmt::Write as _;

use record::flow::{Direction, Document, Flow, Transfer};

/// The whole result for people.
pub(super) fn of(document: &Document) -> String {
    let mut text = String::new();
    // Writing to a String cannot fail, here and below.
    let _ = writeln!(
        text,
        "{} to {} ({} TCP){}",
        document.workload,
        document.server,
        document.stack,
        if document.interrupted {
            ", interrupted"
        } else {
            ""
        },
    );
    for flow in &document.flows {
        text.push('\n');
        describe(&mut text, flow);
    }
    if document.flows.len() > 1 {
        let totals = &document.totals;
        let _ = write!(
            text,
            "\nall: {} in {}, {}, {} retransmitted",
            size(totals.bytes),
            seconds(totals.seconds),
            rate_text(totals.goodput_bps),
            totals.retransmits,
        );
        if let Some(jain) = totals.jain {
            let _ = write!(text, ", fairness {jain:.3}");
        }
        if totals.failed > 0 {
            let _ = write!(text, ", {} failed", totals.failed);
        }
        text.push('\n');
    }
    text
}

fn describe(text: &mut String, flow: &Flow) {
    let algorithm = flow.congestion_control.as_deref().unwrap_or("?");
    let connect = flow.connect_s.map_or_else(
        || "not connected".into(),
        |span| format!("connect {}", seconds(span)),
    );
    let _ = writeln!(
        text,
        "flow {} at {}: {algorithm}, {connect}, {} in all",
        flow.index,
        seconds(flow.started_s),
        seconds(flow.total_s),
    );
    for transfer in &flow.transfers {
        let _ = writeln!(text, "  {}", transfer_line(transfer));
    }
    if flow.transfers.is_empty() && flow.exchanges.is_none() && flow.bytes > 0 {
        let _ = writeln!(
            text,
            "  up   {} in {}, {}, acknowledged by the peer's TCP",
            size(flow.bytes),
            seconds(flow.seconds),
            rate_text(flow.goodput_bps),
        );
    }
    if let Some(exchanges) = &flow.exchanges {
        let quantile = |value: Option<f64>| value.map_or_else(|| "-".into(), seconds);
        let _ = writeln!(
            text,
            "  {} exchanges: median {}, 95 % {}, 99 % {}, longest {}",
            exchanges.samples_s.len(),
            quantile(exchanges.median_s),
            quantile(exchanges.p95_s),
            quantile(exchanges.p99_s),
            quantile(exchanges.max_s),
        );
    }
    if let Some(last) = flow.samples.last() {
        let _ = writeln!(
            text,
            "  tcp: cwnd {}, rtt {} (least {}), {} retransmitted",
            size(last.cwnd),
            seconds(last.rtt_s),
            last.min_rtt_s.map_or_else(|| "-".into(), seconds),
            last.retransmits,
        );
    }
    let mut limits: Vec<_> = flow.limits.iter().collect();
    limits.sort_by(|one, other| other.1.total_cmp(one.1));
    if !limits.is_empty() {
        let parts: Vec<String> = limits
            .iter()
            .map(|(name, span)| format!("{name} {}", seconds(**span)))
            .collect();
        let _ = writeln!(text, "  held by: {}", parts.join(", "));
    }
    for setting in &flow.settings {
        let _ = writeln!(text, "  {} {}", setting.option, setting.effective);
    }
    if let Some(error) = &flow.error {
        let _ = writeln!(text, "  failed: {error}");
    }
}

fn transfer_line(transfer: &Transfer) -> String {
    let way = match transfer.direction {
        Direction::Up => "up  ",
        Direction::Down => "down",
    };
    let data = match transfer.first_difference {
        Some(offset) => format!("DATA DIFFERS from byte {offset} on"),
        None if transfer.data_ok => "data ok".into(),
        None => "INCOMPLETE".into(),
    };
    format!(
        "{way} {} in {} (receiver {}), {}, {data}",
        size(transfer.bytes),
        seconds(transfer.seconds),
        seconds(transfer.receiver_s),
        rate_text(transfer.goodput_bps),
    )
}

pub(super) fn rate_text(bits_per_s: Option<f64>) -> String {
    let Some(rate) = bits_per_s else {
        return "-".into();
    };
    for (scale, unit) in [(1e9, "Gbit/s"), (1e6, "Mbit/s"), (1e3, "kbit/s")] {
        if rate >= scale {
            return format!("{:.2} {unit}", rate / scale);
        }
    }
    format!("{rate:.0} bit/s")
}

pub(super) fn size(bytes: u64) -> String {
    for (scale, unit) in [(1_000_000_000, "GB"), (1_000_000, "MB"), (1_000, "kB")] {
        if bytes >= scale {
            return format!("{:.2} {unit}", float(bytes) / float(scale));
        }
    }
    format!("{bytes} B")
}

pub(super) fn seconds(span: f64) -> String {
    if span >= 1.0 {
        format!("{span:.3} s")
    } else {
        format!("{:.3} ms", span * 1e3)
    }
}

#[expect(
    clippy::cast_precision_loss,
    reason = "2^53 is enough for what people read"
)]
pub(super) const fn float(count: u64) -> f64 {
    count as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantities_are_short() {
        assert_eq!(rate_text(Some(9.87e9)), "9.87 Gbit/s");
        assert_eq!(size(1_500), "1.50 kB");
        assert_eq!(seconds(0.0123), "12.300 ms");
    }
}
