//! Tables as Parquet files: one file per table, for fleets of captures.
//!
//! A crate of its own because its dependency is heavy and nothing else needs it. Every column is optional
//! (a record may say nothing), numbers are 64-bit, text is UTF-8, pages are compressed with Zstandard.

#[cfg(test)]
mod tests;

use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parquet::basic::{Compression, LogicalType, Repetition, Type as PhysicalType, ZstdLevel};
use parquet::data_type::{BoolType, ByteArray, ByteArrayType, DataType, DoubleType, Int64Type};
use parquet::errors::ParquetError;
use parquet::file::properties::WriterProperties;
use parquet::file::writer::{SerializedFileWriter, SerializedRowGroupWriter};
use parquet::schema::types::{Type, TypePtr};
use report::tables::{Column, Table, Values};

/// A table could not be written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WriteError {
    /// The folder or a file in it.
    #[error("cannot create `{}`", path.display())]
    Create {
        /// What was to be made.
        path: PathBuf,
        /// What the system said.
        #[source]
        source: std::io::Error,
    },
    /// The content.
    #[error("cannot write `{}`", path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// What the library said.
        #[source]
        source: ParquetError,
    },
}

/// Writes `tables` into `folder`, which is made where it does not exist: `connections.parquet` and so on.
/// A file of before is replaced.
///
/// # Errors
/// [`WriteError`], with the path.
pub fn write(folder: &Path, tables: &[Table]) -> Result<(), WriteError> {
    let create = |path: &Path, source| WriteError::Create {
        path: path.to_owned(),
        source,
    };
    std::fs::create_dir_all(folder).map_err(|source| create(folder, source))?;
    for table in tables {
        let path = folder.join(table.name).with_extension("parquet");
        let file = File::create(&path).map_err(|source| create(&path, source))?;
        write_table(file, table).map_err(|source| WriteError::Write { path, source })?;
    }
    Ok(())
}

fn write_table(file: File, table: &Table) -> Result<(), ParquetError> {
    let compression = Compression::ZSTD(ZstdLevel::default());
    let properties = WriterProperties::builder()
        .set_compression(compression)
        .set_created_by(concat!("longhaul ", env!("CARGO_PKG_VERSION")).to_owned())
        .build();
    let mut writer = SerializedFileWriter::new(file, schema(table)?, Arc::new(properties))?;
    let mut group = writer.next_row_group()?;
    for column in &table.columns {
        match &column.values {
            Values::Int(values) => {
                write_column::<Int64Type, _>(&mut group, values, |value| *value)?;
            }
            Values::Real(values) => {
                write_column::<DoubleType, _>(&mut group, values, |value| *value)?;
            }
            Values::Flag(values) => {
                write_column::<BoolType, _>(&mut group, values, |value| *value)?;
            }
            Values::Text(values) => {
                write_column::<ByteArrayType, _>(&mut group, values, |value| {
                    ByteArray::from(value.as_str())
                })?;
            }
        }
    }
    group.close()?;
    writer.close()?;
    Ok(())
}

/// The next column of a row group. Values and definition levels go apart: an absent value has level 0 and
/// takes no room.
fn write_column<T: DataType, V>(
    group: &mut SerializedRowGroupWriter<'_, File>,
    values: &[Option<V>],
    convert: impl Fn(&V) -> T::T,
) -> Result<(), ParquetError> {
    let Some(mut column) = group.next_column()? else {
        return Err(ParquetError::General(
            "more columns than the schema has".to_owned(),
        ));
    };
    let present: Vec<T::T> = values.iter().flatten().map(convert).collect();
    let levels: Vec<i16> = values
        .iter()
        .map(|value| i16::from(value.is_some()))
        .collect();
    column
        .typed::<T>()
        .write_batch(&present, Some(&levels), None)?;
    column.close()
}

fn schema(table: &Table) -> Result<TypePtr, ParquetError> {
    let fields = table.columns.iter().map(field).collect::<Result<_, _>>()?;
    let schema = Type::group_type_builder(table.name)
        .with_fields(fields)
        .build()?;
    Ok(Arc::new(schema))
}

fn field(column: &Column) -> Result<TypePtr, ParquetError> {
    let (physical, logical) = match column.values {
        Values::Int(_) => (PhysicalType::INT64, None),
        Values::Real(_) => (PhysicalType::DOUBLE, None),
        Values::Flag(_) => (PhysicalType::BOOLEAN, None),
        Values::Text(_) => (PhysicalType::BYTE_ARRAY, Some(LogicalType::String)),
    };
    let field = Type::primitive_type_builder(column.name, physical)
        .with_repetition(Repetition::OPTIONAL)
        .with_logical_type(logical)
        .build()?;
    Ok(Arc::new(field))
}
