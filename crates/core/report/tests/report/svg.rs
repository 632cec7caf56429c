use longhaul_report::svg;
use record::explain::DataPoint;

use crate::examples;

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
    *series = record::explain::Series::default();
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
