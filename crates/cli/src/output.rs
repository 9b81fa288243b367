//! Files that commands write.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;

use anyhow::Context;

/// Writes to a file, or to standard output if none is named. A file that exists is overwritten only if
/// that was asked for, and a new one is complete or not there.
pub(crate) fn write_to(
    path: Option<&Path>,
    force: bool,
    out: &mut dyn Write,
    write: impl FnOnce(&mut dyn Write) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    let Some(path) = path else { return write(out) };
    let mut options = File::options();
    options.write(true).create(true).truncate(true);
    if !force {
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
