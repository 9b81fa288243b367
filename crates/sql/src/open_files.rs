//! SQL for a viewer: over the files that it has open, with results that are kept so that it can scroll in them.

use std::collections::VecDeque;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use vramscope_dataset::{Source, VIEWS};
use vramscope_engine::{OpenSnapshot, Page, Sql, SqlCatalog, SqlColumn, SqlResult, SqlRows, SqlView};
use vramscope_files::Opened;
use vramscope_format::{Formulas, Units, csv, width};

use crate::database::{Cell, Database, Error, Rows};
use crate::words::is_size;

/// Memory that a query may use.
const QUERY_MEMORY: u64 = 1 << 30;

/// Bytes of rows that one result keeps, and all results together.
const RESULT_MEMORY: usize = 192 << 20;

/// Results that are kept: those of the last queries, for pages that still look at them.
const MOST_RESULTS: usize = 8;

/// Rows that are handed out at once.
const MOST_ROWS: u32 = 50_000;

/// How often somebody is asked whether the answer is still wanted.
const LOOK: Duration = Duration::from_millis(20);

/// Answers queries over open files.
#[derive(Default)]
pub struct OpenFiles {
    /// The database of the last query: tables that it has copied are there for the next one.
    database: Mutex<Option<Kept>>,
    results: Mutex<Results>,
}

/// A database, and the files that it reads.
struct Kept {
    files: Vec<OpenSnapshot>,
    database: Database,
    cancelled: Arc<AtomicBool>,
}

#[derive(Default)]
struct Results {
    /// The newest last.
    kept: VecDeque<(u64, Arc<Found>)>,
    count: u64,
}

impl Results {
    fn keep(&mut self, found: Arc<Found>) -> u64 {
        self.count += 1;
        self.kept.push_back((self.count, found));
        let bytes =
            |kept: &VecDeque<(u64, Arc<Found>)>| kept.iter().map(|(_, found)| found.bytes).sum::<usize>();
        while self.kept.len() > MOST_RESULTS || self.kept.len() > 1 && bytes(&self.kept) > RESULT_MEMORY {
            self.kept.pop_front();
        }
        self.count
    }
}

/// A poisoned lock still guards whole data: a query that failed midway is not kept.
fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The rows of a result, one after the other.
#[derive(Default)]
struct Found {
    names: Vec<String>,
    /// Whether the numbers of a column are sizes.
    sizes: Vec<bool>,
    cells: Vec<Cell>,
    bytes: usize,
    is_cut: bool,
}

impl Rows for Found {
    fn columns(&mut self, names: &[String]) {
        self.names = names.to_vec();
        self.sizes = names.iter().map(|name| is_size(name)).collect();
    }

    fn row(&mut self, row: Vec<Cell>) -> bool {
        let text = |cell: &Cell| if let Cell::Text(text) = cell { text.len() } else { 0 };
        self.bytes += row.iter().map(|cell| size_of::<Cell>() + text(cell)).sum::<usize>();
        self.is_cut = self.bytes > RESULT_MEMORY || self.total() == u32::MAX - 1;
        if !self.is_cut {
            self.cells.extend(row);
        }
        !self.is_cut
    }
}

impl Found {
    fn total(&self) -> u32 {
        self.cells
            .len()
            .checked_div(self.names.len())
            .map_or(0, |rows| u32::try_from(rows).unwrap_or(u32::MAX))
    }

    /// Some rows.
    fn rows(&self, first: u32, count: u32) -> impl Iterator<Item = &[Cell]> {
        let rows = self.cells.chunks_exact(self.names.len().max(1));
        rows.skip(first as usize).take(count.min(MOST_ROWS) as usize)
    }

    /// A row in words.
    fn words(&self, row: &[Cell]) -> Vec<String> {
        let cells = row.iter().zip(&self.sizes);
        cells.map(|(cell, is_size)| cell.words(*is_size, Units::Binary)).collect()
    }

    fn columns(&self) -> Vec<SqlColumn> {
        let column = |name: &String| SqlColumn {
            name: name.clone(),
            is_text: false,
            width: u32::try_from(width(name)).unwrap_or(u32::MAX),
        };
        let mut columns: Vec<SqlColumn> = self.names.iter().map(column).collect();
        for row in self.cells.chunks_exact(columns.len().max(1)) {
            for ((cell, is_size), column) in row.iter().zip(&self.sizes).zip(&mut columns) {
                column.is_text |= matches!(cell, Cell::Text(_));
                // Words are made only where they may be wider than what was there before.
                let wide = match cell {
                    Cell::Null => 1,
                    Cell::Integer(_) if *is_size => 10,
                    Cell::Integer(number) => digits(*number),
                    Cell::Real(_) => width(&cell.words(false, Units::Binary)),
                    Cell::Text(text) if text.len() <= column.width as usize => continue,
                    Cell::Text(text) => width(text),
                };
                column.width = column.width.max(u32::try_from(wide).unwrap_or(u32::MAX));
            }
        }
        columns
    }
}

/// Letters of a whole number.
fn digits(number: i64) -> usize {
    let sign = usize::from(number < 0);
    number.unsigned_abs().checked_ilog10().map_or(1, |digits| digits as usize + 1) + sign
}

