use longhaul_report::svg;
use record::explain::DataPoint;

use crate::{examples, sweep};

/// A picture without its style sheet, which has a file of its own.
fn drawn(picture: &str) -> String {
    let (before, rest) = picture.split_once("<style>").unwrap();
    let (_, after) = rest.split_once("</style>\n").unwrap();
    format!("{before}{after}")
}

#[test]
fn the_sequence_graph_of_a_small_upload() {
    let mut connection = examples::connection(1, 0.0, 20_000);
    let series = connection.series.as_mut().unwrap();
    series.data.push(DataPoint {
        t: 0.45,
        from: 1448,
        to: 2896,
        retransmission: true,
    });
    let picture = svg::sequence_graph(&connection).unwrap();
    assert!(picture.contains("1 segments sent again"));
    insta::assert_snapshot!(drawn(&picture));
}

#[test]
fn bytes_in_flight_of_a_small_upload() {
    let connection = examples::connection(1, 0.0, 20_000);
    insta::assert_snapshot!(drawn(&svg::in_flight_graph(&connection).unwrap()));
}

#[test]
fn a_window_far_above_is_said_and_not_drawn_to_scale() {
    let picture = svg::in_flight_graph(&examples::hot_connection(102_871)).unwrap();
    assert!(picture.contains("the receive window is above: 3 MiB"));
}

#[test]
fn completion_times_of_three_arms() {
    let mut cell = examples::lab().cells.remove(0);
    for arm in &mut cell.arms {
        arm.samples_s.truncate(5);
    }
    insta::assert_snapshot!(drawn(&svg::completion_times(&cell)));
}

#[test]
fn every_transfer_of_three_arms() {
    let mut cell = examples::lab().cells.remove(0);
    for arm in &mut cell.arms {
        arm.samples_s.truncate(2);
    }
    insta::assert_snapshot!(drawn(&svg::transfers(&cell)));
}

#[test]
fn where_each_second_went() {
    let cell = examples::lab().cells.remove(0);
    insta::assert_snapshot!(drawn(&svg::limit_budgets(&cell.arms)));
}

#[test]
fn rates_of_four_arms() {
    let mut cell = sweep::document(1, 2).cells.remove(1);
    for arm in &mut cell.arms {
        arm.samples_bps.truncate(3);
    }
    insta::assert_snapshot!(drawn(&svg::completion_times(&cell)) + &drawn(&svg::transfers(&cell)));
}

#[test]
fn one_transfer_over_time() {
    let mut cell = sweep::document(1, 2).cells.remove(1);
    for arm in &mut cell.arms {
        if let Some(series) = &mut arm.series {
            series.points.truncate(8);
        }
    }
    insta::assert_snapshot!(drawn(&svg::transfer_over_time(&cell).unwrap()));
    for arm in &mut cell.arms {
        arm.series = None;
    }
    assert_eq!(svg::transfer_over_time(&cell), None);
}

#[test]
fn goodput_along_loss() {
    let pictures = svg::goodput_along_factors(&sweep::document(1, 4));
    assert_eq!(pictures.len(), 1, "one RTT is no factor to look along");
    insta::assert_snapshot!(drawn(&pictures[0]));
    assert_eq!(svg::goodput_along_factors(&sweep::document(3, 4)).len(), 7);
    assert!(svg::goodput_along_factors(&examples::lab()).is_empty());
}

#[test]
fn a_long_series_stays_a_small_picture() {
    let mut cell = sweep::document(1, 2).cells.remove(1);
    for arm in &mut cell.arms {
        if let Some(series) = &mut arm.series {
            let points = series.points.clone();
            series.points = (0..50_u32)
                .flat_map(|round| {
                    points.iter().cloned().map(move |mut point| {
                        point.at_s += f64::from(round) * 20.0;
                        point
                    })
                })
                .collect();
        }
    }
    let picture = svg::transfer_over_time(&cell).unwrap();
    assert!(picture.len() < 200_000, "{} bytes", picture.len());
}

#[test]
fn a_connection_without_points_has_no_graph() {
    let mut connection = examples::connection(1, 0.0, 20_000);
    connection.series = None;
    assert_eq!(svg::sequence_graph(&connection), None);
    assert_eq!(svg::in_flight_graph(&connection), None);
}

#[test]
fn a_connection_without_data_is_drawn_empty() {
    let mut connection = examples::connection(1, 0.0, 20_000);
    connection.duration_s = 0.0;
    let series = connection.series.as_mut().unwrap();
    **series = record::explain::Series::default();
    for picture in [
        svg::sequence_graph(&connection),
        svg::in_flight_graph(&connection),
    ] {
        let picture = picture.unwrap();
        assert!(
            !picture.contains("NaN") && !picture.contains("inf\""),
            "{picture}"
        );
    }
}

#[test]
fn a_large_transfer_stays_a_small_picture() {
    let picture = svg::sequence_graph(&examples::connection(1, 0.0, 20 << 20)).unwrap();
    assert!(picture.len() < 400_000, "{} bytes", picture.len());
}
