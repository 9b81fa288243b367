//! A table of a [`Source`] as a virtual table of SQLite.
#![allow(unsafe_code, reason = "rusqlite's traits promise SQLite that structures begin with its own")]

use std::borrow::Cow;
use std::collections::VecDeque;
use std::ffi::{CStr, CString, c_int};
use std::marker::PhantomData;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use arrow_array::{Array, ArrayRef, BooleanArray, Int32Array, Int64Array, StringArray};
use rusqlite::types::{Null, Type, ValueRef};
use rusqlite::vtab::{
    Context, Filters, IndexConstraintOp, IndexInfo, Module, VTab, VTabConfig, VTabConnection, VTabCursor,
};
use rusqlite::{Connection, Error, Result, ffi};
use vramscope_analysis::tables::Whole;
use vramscope_dataset::{Chunk, Found, KEYS, Source, Wanted, columns};
use vramscope_files::Progress;
use vramscope_format::table::{Column, Kind};

/// What all tables of a database share.
pub(crate) struct Shared {
    pub(crate) source: Arc<Source>,
    pub(crate) cancelled: Arc<AtomicBool>,
    pub(crate) progress: Arc<dyn Progress + Send + Sync>,
}

/// Reading stops when the query is cancelled.
struct Watched<'a>(&'a Shared);

impl Progress for Watched<'_> {
    fn advance(&self, bytes: u64) {
        self.0.progress.advance(bytes);
    }

    fn expect(&self, bytes: u64) {
        self.0.progress.expect(bytes);
    }

    fn is_cancelled(&self) -> bool {
        self.0.cancelled.load(Ordering::Relaxed)
    }
}

/// Makes a table known by a name.
pub(crate) fn register(database: &Connection, name: &str, shared: &Arc<Shared>, table: Whole) -> Result<()> {
    const MODULE: &Module<'_, Tab> = &Module::eponymous_only_module();
    database.create_module(name, MODULE, Some((Arc::clone(shared), table)))
}

/// All columns in SQL: the keys, then those of the table.
pub(crate) fn all_columns(table: Whole) -> Vec<Column> {
    KEYS.into_iter().chain(columns(table)).collect()
}

/// The columns as SQLite declares them.
pub(crate) fn declaration(table: Whole) -> String {
    let declared = |column: &Column| {
        let kind = if column.kind == Kind::Text { "text" } else { "integer" };
        format!("\"{}\" {kind}", column.name)
    };
    all_columns(table).iter().map(declared).collect::<Vec<_>>().join(", ")
}

#[repr(C)]
struct Tab {
    base: ffi::sqlite3_vtab,
    shared: Arc<Shared>,
    table: Whole,
    columns: Arc<[Column]>,
}

// SAFETY: `Tab` is `repr(C)` and begins with `sqlite3_vtab`.
unsafe impl<'vtab> VTab<'vtab> for Tab {
    type Aux = (Arc<Shared>, Whole);
    type Cursor = Cursor<'vtab>;

    fn connect(
        database: &mut VTabConnection,
        aux: Option<&Self::Aux>,
        _: &[u8],
        _: &[u8],
        _: &[u8],
        _: &[&[u8]],
    ) -> Result<(Cow<'static, CStr>, Self)> {
        let (shared, table) = aux.ok_or_else(|| Error::ModuleError("a table without a source".into()))?;
        // It only reads, so views may use it.
        database.config(VTabConfig::Innocuous)?;
        let declared = CString::new(format!("create table x({})", declaration(*table)))?;
        let tab = Self {
            base: ffi::sqlite3_vtab::default(),
            shared: Arc::clone(shared),
            table: *table,
            columns: all_columns(*table).into(),
        };
        Ok((Cow::Owned(declared), tab))
    }

