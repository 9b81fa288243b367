//! Record batches as CSV, JSON lines, Arrow IPC or Parquet.

use std::io::Write;

use anyhow::bail;
use arrow_array::cast::AsArray;
use arrow_array::types::{Int32Type, Int64Type, UInt32Type, UInt64Type};
use arrow_array::{Array, RecordBatch};
use arrow_ipc::writer::FileWriter;
use arrow_schema::{DataType, SchemaRef};
use parquet::arrow::ArrowWriter;
use parquet::basic::Compression;
use parquet::file::properties::WriterProperties;
use serde_json::Value;
use vramscope_format::Formulas;

use crate::args::ExportFormat;

pub(super) fn write(
    format: ExportFormat,
    formulas: Formulas,
    schema: &SchemaRef,
    batches: impl Iterator<Item = RecordBatch>,
    out: &mut dyn Write,
) -> anyhow::Result<()> {
    match format {
        ExportFormat::Csv => {
            let names: Vec<_> = schema.fields().iter().map(|field| field.name().as_str()).collect();
            writeln!(out, "{}", names.join(","))?;
            for batch in batches {
                for row in 0..batch.num_rows() {
                    let cells: Vec<_> =
                        batch.columns().iter().map(|column| csv(&cell(column, row), formulas)).collect();
                    writeln!(out, "{}", cells.join(","))?;
                }
            }
        }
        ExportFormat::Jsonl => {
            for batch in batches {
                for row in 0..batch.num_rows() {
                    let fields = schema.fields().iter().zip(batch.columns());
                    let object: serde_json::Map<_, _> =
                        fields.map(|(field, column)| (field.name().clone(), cell(column, row))).collect();
                    vramscope_files::json(&mut *out, &object)?;
                    writeln!(out)?;
                }
            }
        }
        ExportFormat::Arrow => {
            let mut writer = FileWriter::try_new(out, schema)?;
            for batch in batches {
                writer.write(&batch)?;
            }
            writer.finish()?;
        }
        ExportFormat::Parquet => {
            let properties = WriterProperties::builder().set_compression(Compression::SNAPPY).build();
            // The writer wants to be able to change threads, which standard output cannot. What is packed
            // is small.
            let mut writer = ArrowWriter::try_new(Vec::new(), schema.clone(), Some(properties))?;
            for batch in batches {
                writer.write(&batch)?;
            }
            out.write_all(&writer.into_inner()?)?;
        }
        ExportFormat::Perfetto => bail!("not a table"),
    }
    Ok(())
}

/// One value. The tables have only these types.
fn cell(column: &dyn Array, row: usize) -> Value {
    if column.is_null(row) {
        return Value::Null;
    }
    match column.data_type() {
        DataType::Int32 => column.as_primitive::<Int32Type>().value(row).into(),
        DataType::UInt32 => column.as_primitive::<UInt32Type>().value(row).into(),
        DataType::UInt64 => column.as_primitive::<UInt64Type>().value(row).into(),
        DataType::Int64 => column.as_primitive::<Int64Type>().value(row).into(),
        DataType::Boolean => column.as_boolean().value(row).into(),
        DataType::Utf8 => column.as_string::<i32>().value(row).into(),
        _ => Value::Null,
    }
}

/// A value as a CSV cell. Only text can be a formula.
fn csv(value: &Value, formulas: Formulas) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => vramscope_format::csv(text, formulas),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_text_can_be_a_formula() {
        assert_eq!(csv(&"=a,b".into(), Formulas::Escape), "\"'=a,b\"");
        assert_eq!(csv(&Value::Null, Formulas::Keep), "");
        assert_eq!(csv(&(-5).into(), Formulas::Escape), "-5");
    }
}
