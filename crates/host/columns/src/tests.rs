use std::fs::File;

use parquet::file::reader::{FileReader as _, SerializedFileReader};
use parquet::record::Field;
use report::tables::{Column, Table, Values};

use crate::{WriteError, write};

fn table() -> Table {
    let column = |name, values| Column { name, values };
    Table {
        name: "connections",
        columns: vec![
            column("connection", Values::Int(vec![Some(1), None, Some(-3)])),
            column("rtt_s", Values::Real(vec![None, Some(0.5), None])),
            column("sack", Values::Flag(vec![Some(true), Some(false), None])),
            column(
                "host",
                Values::Text(vec![Some("é, \"x\"".to_owned()), None, Some(String::new())]),
            ),
        ],
    }
}

/// Every row as name and value.
fn read(path: &std::path::Path) -> Vec<Vec<(String, Field)>> {
    let reader = SerializedFileReader::new(File::open(path).unwrap()).unwrap();
    reader
        .get_row_iter(None)
        .unwrap()
        .map(|row| {
            let row = row.unwrap();
            let cells = row.get_column_iter();
            cells
                .map(|(name, field)| (name.clone(), field.clone()))
                .collect()
        })
        .collect()
}

#[test]
fn a_table_comes_back_as_it_was_absent_values_too() {
    let folder = tempfile::tempdir().unwrap();
    // The folder is made, and a file of before is replaced.
    let inside = folder.path().join("new");
    for _ in 0..2 {
        write(&inside, &[table()]).unwrap();
    }
    let cell = |name: &str, field| (name.to_owned(), field);
    let row = |connection, rtt, sack, host| {
        vec![
            cell("connection", connection),
            cell("rtt_s", rtt),
            cell("sack", sack),
            cell("host", host),
        ]
    };
    assert_eq!(
        read(&inside.join("connections.parquet")),
        [
            row(
                Field::Long(1),
                Field::Null,
                Field::Bool(true),
                Field::Str("é, \"x\"".to_owned())
            ),
            row(
                Field::Null,
                Field::Double(0.5),
                Field::Bool(false),
                Field::Null
            ),
            row(
                Field::Long(-3),
                Field::Null,
                Field::Null,
                Field::Str(String::new())
            ),
        ]
    );
}

#[test]
fn a_table_without_rows_is_a_file_with_columns() {
    let folder = tempfile::tempdir().unwrap();
    let mut empty = table();
    for column in &mut empty.columns {
        column.values = Values::Int(Vec::new());
    }
    write(folder.path(), &[empty]).unwrap();
    let path = folder.path().join("connections.parquet");
    let reader = SerializedFileReader::new(File::open(&path).unwrap()).unwrap();
    let schema = reader.metadata().file_metadata().schema_descr_ptr();
    assert_eq!((schema.num_columns(), read(&path).len()), (4, 0));
}

#[test]
fn a_folder_that_cannot_be_made_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let taken = folder.path().join("file");
    File::create(&taken).unwrap();
    let error = write(&taken.join("inside"), &[table()]).unwrap_err();
    assert!(matches!(&error, WriteError::Create { .. }));
    assert!(error.to_string().contains("inside"), "{error}");
}
