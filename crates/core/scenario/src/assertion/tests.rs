use proptest::prelude::*;

use super::*;

fn any_statistic() -> impl Strategy<Value = Statistic> {
    (0..Statistic::ALL.len()).prop_map(|index| Statistic::ALL[index])
}

fn arm() -> impl Strategy<Value = String> {
    "[a-zA-Z0-9][a-zA-Z0-9 ._-]{0,8}[a-zA-Z0-9]"
}

/// A right side that measures what `statistic` does: its text, and what it should be read as.
fn right(statistic: Statistic) -> BoxedStrategy<(String, Quantity)> {
    let alike: Vec<Statistic> = Statistic::ALL
        .into_iter()
        .filter(|other| other.dimension() == statistic.dimension())
        .collect();
    let of_arm = (1_u32..500, 0..alike.len(), arm()).prop_map(move |(percent, index, arm)| {
        let factor = f64::from(percent) / 100.0;
        let text = format!("{factor} * {}({arm})", alike[index].as_str());
        (text, Quantity::Arm(factor, alike[index], arm))
    });
    let number = 0_u32..10_000;
    let own = match statistic.dimension() {
        Dimension::Time => prop_oneof![
            number.clone().prop_map(|ms| {
                let time = Duration::from_millis(ms.into());
                (format!("{ms} ms"), Quantity::Time(time))
            }),
            Just(("1.15 * floor".to_owned(), Quantity::Floor(1.15))),
            Just(("floor".to_owned(), Quantity::Floor(1.0))),
        ]
        .boxed(),
        Dimension::Rate => prop_oneof![
            number.clone().prop_map(|megabits| {
                let rate = Rate::mbit_per_s(megabits.into());
                (format!("{megabits} Mbit/s"), Quantity::Rate(rate))
            }),
            number.prop_map(|megabytes| {
                let rate = Rate::mbit_per_s(u64::from(megabytes) * 8);
                (format!("{megabytes} MB/s"), Quantity::Rate(rate))
            }),
            Just(("0.9 * rate".to_owned(), Quantity::PathRate(0.9))),
        ]
        .boxed(),
        Dimension::Count => number
            .prop_map(|count| (count.to_string(), Quantity::Number(count.into())))
            .boxed(),
        Dimension::Share => prop_oneof![
            number.clone().prop_map(|percent| {
                let share = f64::from(percent) / 100.0;
                (format!("{percent} %"), Quantity::Share(share))
            }),
            number.prop_map(|number| (number.to_string(), Quantity::Number(number.into()))),
        ]
        .boxed(),
    };
    prop_oneof![own, of_arm].boxed()
}

proptest! {
    #[test]
    fn what_is_written_is_read_back_and_shown_as_it_was_written(
        (statistic, arm, (text, right), at_most) in any_statistic().prop_flat_map(|statistic| {
            (Just(statistic), arm(), right(statistic), any::<bool>())
        }),
    ) {
        let sign = if at_most { "<=" } else { ">=" };
        let written = format!("{}({arm}) {sign} {text}", statistic.as_str());
        let read: Assertion = written.parse().unwrap();
        prop_assert_eq!(&read.left, &(statistic, arm));
        prop_assert_eq!(&read.right, &right);
        prop_assert_eq!(read.comparison == Comparison::AtMost, at_most);
        prop_assert_eq!(read.to_string(), written.clone());
        prop_assert_eq!(read.to_string().parse::<Assertion>().unwrap(), read);
    }

    #[test]
    fn sides_that_measure_different_things_are_refused(
        (left, other, (text, _)) in (any_statistic(), any_statistic()).prop_flat_map(|(left, other)| {
            (Just(left), Just(other), right(other))
        }),
    ) {
        prop_assume!(left.dimension() != other.dimension());
        // A bare number is a count, or a share.
        prop_assume!(text.parse::<f64>().is_err());
        let refused = format!("{}(a) <= {text}", left.as_str()).parse::<Assertion>();
        prop_assert!(refused.unwrap_err().to_string().contains("and the right side is not"));
    }

    #[test]
    fn words_of_the_language_in_any_order_never_panic(
        words in prop::collection::vec(
            prop_oneof![
                Just("median"), Just("("), Just(")"), Just("arm"), Just("<="), Just(">="), Just("*"),
                Just("floor"), Just("rate"), Just("%"), Just("1.5"), Just("ms"), Just("MB/s"), Just("-"),
                Just("inf"), Just("NaN"), Just("1e999"), Just("µ"),
            ],
            0..8,
        ),
    ) {
        for joint in ["", " "] {
            let _ = words.join(joint).parse::<Assertion>();
        }
    }
}

#[test]
fn an_unknown_statistic_is_told_those_that_are_known() {
    let error = "mean(direct) <= 3 s".parse::<Assertion>().unwrap_err();
    assert!(error.to_string().contains("`share-of-floor`"), "{error}");
}
