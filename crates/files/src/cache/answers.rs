//! Answers that were worked out from an entry before, so that asking again costs nothing, however long the trace is.

use std::io;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use serde::{Deserialize, Serialize};
use vramscope_mapped::{Access, Store, Writer};
use vramscope_snapshot::stored::{get_small, put_small};
use xxhash_rust::xxh3::xxh3_64;

use super::{Cache, Fingerprint, build, make_private};
use crate::regular::{Links, open_regular};
use crate::sidecar;

/// Longer answers are data: printing them takes longer than working them out.
const MOST_BYTES: usize = 1 << 20;

/// What was printed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Answer {
    /// On standard output.
    pub text: Vec<u8>,
    /// On standard error.
    pub warnings: Vec<String>,
}

/// A question about a file in the state that it has now.
#[derive(Clone, Debug)]
pub struct Question {
    cache: Cache,
    path: PathBuf,
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
        let source = Fingerprint::new(path, &mut file, &sidecar::find(path)).ok().flatten()?;
        let label = Label { build: build().to_owned(), source, question };
        Some(Question { cache: self.clone(), path: path.to_owned(), label })
    }
}

impl Question {
    /// The file that it is about, as it was named.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Bytes of that file.
    pub fn bytes(&self) -> u64 {
        self.label.source.bytes()
    }

    fn file(&self) -> PathBuf {
        let entry = self.cache.entry(&self.label.source);
        let entry = entry.file_stem().unwrap_or_default().to_string_lossy();
        let question = xxh3_64(self.label.question.as_bytes());
        self.cache.folder.join(format!("{entry}-{question:016x}.answer"))
    }

    /// The answer, if it was given before.
    pub fn recall(&self) -> Option<Answer> {
        let (file, _) = open_regular(&self.file(), Links::Refuse, 4 * MOST_BYTES as u64).ok()?;
        let is_wanted =
            |label: &[u8]| serde_json::from_slice(label).is_ok_and(|label: Label| label == self.label);
        let store = Store::open(&file, Access::Copied, is_wanted).ok()??;
        let answer = get_small("answer", &store).ok()?;
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
        if answer.text.len() > MOST_BYTES {
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        make_private(&self.cache.folder)?;
        let file = tempfile::NamedTempFile::new_in(&self.cache.folder)?;
        let mut out = Writer::new(file.as_file(), u64::MAX)?;
        put_small("answer", answer, &mut out)?;
        let bytes = out.finish(&serde_json::to_vec(&self.label)?)?;
        self.cache.make_room(bytes)?;
        file.persist(self.file())?;
        Ok(())
    }
}
