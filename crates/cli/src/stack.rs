//! Stacks in JSON, written as they are walked: thousands of rows may share one long stack, which is in memory once.

use serde::{Serialize, Serializer};
use vramscope_snapshot::{Snapshot, StackId};

use crate::output::FrameJson;

/// Frames of a stack, innermost first.
pub(crate) struct StackJson<'a>(pub(crate) &'a Snapshot, pub(crate) StackId);

impl Serialize for StackJson<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Self(snapshot, stack) = *self;
        serializer.collect_seq(snapshot.frames(stack).map(|frame| FrameJson::new(snapshot, frame)))
    }
}
