//! Files that `explain` writes beside what it prints.

use std::path::Path;

use record::explain::Document;
use report::tables::{self, Table};

use super::arguments::Explain;
use crate::failure::{Blame as _, Failure};
use crate::output;

/// Whether an output draws or lists single points.
pub(super) const fn needs_series(arguments: &Explain) -> bool {
    arguments.series
        || arguments.html.is_some()
        || arguments.svg.is_some()
        || arguments.parquet.is_some()
        || arguments.csv.is_some()
}

/// Writes every file that was asked for, and says where it is.
pub(super) fn write(arguments: &Explain, document: &Document) -> Result<(), Failure> {
    if let Some(path) = &arguments.html {
        file(path, &report::html::explain(document))?;
        output::say(&format!("report: {}", path.display()));
    }
    if let Some(path) = &arguments.emit_scenario {
        let scenario = explain::scenario(document).usage("no scenario can be made of this")?;
        file(path, &scenario)?;
        output::say(&format!("scenario: {}", path.display()));
    }
    if let Some(folder) = &arguments.svg {
        svg(folder, document)?;
    }
    if arguments.parquet.is_none() && arguments.csv.is_none() {
        return Ok(());
    }
    let tables = tables::explain(document);
    if let Some(folder) = &arguments.parquet {
        columns::write(folder, &tables).usage("no tables can be written")?;
        output::say(&format!("tables: {}", listed(folder, &tables, "parquet")));
    }
    if let Some(folder) = &arguments.csv {
        make(folder)?;
        for table in &tables {
            file(&folder.join(table.name).with_extension("csv"), &table.csv())?;
        }
        output::say(&format!("tables: {}", listed(folder, &tables, "csv")));
    }
    Ok(())
}

/// Two pictures per connection, those of the most data, as the page has them.
fn svg(folder: &Path, document: &Document) -> Result<(), Failure> {
    make(folder)?;
    let mut drawn = 0;
    for connection in report::largest(document) {
        let pictures = [
            ("sequence", report::svg::sequence_graph(connection)),
            ("in-flight", report::svg::in_flight_graph(connection)),
        ];
        for (kind, picture) in pictures {
            if let Some(picture) = picture {
                let name = format!("connection-{}-{kind}.svg", connection.id);
                file(&folder.join(name), &picture)?;
                drawn += 1;
            }
        }
    }
    output::say(&format!("pictures: {drawn} in {}", folder.display()));
    Ok(())
}

fn make(folder: &Path) -> Result<(), Failure> {
    std::fs::create_dir_all(folder).usage(format!("cannot make `{}`", folder.display()))
}

fn file(path: &Path, text: &str) -> Result<(), Failure> {
    std::fs::write(path, text).usage(format!("cannot write `{}`", path.display()))
}

fn listed(folder: &Path, tables: &[Table], extension: &str) -> String {
    let name = |table: &Table| format!("{}.{extension} ({} rows)", table.name, table.rows());
    let names: Vec<String> = tables.iter().map(name).collect();
    format!("{} in {}", names.join(", "), folder.display())
}
