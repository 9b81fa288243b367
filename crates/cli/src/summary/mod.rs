//! `vramscope summary`: each file on one screen.

mod chart;
mod print;
mod report;

use std::io::Write;
use std::process::ExitCode;

use serde::Serialize;

pub(crate) use report::File;

use crate::args::SummaryArgs;
use crate::{batch, text};

pub(crate) fn run(args: &SummaryArgs, out: &mut dyn Write) -> anyhow::Result<ExitCode> {
    let read = batch::open(&args.sources, File::new)?;
    print(&read.values, args.sources.output.json, out)?;
    Ok(read.finish(out, 0)?)
}

/// Prints as JSON or as text, and warnings where people see them.
pub(crate) fn print(files: &[File], json: bool, out: &mut dyn Write) -> anyhow::Result<()> {
    if json {
        vramscope_files::json(&mut *out, &Summary { schema: "vramscope/summary/1", files })?;
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
    files: &'a [File],
}
