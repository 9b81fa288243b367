//! Stacks, as text and in JSON. JSON is written as they are walked: thousands of rows may share one long stack, which is
//! in memory once.

use std::io::Write;

use serde::{Serialize, Serializer};
use vramscope_snapshot::{Snapshot, StackId};

use crate::output::FrameJson;
use crate::subject::Subject;
use crate::text;

/// Frames of a stack, innermost first.
pub(crate) struct StackJson<'a>(pub(crate) &'a Snapshot, pub(crate) StackId);

impl Serialize for StackJson<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Self(snapshot, stack) = *self;
        serializer.collect_seq(snapshot.frames(stack).map(|frame| FrameJson::new(snapshot, frame)))
    }
}

/// Writes the frames of a stack that are to be shown, innermost first, one per line; or why there are none.
pub(crate) fn print(subject: &Subject, stack: StackId, out: &mut dyn Write) -> std::io::Result<()> {
    let snapshot = subject.snapshot();
    let all = snapshot.stacks.get(stack);
    let is_own = all.iter().any(|&frame| subject.shows(frame));
    let (mut shown, mut hidden) = (0, 0);
    for &id in all {
        // A stack of nothing but internal frames is shown whole.
        if is_own && !subject.shows(id) {
            hidden += 1;
            continue;
        }
        shown += 1;
        let frame = snapshot.stacks.frame(id);
        let (file, name) = (snapshot.text(frame.file), snapshot.text(frame.name));
        let source = snapshot
            .extras
            .source_line(file, frame.line)
            .map_or_else(String::new, |line| format!("  │ {}", line.trim()));
        // Installed packages are named from their folder on; JSON has whole paths.
        let file = file.rsplit_once("-packages/").map_or(file, |(_, package)| package);
        let line = format!("{}{source}", vramscope_format::frame_text(file, frame.line, name));
        writeln!(out, "    {}", text::printable(&line))?;
    }
    if shown == 0 {
        writeln!(out, "    {}", vramscope_analysis::no_frame(snapshot, stack))?;
    }
    if hidden > 0 {
        let hidden = text::plural(hidden, "internal frame");
        writeln!(out, "    ({hidden}: --hide-internal=false shows them)")?;
    }
    Ok(())
}
