//! The points of a connection, for the script that draws them as linked plots.

use std::fmt::Write as _;

use record::explain::{Connection, DataPoint, Series};

use crate::quantity::float;
use crate::svg::limit_class;

/// Most points of a line; more than a screen has pixels, so that zooming shows more.
const MOST: usize = 12_000;

/// A JSON object; it holds numbers and words of our own only, so it can stand in a script element.
pub(super) fn points(connection: &Connection, series: &Series) -> String {
    let mut text = String::from("{");
    // Writing to a String cannot fail.
    let _ = write!(text, "\"duration\":{}", number(connection.duration_s));
    list(
        &mut text,
        "data",
        &thinned(&series.data),
        |text, point: &DataPoint| {
            let again = u8::from(point.retransmission);
            let _ = write!(
                text,
                "[{},{},{},{again}]",
                number(point.t),
                point.from,
                point.to
            );
        },
    );
    list(
        &mut text,
        "sacks",
        &thinned(&series.sacks),
        |text, (t, from, to)| {
            let _ = write!(text, "[{},{from},{to}]", number(*t));
        },
    );
    let whole = [
        ("acks", &series.acks),
        ("edge", &series.window_edge),
        ("flight", &series.in_flight),
        ("window", &series.receive_window),
        ("cwnd", &series.congestion_window),
    ];
    for (name, line) in whole {
        let line: Vec<(f64, f64)> = line.iter().map(|(t, value)| (*t, float(*value))).collect();
        line_of(&mut text, name, &line);
    }
    line_of(&mut text, "rtt", &series.rtt);
    line_of(&mut text, "goodput", &series.goodput);
    list(
        &mut text,
        "limits",
        &series.limits,
        |text, (from, to, limit)| {
            let (from, to, class) = (number(*from), number(*to), limit_class(*limit));
            let _ = write!(text, "[{from},{to},\"{limit}\",\"{class}\"]");
        },
    );
    text.push('}');
    text
}

fn line_of(text: &mut String, name: &'static str, line: &[(f64, f64)]) {
    list(text, name, &peaks(line), |text, (t, value)| {
        let _ = write!(text, "[{},{}]", number(*t), number(*value));
    });
}

fn list<T>(
    text: &mut String,
    name: &'static str,
    items: &[T],
    mut write: impl FnMut(&mut String, &T),
) {
    let _ = write!(text, ",\"{name}\":[");
    for (index, item) in items.iter().enumerate() {
        if index > 0 {
            text.push(',');
        }
        write(text, item);
    }
    text.push(']');
}

/// Every n-th of too many.
fn thinned<T: Copy>(items: &[T]) -> Vec<T> {
    let step = items.len().div_ceil(MOST).max(1);
    items.iter().copied().step_by(step).collect()
}

/// Of too many points the highest and the lowest of each stretch, in order, so that no spike is lost.
fn peaks(line: &[(f64, f64)]) -> Vec<(f64, f64)> {
    let stretch = (line.len() * 2).div_ceil(MOST);
    if stretch <= 2 {
        return line.to_vec();
    }
    let mut kept = Vec::with_capacity(MOST + 2);
    for points in line.chunks(stretch) {
        let by_value = |one: &&(f64, f64), other: &&(f64, f64)| one.1.total_cmp(&other.1);
        let extremes = points
            .iter()
            .min_by(by_value)
            .zip(points.iter().max_by(by_value));
        let Some((low, high)) = extremes else {
            continue;
        };
        if low.0 <= high.0 {
            kept.extend([*low, *high]);
        } else {
            kept.extend([*high, *low]);
        }
    }
    kept
}

/// Nine digits say more than a clock does; JSON knows no infinities.
fn number(value: f64) -> String {
    if !value.is_finite() {
        return "0".to_owned();
    }
    let text = format!("{value:.9}");
    let trimmed = text.trim_end_matches('0').trim_end_matches('.');
    trimmed.to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_short_and_always_json() {
        for (value, text) in [
            (0.0, "0"),
            (1.5, "1.5"),
            (1e9, "1000000000"),
            (f64::NAN, "0"),
            (2e-9, "0.000000002"),
        ] {
            assert_eq!(number(value), text);
        }
    }

    #[test]
    fn a_long_line_keeps_its_spikes() {
        let mut line: Vec<(f64, f64)> = (0..100_000).map(|t| (f64::from(t), 5.0)).collect();
        line[77_777].1 = 9.0;
        line[22_222].1 = 1.0;
        let kept = peaks(&line);
        assert!(kept.len() <= MOST + 2);
        assert!(kept.contains(&(77_777.0, 9.0)) && kept.contains(&(22_222.0, 1.0)));
        assert!(kept.is_sorted_by(|one, next| one.0 <= next.0));
    }
}
