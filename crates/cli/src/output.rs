//! What commands write: files, and the parts that several JSON reports share.

use std::fs::File;
use std::io::{BufWriter, Write};

use anyhow::Context;
use serde::Serialize;
use vramscope_snapshot::{Frame, Snapshot};

use crate::args::FileArgs;

/// A line of the program, as every report has it.
#[derive(Serialize)]
pub(crate) struct FrameJson<'a> {
    pub(crate) name: &'a str,
    pub(crate) file: &'a str,
    pub(crate) line: u32,
}

impl<'a> FrameJson<'a> {
    pub(crate) fn new(snapshot: &'a Snapshot, frame: Frame) -> Self {
        Self { name: snapshot.text(frame.name), file: snapshot.text(frame.file), line: frame.line }
    }
}

/// Writes to a file, or to standard output if none is named. A file that exists is overwritten only if
/// that was asked for, and a new one is complete or not there.
pub(crate) fn write_to(
    args: &FileArgs,
    _inputs: &[&std::path::PathBuf],
    out: &mut dyn Write,
    write: impl FnOnce(&mut dyn Write) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    let Some(path) = &args.output_file else { return write(out) };
    let mut options = File::options();
    options.write(true).create(true).truncate(true);
    if !args.force {
        options.create_new(true);
    }
    let file = options.open(path).with_context(|| match path.is_file() {
        true => format!("{}: not overwritten; --force does", path.display()),
        false => path.display().to_string(),
    })?;
    let mut file = BufWriter::with_capacity(1 << 16, file);
    let result = write(&mut file).and_then(|()| Ok(file.flush()?));
    if result.is_err() {
        // Half a file would look like a whole one.
        std::fs::remove_file(path).ok();
    }
    result
}
