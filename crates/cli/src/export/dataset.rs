//! `vramscope export --dataset`: all tables of many files.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use vramscope_files::{Cache, find};

use crate::batch::joined;
use crate::progress::Bar;
use crate::text;

pub(super) fn write(
    paths: &[PathBuf],
    folder: &Path,
    cache: Option<&Cache>,
    out: &mut dyn Write,
) -> anyhow::Result<ExitCode> {
    let (inputs, errors) = find(paths);
    anyhow::ensure!(!inputs.is_empty(), joined(&errors));
    vramscope_files::remove_unfinished_on_signals();
    let bar = Bar::new(&inputs);
    let written = vramscope_dataset::write(&inputs, folder, cache, &bar)?;
    drop(bar);
    let skipped = match written.skipped {
        0 => String::new(),
        skipped => format!(", {} complete from before", text::plural(skipped, "file")),
    };
    writeln!(
        out,
        "{}: {} written as {}{skipped}",
        text::path(folder),
        text::plural(written.files, "file"),
        text::size(written.bytes)
    )?;
    out.flush()?;
    for error in &errors {
        text::complain(&error.to_string());
    }
    for problem in &written.problems {
        text::complain(&problem.problem);
    }
    let is_fine = errors.is_empty() && written.problems.is_empty();
    Ok(if is_fine { ExitCode::SUCCESS } else { ExitCode::from(2) })
}
