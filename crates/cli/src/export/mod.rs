//! `vramscope export`: tables for other tools.

mod formats;
mod perfetto;
mod tables;

use std::io::{IsTerminal, Write};
use std::process::ExitCode;

use anyhow::bail;
use vramscope_format::Formulas;

use crate::args::{ExportArgs, ExportFormat};
use crate::output;
use crate::subject::open_path;

pub(crate) fn run(args: &ExportArgs, out: &mut dyn Write) -> anyhow::Result<ExitCode> {
    let binary = matches!(args.format, ExportFormat::Arrow | ExportFormat::Parquet);
    if binary && args.file.path().is_none() && std::io::stdout().is_terminal() {
        bail!("this format is not for a terminal; name a file with -o");
    }
    let subjects = open_path(&args.path, &args.filter, &args.cache)?;
    output::write_to(&args.file, std::slice::from_ref(&args.path), out, |out| {
        if args.format == ExportFormat::Perfetto {
            return perfetto::write(&subjects, out);
        }
        let formulas = if args.escape_formulas { Formulas::Escape } else { Formulas::Keep };
        formats::write(&subjects, args.table, args.format, formulas, out)
    })?;
    Ok(ExitCode::SUCCESS)
}
