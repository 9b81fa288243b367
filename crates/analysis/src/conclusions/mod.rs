//! What is concluded from the answers: what memory is for, whether it leaks, what went wrong and what to do about it.

pub(crate) mod backward;
pub mod categories;
pub(crate) mod cycles;
pub(crate) mod device_calls;
pub(crate) mod each;
pub(crate) mod growth;
pub(crate) mod heat;
pub(crate) mod insight;
pub(crate) mod known;
pub(crate) mod layers;
pub(crate) mod lives;
pub(crate) mod module_tree;
pub(crate) mod modules;
pub(crate) mod passes;
pub(crate) mod ranks;
pub(crate) mod recipe;
pub(crate) mod roles;
pub(crate) mod stacks;
pub(crate) mod steps;
pub(crate) mod stepwise;
pub(crate) mod trend;
pub(crate) mod troughs;
