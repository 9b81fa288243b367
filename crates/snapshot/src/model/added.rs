//! Stacks that no file has: what analysis works out about memory that was recorded without lines of its own.
//!
//! They have ids after those of the file, so every surface shows them as it shows any stack. They are added once, when
//! the traces have been replayed, and are not stored.

use hashbrown::HashMap;

use super::{Frame, FrameId, Snapshot, StackId, StackTable, StrId, StringTable};

/// Frames and stacks that are about to be added to a snapshot.
#[derive(Debug)]
pub struct Additions<'a> {
    snapshot: &'a Snapshot,
    strings: StringTable,
    stacks: StackTable,
    known: HashMap<String, StrId>,
}

impl<'a> Additions<'a> {
    /// Nothing yet.
    pub fn new(snapshot: &'a Snapshot) -> Self {
        Self { snapshot, strings: StringTable::none(), stacks: StackTable::none(), known: HashMap::new() }
    }

    /// The id of a text.
    pub fn text(&mut self, text: String) -> StrId {
        let first = self.snapshot.strings.len();
        let strings = &mut self.strings;
        *self.known.entry(text).or_insert_with_key(|text| {
            let StrId(row) = strings.push(text);
            StrId::from_index(first + row as usize)
        })
    }

    /// Adds a frame.
    pub fn frame(&mut self, frame: Frame) -> FrameId {
        let row = self.stacks.push_frame(frame).index();
        FrameId::from_index(self.snapshot.stacks.frames.len() + row)
    }

    /// Adds a stack, innermost frame first.
    pub fn stack(&mut self, frames: &[FrameId]) -> StackId {
        let row = self.stacks.push_stack(frames).index();
        StackId::from_index(self.snapshot.stacks.ends.len() + row)
    }

    /// Frames that were added in stacks so far.
    pub fn len(&self) -> usize {
        self.stacks.lists.len()
    }

    /// Whether no stack was added.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Adds all of it to the snapshot. The first additions stay: they follow from the file alone.
    pub fn finish(self) {
        // Another thread that replays the same snapshot comes to the same additions.
        let _ = self.snapshot.strings.added.set(Box::new(self.strings));
        let _ = self.snapshot.stacks.added.set(Box::new(self.stacks));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_added_is_found_like_what_was_read() {
        let mut snapshot = Snapshot::default();
        let name = snapshot.strings.push("forward");
        let read = snapshot.stacks.push_frame(Frame { name, line: 3, ..Frame::default() });
        let first = snapshot.stacks.push_stack(&[read]);
        let mut additions = Additions::new(&snapshot);
        let text = additions.text("forward (backward)".to_owned());
        assert_eq!(additions.text("forward (backward)".to_owned()), text);
        let frame = additions.frame(Frame { name: text, line: 3, ..Frame::default() });
        let stack = additions.stack(&[frame, read]);
        additions.finish();
        let names: Vec<_> = snapshot.frames(stack).map(|frame| snapshot.text(frame.name)).collect();
        assert_eq!(names, ["forward (backward)", "forward"]);
        assert_eq!(snapshot.frames(first).len(), 1);
        assert_eq!((snapshot.stacks.frame_count(), snapshot.stacks.ids().len()), (2, 4));
        assert_eq!(snapshot.strings.len(), 2, "only what was read is stored");
    }
}
