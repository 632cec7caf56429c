//! Cells of a sweep by the values of their factors.

use std::collections::BTreeSet;

use record::lab::{Cell, Document};

/// Cells along one factor, all else equal.
#[derive(Clone, Debug)]
pub(crate) struct Slice<'a> {
    /// The factor that varies, such as `path.rtt`.
    pub(crate) factor: &'a str,
    /// What stays the same: the workload, and other factors with their values.
    pub(crate) title: String,
    /// By rising value of the factor, each with the value as written.
    pub(crate) cells: Vec<(&'a str, &'a Cell)>,
}

/// Every slice along a factor whose values are numbers (RTT, loss, rates), in the order of factors.
pub(crate) fn slices(document: &Document) -> Vec<Slice<'_>> {
    let factors: BTreeSet<&str> = document
        .cells
        .iter()
        .flat_map(|cell| cell.factors.keys().map(String::as_str))
        .collect();
    factors
        .into_iter()
        .filter(|factor| {
            let values = document
                .cells
                .iter()
                .filter_map(|cell| cell.factors.get(*factor));
            let mut values = values.peekable();
            values.peek().is_some() && values.all(|value| size(value).is_some())
        })
        .flat_map(|factor| along(document, factor))
        .collect()
}

fn along<'a>(document: &'a Document, factor: &'a str) -> Vec<Slice<'a>> {
    let mut slices: Vec<Slice<'a>> = Vec::new();
    for cell in &document.cells {
        let Some(value) = cell.factors.get(factor) else {
            continue;
        };
        let others = cell.factors.iter().filter(|(name, _)| *name != factor);
        let others = others.map(|(name, value)| format!(", {} {value}", short(name)));
        let title = format!("{}{}", cell.workload, others.collect::<String>());
        match slices.iter_mut().find(|slice| slice.title == title) {
            Some(slice) => slice.cells.push((value, cell)),
            None => slices.push(Slice {
                factor,
                title,
                cells: vec![(value, cell)],
            }),
        }
    }
    for slice in &mut slices {
        slice.cells.sort_by(|(one, _), (other, _)| {
            size(one)
                .unwrap_or(0.0)
                .total_cmp(&size(other).unwrap_or(0.0))
        });
    }
    let of_several = |slice: &Slice<'_>| {
        let values: BTreeSet<&str> = slice.cells.iter().map(|(value, _)| *value).collect();
        values.len() > 1
    };
    slices.retain(of_several);
    slices
}

/// The last part of a factor's dotted name.
pub(crate) fn short(factor: &str) -> &str {
    factor.rsplit('.').next().unwrap_or(factor)
}

/// A number with its unit, in the smallest unit of its kind; only good for an order.
fn size(value: &str) -> Option<f64> {
    let value = value.trim();
    let digits = value
        .find(|letter: char| !(letter.is_ascii_digit() || "+-.".contains(letter)))
        .unwrap_or(value.len());
    // `1e-4` has a letter inside of its number.
    let whole: Option<f64> = value.parse().ok();
    let (number, unit) = match whole {
        Some(number) => (number, ""),
        None => (value[..digits].parse().ok()?, value[digits..].trim()),
    };
    let factor = match unit {
        "" | "%" | "B" | "bit/s" | "B/s" | "us" | "µs" | "packets" => 1.0,
        "ms" | "kB" | "kbit/s" | "kB/s" => 1e3,
        "s" | "MB" | "Mbit/s" | "MB/s" => 1e6,
        "min" => 60e6,
        "GB" | "Gbit/s" | "GB/s" => 1e9,
        "KiB" => 1024.0,
        "MiB" => 1_048_576.0,
        "GiB" => 1_073_741_824.0,
        _ => return None,
    };
    number.is_finite().then_some(number * factor)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cell(workload: &str, factors: &[(&str, &str)]) -> Cell {
        let owned = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
        Cell {
            workload: workload.into(),
            factors: factors.iter().map(owned).collect(),
            ..Cell::default()
        }
    }

    #[test]
    fn values_are_ordered_by_what_they_mean() {
        let mut values = ["1 s", "20 ms", "100 us", "300 ms"];
        values.sort_by(|one, other| size(one).unwrap().total_cmp(&size(other).unwrap()));
        assert_eq!(values, ["100 us", "20 ms", "300 ms", "1 s"]);
        assert_eq!(size("1e-4"), Some(1e-4));
        assert_eq!(size("0.5 %"), Some(0.5));
        for words in ["lan", "", "ms", "inf", "10 parsecs", "µ"] {
            assert_eq!(size(words), None, "{words}");
        }
    }

    #[test]
    fn a_sweep_is_cut_along_each_number() {
        let mut document: Document = serde_json::from_value(serde_json::json!({
            "schema": "longhaul.lab", "version": 2, "manifest": {"longhaul": "", "facts": {}},
            "scenario": "s", "seed": 1, "interrupted": false, "order": [], "cells": [],
            "priming": [], "assertions": [],
        }))
        .unwrap();
        for profile in ["lan", "wan"] {
            for loss in ["0 %", "1 %"] {
                for rtt in ["200 ms", "20 ms", "70 ms"] {
                    let factors = [("path.rtt", rtt), ("path.loss", loss), ("profile", profile)];
                    document.cells.push(cell("bulk", &factors));
                }
            }
        }
        let slices = slices(&document);
        let along = |factor| slices.iter().filter(move |slice| slice.factor == factor);
        assert_eq!(along("path.rtt").count(), 4);
        assert_eq!(along("path.loss").count(), 6);
        assert_eq!(along("profile").count(), 0);
        let first = along("path.rtt").next().unwrap();
        assert_eq!(first.title, "bulk, loss 0 %, profile lan");
        let values: Vec<&str> = first.cells.iter().map(|(value, _)| *value).collect();
        assert_eq!(values, ["20 ms", "70 ms", "200 ms"]);
    }
}
