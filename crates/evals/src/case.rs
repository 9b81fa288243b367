//! Cases: a recording, the program that made it, a question, and the truth.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Context;
use serde::Deserialize;

use crate::made;

/// One case of `evals/cases.json`.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Case {
    /// Its name.
    pub id: String,
    /// Where the recording is: a file below the repository's root, or `made` with a name from [`mod@made`].
    pub recording: String,
    /// The program's source below `evals/programs`, where there is one.
    #[serde(default)]
    pub program: Option<String>,
    /// What is asked.
    pub question: String,
    /// What is right.
    pub truth: Truth,
}

/// What is right.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Truth {
    /// Lines that are right, any of them, as `train.py:88`; none where no line is to blame.
    pub lines: Vec<String>,
    /// Causes that are right, any of them.
    pub causes: Vec<Cause>,
    /// What kind of change mends it.
    pub fix: String,
    /// How lines and causes are known: `program` for what the program says, else the function of `evals/truth.py` that
    /// works them out from the pickle.
    pub source: String,
}

/// Why memory is short, or why it is slow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Cause {
    /// The program needs more than there is.
    Lack,
    /// Enough is free, but not in one piece.
    Fragmentation,
    /// Enough is free, but for another pool or stream.
    OtherPool,
    /// Memory is kept from step to step.
    Leak,
    /// Segments are released and acquired again and again.
    Churn,
    /// Frees wait for another stream.
    PendingFree,
    /// Nothing is wrong.
    Healthy,
    /// The file cannot tell.
    NotRecorded,
}

impl Cause {
    /// Words that stand for a cause in a free answer; the first cause that an answer names counts.
    pub const WORDS: &[(Self, &[&str])] = &[
        (Self::Fragmentation, &["fragment"]),
        (Self::OtherPool, &["other pool", "another pool", "other stream", "another stream holds"]),
        (Self::PendingFree, &["pending free", "record_stream", "waits for another stream"]),
        (Self::Churn, &["empty_cache", "churn", "driver calls", "released and re-acquired", "cudamalloc"]),
        (Self::Leak, &["leak", "kept graph", "growth", "grows", "keeps", "kept", "retain"]),
        (
            Self::NotRecorded,
            &["not recorded", "nothing was allocated", "no stack", "cannot tell", "no history"],
        ),
        (Self::Lack, &["lack", "not enough", "too large", "needs more", "exceeds"]),
        (Self::Healthy, &["healthy", "nothing looks wrong", "nothing is wrong", "no problem"]),
    ];

    /// The cause that a text names first.
    pub fn named_first(text: &str) -> Option<Self> {
        let text = text.to_lowercase();
        let place = |words: &[&str]| words.iter().filter_map(|word| text.find(word)).min();
        let found = Self::WORDS.iter().filter_map(|(cause, words)| Some((place(words)?, *cause)));
        found.min_by_key(|(place, _)| *place).map(|(_, cause)| cause)
    }
}

/// The root of the repository.
pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Every case.
pub fn cases() -> anyhow::Result<Vec<Case>> {
    let path = root().join("evals/cases.json");
    let text = fs::read_to_string(&path).with_context(|| path.display().to_string())?;
    serde_json::from_str(&text).with_context(|| path.display().to_string())
}

impl Case {
    /// The recording as a file: the one in the repository, or a new one below `folder`.
    pub fn file(&self, folder: &Path) -> anyhow::Result<PathBuf> {
        let Some(name) = self.recording.strip_prefix("made:") else {
            return Ok(root().join(&self.recording));
        };
        let path = folder.join(format!("{}.pickle", self.id));
        fs::write(&path, made::recording(name)?)?;
        Ok(path)
    }
}
