//! How a conclusion is known. Every conclusion carries it, and every surface shows it.

use serde::{Deserialize, Serialize};

/// How a conclusion is known, surest first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum KnownBy {
    /// The file says so: metadata, an annotation, the profiler's own category, a role that the recorder listed beside
    /// it, or a rule of the user.
    Recorded,
    /// It follows from the events: who allocated the block and when it was freed.
    Certain,
    /// It fits everything that the run shows, and other explanations are rare.
    Likely,
    /// The file cannot tell.
    #[default]
    Unknown,
}

impl KnownBy {
    /// All of them, surest first.
    pub const ALL: [Self; 4] = [Self::Recorded, Self::Certain, Self::Likely, Self::Unknown];

    /// The word that JSON, tables and people read.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Recorded => "recorded",
            Self::Certain => "certain",
            Self::Likely => "likely",
            Self::Unknown => "unknown",
        }
    }

    /// A conclusion with how it is known: `activations (likely)`. What is unknown says so itself.
    pub fn beside(self, conclusion: &str) -> String {
        if conclusion == self.name() {
            conclusion.to_owned()
        } else {
            format!("{conclusion} ({})", self.name())
        }
    }

    /// One sentence for help and docs.
    pub const fn about(self) -> &'static str {
        match self {
            Self::Recorded => "the file or a rule of yours says so",
            Self::Certain => "it follows from the events",
            Self::Likely => "it fits what the run shows",
            Self::Unknown => "the file cannot tell",
        }
    }
}
