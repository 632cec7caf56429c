//! Every transfer of a run as a row (RFC 4180), for spreadsheets and other programs.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use lab::experiment::Row;

/// A table with one column per factor of the sweep.
pub(super) fn table(rows: &[Row]) -> String {
    let factors: BTreeSet<&String> = rows.iter().flat_map(|row| row.factors.keys()).collect();
    let mut text = String::new();
    for factor in &factors {
        text.push_str(&field(factor));
        text.push(',');
    }
    text.push_str(
        "workload,arm,transfer,position,seconds,bytes,goodput_bps,steady_bps,retransmissions,failure\r\n",
    );
    for row in rows {
        for factor in &factors {
            let value = row.factors.get(*factor).map_or("", String::as_str);
            text.push_str(&field(value));
            text.push(',');
        }
        let transfer = &row.transfer;
        // Writing to a String cannot fail.
        let _ = write!(
            text,
            "{},{},{},{},{:.6},{},{},{},{},{}\r\n",
            field(&row.workload),
            field(&row.arm),
            row.number,
            transfer.position + 1,
            transfer.seconds,
            transfer.bytes,
            rate(goodput(row)),
            rate(transfer.steady_bps),
            transfer
                .retransmissions()
                .map_or_else(String::new, |count| count.to_string()),
            field(transfer.failure.as_deref().unwrap_or_default()),
        );
    }
    text
}

/// Payload bits per second; none for a transfer that failed.
#[expect(
    clippy::cast_precision_loss,
    reason = "what one transfer carries is far below 2^53 bits"
)]
fn goodput(row: &Row) -> Option<f64> {
    let transfer = &row.transfer;
    let counts = transfer.failure.is_none() && transfer.seconds > 0.0 && transfer.bytes > 0;
    counts.then(|| transfer.bytes as f64 * 8.0 / transfer.seconds)
}

fn rate(value: Option<f64>) -> String {
    value.map_or_else(String::new, |value| format!("{value:.0}"))
}

/// A field, in quotes where it has to be.
fn field(text: &str) -> String {
    if text.contains([',', '"', '\r', '\n']) {
        format!("\"{}\"", text.replace('"', "\"\""))
    } else {
        text.to_owned()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use comparison::Transfer;

    use super::*;

    #[test]
    fn a_row_has_a_field_for_every_column_whatever_is_in_it() {
        let row = |factors: &[(&str, &str)], transfer: Transfer| Row {
            factors: factors
                .iter()
                .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
                .collect::<BTreeMap<_, _>>(),
            workload: "100 KiB".to_owned(),
            arm: "direct".to_owned(),
            number: 1,
            transfer,
        };
        let good = Transfer {
            seconds: 0.5,
            bytes: 1_000,
            counters: BTreeMap::from([("origin: TcpRetransSegs".to_owned(), 2)]),
            ..Transfer::default()
        };
        let bad = Transfer {
            failure: Some("\"no\", it said".to_owned()),
            ..Transfer::default()
        };
        let text = table(&[row(&[("path.rtt", "20 ms")], good), row(&[], bad)]);
        assert_eq!(
            text,
            "path.rtt,workload,arm,transfer,position,seconds,bytes,goodput_bps,steady_bps,retransmissions,failure\r\n\
             20 ms,100 KiB,direct,1,1,0.500000,1000,16000,,2,\r\n\
             ,100 KiB,direct,1,1,0.000000,0,,,,\"\"\"no\"\", it said\"\r\n"
        );
    }
}
