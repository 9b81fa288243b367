//! Every recording in `testdata` under its own settings: a table of agreement, with the reason for each that is not
//! exact. Print it with `cargo test -p vramscope-simulate --test agreement -- --nocapture`.

use std::io::Read;
use std::path::{Path, PathBuf};

use vramscope_simulate::{Study, StudyError};
use vramscope_snapshot::{Reader, Snapshot};

/// Why a recording is simulated and not exact.
const REASONS: [(&str, &str); 9] = [
    ("disabled_between", "recording was switched off in between"),
    ("graphs_expandable", "pages of a private pool were unmapped before the snapshot"),
    ("history_cleared", "late start: the history was cleared"),
    ("max_entries_raised", "ring overflow"),
    ("mempool_expandable", "pages of a private pool were unmapped before the snapshot"),
    ("ring_expandable", "ring overflow"),
    ("ring_large", "ring overflow"),
    ("ring_record_stream", "ring overflow"),
    ("roundup_changed", "settings changed while recording"),
];

fn read(path: &Path) -> Snapshot {
    let mut bytes = Vec::new();
    let file = std::fs::File::open(path).unwrap();
    lzma_rust2::XzReader::new(file, true).read_to_end(&mut bytes).unwrap();
    let mut reader = Reader::new();
    reader.feed(&bytes).unwrap();
    reader.finish().unwrap()
}

#[test]
fn every_recording_is_exact_or_has_a_reason() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/recordings");
    let files = std::fs::read_dir(folder).unwrap().map(|file| file.unwrap().path());
    let mut files: Vec<PathBuf> =
        files.filter(|path| path.to_str().is_some_and(|path| path.ends_with(".pickle.xz"))).collect();
    files.sort();
    let (mut exact, mut unexplained) = (0, Vec::new());
    for path in &files {
        let name = path.file_name().unwrap().to_str().unwrap().trim_end_matches(".pickle.xz");
        let snapshot = read(path);
        for device in snapshot.devices() {
            let words = match Study::new(&snapshot, device, None) {
                Ok(study) if study.agreement.is_exact() => {
                    exact += 1;
                    format!("exact, {} device calls", study.agreement.recorded)
                }
                Ok(study) => {
                    let reason = REASONS.iter().find(|(known, _)| *known == name).map(|(_, reason)| *reason);
                    if reason.is_none() {
                        unexplained.push(name.to_owned());
                    }
                    let share = study.agreement.fraction() * 100.0;
                    format!("{share:.0} % of device calls: {}", reason.unwrap_or("?"))
                }
                Err(StudyError::Refused(reason)) => format!("refused: {reason}"),
                Err(error) => format!("refused: {error}"),
            };
            println!("{name:32} {words}");
        }
    }
    println!("{exact} exact");
    assert!(unexplained.is_empty(), "not exact without a known reason: {unexplained:?}");
    assert!(exact >= 65, "{exact}");
}
