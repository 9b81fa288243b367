//! Stacks in JSON, written as they are walked: thousands of rows may share one long stack, which is in memory once.

use serde::{Serialize, Serializer};
use vramscope_analysis::user_frame;
use vramscope_snapshot::{Snapshot, StackId};

use crate::output::FrameJson;

/// Frames of a stack, innermost first.
pub(crate) enum StackJson<'a> {
    /// All of them.
    Whole(&'a Snapshot, StackId),
    /// The user's own line alone.
    Line(&'a Snapshot, StackId),
}

impl Serialize for StackJson<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match *self {
            Self::Whole(snapshot, stack) => {
                serializer.collect_seq(snapshot.frames(stack).map(|frame| FrameJson::new(snapshot, frame)))
            }
            Self::Line(snapshot, stack) => {
                let line = user_frame(snapshot, stack).map(|frame| FrameJson::new(snapshot, frame));
                serializer.collect_seq(line)
            }
        }
    }
}
