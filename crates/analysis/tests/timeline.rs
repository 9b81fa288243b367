//! `export_memory_timeline`: bytes by category, in both of its forms.

use std::io::Read;

use crate::common::{input, read};
use serde_json::Value;
use vramscope_analysis::{Counter, Device, Status};
use vramscope_snapshot::{DeviceId, Snapshot};

fn unzipped(path: &str) -> Value {
    let mut text = String::new();
    flate2::read::GzDecoder::new(input(path).as_slice()).read_to_string(&mut text).unwrap();
    serde_json::from_str(&text).unwrap()
}

fn levels(snapshot: &Snapshot) -> Vec<i64> {
    Device::new(snapshot.clone(), DeviceId(0)).all_counters().map(|counters| counters.allocated).collect()
}

/// PyTorch 2.15 wrote it: 253 times, each with bytes in eight categories.
#[test]
fn levels_of_a_real_timeline() {
    let snapshot = read(&input("kineto/mt.json.gz")).unwrap();
    assert_eq!(snapshot.format, "gzip, memory timeline");
    let stated = unzipped("kineto/mt.json.gz");
    let sums: Vec<i64> = stated[1]
        .as_array()
        .unwrap()
        .iter()
        .map(|row| row.as_array().unwrap().iter().map(|bytes| bytes.as_i64().unwrap()).sum())
        .collect();
    assert_eq!(sums.len(), 253);
    let replay = Device::new(snapshot.clone(), DeviceId(0));
    assert_eq!(replay.peak(Counter::Allocated).bytes, *sums.iter().max().unwrap());
    assert_eq!(replay.counters(replay.end()).allocated, *sums.last().unwrap());
    assert_eq!(replay.verdict().status, Status::Exact);
    // Wherever all that happens at a time has happened, the level is the row's; equal times repeat, so the
    // last row of each counts.
    let times = stated[0].as_array().unwrap();
    let events = snapshot.events(DeviceId(0));
    let counters: Vec<i64> = levels(&snapshot);
    for (row, time) in times.iter().enumerate() {
        if times.get(row + 1) == Some(time) {
            continue;
        }
        let time = time.as_i64().unwrap();
        let last = (0..events.len()).rev().find(|&event| events.time_us(event).unwrap() <= time).unwrap();
        assert_eq!(counters[last], sums[row], "row {row}");
    }
}

/// 335 rows of bytes that come and go, of which 4 were there before.
#[test]
fn every_row_of_a_real_raw_timeline() {
    let snapshot = read(&input("kineto/mt.raw.json.gz")).unwrap();
    assert_eq!(snapshot.format, "gzip, raw memory timeline");
    let mut sum = 0;
    let stated: Vec<i64> = unzipped("kineto/mt.raw.json.gz")
        .as_array()
        .unwrap()
        .iter()
        .map(|row| {
            sum += row[2].as_i64().unwrap();
            sum
        })
        .collect();
    assert_eq!(stated.len(), 335);
    assert_eq!(levels(&snapshot), stated);
    let events = snapshot.events(DeviceId(0));
    assert_eq!((events.time_ns(3), events.time_ns(4)), (None, Some(1_794_725_876_436_877_855)));
    let category = |row: usize| snapshot.text(snapshot.meta(events.get(row).meta).category);
    assert_eq!((category(0), category(4), category(5)), ("PARAMETER", "INPUT", "ACTIVATION"));
}

/// torch_npu numbers the actions from 0: its 1 is torch's 2. What it means is the same.
#[test]
fn torch_npu_is_told_apart() {
    let torch = "[[-1, 1, 100, 0], [5000, 2, 30, 3], [6000, 3, -30, 3], [6000, 3, 30, 5], [7000, 4, -30, 5]]";
    let npu = "[[-1, 0, 100, 0], [5000, 1, 30, 3], [6000, 2, -30, 3], [6000, 2, 30, 5], [7000, 3, -30, 5]]";
    for (text, format) in [(torch, "raw memory timeline"), (npu, "raw memory timeline (torch_npu)")] {
        let snapshot = read(text.as_bytes()).unwrap();
        assert_eq!(snapshot.format, format);
        assert_eq!(levels(&snapshot), [100, 130, 100, 130, 100]);
    }
}

/// A level that falls by a part of what came: 50 come, 20 of them go, then the rest.
#[test]
fn a_part_of_what_came_goes() {
    let row = |activation: u32| format!("[0, 7, 0, 0, 0, {activation}, 0, 0, 0]");
    let text = format!("[[1, 2, 3, 4], [{}, {}, {}, {}]]", row(0), row(50), row(30), row(0));
    let snapshot = read(text.as_bytes()).unwrap();
    assert_eq!(levels(&snapshot), [7, 27, 57, 37, 7]);
    assert_eq!(snapshot.events(DeviceId(0)).time_us(3), Some(3));
}

#[test]
fn what_is_wrong_is_named() {
    let page = b"<html><head><title>GPU Memory Timeline HTML</title></head><img src='data:image/png;base64,iVBORw0'>";
    let error = read(page).unwrap_err().to_string();
    assert!(error.contains("holds only a picture") && error.contains(".raw.json.gz"), "{error}");
    let snapshot = read(b"[[-1, 1, 100, 0], [5000, 2, 30, 3], [6000, 4, -77, 3]]").unwrap();
    assert_eq!(snapshot.warnings, ["1 rows of the timeline do not fit the ones before; left out"]);
    let cut = read(b"[[-1, 1, 100, 0], [5000, 2, 30, 3], [60").unwrap();
    assert_eq!((levels(&cut), cut.damage.is_some()), (vec![100, 130], true));
}
