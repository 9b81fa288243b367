//! `vramscope sql`: queries over snapshots, folders of ranks and datasets.

#[cfg(feature = "sql")]
mod answer;
mod args;
#[cfg(feature = "sql")]
mod grid;
#[cfg(feature = "sql")]
mod prompt;

pub(crate) use args::SqlArgs;

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::{Context, ensure};
use serde_json::json;
use vramscope_analysis::tables::Whole;
use vramscope_dataset::{KEYS, Source, VIEWS, columns, view};
use vramscope_engine::Sql;
use vramscope_format::table::{Column, Kind};

use crate::batch::joined;
use crate::text;

/// What answers SQL in the window and in the page that is served; none where it is not built in.
pub(crate) fn for_viewers() -> Option<Arc<dyn Sql>> {
    #[cfg(feature = "sql")]
    return Some(Arc::new(vramscope_sql::OpenFiles::default()));
    #[cfg(not(feature = "sql"))]
    None
}

pub(crate) fn run(args: &SqlArgs, out: &mut dyn Write) -> anyhow::Result<ExitCode> {
    if args.list {
        return list(args, out);
    }
    if let Some(name) = &args.print {
        let view =
            view(name).with_context(|| format!("no view '{name}'; vramscope sql --list shows them"))?;
        write!(out, "{}", view.sql)?;
        return Ok(ExitCode::SUCCESS);
    }
    let (paths, query) = split(&args.words)?;
    let (source, errors) = Source::new(&paths, args.output.cache.cache())?;
    ensure!(!source.files().is_empty(), joined(&errors));
    for error in &errors {
        text::complain(&error.to_string());
    }
    if args.files {
        return files(&source, out);
    }
    #[cfg(feature = "sql")]
    return answer::run(args, source, &paths, query, out);
    #[cfg(not(feature = "sql"))]
    {
        let _ = query;
        anyhow::bail!(
            "this build has no SQL engine. The wheel and the released programs have one: pip install vramscope. \
             From source: cargo build --release --features sql"
        )
    }
}

/// The paths, and the query behind them: the last word, if it names a view or has several words and is no path.
fn split(words: &[PathBuf]) -> anyhow::Result<(Vec<PathBuf>, Option<String>)> {
    let (last, before) = words.split_last().context("name a snapshot, a folder of ranks or a dataset")?;
    let word = last.to_string_lossy();
    let is_query = !last.exists()
        && last != Path::new("-")
        && (word.contains(char::is_whitespace) || view(&word).is_some());
    if !is_query {
        return Ok((words.to_vec(), None));
    }
    anyhow::ensure!(!before.is_empty(), "name a snapshot, a folder of ranks or a dataset before the query");
    let query = view(&word).map_or_else(|| word.into_owned(), |view| view.sql.to_owned());
    Ok((before.to_vec(), Some(query)))
}

fn list(args: &SqlArgs, out: &mut dyn Write) -> anyhow::Result<ExitCode> {
    if args.output.json {
        let views: Vec<_> = VIEWS
            .iter()
            .map(|view| json!({"name": view.name, "about": view.about(), "sql": view.sql}))
            .collect();
        let tables: Vec<_> = Whole::ALL.into_iter().map(table).collect();
        let report = json!({"schema": "vramscope/views/1", "views": views, "tables": tables});
        vramscope_files::json(&mut *out, &report)?;
        writeln!(out)?;
        return Ok(ExitCode::SUCCESS);
    }
    let widest = VIEWS.iter().map(|view| view.name.len()).max().unwrap_or(0);
    for view in VIEWS {
        writeln!(out, "{:<widest$}  {}", view.name, view.about())?;
    }
    Ok(ExitCode::SUCCESS)
}

/// A table with its keys, and the types that SQL has for its columns.
fn table(table: Whole) -> serde_json::Value {
    let column = |column: &Column| {
        let kind = match column.kind {
            Kind::Flag => "boolean",
            Kind::I32 => "int",
            Kind::U32 | Kind::I64 | Kind::U64 => "bigint",
            Kind::Text => "string",
        };
        json!({"name": column.name, "type": kind, "about": column.about})
    };
    let columns: Vec<_> = KEYS.iter().chain(&columns(table)).map(column).collect();
    json!({"name": table.name(), "columns": columns})
}

/// The files that the paths stand for, for readers that divide them among machines.
fn files(source: &Source, out: &mut dyn Write) -> anyhow::Result<ExitCode> {
    let files: Vec<_> = source
        .files()
        .iter()
        .map(|file| {
            let key = &file.key;
            json!({"path": file.path.to_string_lossy(), "run": key.run, "step": key.step, "rank": key.rank})
        })
        .collect();
    vramscope_files::json(&mut *out, &json!({"schema": "vramscope/files/1", "files": files}))?;
    writeln!(out)?;
    Ok(ExitCode::SUCCESS)
}
