//! Answers of queries, in every format.

use std::io::{self, IsTerminal, Read, Write};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use anyhow::bail;
use arrow_array::{ArrayRef, Float64Array, Int64Array, RecordBatch, StringArray};
use arrow_schema::{DataType, Field, Schema};
use serde_json::{Map, Value as Json};
use vramscope_dataset::Source;
use vramscope_files::Progress;
use vramscope_format::{Formulas, csv};
use vramscope_sql::{Cell, Database, Rows};

use super::args::{SqlArgs, SqlFormat};
use super::{grid, prompt};
use crate::export::binary;
use crate::output;
use crate::progress::QueryBar;
use crate::text;

/// Rows of a table that a terminal shows.
const ON_TERMINAL: usize = 100;

pub(super) fn run(
    args: &SqlArgs,
    source: Source,
    paths: &[PathBuf],
    query: Option<String>,
    out: &mut dyn Write,
) -> anyhow::Result<ExitCode> {
    let cancelled = Arc::new(AtomicBool::new(false));
    let source = Arc::new(source);
    let bar = Arc::new(QueryBar::default());
    let progress: Arc<dyn Progress + Send + Sync> = Arc::<QueryBar>::clone(&bar);
    let database = Database::new(Arc::clone(&source), args.memory, Arc::clone(&cancelled), progress)?;
    cancel_on_interrupt(&cancelled);
    let mut session = Session { database, cancelled, bar };
    match query {
        Some(query) => session.write(&query, args, paths, out)?,
        None if io::stdin().is_terminal() && io::stdout().is_terminal() => {
            prompt::run(&mut session, args, out)?;
        }
        None if args.words.iter().any(|path| path.as_os_str() == "-") => {
            bail!("standard input is the snapshot: name a query")
        }
        None => {
            let mut query = String::new();
            io::stdin().take(1 << 20).read_to_string(&mut query)?;
            session.write(&query, args, paths, out)?;
        }
    }
    out.flush()?;
    let problems = source.problems();
    for problem in &problems {
        text::complain(&problem.problem);
    }
    Ok(if problems.is_empty() { ExitCode::SUCCESS } else { ExitCode::from(2) })
}

/// Ctrl+C ends the query; at the prompt it ends the line.
#[cfg(unix)]
fn cancel_on_interrupt(cancelled: &Arc<AtomicBool>) {
    let _ = signal_hook::flag::register(signal_hook::consts::SIGINT, Arc::clone(cancelled));
}

#[cfg(not(unix))]
fn cancel_on_interrupt(_: &Arc<AtomicBool>) {}

/// A database that queries are asked of.
pub(super) struct Session {
    database: Database,
    pub(super) cancelled: Arc<AtomicBool>,
    bar: Arc<QueryBar>,
}

impl Session {
    /// Answers a query where the command line says, in its format.
    fn write(
        &mut self,
        query: &str,
        args: &SqlArgs,
        paths: &[PathBuf],
        out: &mut dyn Write,
    ) -> anyhow::Result<()> {
        let format = match args.output.json {
            true => SqlFormat::Json,
            false => args.format.unwrap_or(SqlFormat::Table),
        };
        let to_terminal = args.file.path().is_none() && io::stdout().is_terminal();
        if to_terminal && matches!(format, SqlFormat::Arrow | SqlFormat::Parquet) {
            bail!("this format is not for a terminal; name a file with -o");
        }
        let limit = match args.limit {
            Some(0) => None,
            Some(limit) => Some(limit),
            None => (to_terminal && format == SqlFormat::Table).then_some(ON_TERMINAL),
        };
        output::write_to(&args.file, paths, out, |out| self.print(query, format, limit, out))
    }

    /// Answers a query.
    pub(super) fn print(
        &mut self,
        query: &str,
        format: SqlFormat,
        limit: Option<usize>,
        out: &mut dyn Write,
    ) -> anyhow::Result<()> {
        match format {
            SqlFormat::Csv => self.stream(query, limit, out, &mut |names, row, out| {
                let Some(row) = row else { return Ok(writeln!(out, "{}", comma_separated(names))?) };
                let cells: Vec<String> = row.iter().map(Cell::plain).collect();
                Ok(writeln!(out, "{}", comma_separated(&cells))?)
            }),
            SqlFormat::Json => {
                let mut rows = 0;
                self.stream(query, limit, out, &mut |names, row, out| {
                    let Some(row) = row else {
                        write!(out, "{{\"schema\":\"vramscope/sql/1\",\"columns\":")?;
                        vramscope_files::json(&mut *out, &names)?;
                        return Ok(write!(out, ",\"rows\":[")?);
                    };
                    rows += 1;
                    write!(out, "{}", if rows > 1 { "," } else { "" })?;
                    let row: Map<String, Json> = names.iter().cloned().zip(row.iter().map(json)).collect();
                    Ok(vramscope_files::json(&mut *out, &row)?)
                })?;
                Ok(writeln!(out, "]}}")?)
            }
            SqlFormat::Table => {
                let found = self.all(query, limit)?;
                Ok(grid::print(&found.names, &found.rows, out).and_then(|()| found.say_more(out))?)
            }
            SqlFormat::Arrow | SqlFormat::Parquet => {
                let found = self.all(query, limit)?;
                let batch = batch(&found)?;
                binary(format == SqlFormat::Parquet, &batch.schema(), out, |write| write(&batch))
            }
        }
    }

