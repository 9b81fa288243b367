//! Rows as CSV, JSON lines, Arrow IPC or Parquet.

use std::io::Write;

use anyhow::bail;
use arrow_array::RecordBatch;
use arrow_ipc::writer::FileWriter;
use arrow_schema::SchemaRef;
use parquet::arrow::ArrowWriter;
use parquet::basic::Compression;
use parquet::file::properties::WriterProperties;
use vramscope_analysis::tables::{DeviceTables, File, Keep, Record, Take, Whole};
use vramscope_dataset::{Batches, KEYS, keyed, schema};
use vramscope_format::Formulas;
use vramscope_format::table::{Column, csv_heading, push_csv_row};

use super::args::{ExportArgs, ExportFormat};
use crate::subject::Subject;

pub(super) fn write(
    subjects: &[Subject],
    args: &ExportArgs,
    formulas: Formulas,
    out: &mut dyn Write,
) -> anyhow::Result<()> {
    let table = args.table;
    let chosen = chosen(table, &args.columns)?;
    let columns = picked(table.columns(), &chosen);
    match args.format() {
        ExportFormat::Csv => {
            write!(out, "{}", csv_heading(&columns))?;
            let mut line = String::new();
            each_row(subjects, table, &mut |row| {
                let picked = row.iter().zip(&chosen).filter_map(|(value, chosen)| chosen.then_some(value));
                line.clear();
                push_csv_row(&mut line, picked, formulas);
                Ok(out.write_all(line.as_bytes())?)
            })
        }
        ExportFormat::Jsonl => each_row(subjects, table, &mut |row| {
            vramscope_files::json(&mut *out, &Record(&columns, &picked(row, &chosen)))?;
            Ok(writeln!(out)?)
        }),
        ExportFormat::Arrow | ExportFormat::Parquet => {
            let is_packed = args.format() == ExportFormat::Parquet;
            // The device is a key, and stands in front of the columns.
            let is_chosen = |column: &Column| {
                columns.iter().any(|chosen| chosen.name == column.name)
                    && (args.keys.is_none() || column.name != "device")
            };
            let keys = args.keys.iter().flat_map(|_| KEYS);
            let all: Vec<Column> =
                keys.chain(table.columns().iter().filter(|c| is_chosen(c)).copied()).collect();
            binary(is_packed, &schema(&all), out, |write| {
                let subjects = if args.keys.is_some() { subjects } else { with_rows(subjects, table) };
                in_batches(subjects, table, &is_chosen, &mut |device, batch| match &args.keys {
                    Some(key) => write(&keyed(key, device, &batch)?),
                    None => write(&batch),
                })
            })
        }
        ExportFormat::Perfetto => bail!("not a table"),
    }
}

/// Takes in a batch.
pub(crate) type WriteBatch<'a> = &'a mut dyn FnMut(&RecordBatch) -> anyhow::Result<()>;

/// Writes batches as an Arrow file, or packed as Parquet.
pub(crate) fn binary(
    is_packed: bool,
    schema: &SchemaRef,
    out: &mut dyn Write,
    batches: impl FnOnce(WriteBatch<'_>) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    if !is_packed {
        let mut writer = FileWriter::try_new(out, schema)?;
        batches(&mut |batch| Ok(writer.write(batch)?))?;
        return Ok(writer.finish()?);
    }
    let properties = WriterProperties::builder().set_compression(Compression::SNAPPY).build();
    // The writer wants to be able to change threads, which standard output cannot. What is packed is small.
    let mut writer = ArrowWriter::try_new(Vec::new(), schema.clone(), Some(properties))?;
    batches(&mut |batch| Ok(writer.write(batch)?))?;
    Ok(out.write_all(&writer.into_inner()?)?)
}

/// Which columns were asked for.
fn chosen(table: Whole, names: &[String]) -> anyhow::Result<Vec<bool>> {
    let all: Vec<_> = table.columns().iter().map(|column| column.name).collect();
    if let Some(unknown) = names.iter().find(|name| !all.contains(&name.as_str())) {
        bail!("{} has no column '{unknown}'; there are {}", table.name(), all.join(", "));
    }
    Ok(all.iter().map(|name| names.is_empty() || names.iter().any(|chosen| chosen == name)).collect())
}

/// The values or columns that were asked for.
fn picked<T: Clone>(row: &[T], chosen: &[bool]) -> Vec<T> {
    row.iter().zip(chosen).filter(|(_, chosen)| **chosen).map(|(value, _)| value.clone()).collect()
}

/// The devices that have a table: stacks, frames and problems are those of the file.
fn with_rows(subjects: &[Subject], table: Whole) -> &[Subject] {
    match table {
        Whole::Stacks | Whole::Frames | Whole::Problems => subjects.get(..1).unwrap_or_default(),
        _ => subjects,
    }
}

/// Hands out every row of a table.
fn each_row(subjects: &[Subject], table: Whole, take: Take<'_, anyhow::Error>) -> anyhow::Result<()> {
    with_rows(subjects, table).iter().try_for_each(|subject| rows_of(subject, table, take))
}

fn rows_of(subject: &Subject, table: Whole, take: Take<'_, anyhow::Error>) -> anyhow::Result<()> {
    let path = subject.opened.path.to_string_lossy();
    let file = File { path: &path, role: subject.opened.name.role.as_deref().unwrap_or_default() };
    DeviceTables::new(subject.replay(), file).each_row(table, subject as &dyn Keep, take)
}

/// Hands out the rows of each device in batches, at least one.
fn in_batches(
    subjects: &[Subject],
    table: Whole,
    is_chosen: &dyn Fn(&Column) -> bool,
    write: &mut dyn FnMut(i32, RecordBatch) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    for subject in subjects {
        let mut batches = Batches::of(table.columns(), is_chosen);
        let device = subject.replay().device().0;
        rows_of(subject, table, &mut |row| match batches.push(row)? {
            Some(batch) => write(device, batch),
            None => Ok(()),
        })?;
        write(device, batches.flush()?)?;
    }
    Ok(())
}
