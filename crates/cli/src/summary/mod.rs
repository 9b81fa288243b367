//! `vramscope summary`: each file on one screen.

mod chart;
mod html;
mod limit;
mod print;
mod report;

use std::io::Write;
use std::process::ExitCode;

use serde::Serialize;

pub(crate) use html::{Figure, Piece, bar, css};
pub(crate) use limit::Limit;
pub(crate) use report::File;

use crate::args::SummaryArgs;
use crate::{batch, text};

pub(crate) fn run(args: &SummaryArgs, out: &mut dyn Write) -> anyhow::Result<ExitCode> {
    let read = batch::open(&args.sources, File::new)?;
    let mut exceeded = Vec::new();
    for (limit, file) in
        args.fail_on.iter().flat_map(|limit| read.values.iter().map(move |file| (limit, file)))
    {
        exceeded.extend(limit.exceeded(file)?);
    }
    print_with(&read.values, &exceeded, args.sources.output.json, out)?;
    exceeded.iter().for_each(|limit| text::complain(limit));
    Ok(read.finish(out, u8::from(!exceeded.is_empty()))?)
}

/// Prints as JSON or as text, and warnings where people see them.
pub(crate) fn print(files: &[File], json: bool, out: &mut dyn Write) -> anyhow::Result<()> {
    print_with(files, &[], json, out)
}

fn print_with(files: &[File], exceeded: &[String], json: bool, out: &mut dyn Write) -> anyhow::Result<()> {
    if json {
        vramscope_files::json(&mut *out, &Summary { schema: "vramscope/summary/1", exceeded, files })?;
        writeln!(out)?;
    } else {
        for (number, file) in files.iter().enumerate() {
            if number > 0 {
                writeln!(out)?;
            }
            file.print(out)?;
        }
    }
    out.flush()?;
    for file in files {
        for warning in &file.warnings {
            text::complain(&format!("warning: {}: {warning}", file.path));
        }
    }
    Ok(())
}

#[derive(Serialize)]
struct Summary<'a> {
    schema: &'static str,
    /// Limits of --fail-on that are exceeded.
    exceeded: &'a [String],
    files: &'a [File],
}
