//! Marks that the program made with `record_function`.

use super::{DeviceId, StrId};
use serde::{Deserialize, Serialize};

/// Which end of a span a mark is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Stage {
    /// The span begins.
    #[default]
    Start,
    /// The span ends.
    End,
}

/// One mark. Threads interleave and carry no id, so spans are made by pairing names.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Annotation {
    /// Name of the span.
    pub name: StrId,
    /// Which end.
    pub stage: Stage,
    /// The current device of the thread that made it.
    pub device: DeviceId,
    /// Microseconds since the Unix epoch.
    pub time_us: i64,
}
