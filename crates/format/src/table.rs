//! Tables: what a column is called and holds, and how a row is written.

use std::borrow::Cow;
use std::fmt::Write;

use crate::escape::{Formulas, push_csv};

/// How a value is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// True or false.
    Flag,
    /// A signed number of 32 bits.
    I32,
    /// A number of 32 bits.
    U32,
    /// A signed number of 64 bits.
    I64,
    /// A number of 64 bits.
    U64,
    /// Text.
    Text,
}

impl Kind {
    /// As in JSON Schema.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Flag => "boolean",
            Self::I32 | Self::U32 | Self::I64 | Self::U64 => "integer",
            Self::Text => "string",
        }
    }
}

/// A column of a table.
#[derive(Clone, Copy, Debug)]
pub struct Column {
    /// What it is called, in every format and on every surface.
    pub name: &'static str,
    /// How its values are stored.
    pub kind: Kind,
    /// What its numbers count, such as `bytes`; empty for names, ids and plain counts.
    pub unit: &'static str,
    /// What it says.
    pub about: &'static str,
    /// What a missing value means; `None` where values are never missing.
    pub null: Option<&'static str>,
}

impl Column {
    /// A column whose values are never missing.
    pub const fn new(name: &'static str, kind: Kind, unit: &'static str, about: &'static str) -> Self {
        Self { name, kind, unit, about, null: None }
    }

    /// The same, with what a missing value means.
    #[must_use]
    pub const fn or_null(mut self, means: &'static str) -> Self {
        self.null = Some(means);
        self
    }
}

/// A value of a row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Value<'a> {
    /// There is none.
    Missing,
    /// Of [`Kind::Flag`].
    Flag(bool),
    /// Of the signed kinds.
    Signed(i64),
    /// Of the unsigned kinds.
    Unsigned(u64),
    /// Of [`Kind::Text`].
    Text(Cow<'a, str>),
}

impl Value<'_> {
    /// Whether a column may hold it.
    pub fn fits(&self, column: &Column) -> bool {
        match (self, column.kind) {
            (Self::Missing, _) => column.null.is_some(),
            (Self::Flag(_), Kind::Flag) | (Self::Text(_), Kind::Text) => true,
            (Self::Signed(number), Kind::I32) => i32::try_from(*number).is_ok(),
            (Self::Unsigned(number), Kind::U32) => u32::try_from(*number).is_ok(),
            (Self::Signed(_), Kind::I64) | (Self::Unsigned(_), Kind::U64) => true,
            _ => false,
        }
    }
}

macro_rules! from {
    ($($type:ty => $variant:ident),*) => {
        $(impl From<$type> for Value<'_> {
            fn from(value: $type) -> Self {
                Self::$variant(value.into())
            }
        })*
    };
}
from!(bool => Flag, i32 => Signed, i64 => Signed, u32 => Unsigned, u64 => Unsigned, String => Text);

impl<'a> From<&'a str> for Value<'a> {
    fn from(text: &'a str) -> Self {
        Self::Text(text.into())
    }
}

impl<'a, T: Into<Value<'a>>> From<Option<T>> for Value<'a> {
    fn from(value: Option<T>) -> Self {
        value.map_or(Self::Missing, Into::into)
    }
}

/// The names of columns as the first line of a CSV file.
pub fn csv_heading(columns: &[Column]) -> String {
    columns.iter().map(|column| column.name).collect::<Vec<_>>().join(",") + "\n"
}

/// A row as a line of a CSV file. Only text can be a formula.
pub fn csv_row(row: &[Value<'_>], formulas: Formulas) -> String {
    let mut line = String::new();
    push_csv_row(&mut line, row, formulas);
    line
}

/// Adds a row to a text as a line of a CSV file.
pub fn push_csv_row<'a>(text: &mut String, row: impl IntoIterator<Item = &'a Value<'a>>, formulas: Formulas) {
    for (number, value) in row.into_iter().enumerate() {
        if number > 0 {
            text.push(',');
        }
        // Writing to a string cannot fail.
        let _ = match value {
            Value::Missing => Ok(()),
            Value::Flag(flag) => write!(text, "{flag}"),
            Value::Signed(number) => write!(text, "{number}"),
            Value::Unsigned(number) => write!(text, "{number}"),
            Value::Text(field) => {
                push_csv(text, field, formulas);
                Ok(())
            }
        };
    }
    text.push('\n');
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_is_a_line_in_which_only_text_can_be_a_formula() {
        let row = ["=a,b".into(), Value::from(None::<u32>), (-5_i64).into(), true.into(), 7_u32.into()];
        assert_eq!(csv_row(&row, Formulas::Escape), "\"'=a,b\",,-5,true,7\n");
        assert_eq!(csv_row(&row, Formulas::Keep), "\"=a,b\",,-5,true,7\n");
    }

    #[test]
    fn a_value_fits_where_its_column_says_so() {
        let id = Column::new("id", Kind::U32, "", "Which.");
        assert!(Value::from(7_u32).fits(&id));
        assert!(!Value::from(1_u64 << 40).fits(&id), "too large");
        assert!(!Value::from(-7_i64).fits(&id), "another kind");
        assert!(!Value::Missing.fits(&id) && Value::Missing.fits(&id.or_null("there is none")));
    }
}
