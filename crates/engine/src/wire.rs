//! Messages as bytes, and what a transport with several sessions has to know of them.

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::protocol::{Request, Source};

/// A message as bytes, for a worker or a socket.
pub fn encode<T: Serialize>(message: &T) -> Vec<u8> {
    // Writing to memory fails only for types without a known length, which no message has.
    postcard::to_stdvec(message).unwrap_or_default()
}

/// A message from bytes; `None` if they are none.
pub fn decode<T: DeserializeOwned>(bytes: &[u8]) -> Option<T> {
    postcard::from_bytes(bytes).ok()
}

impl Request {
    /// The devices that it is about, to be renumbered.
    pub fn sources(&mut self) -> Vec<&mut Source> {
        match self {
            Self::Summary(of)
            | Self::Insights(of)
            | Self::Rank(of)
            | Self::Tile { of, .. }
            | Self::Lanes { of, .. }
            | Self::Outline { of, .. }
            | Self::Curve { of, .. }
            | Self::Moment { of, .. }
            | Self::Details { of, .. }
            | Self::State { of, .. }
            | Self::Tree { of, .. }
            | Self::Allocations { of, .. }
            | Self::Stacks { of, .. }
            | Self::Lifetimes { of, .. }
            | Self::Search { of, .. }
            | Self::Convert { of, .. } => vec![of],
            Self::Diff { before, after, .. } => vec![&mut before.0, &mut after.0],
        }
    }
}
