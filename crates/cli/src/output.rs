//! What commands write: files, and the parts that several JSON reports share.

use std::io::{self, IsTerminal, Write};
use std::path::{Path, PathBuf};

use serde::Serialize;
use vramscope_files::Existing;
use vramscope_format::printable;
use vramscope_snapshot::{Frame, Snapshot};

use crate::args::FileArgs;

/// A line of the program, as every report has it.
#[derive(Serialize)]
pub(crate) struct FrameJson<'a> {
    pub(crate) name: &'a str,
    pub(crate) file: &'a str,
    pub(crate) line: u32,
    /// The text of the line, where the recorder kept it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) source: Option<&'a str>,
    /// What `torch.fx` knows of a frame of generated code.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) fx: Option<FxJson<'a>>,
}

#[derive(Serialize)]
pub(crate) struct FxJson<'a> {
    op: &'a str,
    name: &'a str,
    target: &'a str,
    /// The lines of the model that the node was traced from.
    original_trace: &'a str,
}

impl<'a> FrameJson<'a> {
    pub(crate) fn new(snapshot: &'a Snapshot, frame: Frame) -> Self {
        let (name, file) = (snapshot.text(frame.name), snapshot.text(frame.file));
        let fx = snapshot.stacks.fx(frame).map(|fx| {
            let [op, name, target, original_trace] =
                [fx.op, fx.name, fx.target, fx.original_trace].map(|text| snapshot.text(text));
            FxJson { op, name, target, original_trace }
        });
        Self { name, file, line: frame.line, source: snapshot.extras.source_line(file, frame.line), fx }
    }
}

/// JSON of each device: the object itself if there is one, else a list of them.
pub(crate) fn json_of_each<T>(
    devices: &[T],
    out: &mut dyn Write,
    mut each: impl FnMut(&T, &mut dyn Write) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    let is_list = devices.len() > 1;
    if is_list {
        write!(out, "{{\"schema\":\"vramscope/devices/1\",\"devices\":[")?;
    }
    for (number, device) in devices.iter().enumerate() {
        write!(out, "{}", if number > 0 { "," } else { "" })?;
        each(device, out)?;
    }
    Ok(writeln!(out, "{}", if is_list { "]}" } else { "" })?)
}

/// Writes to a file, or to standard output if none is named. `inputs` are the paths that the output is made from: no
/// file of theirs is ever overwritten. What goes to a terminal has nothing in it that a terminal would act on.
pub(crate) fn write_to(
    args: &FileArgs,
    inputs: &[PathBuf],
    out: &mut dyn Write,
    write: impl FnOnce(&mut dyn Write) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    let to_terminal = args.path().map_or_else(|| io::stdout().is_terminal(), is_terminal);
    let write = |out: &mut dyn Write| {
        if !to_terminal {
            return write(out);
        }
        let mut shown = Printable { out, begun: Vec::new() };
        write(&mut shown)?;
        Ok(shown.finish()?)
    };
    let Some(path) = args.path() else { return write(out) };
    vramscope_files::remove_unfinished_on_signals();
    let existing = if args.force { Existing::Replace } else { Existing::Keep };
    vramscope_files::write(path, existing, inputs, write)
}

/// Whether a path is a terminal, as `/dev/tty` is.
#[cfg(unix)]
fn is_terminal(path: &Path) -> bool {
    use std::fs::File;
    use std::os::unix::fs::FileTypeExt;
    // A pipe would wait to be opened.
    path.metadata().is_ok_and(|metadata| metadata.file_type().is_char_device())
        && File::options().append(true).open(path).is_ok_and(|file| file.is_terminal())
}

#[cfg(not(unix))]
fn is_terminal(_: &Path) -> bool {
    false
}

/// Takes out of what is written what a terminal would act on, but for the ends of lines and tabs.
struct Printable<'a> {
    out: &'a mut dyn Write,
    /// The first bytes of a character whose rest is still to come.
    begun: Vec<u8>,
}

impl Printable<'_> {
    fn show(&mut self, text: &str) -> io::Result<()> {
        for line in text.split_inclusive(['\n', '\t']) {
            let (line, end) = line.split_at(line.len() - usize::from(line.ends_with(['\n', '\t'])));
            self.out.write_all(printable(line).as_bytes())?;
            self.out.write_all(end.as_bytes())?;
        }
        Ok(())
    }

    fn finish(mut self) -> io::Result<()> {
        let rest = std::mem::take(&mut self.begun);
        self.show(&String::from_utf8_lossy(&rest))
    }
}

impl Write for Printable<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.begun.extend_from_slice(bytes);
        let taken = std::mem::take(&mut self.begun);
        // Up to three bytes may be the beginning of a character; whatever else is odd is no character at all.
        let whole = match std::str::from_utf8(&taken) {
            Err(error) if error.error_len().is_none() => error.valid_up_to(),
            _ => taken.len(),
        };
        let (whole, rest) = taken.split_at(whole);
        self.begun = rest.to_vec();
        self.show(&String::from_utf8_lossy(whole))?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test")]
mod tests {
    use super::*;

    #[test]
    fn a_terminal_is_shown_text_only() {
        let text = "a\x1b]0;x\x07b\u{9b}2J\té\n日\u{202e}";
        for size in 1..8 {
            let mut out = Vec::new();
            let mut shown = Printable { out: &mut out, begun: Vec::new() };
            for piece in text.as_bytes().chunks(size) {
                shown.write_all(piece).unwrap();
            }
            shown.write_all(b"\xe6").unwrap();
            shown.finish().unwrap();
            let expected = "a\u{fffd}]0;x\u{fffd}b\u{fffd}2J\té\n日\u{fffd}\u{fffd}";
            assert_eq!(String::from_utf8(out).unwrap(), expected);
        }
    }
}
