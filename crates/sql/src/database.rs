//! A database whose tables are those of files.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use rusqlite::hooks::{AuthAction, AuthContext, Authorization};
use rusqlite::limits::Limit;
use rusqlite::types::ValueRef;
use rusqlite::{Connection, OpenFlags, Statement};
use vramscope_analysis::tables::Whole;
use vramscope_dataset::{Source, VIEWS};
use vramscope_files::Progress;

use crate::table::{Shared, all_columns, declaration, register};

/// Steps of SQLite's machine between two looks at whether the query is cancelled: a fraction of a millisecond.
const STEPS: i32 = 10_000;

/// Why a query has no answer.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// It was cancelled.
    #[error("the query was cancelled")]
    Cancelled,
    /// It needs more memory than it may have.
    #[error("the query needs more memory than its limit; raise it with --memory, or ask for fewer rows")]
    OutOfMemory,
    /// It would do more than read.
    #[error("only queries that read are allowed: {0}")]
    NotAllowed(String),
    /// SQLite says no.
    #[error("{0}")]
    Sql(String),
}

/// A value of an answer.
#[derive(Clone, Debug, PartialEq)]
pub enum Cell {
    /// There is none.
    Null,
    /// A whole number.
    Integer(i64),
    /// Another number.
    Real(f64),
    /// Text.
    Text(String),
}

impl From<ValueRef<'_>> for Cell {
    fn from(value: ValueRef<'_>) -> Self {
        match value {
            ValueRef::Null => Self::Null,
            ValueRef::Integer(number) => Self::Integer(number),
            ValueRef::Real(number) => Self::Real(number),
            ValueRef::Text(text) | ValueRef::Blob(text) => Self::Text(String::from_utf8_lossy(text).into()),
        }
    }
}

/// Takes in an answer: the names of its columns, then row after row until it says that it has enough.
pub trait Rows {
    /// The names of the columns, no two of them the same.
    fn columns(&mut self, names: &[String]);
    /// A row; whether to go on.
    fn row(&mut self, row: Vec<Cell>) -> bool;
}

/// What the authorizer notes while a query is prepared.
#[derive(Default)]
struct Noted {
    /// Tables that it reads.
    tables: BTreeSet<String>,
    /// What it was refused for.
    refused: Option<String>,
    /// Whether it is a statement of our own.
    is_own: bool,
}

/// SQL over files.
pub struct Database {
    connection: Connection,
    cancelled: Arc<AtomicBool>,
    noted: Arc<Mutex<Noted>>,
    /// Small tables that are in memory already.
    loaded: BTreeSet<&'static str>,
}

