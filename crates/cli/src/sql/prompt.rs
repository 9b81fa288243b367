//! The prompt of `sql`: history, completion, answers as tables.

use std::borrow::Cow;
use std::io::Write;
use std::sync::atomic::Ordering;

use rustyline::completion::{Completer, Pair};
use rustyline::error::ReadlineError;
use rustyline::highlight::Highlighter;
use rustyline::hint::Hinter;
use rustyline::history::FileHistory;
use rustyline::validate::{ValidationContext, ValidationResult, Validator};
use rustyline::{Config, Context, Editor, Helper};
use vramscope_dataset::{VIEWS, view};
use vramscope_sql::Database;

use super::answer::Session;
use super::args::{SqlArgs, SqlFormat};
use crate::text;

const HELP: &str = "A query ends with ;   Tab completes   Ctrl+C cancels   Ctrl+D leaves
  .tables          tables and their columns
  .views           named queries; select * from NAME;
  .print NAME      the query of a view
  .help            this";

/// Rows that an answer shows, unless --limit says otherwise.
const ROWS: usize = 100;

const WORDS: &[&str] = &[
    "select",
    "from",
    "where",
    "group by",
    "order by",
    "limit",
    "join",
    "left join",
    "with",
    "having",
    "distinct",
    "count(*)",
    "sum(",
    "max(",
    "min(",
    "avg(",
    "coalesce(",
    "case when",
    "desc",
    ".tables",
    ".views",
    ".print",
    ".help",
];

pub(super) fn run(session: &mut Session, args: &SqlArgs, out: &mut dyn Write) -> anyhow::Result<()> {
    let config = Config::builder().auto_add_history(true).max_history_size(1000)?.build();
    let mut editor: Editor<Words, FileHistory> = Editor::with_config(config)?;
    editor.set_helper(Some(Words::new()));
    let history = vramscope_files::config_folder().map(|folder| folder.join("sql_history"));
    if let Some(history) = &history {
        let _ = editor.load_history(history);
    }
    writeln!(out, "{HELP}")?;
    let limit = match args.limit {
        Some(0) => None,
        limit => limit.or(Some(ROWS)),
    };
    loop {
        out.flush()?;
        let line = match editor.readline("sql> ") {
            Ok(line) => line,
            Err(ReadlineError::Interrupted) => continue,
            Err(ReadlineError::Eof) => break,
            Err(error) => return Err(error.into()),
        };
        session.cancelled.store(false, Ordering::Relaxed);
        let line = line.trim().trim_end_matches(';').trim();
        let (first, rest) = line.split_once(' ').unwrap_or((line, ""));
        match (first, view(rest)) {
            ("", _) => {}
            (".help", _) => writeln!(out, "{HELP}")?,
            (".quit" | ".exit", _) => break,
            (".tables", _) => {
                for (name, columns) in Database::tables() {
                    writeln!(out, "{}", text::wrapped(&format!("{name}: {}", columns.join(", ")), 2))?;
                }
            }
            (".views", _) => {
                for view in VIEWS {
                    writeln!(out, "{:<22} {}", view.name, view.about())?;
                }
            }
            (".print", Some(view)) => write!(out, "{}", view.sql)?,
            _ => {
                let query = view(line).map_or(line, |view| view.sql);
                if let Err(error) = session.print(query, args.format.unwrap_or(SqlFormat::Table), limit, out)
                {
                    out.flush()?;
                    text::complain(&error.to_string());
                }
            }
        }
    }
    if let Some(history) = &history {
        if let Some(folder) = history.parent() {
            let _ = std::fs::create_dir_all(folder);
        }
        let _ = editor.save_history(history);
    }
    Ok(())
}

/// Completes tables, columns, views and words of SQL.
struct Words(Vec<String>);

impl Words {
    fn new() -> Self {
        let tables = Database::tables().flat_map(|(name, columns)| std::iter::once(name).chain(columns));
        let views = VIEWS.iter().map(|view| view.name);
        let mut words: Vec<String> =
            tables.chain(views).chain(WORDS.iter().copied()).map(Into::into).collect();
        words.sort_unstable();
        words.dedup();
        Self(words)
    }
}

impl Completer for Words {
    type Candidate = Pair;

    fn complete(&self, line: &str, at: usize, _: &Context<'_>) -> rustyline::Result<(usize, Vec<Pair>)> {
        let before = line.get(..at).unwrap_or_default();
        let is_word = |c: char| c.is_alphanumeric() || c == '_';
        let mut start = before.trim_end_matches(is_word).len();
        if before.get(..start).is_some_and(|before| before == ".") {
            start = 0;
        }
        let begun = before.get(start..).unwrap_or_default().to_lowercase();
        let fitting = self.0.iter().filter(|word| !begun.is_empty() && word.starts_with(&begun));
        let pair = |word: &String| Pair { display: word.clone(), replacement: word.clone() };
        Ok((start, fitting.map(pair).collect()))
    }
}

impl Hinter for Words {
    type Hint = String;
}

impl Highlighter for Words {
    fn highlight_prompt<'b, 's: 'b, 'p: 'b>(&'s self, prompt: &'p str, _: bool) -> Cow<'b, str> {
        Cow::Owned(crate::style::paint(crate::style::Role::Strong, prompt))
    }
}

impl Validator for Words {
    fn validate(&self, context: &mut ValidationContext<'_>) -> rustyline::Result<ValidationResult> {
        let line = context.input().trim();
        let is_whole =
            line.is_empty() || line.ends_with(';') || line.starts_with('.') || view(line).is_some();
        Ok(if is_whole { ValidationResult::Valid(None) } else { ValidationResult::Incomplete })
    }
}

impl Helper for Words {}
