//! Recordings, for the tests of this crate.

use std::path::PathBuf;
use std::sync::Arc;

use vramscope_analysis::Device;
use vramscope_engine::{OpenFile, Session, Source};
use vramscope_snapshot::{Reader, Snapshot};

/// A recording of the repository.
pub(crate) fn read(name: &str) -> Snapshot {
    let path =
        PathBuf::from(env!("CARGO_MANIFEST_DIR")).join(format!("../../testdata/recordings/{name}.pickle.xz"));
    let mut reader = Reader::new();
    reader.feed(&std::fs::read(path).unwrap()).unwrap();
    reader.finish().unwrap()
}

/// A recording in a session, and beside it what the session must agree with.
pub(crate) struct Recording {
    pub(crate) session: Session,
    pub(crate) of: Source,
    pub(crate) snapshot: Arc<Snapshot>,
    pub(crate) replay: Arc<Device>,
}

pub(crate) fn open(name: &str) -> Recording {
    let snapshot = Arc::new(read(name));
    let replays: Vec<_> = Device::all(&snapshot).into_iter().map(Arc::new).collect();
    let mut session = Session::default();
    let file = OpenFile::new(format!("{name}.pickle"), "rank 0", 1, Arc::clone(&snapshot), replays.clone());
    let of = session.add(file)[0];
    Recording { session, of, snapshot, replay: Arc::clone(&replays[0]) }
}
