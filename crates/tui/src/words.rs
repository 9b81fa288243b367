//! Numbers and places as every view writes them.

use vramscope_analysis::Line;
use vramscope_snapshot::{Frame, Snapshot, StackId};

pub(crate) use vramscope_format::{
    bytes as signed, change, count, duration, fit, fit_end, plural, pool, printable, size as bytes, time,
    wrap,
};

/// A part of a whole as a percentage of five characters.
pub(crate) fn percent(part: u64, whole: u64) -> String {
    format!("{:>5}", vramscope_format::share(part, whole))
}

/// Where in the program: `train.py:88 forward`.
pub(crate) fn place(snapshot: &Snapshot, stack: StackId) -> String {
    line(&Line::of(snapshot, stack))
}

/// A frame in a few words.
pub(crate) fn frame(snapshot: &Snapshot, frame: Frame) -> String {
    line(&Line::new(snapshot, frame))
}

/// A line in a few words.
pub(crate) fn line(line: &Line) -> String {
    printable(&line.short())
}

/// A frame with its whole path.
pub(crate) fn long(file: &str, line: u32, name: &str) -> String {
    printable(&vramscope_format::frame_text(file, line, name))
}
