//! The session behind a viewer: requests in, answers out.
//!
//! A [`Session`] owns opened snapshots and answers a [`Request`] with a [`Response`]. It knows no thread,
//! path or clock: a transport carries the messages, on a thread of the same process, in a Web Worker or over
//! HTTP, and all of them use the same encoding ([`encode`]). [`Queue`] is what all transports share: the newest
//! request is answered first, and one that was replaced in the meantime is dropped.
//!
//! A request is a type of its own ([`AskTile`], [`AskState`], …) that knows the type of its answer ([`Ask`]).
//! Indices that a request needs are built when it first comes, and kept.

mod answers;
mod cells;
pub mod color;
mod details;
mod device;
mod events;
mod fleet;
mod here;
mod insights;
mod lifetimes;
mod map;
mod news;
mod overview;
pub mod paint;
mod protocol;
mod queue;
mod range;
mod report;
mod rows;
mod scheme;
mod search;
mod session;
mod sets;
mod sql;
mod tiles;
mod tree;
mod trials;
mod whatif;
mod wire;

pub use answers::*;
pub use details::{Details, FrameInfo, Neighbour, Tenant};
pub use events::EventRow;
pub use fleet::{Figures, Fleet, FleetView, OddRank, odd_ranks};
pub use here::{By, Here, HereRow};
pub use insights::{Insight, Insights, rank_insights};
pub use news::News;
pub use protocol::*;
pub use queue::{Asked, Queue};
pub use range::{LineChange, RangeChange};
pub use report::{Report, ReportOf, ReportRow};
pub use session::{OpenFile, Session};
pub use sets::{Group, SetLevels};
pub use sql::{OpenSnapshot, Sql, SqlCatalog, SqlColumn, SqlResult, SqlRows, SqlView};
pub use trials::{Trial, Trials};
pub use whatif::{Simulable, Simulated, SimulatedMap, SimulatedRange};
pub use wire::{PROTOCOL, WireError, decode, encode};

pub use vramscope_analysis::pictures::Axis;

/// The recording that is built in, packed with xz: a batch size that doubles until the device is full, dumped when
/// memory ran out.
pub const DEMO: &[u8] = include_bytes!("../demo/oom.pickle.xz");
