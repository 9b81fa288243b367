//! Rows as Arrow batches.

use std::collections::HashMap;
use std::sync::Arc;

use arrow_array::builder::{BooleanBuilder, Int32Builder, Int64Builder, StringBuilder};
use arrow_array::{ArrayRef, Int32Array, Int64Array, RecordBatch, StringArray};
use arrow_schema::{ArrowError, DataType, Field, Schema, SchemaRef};
use vramscope_analysis::tables::Whole;
use vramscope_format::table::{Column, Kind, Value};

use crate::key::{KEYS, Key};

/// Rows of a batch: enough to be quick, few enough to stream.
const ROWS: usize = 1 << 14;

/// The columns for Arrow; units and what they say are metadata. Every number is signed, because Spark and SQLite have
/// no others: what is above 2^63 is written as 2^63 - 1.
pub fn schema(columns: &[Column]) -> SchemaRef {
    let field = |column: &Column| {
        let kind = match column.kind {
            Kind::Flag => DataType::Boolean,
            Kind::I32 => DataType::Int32,
            Kind::U32 | Kind::I64 | Kind::U64 => DataType::Int64,
            Kind::Text => DataType::Utf8,
        };
        let about = [("unit", column.unit), ("description", column.about)];
        let about = about.into_iter().filter(|(_, text)| !text.is_empty());
        let about: HashMap<_, _> = about.map(|(key, text)| (key.to_owned(), text.to_owned())).collect();
        Field::new(column.name, kind, column.null.is_some()).with_metadata(about)
    };
    Arc::new(Schema::new(columns.iter().map(field).collect::<Vec<_>>()))
}

/// A batch with the columns of its key in front.
pub fn keyed(key: &Key, device: i32, batch: &RecordBatch) -> Result<RecordBatch, ArrowError> {
    let rows = batch.num_rows();
    let mut arrays: Vec<ArrayRef> = vec![
        Arc::new(StringArray::from_iter_values(std::iter::repeat_n(&key.run, rows))),
        Arc::new(Int64Array::from_value(key.step, rows)),
        Arc::new(Int64Array::from_value(key.rank, rows)),
        Arc::new(Int32Array::from_value(device, rows)),
    ];
    arrays.extend(batch.columns().iter().cloned());
    let keys = schema(&KEYS);
    let fields: Vec<_> = keys.fields().iter().chain(batch.schema_ref().fields()).cloned().collect();
    RecordBatch::try_new(Arc::new(Schema::new(fields)), arrays)
}

/// Collects rows into batches.
pub struct Batches {
    schema: SchemaRef,
    /// For each value of a row the column that it goes to, if any.
    cells: Vec<Option<Cells>>,
    rows: usize,
}

impl Batches {
    /// Takes the values of these columns of a table, and passes over the others. The device is a key.
    pub fn new(table: Whole, is_wanted: impl Fn(&str) -> bool) -> Self {
        let is_wanted = |column: &Column| column.name != "device" && is_wanted(column.name);
        Self::of(table.columns(), is_wanted)
    }

    /// The same of any columns.
    pub fn of(columns: &[Column], is_wanted: impl Fn(&Column) -> bool) -> Self {
        let wanted: Vec<Column> = columns.iter().filter(|column| is_wanted(column)).copied().collect();
        let cells = columns.iter().map(|column| is_wanted(column).then(|| Cells::new(column.kind)));
        Self { schema: schema(&wanted), cells: cells.collect(), rows: 0 }
    }

    /// The columns that are taken.
    pub fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    /// Adds a row; a batch once there are enough.
    pub fn push(&mut self, row: &[Value<'_>]) -> Result<Option<RecordBatch>, ArrowError> {
        for (cells, value) in self.cells.iter_mut().zip(row) {
            if let Some(cells) = cells {
                cells.push(value);
            }
        }
        self.rows += 1;
        if self.rows >= ROWS { self.flush().map(Some) } else { Ok(None) }
    }

    /// What has come since the last batch.
    pub fn flush(&mut self) -> Result<RecordBatch, ArrowError> {
        let arrays = self.cells.iter_mut().flatten().map(Cells::finish).collect();
        let options = arrow_array::RecordBatchOptions::new().with_row_count(Some(self.rows));
        self.rows = 0;
        RecordBatch::try_new_with_options(self.schema.clone(), arrays, &options)
    }

    /// Whether there are rows that no batch has yet.
    pub fn is_pending(&self) -> bool {
        self.rows > 0
    }
}

/// A column that is being filled.
enum Cells {
    Flag(BooleanBuilder),
    I32(Int32Builder),
    I64(Int64Builder),
    Text(StringBuilder),
}

impl Cells {
    fn new(kind: Kind) -> Self {
        match kind {
            Kind::Flag => Self::Flag(BooleanBuilder::new()),
            Kind::I32 => Self::I32(Int32Builder::new()),
            Kind::U32 | Kind::I64 | Kind::U64 => Self::I64(Int64Builder::new()),
            Kind::Text => Self::Text(StringBuilder::new()),
        }
    }

    /// What is not of the column's kind is null; [`Value::fits`] says which are, and tests see to it.
    fn push(&mut self, value: &Value<'_>) {
        let number = || match value {
            Value::Signed(number) => Some(*number),
            Value::Unsigned(number) => Some(i64::try_from(*number).unwrap_or(i64::MAX)),
            Value::Missing | Value::Flag(_) | Value::Text(_) => None,
        };
        match self {
            Self::Flag(cells) => {
                cells.append_option(if let Value::Flag(flag) = value { Some(*flag) } else { None });
            }
            Self::I32(cells) => cells.append_option(number().and_then(|number| number.try_into().ok())),
            Self::I64(cells) => cells.append_option(number()),
            Self::Text(cells) => {
                cells.append_option(if let Value::Text(text) = value { Some(text) } else { None });
            }
        }
    }

    fn finish(&mut self) -> ArrayRef {
        match self {
            Self::Flag(cells) => Arc::new(cells.finish()),
            Self::I32(cells) => Arc::new(cells.finish()),
            Self::I64(cells) => Arc::new(cells.finish()),
            Self::Text(cells) => Arc::new(cells.finish()),
        }
    }
}
