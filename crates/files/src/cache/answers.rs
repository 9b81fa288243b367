//! Answers that were worked out from an entry before, so that asking again costs nothing, however long the trace is.

use std::io;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use serde::{Deserialize, Serialize};
use vramscope_mapped::{Buffer, Check, Store};
use vramscope_snapshot::stored::{get_small, put_small};
use xxhash_rust::xxh3::xxh3_64;

use super::{Cache, Fingerprint, build, open_private};
use crate::regular::{Links, open_regular};
use crate::sidecar::{self, Folders};

/// What was printed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Answer {
    /// On standard output, before it is laid out.
    pub text: Buffer<u8>,
    /// On standard error.
    pub warnings: Vec<String>,
}

impl Answer {
    /// Longer answers are not kept: they are data, and would take as much memory to print again.
    pub const MOST_BYTES: usize = 48 << 20;
}

/// A question about a file in the state that it has now.
#[derive(Clone, Debug)]
pub struct Question {
    cache: Cache,
    label: Label,
}

/// What an answer is to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Label {
    build: String,
    source: Fingerprint,
    question: String,
}

impl Cache {
    /// A question, in any words that stand for the same answer each time; `None` if the file is not one that is cached.
    pub fn question(&self, path: &Path, question: String) -> Option<Question> {
        let (mut file, _) = open_regular(path, Links::Follow, u64::MAX).ok()?;
        let source =
            Fingerprint::new(path, &mut file, &sidecar::find(path, &Folders::default())).ok().flatten()?;
        let label = Label { build: build().to_owned(), source, question };
        Some(Question { cache: self.clone(), label })
    }
}

impl Question {
    fn file(&self) -> PathBuf {
        let entry = self.cache.entry(&self.label.source);
        let entry = entry.file_stem().unwrap_or_default().to_string_lossy();
        let question = xxh3_64(self.label.question.as_bytes());
        self.cache.folder.join(format!("{entry}-{question:016x}.answer"))
    }

    /// The answer, if it was given before.
    pub fn recall(&self) -> Option<Answer> {
        let file = open_private(&self.file()).ok()?;
        let is_wanted =
            |label: &[u8]| serde_json::from_slice(label).is_ok_and(|label: Label| label == self.label);
        let store = Store::open(&file, Check::Now, is_wanted).ok()??;
        let answer = Answer { text: store.get("text").ok()?, warnings: get_small("warnings", &store).ok()? };
        let _ = file.set_modified(SystemTime::now());
        Some(answer)
    }

    /// Whether there is an entry that an answer could have been worked out from.
    pub fn is_cached(&self) -> bool {
        self.cache.has(&self.label.source)
    }

    /// Keeps an answer for the next time.
    pub fn keep(&self, answer: &Answer) {
        let _ = self.try_keep(answer);
    }

    fn try_keep(&self, answer: &Answer) -> io::Result<()> {
        if answer.text.len() > Answer::MOST_BYTES {
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        let written = self.cache.write_columns(self.file(), &self.label, |out| {
            out.put("text", &answer.text)?;
            put_small("warnings", &answer.warnings, out)
        });
        self.cache.keep(written?)
    }
}
