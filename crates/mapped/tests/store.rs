//! Columns that come back as they were put, and files that are damaged, cut or of another kind.
#![allow(missing_docs, clippy::unwrap_used, clippy::panic, reason = "a test")]

use std::fs::{self, File};
use std::io::Cursor;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use vramscope_mapped::{CHUNK, Check, Store, StoreError, Writer};

/// More than ten chunks.
const ROWS: u64 = 100_000;

fn file() -> Vec<u8> {
    let mut bytes = Cursor::new(Vec::new());
    let mut writer = Writer::new(&mut bytes, u64::MAX).unwrap();
    writer.put("bytes", b"odd").unwrap();
    writer.put("numbers", &(0..ROWS).collect::<Vec<_>>()).unwrap();
    writer.put::<u32>("none", &[]).unwrap();
    let written = writer.finish(b"what it is").unwrap();
    assert_eq!(written, bytes.get_ref().len() as u64);
    bytes.into_inner()
}

fn written(folder: &Path, bytes: &[u8]) -> PathBuf {
    let path = folder.join("columns");
    // Not over the file of before, which may be mapped.
    let _ = fs::remove_file(&path);
    fs::write(&path, bytes).unwrap();
    path
}

fn open(path: &Path, check: Check) -> Result<Store, StoreError> {
    let store = Store::open(&File::open(path).unwrap(), check, |label| label == b"what it is")?;
    store.ok_or(StoreError::Damaged)
}

/// Mends with what was written, and counts how often.
fn mended() -> (Check, Arc<AtomicUsize>) {
    let count = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&count);
    let mend = move || {
        counted.fetch_add(1, Ordering::Relaxed);
        Store::in_memory(&file()).unwrap()
    };
    (Check::WhenTouched(Box::new(mend)), count)
}

#[test]
fn columns_come_back() {
    let folder = tempfile::tempdir().unwrap();
    let path = written(folder.path(), &file());
    let stores = [
        open(&path, Check::Now).unwrap(),
        open(&path, mended().0).unwrap(),
        Store::in_memory(&file()).unwrap(),
    ];
    for store in stores {
        assert_eq!(store.label(), b"what it is");
        assert_eq!(&*store.get::<u8>("bytes").unwrap(), b"odd");
        let numbers = store.get::<u64>("numbers").unwrap();
        assert_eq!(numbers.len() as u64, ROWS);
        assert_eq!(
            (numbers[77_777], numbers.get(ROWS as usize), numbers.last()),
            (77_777, None, Some(&(ROWS - 1)))
        );
        assert_eq!(numbers.slice(9_000..9_003).unwrap(), [9_000, 9_001, 9_002]);
        assert_eq!((numbers.slice(5..ROWS as usize + 1), numbers.slice(0..0)), (None, Some(&[][..])));
        assert_eq!(numbers.partition_point(|&number| number < 31_000), 31_000);
        assert!(numbers.iter().copied().eq(0..ROWS));
        assert!(store.get::<u32>("none").unwrap().is_empty());
        assert!(store.get::<u16>("bytes").is_err() && store.get::<u8>("other").is_err());
        // The columns outlive the store.
        drop(store);
        assert_eq!(numbers[1], 1);
        let mut changed = numbers.clone();
        changed[1] = 7;
        assert_eq!((changed[1], numbers[1]), (7, 1));
    }
    let unwanted = Store::open(&File::open(&path).unwrap(), Check::Now, |_| false);
    assert!(unwanted.unwrap().is_none());
}

#[test]
fn a_file_that_gets_too_long_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let file = File::create(folder.path().join("columns")).unwrap();
    let mut writer = Writer::new(&file, 3 * CHUNK as u64).unwrap();
    assert!(writer.put("numbers", &[1_u64; 100_000]).is_err());
}

#[test]
fn half_a_file_cannot_be_opened() {
    let folder = tempfile::tempdir().unwrap();
    let whole = file();
    for len in [0, 7, 40, 64, CHUNK, CHUNK + 1, whole.len() / 2, whole.len() - 1] {
        let path = written(folder.path(), &whole[..len]);
        assert!(open(&path, mended().0).is_err(), "{len} bytes");
    }
    // Its end was never written, as after a crash.
    let mut unfinished = whole.clone();
    unfinished[..64].fill(0);
    assert!(open(&written(folder.path(), &unfinished), mended().0).is_err());
}

/// Every part of the file in turn: a changed byte is noticed when the file is opened, or before its piece is handed out.
/// Then the column comes from the store that takes its place.
#[test]
fn damage_is_mended() {
    let folder = tempfile::tempdir().unwrap();
    let whole = file();
    let places = (0..40).chain((CHUNK..whole.len()).step_by(7919)).chain([whole.len() - 1]);
    let mut opened = 0;
    for at in places {
        let mut flipped = whole.clone();
        flipped[at] ^= 4;
        let path = written(folder.path(), &flipped);
        assert!(open(&path, Check::Now).is_err(), "byte {at}");
        let (check, count) = mended();
        let Ok(store) = open(&path, check) else { continue };
        opened += 1;
        let numbers = store.get::<u64>("numbers").unwrap();
        // Handed out before the damage is met: it stays what it was.
        let elsewhere = if at < 6 * CHUNK { 90_000 } else { 10 };
        let early = &numbers[elsewhere];
        assert_eq!(count.load(Ordering::Relaxed), 0, "only a piece that is touched is checked: byte {at}");
        assert!(numbers.iter().copied().eq(0..ROWS), "byte {at}");
        assert_eq!(&*store.get::<u8>("bytes").unwrap(), b"odd");
        assert_eq!((*early, numbers[elsewhere]), (elsewhere as u64, elsewhere as u64));
        assert!(numbers.clone().iter().copied().eq(0..ROWS), "a clone is the same");
        assert_eq!(count.load(Ordering::Relaxed), 1, "once for all columns: byte {at}");
    }
    assert!(opened > 90, "{opened} of about 100 places are columns");
}

/// 64 threads meet the damage at once.
#[test]
fn damage_is_mended_once() {
    let folder = tempfile::tempdir().unwrap();
    let mut flipped = file();
    flipped[3 * CHUNK] ^= 1;
    let (check, count) = mended();
    let store = open(&written(folder.path(), &flipped), check).unwrap();
    let numbers = store.get::<u64>("numbers").unwrap();
    std::thread::scope(|scope| {
        for _ in 0..64 {
            scope.spawn(|| assert!(numbers.iter().copied().eq(0..ROWS)));
        }
    });
    assert_eq!(count.load(Ordering::Relaxed), 1);
}