/// Whether these are the same files.
fn are_same(a: &[OpenSnapshot], b: &[OpenSnapshot]) -> bool {
    let is_same = |(a, b): (&OpenSnapshot, &OpenSnapshot)| Arc::ptr_eq(&a.snapshot, &b.snapshot);
    a.len() == b.len() && a.iter().zip(b).all(is_same)
}

impl Kept {
    fn new(files: Vec<OpenSnapshot>) -> Result<Self, Error> {
        let open = |file: &OpenSnapshot| {
            let (snapshot, replays) = (Arc::clone(&file.snapshot), file.devices.clone());
            Opened::of(PathBuf::from(&file.name), 0, snapshot, replays)
        };
        let source = Arc::new(Source::of_open(files.iter().map(open).collect()));
        let cancelled = Arc::new(AtomicBool::new(false));
        let database = Database::new(source, QUERY_MEMORY, Arc::clone(&cancelled), Arc::new(()))?;
        Ok(Self { files, database, cancelled })
    }
}

impl OpenFiles {
    /// A database over these files: the one of the last query if it can be used, else a new one.
    fn database(&self, files: Vec<OpenSnapshot>) -> Result<Kept, Error> {
        match locked(&self.database).take().filter(|kept| are_same(&kept.files, &files)) {
            Some(kept) => Ok(kept),
            None => Kept::new(files),
        }
    }

    /// All rows of a query. `None` if `go_on` said to stop.
    fn ask(&self, kept: &mut Kept, query: &str, go_on: &dyn Fn() -> bool) -> Option<Result<Found, Error>> {
        let cancelled = Arc::clone(&kept.cancelled);
        cancelled.store(false, Ordering::Relaxed);
        let database = &mut kept.database;
        thread::scope(|scope| {
            let (done, result) = channel();
            scope.spawn(move || {
                let mut found = Found::default();
                let answer = database.query(query, &mut found).map(|()| found);
                // Somebody who does not wait any more has said so.
                let _ = done.send(answer);
            });
            loop {
                match result.recv_timeout(LOOK) {
                    Ok(Err(Error::Cancelled)) | Err(RecvTimeoutError::Disconnected) => return None,
                    Ok(answer) => return Some(answer),
                    Err(RecvTimeoutError::Timeout) if go_on() => {}
                    Err(RecvTimeoutError::Timeout) => cancelled.store(true, Ordering::Relaxed),
                }
            }
        })
    }

    fn found(&self, result: u64) -> Option<Arc<Found>> {
        let results = locked(&self.results);
        results.kept.iter().find(|(number, _)| *number == result).map(|(_, found)| Arc::clone(found))
    }
}

impl Sql for OpenFiles {
    fn catalog(&self) -> SqlCatalog {
        let view = |view: &vramscope_dataset::View| SqlView {
            name: view.name.to_owned(),
            about: view.about().to_owned(),
            sql: view.sql.to_owned(),
        };
        let table = |(name, columns): (&str, Vec<&str>)| {
            (name.to_owned(), columns.into_iter().map(str::to_owned).collect())
        };
        SqlCatalog {
            views: VIEWS.iter().map(view).collect(),
            tables: Database::tables().map(table).collect(),
        }
    }

    fn run(&self, files: Vec<OpenSnapshot>, query: &str, go_on: &dyn Fn() -> bool) -> Option<SqlResult> {
        let began = Instant::now();
        let count = u32::try_from(files.len()).unwrap_or(u32::MAX);
        let result = match self.database(files) {
            Ok(mut kept) => {
                let result = self.ask(&mut kept, query, go_on)?;
                *locked(&self.database) = Some(kept);
                result
            }
            Err(error) => Err(error),
        };
        let millis = u32::try_from(began.elapsed().as_millis()).unwrap_or(u32::MAX);
        let answer = SqlResult { files: count, millis, ..SqlResult::default() };
        Some(match result {
            Ok(found) => {
                let (columns, total, is_cut) = (found.columns(), found.total(), found.is_cut);
                let result = locked(&self.results).keep(Arc::new(found));
                SqlResult { result, columns, total, is_cut, ..answer }
            }
            Err(error) => SqlResult { problem: Some(error.to_string()), ..answer },
        })
    }

    fn rows(&self, result: u64, first: u32, count: u32) -> Option<SqlRows> {
        let found = self.found(result)?;
        Some(SqlRows { first, rows: found.rows(first, count).map(|row| found.words(row)).collect() })
    }

    fn csv(&self, result: u64, first: u32, count: u32) -> Option<Page<String>> {
        let found = self.found(result)?;
        let line = |cells: Vec<String>| {
            let cells: Vec<String> = cells.iter().map(|cell| csv(cell, Formulas::Escape)).collect();
            cells.join(",") + "\n"
        };
        let heading = (first == 0).then(|| line(found.names.clone()));
        let (skipped, most) = (first.saturating_sub(1), count.saturating_sub(u32::from(first == 0)));
        let rows = found.rows(skipped, most).map(|row| line(row.iter().map(Cell::plain).collect()));
        let (rows, total) = (heading.into_iter().chain(rows).collect(), found.total().saturating_add(1));
        Some(Page { total, bytes: 0, first, rows, problem: None })
    }
}
