//! What happens to files while a viewer looks on.

use serde::{Deserialize, Serialize};

use crate::{FleetView, Source};

/// What happened outside the window.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum News {
    /// Reading goes on.
    Reading {
        /// Which file.
        name: String,
        /// Bytes read.
        done: u64,
        /// Bytes in all.
        total: u64,
    },
    /// A file is open.
    Opened {
        /// Which file.
        name: String,
        /// Its devices.
        sources: Vec<Source>,
    },
    /// A file could not be opened.
    Failed {
        /// Which file.
        name: String,
        /// Why, in a sentence.
        message: String,
    },
    /// There are many files: the first is opened, and of the others only figures are kept.
    Many {
        /// Their names.
        names: Vec<String>,
    },
    /// More is known of many files.
    Fleet(Box<FleetView>),
    /// Nothing more is being read.
    Idle,
}
