//! Columns that come back as they were put, and files that are damaged, cut or of another kind.
#![allow(missing_docs, clippy::unwrap_used, clippy::panic, reason = "a test")]

use std::fs::{self, File};
use std::path::{Path, PathBuf};

use vramscope_mapped::{Access, CHUNK, Store, StoreError, Writer, forget_damage, is_damaged};

/// More than ten chunks.
const ROWS: u64 = 100_000;

fn written(folder: &Path) -> PathBuf {
    let path = folder.join("columns");
    let file = File::create(&path).unwrap();
    let mut writer = Writer::new(&file, u64::MAX).unwrap();
    writer.put("bytes", b"odd").unwrap();
    writer.put("numbers", &(0..ROWS).collect::<Vec<_>>()).unwrap();
    writer.put::<u32>("none", &[]).unwrap();
    let bytes = writer.finish(b"what it is").unwrap();
    assert_eq!(bytes, file.metadata().unwrap().len());
    path
}

fn open(path: &Path, access: Access) -> Result<Store, StoreError> {
    let store = Store::open(&File::open(path).unwrap(), access, |label| label == b"what it is")?;
    store.ok_or(StoreError::Damaged)
}

#[test]
fn columns_come_back() {
    let folder = tempfile::tempdir().unwrap();
    let path = written(folder.path());
    for access in [Access::Mapped, Access::Copied] {
        let store = open(&path, access).unwrap();
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
        // The file may go: a mapping stays.
        drop(store);
        assert_eq!(numbers[1], 1);
        let mut changed = numbers.clone();
        changed[1] = 7;
        assert_eq!((changed[1], numbers[1]), (7, 1));
    }
    let unwanted = Store::open(&File::open(&path).unwrap(), Access::Mapped, |_| false);
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
    let path = written(folder.path());
    let whole = fs::read(&path).unwrap();
    for len in [0, 7, 40, CHUNK, CHUNK + 1, whole.len() / 2, whole.len() - 1] {
        fs::write(&path, &whole[..len]).unwrap();
        assert!(open(&path, Access::Mapped).is_err(), "{len} bytes");
    }
    // Its end was never written, as after a crash.
    let mut unfinished = whole.clone();
    unfinished[..CHUNK].fill(0);
    fs::write(&path, unfinished).unwrap();
    assert!(open(&path, Access::Mapped).is_err());
}

/// Every part of the file in turn: a changed byte is either noticed when the file is opened, or when it is read.
/// The tests of damage are one test, as damage is known for the whole process.
#[test]
fn damage_is_noticed() {
    let folder = tempfile::tempdir().unwrap();
    let path = written(folder.path());
    let whole = fs::read(&path).unwrap();
    let places = (0..40).chain((CHUNK..whole.len()).step_by(7919)).chain([whole.len() - 1]);
    for at in places {
        let mut flipped = whole.clone();
        flipped[at] ^= 4;
        fs::write(&path, flipped).unwrap();
        let Ok(store) = open(&path, Access::Mapped) else { continue };
        assert!(open(&path, Access::Copied).is_err(), "byte {at}, copied");
        assert!(!is_damaged());
        let numbers = store.get::<u64>("numbers").unwrap();
        let elsewhere = if at < 6 * CHUNK { 90_000 } else { 10 };
        assert_eq!(numbers[elsewhere], elsewhere as u64);
        assert!(!is_damaged(), "only a chunk that is touched is checked: byte {at}");
        let bytes = store.get::<u8>("bytes").unwrap();
        let (sum, first) = (numbers.iter().sum::<u64>(), bytes[0]);
        assert!(is_damaged(), "byte {at}");
        assert!(sum <= ROWS * (ROWS - 1) / 2 && (first == b'o' || first == 0), "damaged chunks are zeros");
        forget_damage();
    }

    // Cut while it is mapped: nothing crashes, and it is noticed.
    fs::write(&path, &whole).unwrap();
    let store = open(&path, Access::Mapped).unwrap();
    let numbers = store.get::<u64>("numbers").unwrap();
    assert_eq!(numbers[0], 0);
    File::options().write(true).open(&path).unwrap().set_len(2 * CHUNK as u64).unwrap();
    assert_eq!(numbers[1], 1);
    assert!(!is_damaged());
    assert_eq!(numbers[ROWS as usize - 1], 0);
    assert!(is_damaged());
    assert!(numbers.iter().sum::<u64>() < ROWS * (ROWS - 1) / 2);
    forget_damage();

    // A chunk that was checked before it was cut.
    fs::write(&path, &whole).unwrap();
    let store = open(&path, Access::Mapped).unwrap();
    let numbers = store.get::<u64>("numbers").unwrap();
    assert!(numbers.iter().copied().eq(0..ROWS));
    File::options().write(true).open(&path).unwrap().set_len(0).unwrap();
    assert!(numbers.iter().sum::<u64>() == 0 && is_damaged());
    forget_damage();
}