    /// Equal keys choose files. The plan is a text: the columns that are used as bits, then the keys in the order of the
    /// arguments.
    fn best_index(&self, info: &mut IndexInfo) -> Result<bool> {
        let used = info.col_used();
        let mut keys = Vec::new();
        for (constraint, mut usage) in info.constraints_and_usages() {
            let Some(key) = usize::try_from(constraint.column()).ok().filter(|key| *key < KEYS.len()) else {
                continue;
            };
            let is_equal = constraint.operator() == IndexConstraintOp::SQLITE_INDEX_CONSTRAINT_EQ;
            if constraint.is_usable() && is_equal && !keys.contains(&key) {
                keys.push(key);
                usage.set_argv_index(c_int::try_from(keys.len()).unwrap_or(c_int::MAX));
            }
        }
        let rows = 100_000.0 * self.shared.source.files().len().max(1) as f64;
        // A file is read anew for every row of an outer loop: better to read all of them once.
        info.set_estimated_cost(if keys.is_empty() { rows } else { rows / 2.0 });
        info.set_estimated_rows(rows as i64);
        let keys: String = keys.iter().map(|key| format!(" {key}")).collect();
        info.set_idx_str(&format!("{used:x}{keys}"));
        Ok(true)
    }

    fn open(&'vtab mut self) -> Result<Cursor<'vtab>> {
        Ok(Cursor {
            base: ffi::sqlite3_vtab_cursor::default(),
            shared: Arc::clone(&self.shared),
            table: self.table,
            columns: Arc::clone(&self.columns),
            is_used: vec![false; self.columns.len()],
            wanted: Wanted::default(),
            files: VecDeque::new(),
            chunks: VecDeque::new(),
            current: None,
            row: 0,
            rowid: 0,
            of: PhantomData,
        })
    }
}

#[repr(C)]
struct Cursor<'vtab> {
    base: ffi::sqlite3_vtab_cursor,
    shared: Arc<Shared>,
    table: Whole,
    columns: Arc<[Column]>,
    is_used: Vec<bool>,
    wanted: Wanted,
    /// Files to be read.
    files: VecDeque<Found>,
    /// Rows that were read.
    chunks: VecDeque<Chunk>,
    current: Option<Current>,
    row: usize,
    rowid: i64,
    of: PhantomData<&'vtab Tab>,
}

/// The rows that the cursor is in.
struct Current {
    chunk: Chunk,
    /// For each column its values, if it is used and no key.
    cells: Vec<Option<Cells>>,
}

enum Cells {
    Text(StringArray),
    I64(Int64Array),
    I32(Int32Array),
    Flag(BooleanArray),
}

impl Cells {
    fn new(array: &ArrayRef) -> Option<Self> {
        let any = array.as_any();
        None.or_else(|| any.downcast_ref().cloned().map(Self::I64))
            .or_else(|| any.downcast_ref().cloned().map(Self::Text))
            .or_else(|| any.downcast_ref().cloned().map(Self::I32))
            .or_else(|| any.downcast_ref().cloned().map(Self::Flag))
    }
}

impl Cursor<'_> {
    /// Goes to the next rows, if there are any.
    fn advance(&mut self) -> Result<()> {
        self.row = 0;
        self.current = None;
        loop {
            if let Some(chunk) = self.chunks.pop_front() {
                let mut arrays = chunk.batch.columns().iter();
                let is_read = self.is_used.iter().enumerate().map(|(at, used)| *used && at >= KEYS.len());
                let cells = is_read.map(|is_read| if is_read { Cells::new(arrays.next()?) } else { None });
                let cells = cells.collect();
                self.current = Some(Current { chunk, cells });
                return Ok(());
            }
            if self.files.is_empty() {
                return Ok(());
            }
            let together = self.files.len().min(rayon::current_num_threads());
            let files: Vec<Found> = self.files.drain(..together).collect();
            let used: Vec<&str> = self
                .columns
                .iter()
                .zip(&self.is_used)
                .skip(KEYS.len())
                .filter(|(_, used)| **used)
                .map(|(column, _)| column.name)
                .collect();
            let is_wanted = |name: &str| used.contains(&name);
            let watched = Watched(&self.shared);
            let chunks = self.shared.source.read(&files, self.table, &self.wanted, &is_wanted, &watched);
            if watched.is_cancelled() {
                return Err(Error::ModuleError("cancelled".into()));
            }
            self.chunks = chunks.map_err(|error| Error::ModuleError(error.to_string()))?.into();
        }
    }
}

