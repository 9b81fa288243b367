//! Values as people read them.

use vramscope_analysis::tables::Whole;
use vramscope_format::{Units, printable};

use crate::database::Cell;

/// Whether the numbers of a column are sizes, by its name.
pub fn is_size(name: &str) -> bool {
    let mut columns = Whole::ALL.iter().flat_map(|table| table.columns());
    name.ends_with("bytes")
        || name.ends_with("_peak")
        || columns.any(|column| column.name == name && column.unit == "bytes")
}

impl Cell {
    /// The value in words; a size with its unit.
    pub fn words(&self, is_size: bool, units: Units) -> String {
        match self {
            Self::Integer(number) if is_size => units.bytes(*number),
            Self::Null => "–".to_owned(),
            Self::Real(number) => format!("{number:.2}"),
            cell => printable(&cell.plain()),
        }
    }

    /// The value without units; nothing if there is none.
    pub fn plain(&self) -> String {
        match self {
            Self::Null => String::new(),
            Self::Integer(number) => number.to_string(),
            Self::Real(number) => number.to_string(),
            Self::Text(text) => text.clone(),
        }
    }
}