impl Database {
    /// Tables and views over files. SQLite may use that much memory; `cancelled` ends a query.
    pub fn new(
        source: Arc<Source>,
        memory: u64,
        cancelled: Arc<AtomicBool>,
        progress: Arc<dyn Progress + Send + Sync>,
    ) -> Result<Self, Error> {
        let mut connection = open(memory).map_err(|error| sql(&error))?;
        let shared = Arc::new(Shared { source, cancelled: Arc::clone(&cancelled), progress });
        prepare(&connection, &shared).map_err(|error| sql(&error))?;
        let noted = Arc::<Mutex<Noted>>::default();
        let watch = Arc::clone(&cancelled);
        let authorize = Arc::clone(&noted);
        let hooks =
            connection.progress_handler(STEPS, Some(move || watch.load(Ordering::Relaxed))).and_then(|()| {
                connection.authorizer(Some(move |asked: AuthContext<'_>| judge(&authorize, &asked)))
            });
        hooks.map_err(|error| sql(&error))?;
        Ok(Self { connection, cancelled, noted, loaded: BTreeSet::new() })
    }

    /// The tables and their columns.
    pub fn tables() -> impl Iterator<Item = (&'static str, Vec<&'static str>)> {
        Whole::ALL
            .into_iter()
            .map(|table| (table.name(), all_columns(table).iter().map(|column| column.name).collect()))
    }

    /// Answers a query.
    pub fn query(&mut self, query: &str, rows: &mut dyn Rows) -> Result<(), Error> {
        self.load(query)?;
        let mut statement = self.connection.prepare(query).map_err(|error| self.reason(&error))?;
        rows.columns(&names(&statement));
        let count = statement.column_count();
        let mut found = statement.query([]).map_err(|error| self.reason(&error))?;
        while let Some(row) = found.next().map_err(|error| self.reason(&error))? {
            let cell = |at| row.get_ref(at).map(Cell::from);
            let cells: Result<Vec<Cell>, _> = (0..count).map(cell).collect();
            if !rows.row(cells.map_err(|error| self.reason(&error))?) {
                break;
            }
        }
        Ok(())
    }

    /// Copies the small tables that a query mentions into memory.
    fn load(&mut self, query: &str) -> Result<(), Error> {
        *self.noted() = Noted::default();
        self.connection.prepare(query).map_err(|error| self.reason(&error))?;
        let mentioned = std::mem::take(&mut self.noted().tables);
        for table in Whole::ALL.iter().map(|table| table.name()) {
            if is_virtual(table) || !mentioned.contains(table) || self.loaded.contains(table) {
                continue;
            }
            self.noted().is_own = true;
            let copy = format!("insert into {table} select * from vramscope_{table}");
            let copied = self.connection.execute(&copy, []);
            self.noted().is_own = false;
            copied.map_err(|error| self.reason(&error))?;
            self.loaded.insert(table);
        }
        Ok(())
    }

    fn noted(&self) -> std::sync::MutexGuard<'_, Noted> {
        self.noted.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn reason(&self, error: &rusqlite::Error) -> Error {
        if self.cancelled.load(Ordering::Relaxed) {
            return Error::Cancelled;
        }
        if let Some(refused) = self.noted().refused.take() {
            return Error::NotAllowed(refused);
        }
        match error.sqlite_error_code() {
            Some(rusqlite::ErrorCode::OutOfMemory) => Error::OutOfMemory,
            _ => sql(error),
        }
    }
}

/// Rows of these tables are made when they are asked for.
fn is_virtual(name: &str) -> bool {
    Whole::ALL.iter().any(|table| table.is_long() && table.name() == name)
}

fn open(memory: u64) -> rusqlite::Result<Connection> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_in_memory_with_flags(flags)?;
    connection.pragma_update(None, "hard_heap_limit", i64::try_from(memory).unwrap_or(i64::MAX))?;
    connection.pragma_update(None, "trusted_schema", false)?;
    // What a person types is far below these; what is above them is an attack.
    connection.set_limit(Limit::SQLITE_LIMIT_LENGTH, 1 << 26)?;
    connection.set_limit(Limit::SQLITE_LIMIT_SQL_LENGTH, 1 << 20)?;
    connection.set_limit(Limit::SQLITE_LIMIT_EXPR_DEPTH, 200)?;
    connection.set_limit(Limit::SQLITE_LIMIT_ATTACHED, 0)?;
    Ok(connection)
}

/// Makes tables and views.
fn prepare(connection: &Connection, shared: &Arc<Shared>) -> rusqlite::Result<()> {
    for table in Whole::ALL {
        if is_virtual(table.name()) {
            register(connection, table.name(), shared, table)?;
        } else {
            register(connection, &format!("vramscope_{}", table.name()), shared, table)?;
            connection.execute_batch(&format!("create table {}({})", table.name(), declaration(table)))?;
        }
    }
    VIEWS
        .iter()
        .try_for_each(|view| connection.execute_batch(&format!("create view {} as {}", view.name, view.sql)))
}

/// Queries may read tables and call functions, and nothing else.
fn judge(noted: &Mutex<Noted>, asked: &AuthContext<'_>) -> Authorization {
    let mut noted = noted.lock().unwrap_or_else(PoisonError::into_inner);
    if noted.is_own {
        return Authorization::Allow;
    }
    let refused = match asked.action {
        AuthAction::Select | AuthAction::Recursive => return Authorization::Allow,
        AuthAction::Read { table_name, .. } => {
            noted.tables.insert(table_name.to_lowercase());
            return Authorization::Allow;
        }
        AuthAction::Function { function_name } if function_name != "load_extension" => {
            return Authorization::Allow;
        }
        action => format!("{action:?}"),
    };
    let name = refused.split([' ', '{', '(']).next().unwrap_or_default().to_owned();
    noted.refused.get_or_insert(name);
    Authorization::Deny
}

/// The names of an answer's columns; of those that are the same the later ones get a number.
fn names(statement: &Statement<'_>) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    for name in statement.column_names() {
        let mut unique = name.to_owned();
        let mut number = 1;
        while names.contains(&unique) {
            number += 1;
            unique = format!("{name}_{number}");
        }
        names.push(unique);
    }
    names
}

fn sql(error: &rusqlite::Error) -> Error {
    Error::Sql(match error {
        rusqlite::Error::SqlInputError { msg, sql, offset, .. } => {
            let near: String = usize::try_from(*offset)
                .ok()
                .and_then(|offset| sql.get(offset..))
                .map_or_else(String::new, |rest| rest.chars().take(40).collect());
            if near.is_empty() { msg.clone() } else { format!("{msg}, at: {near}") }
        }
        rusqlite::Error::SqliteFailure(_, Some(message)) | rusqlite::Error::ModuleError(message) => {
            message.clone()
        }
        error => error.to_string(),
    })
}