    /// Hands out the names without a row, then row by row.
    fn stream(
        &mut self,
        query: &str,
        limit: Option<usize>,
        out: &mut dyn Write,
        each: Each<'_>,
    ) -> anyhow::Result<()> {
        let mut stream =
            Stream { names: Vec::new(), left: limit.unwrap_or(usize::MAX), out, each, failed: None };
        // Rows on a terminal show by themselves that it goes on, and a bar among them would be lost.
        match io::stdout().is_terminal() {
            true => self.database.query(query, &mut stream)?,
            false => self.bar.during(|| self.database.query(query, &mut stream))?,
        }
        stream.failed.map_or(Ok(()), Err)
    }

    /// All rows, up to a limit.
    fn all(&mut self, query: &str, limit: Option<usize>) -> anyhow::Result<Answer> {
        let mut answer = Answer { limit, ..Answer::default() };
        self.bar.during(|| self.database.query(query, &mut answer))?;
        Ok(answer)
    }
}

type Each<'a> = &'a mut dyn FnMut(&[String], Option<&[Cell]>, &mut dyn Write) -> anyhow::Result<()>;

struct Stream<'a> {
    names: Vec<String>,
    left: usize,
    out: &'a mut dyn Write,
    each: Each<'a>,
    failed: Option<anyhow::Error>,
}

impl Stream<'_> {
    fn take(&mut self, row: Option<&[Cell]>) -> bool {
        self.failed = (self.each)(&self.names, row, self.out).err();
        self.failed.is_none()
    }
}

impl Rows for Stream<'_> {
    fn columns(&mut self, names: &[String]) {
        self.names = names.to_vec();
        self.take(None);
    }

    fn row(&mut self, row: Vec<Cell>) -> bool {
        if self.failed.is_some() || self.left == 0 {
            return false;
        }
        self.left -= 1;
        self.take(Some(&row))
    }
}

/// An answer in memory.
#[derive(Default)]
struct Answer {
    names: Vec<String>,
    rows: Vec<Vec<Cell>>,
    limit: Option<usize>,
    is_cut: bool,
}

impl Rows for Answer {
    fn columns(&mut self, names: &[String]) {
        self.names = names.to_vec();
    }

    fn row(&mut self, row: Vec<Cell>) -> bool {
        if self.limit.is_some_and(|limit| self.rows.len() >= limit) {
            self.is_cut = true;
            return false;
        }
        self.rows.push(row);
        true
    }
}

impl Answer {
    /// What is left out must not look like the end.
    fn say_more(&self, out: &mut dyn Write) -> io::Result<()> {
        let rows = text::plural(self.rows.len(), "row");
        match self.is_cut {
            true => {
                let more = format!("only the first {rows} are shown, there are more: --limit 0 shows all");
                writeln!(out, "{}", crate::style::paint(crate::style::Role::Warning, &more))
            }
            false => writeln!(out, "{}", crate::style::paint(crate::style::Role::Dim, &rows)),
        }
    }
}

fn comma_separated(cells: &[String]) -> String {
    cells.iter().map(|cell| csv(cell, Formulas::Keep)).collect::<Vec<_>>().join(",")
}

fn json(cell: &Cell) -> Json {
    match cell {
        Cell::Null => Json::Null,
        Cell::Integer(number) => (*number).into(),
        Cell::Real(number) => (*number).into(),
        Cell::Text(text) => text.as_str().into(),
    }
}

/// The answer as columns: of whole numbers or of numbers if all values are, else of text.
fn batch(found: &Answer) -> anyhow::Result<RecordBatch> {
    let mut fields = Vec::new();
    let mut arrays: Vec<ArrayRef> = Vec::new();
    for (at, name) in found.names.iter().enumerate() {
        let cells = || found.rows.iter().map(|row| row.get(at).unwrap_or(&Cell::Null));
        let is_whole = cells().all(|cell| matches!(cell, Cell::Null | Cell::Integer(_)));
        let is_number = cells().all(|cell| !matches!(cell, Cell::Text(_)));
        let array: ArrayRef = if is_whole {
            Arc::new(
                cells()
                    .map(|cell| if let Cell::Integer(number) = cell { Some(*number) } else { None })
                    .collect::<Int64Array>(),
            )
        } else if is_number {
            Arc::new(
                cells()
                    .map(|cell| match cell {
                        Cell::Integer(number) => Some(*number as f64),
                        Cell::Real(number) => Some(*number),
                        Cell::Null | Cell::Text(_) => None,
                    })
                    .collect::<Float64Array>(),
            )
        } else {
            Arc::new(cells().map(|cell| (*cell != Cell::Null).then(|| cell.plain())).collect::<StringArray>())
        };
        let kind = match (is_whole, is_number) {
            (true, _) => DataType::Int64,
            (_, true) => DataType::Float64,
            _ => DataType::Utf8,
        };
        fields.push(Field::new(name, kind, true));
        arrays.push(array);
    }
    Ok(RecordBatch::try_new(Arc::new(Schema::new(fields)), arrays)?)
}
