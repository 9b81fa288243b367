//! Call stacks: frames, and the lists of frames that make stacks.
//!
//! Frames and stacks are interned by value. A real file of 19 936 events holds 12 664 frame lists and
//! only 226 distinct stacks, so events carry a [`StackId`] and comparing stacks is comparing numbers.
//! Stacks lie end to end in one buffer of frame ids, innermost frame first, as PyTorch writes them.

use std::sync::OnceLock;

use bytemuck::{Pod, Zeroable};
use vramscope_mapped::Buffer;

use super::{FrameId, StackId, StrId};

/// One line of a call stack.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Pod, Zeroable)]
#[repr(C)]
pub struct Frame {
    /// Function name, or a demangled C++ signature.
    pub name: StrId,
    /// File path; `??` for C++ code without debug information.
    pub file: StrId,
    /// Line number; 0 where it is not known.
    pub line: u32,
    /// What `torch.fx` knows of this frame; 0 for nothing. A row of [`StackTable::fx`] plus one.
    pub fx: u32,
}

/// What `augment_with_fx_traces=True` adds to a frame of generated code.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Pod, Zeroable)]
#[repr(C)]
pub struct Fx {
    /// Kind of graph node.
    pub op: StrId,
    /// Name of the graph node.
    pub name: StrId,
    /// What the node calls.
    pub target: StrId,
    /// The lines of the model that the node was traced from.
    pub original_trace: StrId,
}

/// Distinct frames and distinct stacks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StackTable {
    pub(crate) frames: Buffer<Frame>,
    pub(crate) fx: Buffer<Fx>,
    pub(crate) ends: Buffer<u64>,
    pub(crate) lists: Buffer<FrameId>,
    /// Frames and stacks of [`Additions`](super::Additions), with ids after these.
    pub(crate) added: OnceLock<Box<Self>>,
}

impl Default for StackTable {
    /// The two stacks that are always there: absent, and empty.
    fn default() -> Self {
        Self { ends: vec![0, 0].into(), ..Self::none() }
    }
}

impl StackTable {
    /// Not even the two that are always there.
    pub(crate) fn none() -> Self {
        Self {
            frames: Buffer::new(),
            fx: Buffer::new(),
            ends: Buffer::new(),
            lists: Buffer::new(),
            added: OnceLock::new(),
        }
    }

    /// The frames of a stack, innermost first.
    #[inline]
    pub fn get(&self, id: StackId) -> &[FrameId] {
        let row = id.index();
        if row >= self.ends.len() {
            return self.get_added(row);
        }
        let start = if row == 0 { 0 } else { self.ends.get(row - 1).copied().unwrap_or(u64::MAX) as usize };
        self.ends.get(row).and_then(|&end| self.lists.slice(start..end as usize)).unwrap_or_default()
    }

    #[cold]
    fn get_added(&self, row: usize) -> &[FrameId] {
        let added = self.added.get();
        added.map(|added| added.get(StackId::from_index(row - self.ends.len()))).unwrap_or_default()
    }

    /// A frame; an empty one for an id from elsewhere.
    #[inline]
    pub fn frame(&self, id: FrameId) -> Frame {
        self.frames.get(id.index()).copied().unwrap_or_else(|| self.added_frame(id))
    }

    #[cold]
    fn added_frame(&self, id: FrameId) -> Frame {
        let added = self.added.get().map(|added| &added.frames);
        let row = id.index().checked_sub(self.frames.len());
        added.zip(row).and_then(|(frames, row)| frames.get(row)).copied().unwrap_or_default()
    }

    /// What `torch.fx` knows of a frame.
    pub fn fx(&self, frame: Frame) -> Option<Fx> {
        let row = frame.fx.checked_sub(1)?;
        self.fx.get(row as usize).copied()
    }

    /// Every stack, the absent and the empty one and those that were added included.
    pub fn ids(&self) -> impl ExactSizeIterator<Item = StackId> + use<> {
        let added = self.added.get().map_or(0, |added| added.ends.len());
        (0..(self.ends.len() + added) as u32).map(StackId)
    }

    /// Every stack that was read, the absent and the empty one included.
    pub fn recorded(&self) -> impl ExactSizeIterator<Item = StackId> + use<> {
        (0..self.ends.len() as u32).map(StackId)
    }

    /// Number of distinct stacks with frames that were read.
    pub fn len(&self) -> usize {
        self.ends.len() - 2
    }

    /// Whether no stack has frames.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Number of frames, those that were added included.
    pub fn frame_count(&self) -> usize {
        self.frames.len() + self.added.get().map_or(0, |added| added.frames.len())
    }

    /// Adds a frame without looking whether it is there already.
    pub(crate) fn push_frame(&mut self, frame: Frame) -> FrameId {
        self.frames.push(frame);
        FrameId::from_index(self.frames.len() - 1)
    }

    /// Adds a stack without looking whether it is there already.
    pub(crate) fn push_stack(&mut self, frames: &[FrameId]) -> StackId {
        let id = StackId::from_index(self.ends.len());
        self.lists.to_mut().extend_from_slice(frames);
        self.ends.push(self.lists.len() as u64);
        id
    }
}
