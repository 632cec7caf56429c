use longhaul_report::tables::{self, Values};

use crate::examples;

#[test]
fn every_column_of_a_table_has_a_value_per_row() {
    let document = examples::explained();
    let tables = tables::explain(&document);
    let names: Vec<&str> = tables.iter().map(|table| table.name).collect();
    assert_eq!(names, ["connections", "transfers", "findings", "series"]);
    for table in &tables {
        for column in &table.columns {
            assert_eq!(
                column.values.len(),
                table.rows(),
                "{}.{}",
                table.name,
                column.name
            );
        }
    }
    assert_eq!(tables[0].rows(), document.connections.len() * 2);
    assert_eq!(tables[2].rows(), document.findings.len());
}

/// Programs read these by name: a column that goes, or moves, breaks them.
#[test]
fn columns_are_only_added_at_the_end() {
    let tables = tables::explain(&examples::explained());
    let names: Vec<String> = tables
        .iter()
        .map(|table| {
            let columns = table.columns.iter().map(|column| column.name);
            format!("{}: {}", table.name, columns.collect::<Vec<_>>().join(" "))
        })
        .collect();
    insta::assert_snapshot!(names.join("\n"));
}

#[test]
fn what_a_spreadsheet_takes_for_a_formula_is_text() {
    let mut document = examples::explained();
    document.connections.truncate(1);
    document.connections[0].client.host = "=cmd|'/c calc',1".to_owned();
    let tables = tables::explain(&document);
    let csv = tables[0].csv();
    assert!(
        csv.contains("1,client_to_server,\"'=cmd|'/c calc',1\","),
        "{csv}"
    );
    assert_eq!(csv.lines().count(), 3);
    let text = tables[0]
        .columns
        .iter()
        .find(|column| column.name == "client_host");
    // Only a spreadsheet needs that.
    assert!(
        matches!(&text.unwrap().values, Values::Text(values) if values[0].as_deref() == Some("=cmd|'/c calc',1"))
    );
}