// SAFETY: `Cursor` is `repr(C)` and begins with `sqlite3_vtab_cursor`.
unsafe impl VTabCursor for Cursor<'_> {
    fn filter(&mut self, _: c_int, plan: Option<&str>, arguments: &Filters<'_>) -> Result<()> {
        let mut plan = plan.unwrap_or_default().split(' ');
        let used = plan.next().and_then(|used| u64::from_str_radix(used, 16).ok()).unwrap_or(u64::MAX);
        // The last bit stands for all columns from the 64th on, which no table has.
        self.is_used = (0..self.columns.len()).map(|at| used >> at.min(63) & 1 == 1).collect();
        self.wanted = Wanted::default();
        let mut is_empty = false;
        for (key, value) in plan.filter_map(|key| key.parse::<usize>().ok()).zip(arguments.iter()) {
            is_empty |= !choose(&mut self.wanted, key, value);
        }
        let files = if is_empty { Vec::new() } else { self.shared.source.wanted(&self.wanted) };
        Watched(&self.shared).expect(self.shared.source.bytes(&files, self.table));
        self.files = files.into();
        self.chunks.clear();
        self.rowid = 0;
        self.advance()
    }

    fn next(&mut self) -> Result<()> {
        self.row += 1;
        self.rowid += 1;
        let is_over = self.current.as_ref().is_none_or(|current| self.row >= current.chunk.batch.num_rows());
        if is_over { self.advance() } else { Ok(()) }
    }

    fn eof(&self) -> bool {
        self.current.is_none()
    }

    fn column(&self, context: &mut Context, column: c_int) -> Result<()> {
        let Some(Current { chunk, cells }) = &self.current else { return context.set_result(Null) };
        match column {
            0 => return context.set_result(&chunk.key.run),
            1 => return context.set_result(&chunk.key.step),
            2 => return context.set_result(&chunk.key.rank),
            3 => return context.set_result(chunk.device),
            _ => {}
        }
        let cells = usize::try_from(column).ok().and_then(|column| cells.get(column)?.as_ref());
        let row = self.row;
        match cells {
            Some(Cells::I64(cells)) if cells.is_valid(row) => context.set_result(cells.value(row)),
            Some(Cells::Text(cells)) if cells.is_valid(row) => context.set_result(cells.value(row)),
            Some(Cells::I32(cells)) if cells.is_valid(row) => context.set_result(cells.value(row)),
            Some(Cells::Flag(cells)) if cells.is_valid(row) => context.set_result(cells.value(row)),
            _ => context.set_result(Null),
        }
    }

    fn rowid(&self) -> Result<i64> {
        Ok(self.rowid)
    }
}

/// Restricts a key to a value. Whether anything can be equal to it.
fn choose(wanted: &mut Wanted, key: usize, value: ValueRef<'_>) -> bool {
    let number = match value {
        ValueRef::Integer(number) => Some(number),
        ValueRef::Real(number) if number.fract() == 0.0 => Some(number as i64),
        // SQLite compares a column of numbers with the number that a text is.
        ValueRef::Text(text) => std::str::from_utf8(text).ok().and_then(|text| text.trim().parse().ok()),
        _ => None,
    };
    let text = (value.data_type() == Type::Text).then(|| value.as_str().unwrap_or_default().to_owned());
    match key {
        0 => wanted.run = text.or_else(|| number.map(|number| number.to_string())),
        1 => wanted.step = number,
        2 => wanted.rank = number,
        _ => wanted.device = number,
    }
    match key {
        0 => wanted.run.is_some(),
        _ => number.is_some(),
    }
}
