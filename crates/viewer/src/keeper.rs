//! What is kept from one time to the next is written on a thread of its own: a disk takes its time to sync, and a frame
//! never waits.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Sender, channel};
use std::thread::{self, JoinHandle};

use vramscope_files::{Existing, WriteError, write};

/// Writes a file in place of what is there.
pub(crate) fn replace(path: &Path, bytes: &[u8]) -> Result<(), WriteError> {
    let failed = |error| WriteError::Io { path: path.to_owned(), error };
    write(path, Existing::Replace, &[], |out| out.write_all(bytes).map_err(failed))
}

/// Writes texts to files of a folder, the newest of each.
pub(crate) struct Keeper {
    texts: Option<Sender<(&'static str, String)>>,
    thread: Option<JoinHandle<()>>,
}

impl Keeper {
    /// Files of this folder, which is made when it is needed.
    pub(crate) fn new(folder: PathBuf) -> Self {
        let (sender, texts) = channel::<(&'static str, String)>();
        let thread = thread::spawn(move || {
            while let Ok((name, text)) = texts.recv() {
                // Of what has come meanwhile, the last counts.
                let mut newest = BTreeMap::from([(name, text)]);
                newest.extend(texts.try_iter());
                // Settings that cannot be kept are no reason to stop anybody.
                if std::fs::create_dir_all(&folder).is_ok() {
                    for (name, text) in newest {
                        let _ = replace(&folder.join(name), text.as_bytes());
                    }
                }
            }
        });
        Self { texts: Some(sender), thread: Some(thread) }
    }

    /// Writes a text to the file of this name, soon.
    pub(crate) fn keep(&self, name: &'static str, text: String) {
        if let Some(texts) = &self.texts {
            let _ = texts.send((name, text));
        }
    }
}

impl Drop for Keeper {
    /// Whatever was to be kept is written before the program ends.
    fn drop(&mut self) {
        self.texts = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Keeper;

    #[test]
    fn the_last_of_what_was_kept_is_there_when_the_window_has_closed() {
        let work = tempfile::tempdir().unwrap();
        let folder = work.path().join("vramscope");
        let keeper = Keeper::new(folder.clone());
        for number in 0..20 {
            keeper.keep("viewer.json", number.to_string());
        }
        keeper.keep("recent.json", "[]".into());
        drop(keeper);
        let kept = |name: &str| std::fs::read_to_string(folder.join(name)).unwrap();
        assert_eq!((kept("viewer.json"), kept("recent.json")), ("19".into(), "[]".into()));
    }
}
