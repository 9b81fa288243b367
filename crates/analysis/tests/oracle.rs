//! PyTorch's own counters are the judge.
//!
//! Beside each recording in `testdata/recordings` lies what `torch.cuda.memory_stats()` said at marked
//! moments while it was made. The replay must say the same to the byte, current and peak, wherever the
//! file can tell; where it cannot, the verdict must say so.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde_json::Value;
use vramscope_analysis::{Counter, Device, Moment, Status, moment_at_time};
use vramscope_snapshot::{DeviceId, EventTable, Reader};

use crate::common::{recording_at, recordings};

/// What a recording lets us know about its past.
enum Known {
    /// Everything, at every mark.
    All,
    /// These counters at every mark; the end is always exact.
    Counters(&'static [Counter], Status),
    /// These counters at marks from this one on: what came before is gone.
    From(&'static str, &'static [Counter], Status),
    /// Only the end.
    End(Status),
}

use Counter::{Active, Allocated, Requested, Reserved};

fn known(name: &str) -> Known {
    let rough: &[Counter] = &[Requested, Reserved];
    match name {
        // Blocks from before the recording were freed inside it, so their rounding is inferred.
        "late_start_pending" => Known::Counters(rough, Status::LateStart),
        // Here the inference happens to be unique, or nothing from before was freed.
        "late_start"
        | "late_start_max_split"
        | "late_start_expandable"
        | "late_start_pools"
        | "late_start_training"
        | "disabled_between" => Known::Counters(&Counter::ALL, Status::LateStart),
        "history_cleared" => Known::Counters(&Counter::ALL, Status::RingOverflow),
        "ring_buffer" => Known::From("step3.forward", rough, Status::RingOverflow),
        "ring_expandable" => Known::From("empty_cache9", &Counter::ALL, Status::RingOverflow),
        "ring_large" => Known::From("churn11", rough, Status::RingOverflow),
        "ring_record_stream" => Known::From("churn7", rough, Status::RingOverflow),
        // The allocator's settings changed in the middle.
        "expandable_toggled" | "roundup_changed" => Known::Counters(rough, Status::SettingsChanged),
        // `skip_actions` left these out.
        "skip_alloc" => Known::Counters(&[Reserved], Status::EventsSkipped),
        "skip_both_frees" => Known::Counters(&[Reserved], Status::EventsSkipped),
        "skip_free_completed" => Known::Counters(&[Allocated, Reserved], Status::EventsSkipped),
        "skip_free_requested" => Known::Counters(&[Requested, Active, Reserved], Status::EventsSkipped),
        "skip_segments" => Known::Counters(&[Requested], Status::EventsSkipped),
        "skip_map_expandable" => Known::Counters(&[Requested, Allocated, Active], Status::EventsSkipped),
        // The ring's size changed while recording, which writes the trace in the wrong order; lowering
        // it also loses events in the middle.
        "max_entries_raised" => Known::From("small0", rough, Status::RingOverflow),
        "max_entries_lowered" => Known::From("small2", &[Requested], Status::RingOverflow),
        "enabled_state" | "no_recording" | "formats_list" | "formats_list_p2" => {
            Known::End(Status::StateOnly)
        }
        _ => Known::All,
    }
}

/// The recordings that have an oracle with marks, by name.
fn with_marks() -> BTreeMap<String, (PathBuf, Vec<Value>)> {
    let mut found = BTreeMap::new();
    for entry in std::fs::read_dir(recordings()).unwrap() {
        let path = entry.unwrap().path();
        let file = path.file_name().unwrap().to_str().unwrap();
        let Some(name) = file.strip_suffix(".xz").and_then(|file| file.split('.').next()) else { continue };
        let oracle = recordings().join(format!("{name}.oracle.json"));
        let Ok(oracle) = std::fs::read_to_string(oracle) else { continue };
        let oracle: Value = serde_json::from_str(&oracle).unwrap();
        if let Some(marks) = oracle["marks"].as_array() {
            found.insert(name.to_owned(), (path.clone(), marks.clone()));
        }
    }
    found
}

#[test]
fn counters_and_peaks_at_every_mark() {
    let mut checks = 0;
    let mut wrong = Vec::new();
    let recordings = with_marks();
    assert!(recordings.len() > 80, "the recordings are there");
    for (name, (path, marks)) in &recordings {
        let snapshot = recording_at(path);
        let replay = Device::new(snapshot.clone(), DeviceId(0));
        let none = EventTable::default();
        let events = snapshot.trace(DeviceId(0)).unwrap_or(&none);
        // `oom` was dumped by the observer, before the failed request unwound.
        let marks: Vec<_> =
            marks.iter().filter(|mark| name != "oom" || mark["label"] != "after oom").collect();
        let last = marks.last().unwrap();
        let mut reached = false;
        for mark in &marks {
            let label = mark["label"].as_str().unwrap();
            let is_last = std::ptr::eq(*mark, *last);
            let (counters, peaks): (&[Counter], bool) = match known(name) {
                _ if is_last && !matches!(known(name), Known::All) => (&Counter::ALL, false),
                Known::All => (&Counter::ALL, true),
                Known::Counters(counters, _) => (counters, false),
                Known::From(first, counters, _) => {
                    reached |= label == first;
                    (if reached { counters } else { &[] }, false)
                }
                Known::End(_) => (&[], false),
            };
            let at = if is_last {
                replay.end()
            } else {
                moment_at_time(events, mark["time_ns"].as_i64().unwrap() / 1000)
            };
            let now = replay.counters(at);
            let (_, highest) = replay.extremes(Moment::START, at);
            for &counter in counters {
                let mut check = |what: &str, ours: i64, key: &str| {
                    checks += 1;
                    let pytorchs = mark[key].as_i64().unwrap();
                    if ours != pytorchs {
                        wrong.push(format!(
                            "{name}, {label}, {what} {}: {ours}, PyTorch {pytorchs}",
                            counter.name()
                        ));
                    }
                };
                check("current", now[counter], counter.name());
                if peaks {
                    check("peak", highest[counter], &format!("{}_peak", counter.name()));
                }
            }
            assert!(
                !is_last || !matches!(known(name), Known::From(..)) || reached,
                "{name} has its first known mark"
            );
        }
        let status = match known(name) {
            Known::All => Status::Exact,
            Known::Counters(_, status) | Known::From(_, _, status) | Known::End(status) => status,
        };
        assert_eq!(replay.verdict().status, status, "{name}: {:?}", replay.verdict());
        if status == Status::Exact {
            assert_eq!(replay.verdict().estimated_bytes, 0, "{name}");
            assert_eq!(replay.verdict().notes, [], "{name}");
        }
        assert_eq!(
            snapshot.warnings.len(),
            usize::from(name.starts_with("max_entries")),
            "{:?}",
            snapshot.warnings
        );
    }
    assert!(wrong.is_empty(), "{} of {checks} differ:\n{}", wrong.len(), wrong.join("\n"));
    assert!(checks > 6000, "only {checks} checks");
}

#[test]
fn ranks_end_and_peak_as_pytorch_says() {
    for rank in 0..4 {
        let snapshot = recording_at(&recordings().join(format!("rank{rank}_memory_snapshot.pickle.xz")));
        let oracle = std::fs::read_to_string(recordings().join(format!("rank{rank}.oracle.json"))).unwrap();
        let oracle: Value = serde_json::from_str(&oracle).unwrap();
        let replay = Device::new(snapshot.clone(), DeviceId(0));
        for counter in [Allocated, Active, Reserved] {
            let name = counter.name();
            assert_eq!(
                replay.counters(replay.end())[counter],
                oracle[name].as_i64().unwrap(),
                "rank {rank} {name}"
            );
            let peak = oracle[format!("{name}_peak")].as_i64().unwrap();
            assert_eq!(replay.peak(counter).bytes, peak, "rank {rank} peak {name}");
        }
    }
}

/// What must hold at any moment of any recording, exact or not: the live set adds up to the counters,
/// and blocks and holes fill what is held without overlap.
#[test]
fn states_add_up() {
    for (name, (path, _)) in with_marks() {
        let snapshot = recording_at(&path);
        let replay = Device::new(snapshot.clone(), DeviceId(0));
        let exact = replay.verdict().status == Status::Exact;
        let end = replay.end().0;
        let moments = (0..=end).step_by((end as usize / 40).max(1)).chain([end, replay.peak(Requested).at.0]);
        for at in moments.map(Moment) {
            let state = replay.state(at);
            let mut sum =
                vramscope_analysis::Counters { reserved: state.counters.reserved, ..Default::default() };
            for &index in &state.live {
                let allocation = replay.allocation(index);
                assert!(allocation.is_live(at), "{name} {at:?}");
                sum.requested += allocation.requested as i64;
                sum.active += allocation.size as i64;
                if at < allocation.released {
                    sum.allocated += allocation.size as i64;
                }
            }
            assert_eq!(sum, state.counters, "{name} at {at:?}: the live set adds up to the counters");
            if exact {
                let held: u64 = state.ranges.iter().map(|range| range.size).sum();
                let holes: u64 = state.holes.iter().map(|hole| hole.size).sum();
                assert_eq!(
                    held as i64, state.counters.reserved,
                    "{name} at {at:?}: the ranges add up to reserved"
                );
                assert_eq!(
                    holes as i64,
                    state.counters.reserved - state.counters.active,
                    "{name} at {at:?}: no overlap"
                );
            }
        }
        // The state at the end is the final state of the file.
        if exact {
            let state = replay.state(replay.end());
            let mut blocks = Vec::new();
            for segment in snapshot.segments_of(DeviceId(0)) {
                blocks.extend(snapshot.blocks.of(segment).filter(|block| block.requested > 0));
            }
            assert_eq!(state.live.len(), blocks.len(), "{name}");
            for (&index, block) in state.live.iter().zip(blocks) {
                let ours = replay.allocation(index);
                assert_eq!(
                    (ours.addr, ours.size, ours.requested),
                    (block.addr, block.size, block.requested),
                    "{name}"
                );
            }
        }
    }
}

/// Trace order is the truth, and time is a label: clocks that go back change no number.
#[test]
fn times_that_go_back_change_nothing() {
    let folder = recordings();
    let mut bytes = Vec::new();
    let packed = std::fs::read(folder.join("formats_json.json.xz")).unwrap();
    std::io::Read::read_to_end(&mut lzma_rust2::XzReader::new(packed.as_slice(), true), &mut bytes).unwrap();
    let original: Value = serde_json::from_slice(&bytes).unwrap();
    let replay = |json: &Value| {
        let mut reader = Reader::new();
        reader.feed(json.to_string().as_bytes()).unwrap();
        let snapshot = reader.finish().unwrap();
        assert_eq!(snapshot.warnings, [""; 0]);
        Device::new(snapshot.clone(), DeviceId(0))
    };
    let expected = replay(&original);
    assert_eq!(expected.verdict().status, Status::Exact);
    let shifts: [fn(usize) -> i64; 3] = [
        |row| if row == 400 { -20_000 } else { 0 },
        |row| if row > 400 { -50_000_000 } else { 0 },
        |row| row as i64 * -1_000_000,
    ];
    for shift in shifts {
        let mut json = original.clone();
        for (row, event) in json["device_traces"][0].as_array_mut().unwrap().iter_mut().enumerate() {
            event["time_us"] = (event["time_us"].as_i64().unwrap() + shift(row)).into();
        }
        let shifted = replay(&json);
        assert_eq!(shifted.verdict().status, Status::Exact);
        for counter in Counter::ALL {
            assert_eq!(shifted.peak(counter), expected.peak(counter));
        }
    }
}

/// A recording that started late, cut in the middle: what is held is at least what is in use.
#[test]
fn a_cut_recording_holds_what_it_uses() {
    for name in ["late_start", "late_start_expandable", "llama_python", "expandable"] {
        let packed = std::fs::read(recordings().join(format!("{name}.pickle.xz"))).unwrap();
        let mut bytes = Vec::new();
        std::io::Read::read_to_end(&mut lzma_rust2::XzReader::new(packed.as_slice(), true), &mut bytes)
            .unwrap();
        let mut reader = Reader::new();
        reader.feed(&bytes[..bytes.len() * 7 / 10]).unwrap();
        let snapshot = reader.finish().unwrap();
        let replay = Device::new(snapshot.clone(), DeviceId(0));
        assert_eq!(replay.verdict().status, Status::Truncated);
        for step in 0..=20 {
            let counters = replay.counters(Moment(replay.end().0 / 20 * step));
            assert!(counters.reserved >= counters.active, "{name}: {counters:?}");
        }
    }
}
