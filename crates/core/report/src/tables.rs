//! A record as flat tables, for fleets of captures and for spreadsheets.
//!
//! Columns are only ever added, at the end; names and units are those of the JSON document.

mod csv;
mod explain;

pub use explain::explain;

/// Rows of one kind, column by column.
#[derive(Clone, Debug, PartialEq)]
pub struct Table {
    /// Its name, which is its file's too.
    pub name: &'static str,
    /// The columns, all of one length.
    pub columns: Vec<Column>,
}

/// One value of every row.
#[derive(Clone, Debug, PartialEq)]
pub struct Column {
    /// Its name, with the unit as its last part (`_s`, `_bps`) where it has one.
    pub name: &'static str,
    /// The values; `None` where the record says nothing.
    pub values: Values,
}

/// The values of a column, all of one type.
#[derive(Clone, Debug, PartialEq)]
pub enum Values {
    /// Whole numbers.
    Int(Vec<Option<i64>>),
    /// Measures.
    Real(Vec<Option<f64>>),
    /// Words.
    Text(Vec<Option<String>>),
    /// Yes or no.
    Flag(Vec<Option<bool>>),
}

impl Table {
    /// How many rows there are.
    #[must_use]
    pub fn rows(&self) -> usize {
        self.columns.first().map_or(0, |column| column.values.len())
    }

    /// As comma-separated values (RFC 4180), names first; an absent value is an empty field.
    #[must_use]
    pub fn csv(&self) -> String {
        csv::csv(self)
    }
}

impl Values {
    /// How many there are.
    #[must_use]
    pub const fn len(&self) -> usize {
        match self {
            Self::Int(values) => values.len(),
            Self::Real(values) => values.len(),
            Self::Text(values) => values.len(),
            Self::Flag(values) => values.len(),
        }
    }

    /// Whether there are none.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// Columns of a table over `rows`.
struct Columns<'a, T> {
    rows: &'a [T],
    columns: Vec<Column>,
}

impl<'a, T> Columns<'a, T> {
    const fn over(rows: &'a [T]) -> Self {
        Self {
            rows,
            columns: Vec::new(),
        }
    }

    fn int<V: TryInto<i64>>(self, name: &'static str, value: impl Fn(&T) -> Option<V>) -> Self {
        let whole = |row| value(row).map(|value| value.try_into().unwrap_or(i64::MAX));
        let values = Values::Int(self.rows.iter().map(whole).collect());
        self.with(name, values)
    }

    fn real(self, name: &'static str, value: impl Fn(&T) -> Option<f64>) -> Self {
        let values = Values::Real(self.rows.iter().map(value).collect());
        self.with(name, values)
    }

    fn text(self, name: &'static str, value: impl Fn(&T) -> Option<String>) -> Self {
        let values = Values::Text(self.rows.iter().map(value).collect());
        self.with(name, values)
    }

    fn flag(self, name: &'static str, value: impl Fn(&T) -> Option<bool>) -> Self {
        let values = Values::Flag(self.rows.iter().map(value).collect());
        self.with(name, values)
    }

    fn with(mut self, name: &'static str, values: Values) -> Self {
        self.columns.push(Column { name, values });
        self
    }

    fn table(self, name: &'static str) -> Table {
        Table {
            name,
            columns: self.columns,
        }
    }
}
