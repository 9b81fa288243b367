//! Rows as CSV, JSON lines, Arrow IPC or Parquet.

use std::collections::HashMap;
use std::io::Write;
use std::sync::Arc;

use anyhow::bail;
use arrow_array::builder::{
    BooleanBuilder, Int32Builder, Int64Builder, StringBuilder, UInt32Builder, UInt64Builder,
};
use arrow_array::{ArrayRef, RecordBatch};
use arrow_ipc::writer::FileWriter;
use arrow_schema::{DataType, Field, Schema, SchemaRef};
use parquet::arrow::ArrowWriter;
use parquet::basic::Compression;
use parquet::file::properties::WriterProperties;
use vramscope_analysis::tables::Record;
use vramscope_format::Formulas;
use vramscope_format::table::{Column, Kind, Value, csv_heading, csv_row};

use super::tables::{columns, each_row};
use crate::args::{ExportFormat, Table};
use crate::subject::Subject;

/// Rows of a batch: enough to be quick, few enough to stream.
const ROWS: usize = 1 << 14;

pub(super) fn write(
    subjects: &[Subject],
    table: Table,
    format: ExportFormat,
    formulas: Formulas,
    out: &mut dyn Write,
) -> anyhow::Result<()> {
    let columns = columns(table);
    match format {
        ExportFormat::Csv => {
            write!(out, "{}", csv_heading(columns))?;
            each_row(subjects, table, &mut |row| Ok(write!(out, "{}", csv_row(row, formulas))?))
        }
        ExportFormat::Jsonl => each_row(subjects, table, &mut |row| {
            vramscope_files::json(&mut *out, &Record(columns, row))?;
            Ok(writeln!(out)?)
        }),
        ExportFormat::Arrow => {
            let schema = schema(columns);
            let mut writer = FileWriter::try_new(out, &schema)?;
            in_batches(subjects, table, &schema, &mut |batch| Ok(writer.write(&batch)?))?;
            Ok(writer.finish()?)
        }
        ExportFormat::Parquet => {
            let schema = schema(columns);
            let properties = WriterProperties::builder().set_compression(Compression::SNAPPY).build();
            // The writer wants to be able to change threads, which standard output cannot. What is packed
            // is small.
            let mut writer = ArrowWriter::try_new(Vec::new(), schema.clone(), Some(properties))?;
            in_batches(subjects, table, &schema, &mut |batch| Ok(writer.write(&batch)?))?;
            Ok(out.write_all(&writer.into_inner()?)?)
        }
        ExportFormat::Perfetto => bail!("not a table"),
    }
}

/// The columns for Arrow; units and what they say are metadata.
fn schema(columns: &[Column]) -> SchemaRef {
    let field = |column: &Column| {
        let kind = match column.kind {
            Kind::Flag => DataType::Boolean,
            Kind::I32 => DataType::Int32,
            Kind::U32 => DataType::UInt32,
            Kind::I64 => DataType::Int64,
            Kind::U64 => DataType::UInt64,
            Kind::Text => DataType::Utf8,
        };
        let about = [("unit", column.unit), ("description", column.about)];
        let about = about.into_iter().filter(|(_, text)| !text.is_empty());
        let about: HashMap<_, _> = about.map(|(key, text)| (key.to_owned(), text.to_owned())).collect();
        Field::new(column.name, kind, column.null.is_some()).with_metadata(about)
    };
    Arc::new(Schema::new(columns.iter().map(field).collect::<Vec<_>>()))
}

/// Hands out the rows in batches, at least one.
fn in_batches(
    subjects: &[Subject],
    table: Table,
    schema: &SchemaRef,
    write: &mut dyn FnMut(RecordBatch) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    let mut cells: Vec<_> = columns(table).iter().map(|column| Cells::new(column.kind)).collect();
    let mut rows = 0;
    let mut flush = |cells: &mut Vec<Cells>| -> anyhow::Result<()> {
        let arrays = cells.iter_mut().map(Cells::finish).collect();
        write(RecordBatch::try_new(schema.clone(), arrays)?)
    };
    each_row(subjects, table, &mut |row| {
        for (cells, value) in cells.iter_mut().zip(row) {
            cells.push(value);
        }
        rows += 1;
        if rows % ROWS == 0 { flush(&mut cells) } else { Ok(()) }
    })?;
    if rows == 0 || rows % ROWS > 0 { flush(&mut cells) } else { Ok(()) }
}

/// A column that is being filled.
enum Cells {
    Flag(BooleanBuilder),
    I32(Int32Builder),
    U32(UInt32Builder),
    I64(Int64Builder),
    U64(UInt64Builder),
    Text(StringBuilder),
}

impl Cells {
    fn new(kind: Kind) -> Self {
        match kind {
            Kind::Flag => Self::Flag(BooleanBuilder::new()),
            Kind::I32 => Self::I32(Int32Builder::new()),
            Kind::U32 => Self::U32(UInt32Builder::new()),
            Kind::I64 => Self::I64(Int64Builder::new()),
            Kind::U64 => Self::U64(UInt64Builder::new()),
            Kind::Text => Self::Text(StringBuilder::new()),
        }
    }

    /// What is not of the column's kind is null; [`Value::fits`] says which are, and tests see to it.
    fn push(&mut self, value: &Value<'_>) {
        let flag = || if let Value::Flag(flag) = value { Some(*flag) } else { None };
        let text = || if let Value::Text(text) = value { Some(text) } else { None };
        let signed = || if let Value::Signed(number) = value { Some(*number) } else { None };
        let unsigned = || if let Value::Unsigned(number) = value { Some(*number) } else { None };
        match self {
            Self::Flag(cells) => cells.append_option(flag()),
            Self::I32(cells) => cells.append_option(signed().and_then(|number| number.try_into().ok())),
            Self::U32(cells) => cells.append_option(unsigned().and_then(|number| number.try_into().ok())),
            Self::I64(cells) => cells.append_option(signed()),
            Self::U64(cells) => cells.append_option(unsigned()),
            Self::Text(cells) => cells.append_option(text()),
        }
    }

    fn finish(&mut self) -> ArrayRef {
        match self {
            Self::Flag(cells) => Arc::new(cells.finish()),
            Self::I32(cells) => Arc::new(cells.finish()),
            Self::U32(cells) => Arc::new(cells.finish()),
            Self::I64(cells) => Arc::new(cells.finish()),
            Self::U64(cells) => Arc::new(cells.finish()),
            Self::Text(cells) => Arc::new(cells.finish()),
        }
    }
}
