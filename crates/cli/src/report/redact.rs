//! What may leave the house: the memory, not the names.
//!
//! Only text that is known to come from PyTorch or from a library is kept; everything else is replaced by
//! something that is the same wherever the original was the same, so stacks and colours stay apart.

use std::path::PathBuf;
use std::sync::Arc;

use hashbrown::HashMap;
use vramscope_files::Opened;
use vramscope_snapshot::{Snapshot, StrId, StringTable};

/// Folders of libraries: what follows is the same on every machine.
const LIBRARIES: [&str; 3] = ["site-packages/", "dist-packages/", "/lib/python3"];

/// A file with the names left out.
pub(super) fn redact(mut opened: Opened) -> Opened {
    opened.path = PathBuf::from(match opened.name.rank {
        Some((kind, number)) => format!("{}{number}", kind.label()),
        None => "snapshot".to_owned(),
    });
    opened.name.group.clear();
    opened.name.role = None;
    let mut snapshot = Snapshot::clone(&opened.snapshot);
    snapshot.strings = strings(&snapshot);
    // Names of keys that nobody knows may be anybody's.
    snapshot.unknown_keys.clear();
    opened.snapshot = Arc::new(snapshot);
    opened
}

/// A path from the library on; `None` for the program's own.
fn library(path: &str) -> Option<&str> {
    let from = |mark: &str| path.rfind(mark).map(|at| at + if mark.starts_with('/') { 1 } else { 0 });
    if let Some(at) = LIBRARIES.iter().find_map(|mark| from(mark)) {
        return path.get(at..);
    }
    // C++ of PyTorch and of the system: the folder is that of whoever built it.
    let is_source =
        [".cpp", ".cc", ".cu", ".h", ".hpp", ".cuh", ".c", ".S"].iter().any(|end| path.ends_with(end));
    let is_object = path.contains(".so");
    if is_source || is_object {
        return path.rsplit('/').next();
    }
    (path == "??" || path.is_empty()).then_some(path)
}

fn strings(snapshot: &Snapshot) -> StringTable {
    let mut kept: HashMap<StrId, String> = HashMap::new();
    let mut own: HashMap<StrId, String> = HashMap::new();
    let mut numbers = 0;
    let mut next = |word: &str, end: &str| {
        numbers += 1;
        format!("{word}{numbers}{end}")
    };
    for stack in snapshot.stacks.ids() {
        for frame in snapshot.frames(stack) {
            match library(snapshot.text(frame.file)) {
                Some(rest) => {
                    kept.insert(frame.file, rest.to_owned());
                    kept.insert(frame.name, snapshot.text(frame.name).to_owned());
                }
                None => {
                    own.entry(frame.file).or_insert_with(|| next("file", ".py"));
                    own.entry(frame.name).or_insert_with(|| next("function", ""));
                }
            }
        }
    }
    for annotation in &snapshot.annotations {
        own.entry(annotation.name).or_insert_with(|| next("phase", ""));
    }
    for meta in &snapshot.metas {
        for word in [meta.compile_context, meta.internal_metadata, meta.category, meta.unknown_action] {
            kept.insert(word, snapshot.text(word).to_owned());
        }
    }
    let mut strings = StringTable::default();
    for row in 1..snapshot.strings.len() {
        let id = StrId::from_index(row);
        // What is the program's own anywhere is nowhere kept.
        let text = own.get(&id).or_else(|| kept.get(&id));
        strings.push(text.map_or("", String::as_str));
    }
    strings
}

#[cfg(test)]
mod tests {
    use super::library;

    #[test]
    fn paths_of_libraries_begin_at_the_library() {
        let torch = "/home/ann/venv/lib/python3.12/site-packages/torch/nn/modules/linear.py";
        assert_eq!(library(torch), Some("site-packages/torch/nn/modules/linear.py"));
        assert_eq!(library("/usr/lib/python3.12/threading.py"), Some("lib/python3.12/threading.py"));
        assert_eq!(
            library("/build/ann/pytorch/c10/cuda/CUDACachingAllocator.cpp"),
            Some("CUDACachingAllocator.cpp")
        );
        assert_eq!(library("/home/ann/secret/train.py"), None);
        assert_eq!(library("??"), Some("??"));
    }
}
