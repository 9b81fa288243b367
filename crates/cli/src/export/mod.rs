//! `vramscope export`: tables for other tools.

mod args;
mod dataset;
mod formats;
mod perfetto;

pub(crate) use args::ExportArgs;
use args::ExportFormat;
#[cfg(feature = "sql")]
pub(crate) use formats::binary;

use std::io::{IsTerminal, Write};
use std::process::ExitCode;

use anyhow::bail;
use vramscope_format::Formulas;

use crate::output;
use crate::subject::open_path;

pub(crate) fn run(args: &ExportArgs, out: &mut dyn Write) -> anyhow::Result<ExitCode> {
    if let Some(folder) = &args.dataset {
        return dataset::write(&args.paths, folder, args.cache.cache().as_ref(), out);
    }
    let [path] = args.paths.as_slice() else { bail!("several paths; write them with --dataset DIR") };
    let is_binary = matches!(args.format(), ExportFormat::Arrow | ExportFormat::Parquet);
    if is_binary && args.file.path().is_none() && std::io::stdout().is_terminal() {
        bail!("this format is not for a terminal; name a file with -o");
    }
    if !is_binary && args.keys.is_some() {
        bail!("--keys needs --format arrow or parquet");
    }
    let subjects = open_path(path, &args.filter, &args.cache)?;
    output::write_to(&args.file, &args.paths, out, |out| {
        if args.format() == ExportFormat::Perfetto {
            return perfetto::write(&subjects, out);
        }
        let formulas = if args.escape_formulas { Formulas::Escape } else { Formulas::Keep };
        formats::write(&subjects, args, formulas, out)
    })?;
    Ok(ExitCode::SUCCESS)
}
