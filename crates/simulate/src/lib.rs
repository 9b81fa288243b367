//! What PyTorch's caching allocator would have done with a recording's requests under other settings.
//!
//! The allocator is deterministic but for the addresses that the device gives it. [`requests`] takes what the program
//! asked for out of a recording, [`Settings`] says how to serve it, [`Simulator::run`] does that and counts as
//! PyTorch counts. [`Order`] stands for the device.
//!
//! Nothing here uses the replay of `vramscope-analysis`: that goes from events to blocks, this goes from requests to
//! events, so that each can be checked by the other.

mod addresses;
mod allocator;
mod answer;
mod check;
mod extract;
mod requests;
mod run;
mod settings;
mod watch;

#[cfg(test)]
mod rules_tests;

pub use addresses::Order;
pub use allocator::{Counters, SimulatedSegment};
pub use answer::{Answer, Study, StudyError};
pub use check::{Agreement, Difference, Refusal};
pub use extract::{ExtractError, requests};
pub use requests::{Action, DeviceCall, Facts, Kind, Place, Requests, Step};
pub use run::{End, OutOfMemory, Outcome, Simulator};
pub use settings::{Settings, SettingsError};
pub use watch::{Curve, Levels, Moments, Observer, WhileWanted};
