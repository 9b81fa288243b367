//! What can be asked of a replay: each module is one question, answered from the events alone.

pub(crate) mod capacity;
pub(crate) mod compare;
pub(crate) mod device;
pub(crate) mod difftree;
pub(crate) mod envelope;
pub(crate) mod fragmentation;
pub(crate) mod frames;
pub(crate) mod gap;
pub(crate) mod minimum;
pub(crate) mod overlap;
pub(crate) mod pending;
pub(crate) mod phases;
pub(crate) mod pins;
pub(crate) mod pool_table;
pub mod pools;
pub(crate) mod room;
pub(crate) mod scaling;
pub mod shapes;
pub(crate) mod spans;
pub(crate) mod tree;
pub(crate) mod weights;
pub mod whatif;
