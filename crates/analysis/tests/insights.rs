//! What is found to be wrong, against PyTorch's counters and traces worked out by hand.

use crate::common;
use std::collections::BTreeMap;

use serde_json::{Value, json};
use vramscope_analysis::{
    Amount, Capacity, Counter, Device, Finding, Kind, KnownBy, Moment, RankDigest, Severity, Status,
    compare_ranks, fragmentation, largest_fit, moment_at_time, pending, phases, pinned, rank_insights,
};
use vramscope_format::Units;
use vramscope_snapshot::{DeviceId, Snapshot};

use crate::common::{recording, recordings};

const MIB: u64 = 1 << 20;

fn names() -> Vec<String> {
    let files = std::fs::read_dir(recordings()).unwrap();
    let names = files.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let mut names: Vec<_> =
        names.filter_map(|file| Some(file.strip_suffix(".pickle.xz")?.to_owned())).collect();
    names.sort();
    names
}

fn read(name: &str) -> (Snapshot, Device) {
    let snapshot = recording(name);
    let replay = Device::new(snapshot.clone(), DeviceId(0));
    (snapshot, replay)
}

fn oracle(name: &str) -> Option<Value> {
    let text = std::fs::read_to_string(recordings().join(format!("{name}.oracle.json"))).ok()?;
    serde_json::from_str(&text).ok()
}

fn found(replay: &Device) -> Vec<Finding> {
    let _bytes = |n: u64| vramscope_format::size(n);
    replay.findings(Units::Binary)
}

fn evidence(finding: &Finding, name: &str) -> Amount {
    finding.evidence.iter().find(|evidence| evidence.name == name).unwrap().value.clone()
}

/// A trace of (action, address, size) in a segment of 20 MiB at 0, which is there from the beginning.
fn trace(events: &[(&str, u64, u64)]) -> (Snapshot, Device) {
    let mut live = BTreeMap::new();
    for &(action, addr, size) in events {
        match action {
            "alloc" => live.insert(addr, size),
            "free_completed" => live.remove(&addr),
            _ => None,
        };
    }
    let block = |addr: u64, size: u64, state: &str| json!({"address": addr, "size": size, "requested_size": size, "state": state, "frames": []});
    let mut blocks = Vec::new();
    let mut free_from = 0;
    for (addr, size) in live.into_iter().chain([(20 * MIB, 0)]) {
        if addr > free_from {
            blocks.push(block(free_from, addr - free_from, "inactive"));
        }
        if size > 0 {
            blocks.push(block(addr, size, "active_allocated"));
        }
        free_from = addr + size;
    }
    let segment = json!({"device": 0, "address": 0, "total_size": 20 * MIB, "stream": 0, "segment_type": "large",
        "segment_pool_id": [0, 0], "is_expandable": false, "blocks": blocks});
    let event = |(number, &(action, addr, size)): (usize, &(&str, u64, u64))| json!({"action": action, "addr": addr, "size": size, "stream": 0, "time_us": 1000 * number});
    let events: Vec<_> = events.iter().enumerate().map(event).collect();
    let snapshot =
        common::snapshot(json!({"segments": [segment], "device_traces": [events]}).to_string().as_bytes());
    let replay = Device::new(snapshot.clone(), DeviceId(0));
    (snapshot, replay)
}

#[test]
fn healthy_runs_have_nothing_to_act_on() {
    for name in ["llama_python", "inference_kv", "empty"] {
        let (_, replay) = read(name);
        let found = found(&replay);
        assert!(found.iter().all(|finding| finding.severity == Severity::Low), "{name}: {found:?}");
    }
}

/// PyTorch counts retries itself. With settings that give segments back earlier, the simulation tells which were
/// retries; where it does not reproduce the recording, the finding says that it is likely only.
#[test]
fn retries_are_those_that_pytorch_counted() {
    let mut compared = 0;
    for name in names() {
        let Some(oracle) = oracle(&name) else { continue };
        let last = oracle["marks"].as_array().unwrap().last().unwrap().clone();
        let (Some(retries), Some(ooms)) = (last["retries"].as_u64(), last["ooms"].as_u64()) else { continue };
        let (_, replay) = read(&name);
        // An error that is caught after the dump is not in the file.
        if replay.verdict().status != Status::Exact || ooms != replay.ooms().len() as u64 {
            continue;
        }
        let found = found(&replay);
        let ours = match found.iter().find(|finding| finding.kind == Kind::Retries) {
            Some(finding) => evidence(finding, "retries"),
            None => Amount::Count(replay.ooms().len() as u64),
        };
        if found.iter().any(|finding| finding.kind == Kind::Retries && finding.known_by == KnownBy::Likely) {
            continue;
        }
        assert_eq!(ours, Amount::Count(retries), "{name}");
        compared += 1;
    }
    assert!(compared > 35, "{compared}");
}

#[test]
fn a_kept_graph_is_named_with_its_line() {
    let (_, replay) = read("leak_graph");
    let found = found(&replay);
    let leak = &found[0];
    assert_eq!((leak.kind, leak.severity), (Kind::KeptGraph, Severity::High));
    let line = leak.site.line.as_ref().unwrap();
    assert_eq!((line.file.ends_with("capture.py"), line.line), (true, 79));
    assert!(leak.advice.contains(".detach()"));
    // What PyTorch's own counter says between the ends of steps 2 and 6.
    let marks = oracle("leak_graph").unwrap()["marks"].clone();
    let ends: Vec<f64> = marks
        .as_array()
        .unwrap()
        .iter()
        .filter(|mark| mark["label"].as_str().unwrap().ends_with(".optimizer"))
        .map(|mark| mark["requested"].as_f64().unwrap())
        .collect();
    let per_step = (ends[5] - ends[1]) / 4.0;
    let Amount::Bytes(ours) = evidence(leak, "bytes per step") else { panic!("bytes") };
    // The last of six steps has no later backward pass that its graph could outlive.
    assert_eq!(evidence(leak, "steps whose graph is kept"), Amount::Count(5));
    assert!(leak.what.contains("activations of 5 of 5 steps"), "{}", leak.what);
    assert!((ours as f64 - per_step).abs() < per_step * 0.05, "{ours}, PyTorch {per_step}");
}

/// The same leak without annotations: the troughs of the curve stand in for the ends of steps.
#[test]
fn a_leak_is_found_without_annotations() {
    // Twelve steps: 8 MiB come and go, 64 KiB stay.
    let mut events = Vec::new();
    for step in 0..12 {
        events.push(("alloc", 10 * MIB, 8 * MIB));
        events.push(("alloc", step * 65_536, 65_536));
        events.push(("free_requested", 10 * MIB, 8 * MIB));
        events.push(("free_completed", 10 * MIB, 8 * MIB));
    }
    let (_, replay) = trace(&events);
    // 64 KiB in 10 steps after the warm-up are 640 KiB: below the megabyte that is worth a word.
    assert!(found(&replay).iter().all(|finding| finding.kind != Kind::Growth));
    let large: Vec<_> = events
        .iter()
        .map(
            |&(action, addr, size)| {
                if size == 65_536 { (action, addr * 8, size * 8) } else { (action, addr, size) }
            },
        )
        .collect();
    let (_, replay) = trace(&large);
    let found = found(&replay);
    let leak = found.iter().find(|finding| finding.kind == Kind::Growth).unwrap();
    assert_eq!(evidence(leak, "bytes per step"), Amount::Bytes(512 << 10));
    let one_per_step = evidence(leak, "of which are counted");
    assert_eq!(evidence(leak, "more blocks live"), one_per_step);
    assert!(leak.evidence.iter().all(|evidence| evidence.name != "of these grew"), "all of them did");
}

/// The batch doubles from step to step. 32 MiB would have fitted in one piece of the 185 MiB that were free, but the
/// step as a whole could not: PyTorch's own peaks of the four steps before are 543, 1036, 1959 and 3805 MiB, so the next
/// adds twice the 1846 MiB that the last one added, and the process held 4266 MiB when 32 more were refused.
#[test]
fn an_error_in_a_step_that_cannot_fit_is_lack() {
    let (_, replay) = read("oom");
    let found = found(&replay);
    let oom = &found[0];
    assert_eq!((oom.kind, oom.severity), (Kind::OutOfMemory, Severity::High));
    // The last mark is PyTorch's: 4473225216 reserved and 4245905408 active after the error had been handled.
    // 32 MiB were requested; the holes are reserved less active when it happened.
    assert_eq!(evidence(oom, "requested"), Amount::Bytes(32 * MIB));
    let at = replay.counters(Moment::after(replay.ooms()[0].event));
    assert_eq!(evidence(oom, "free in holes"), Amount::Bytes((at.reserved - at.active) as u64));
    assert_eq!(evidence(oom, "cause"), Amount::Text("lack".into()));
    assert_eq!(evidence(oom, "reserved"), Amount::Bytes(4_473_225_216));
    assert_eq!(evidence(oom, "granted, so the limit is at least"), Amount::Bytes(4_473_225_216));
    assert_eq!(evidence(oom, "refused, so the limit is below"), Amount::Bytes(4_473_225_216 + 32 * MIB));
    let Amount::Bytes(last) = evidence(oom, "peak of the step before") else { panic!("bytes") };
    let Amount::Bytes(next) = evidence(oom, "needed by this step") else { panic!("bytes") };
    assert_eq!((last / MIB, next / MIB), (3805, 3805 + 2 * 1846));
    let line = oom.site.line.as_ref().unwrap();
    assert!(
        oom.what.contains(&line.short()) && oom.what.contains("peaks double with each step"),
        "{}",
        oom.what
    );
    assert_eq!(oom.known_by, KnownBy::Likely);
    assert!(oom.queries().contains(&"at --at oom:1"), "{:?}", oom.queries());
}

/// 20 MiB are held, 8 of them in use, 4 free on the device.
#[test]
fn an_error_for_want_of_bytes_is_lack() {
    let (_, replay) = trace(&[("alloc", 0, 8 * MIB), ("oom", 4 * MIB, 64 * MIB)]);
    let found = found(&replay);
    assert_eq!(evidence(&found[0], "cause"), Amount::Text("lack".into()));
    // 64 less 4 on the device and 12 in the hole.
    assert!(found[0].what.contains("48.0 MiB short"), "{}", found[0].what);
    // A hole of 12 MiB is larger than 4 MiB on the device.
    assert_eq!(evidence(&found[0], "largest request that would have fitted"), Amount::Bytes(12 * MIB));
}

#[test]
fn a_failed_allocation_tells_what_the_process_could_hold() {
    // A segment of 20 MiB and 4 MiB left on the device.
    let (_, replay) = trace(&[("alloc", 0, 8 * MIB), ("oom", 4 * MIB, 64 * MIB)]);
    let told = Capacity::of(&replay).unwrap();
    assert_eq!((told.bytes, told.is_limit), (24 << 20, false));
    // With 100 MiB left, 64 MiB can only have failed because of a limit below 20 + 64.
    let (_, replay) = trace(&[("alloc", 0, 8 * MIB), ("oom", 100 * MIB, 64 * MIB)]);
    let told = Capacity::of(&replay).unwrap();
    assert_eq!((told.bytes, told.is_limit), (84 << 20, true));
    let (_, replay) = trace(&[("alloc", 0, 8 * MIB)]);
    assert_eq!(Capacity::of(&replay), None);
}

/// Each of 102 segments has 8 MiB in use and a hole of 12 MiB. Expandable segments are returned by pages of 20 MiB, and each
/// page would have 8 MiB in use, too: no setting gets past 200 MiB.
#[test]
fn advice_after_an_earlier_error_is_tried_as_well() {
    let (_, replay) = read("insight_oom_frag");
    let found = found(&replay);
    let errors: Vec<_> = found.iter().filter(|finding| finding.kind == Kind::OutOfMemory).collect();
    let last = errors.iter().max_by_key(|finding| finding.when.1).unwrap();
    assert_eq!((errors.len(), evidence(last, "cause")), (2, Amount::Text("fragmentation".into())));
    assert!(last.advice.contains("No setting helps"), "{}", last.advice);
}

/// Programs that ran under `torch.cuda.set_per_process_memory_fraction`: the limit lies in its bounds, and a retry before the
/// error makes them narrower.
#[test]
fn limits_lie_between_what_was_granted_and_what_was_refused() {
    for name in ["resize.limit", "resize.gclimit"] {
        let limit = 2_200_000_000;
        let (_, replay) = read(&format!("../whatif/{name}"));
        let told = Capacity::of(&replay).unwrap();
        assert!(told.is_limit && (told.at_least..told.bytes).contains(&limit), "{name}: {told:?}");
    }
    // At event 405 segments of 1 918 894 080 bytes were held, and 301 989 888 more were refused at first.
    let (_, replay) = read("../whatif/resize.limit");
    assert_eq!(Capacity::of(&replay).unwrap().bytes, 2_220_883_968);
}

#[test]
fn the_cost_of_a_pool_is_its_segments() {
    for name in ["cudagraph_pools", "mempool"] {
        let (snapshot, replay) = read(name);
        let mut pools = 0;
        for finding in found(&replay).iter().filter(|finding| finding.kind == Kind::PrivatePool) {
            let pool = finding.site.pool.unwrap();
            let of_pool = snapshot
                .segments_of(DeviceId(0))
                .iter()
                .filter(|segment| snapshot.pool(segment.pool) == Some(pool));
            assert_eq!(
                finding.bytes,
                of_pool.map(|segment| segment.total_size).sum::<u64>(),
                "{name} {pool:?}"
            );
            pools += 1;
        }
        assert_eq!(pools, if name == "mempool" { 1 } else { 3 });
    }
}

/// Two blocks wait for another stream, 3 and 1 ms; a third is freed at once and does not count.
#[test]
fn frees_that_wait() {
    let (_, replay) = trace(&[
        ("alloc", 0, 4 * MIB),
        ("alloc", 4 * MIB, 2 * MIB),
        ("free_requested", 0, 4 * MIB),
        ("alloc", 6 * MIB, MIB),
        ("free_requested", 4 * MIB, 2 * MIB),
        ("free_completed", 0, 4 * MIB),
        ("free_completed", 4 * MIB, 2 * MIB),
        ("free_requested", 6 * MIB, MIB),
        ("free_completed", 6 * MIB, MIB),
    ]);
    let found = pending(&replay);
    assert_eq!((found.peak_bytes, found.peak_at), (6 * MIB, Moment(5)));
    let [group] = found.groups.as_slice() else { panic!("one stack and stream") };
    assert_eq!((group.count, group.bytes, group.longest_us), (2, 6 * MIB, 3000));
    assert_eq!(group.byte_time, u128::from(4 * MIB * 3000 + 2 * MIB * 2000));
}

#[test]
fn what_pins_a_segment_and_what_would_fit() {
    // 20 MiB with 2 MiB in use in the middle: holes of 8 and 10.
    let (_, replay) = trace(&[("alloc", 8 * MIB, 2 * MIB)]);
    let state = replay.state(replay.end());
    let [segment] = pinned(&state).try_into().unwrap();
    assert_eq!((segment.free, segment.largest_hole, segment.live), (18 * MIB, 10 * MIB, 0..1));
    let stream = state.ranges[0].stream;
    assert_eq!(largest_fit(&replay, &state, (0, 0), stream), 10 * MIB);
    assert_eq!(largest_fit(&replay, &state, (1, 0), stream), 0, "a pool that is not there");
}

#[test]
fn fragmentation_over_time_adds_up() {
    for name in ["llama_python", "expandable", "max_split", "oom"] {
        let (_, replay) = read(name);
        assert_eq!(replay.verdict().status, Status::Exact);
        let found = fragmentation(&replay, (Moment::START, replay.end()), 32, None, |_| true);
        assert_eq!(found.samples.len(), 33);
        for sample in &found.samples {
            let counters = replay.counters(sample.at);
            assert_eq!(sample.free as i64, counters.reserved - counters.active, "{name}");
            assert!(sample.unusable <= sample.free && sample.largest_hole <= sample.free);
        }
        assert!(found.segments.iter().all(|segment| segment.used <= segment.size / 2));
    }
}

#[test]
fn phases_have_their_peaks() {
    let (snapshot, replay) = read("llama_python");
    let phases = phases(&replay);
    let names: Vec<_> = phases.iter().map(|phase| (snapshot.text(phase.name), phase.count)).collect();
    for name in ["## forward ##", "## backward ##", "## optimizer ##"] {
        assert!(names.contains(&(name, 3)), "three steps: {names:?}");
    }
    // The whole is the highest of its parts, and every allocation of a step is in one of its phases.
    let highest = phases.iter().map(|phase| phase.peak.bytes).max().unwrap();
    assert_eq!(highest, replay.peak(Counter::Requested).bytes);
}

#[test]
fn ranks_that_differ_are_singled_out() {
    let digest = |rank: u64| {
        let (_, replay) = read(&format!("rank{rank}_memory_snapshot"));
        let when = (replay.peak(Counter::Requested), replay.end());
        RankDigest::new(Some(rank), &replay, when, |_, _| true)
    };
    let ranks: Vec<_> = (0..4).map(digest).collect();
    let report = compare_ranks(&ranks);
    let found = rank_insights(&ranks, &report, &|n| n.to_string());
    let kinds: Vec<_> = found.iter().map(|finding| (finding.kind, finding.site.rank)).collect();
    // Rank 2 keeps its outputs and leaks; rank 3 holds a bigger share and does not.
    assert_eq!(kinds[0], (Kind::Growth, Some(2)));
    assert!(kinds.contains(&(Kind::Rank, Some(2))) && kinds.contains(&(Kind::Rank, Some(3))), "{kinds:?}");
    assert!(kinds.iter().all(|(_, rank)| matches!(rank, Some(2 | 3))), "{kinds:?}");
}

/// PyTorch's own counter of free bytes in partly used segments: `inactive_split_bytes`.
#[test]
fn pinned_holes_are_what_pytorch_counts() {
    let mut compared = 0;
    for name in names() {
        let Some(oracle) = oracle(&name) else { continue };
        let (snapshot, replay) = read(&name);
        if replay.verdict().status != Status::Exact || replay.events() == 0 {
            continue;
        }
        let events = snapshot.events(DeviceId(0));
        for mark in oracle["marks"].as_array().unwrap() {
            let Some(torch) = mark["inactive_split"].as_u64() else { continue };
            let state = replay.state(moment_at_time(events, mark["time_ns"].as_i64().unwrap() / 1000));
            // Parts of expandable segments count differently, as they have neighbours that are not mapped.
            if state.ranges.iter().any(|range| range.expandable) {
                continue;
            }
            let ours: u64 = pinned(&state).iter().map(|pinned| pinned.free).sum();
            assert_eq!(ours, torch, "{name} {}", mark["label"]);
            compared += 1;
        }
    }
    assert!(compared > 300, "{compared}");
}

/// Recorded on purpose: each program does one thing wrong, or nothing. The numbers are in the programs: 512 × 1024
/// floats are kept each step, 102 pieces of 12 MiB are freed between pieces of 8, then 200 MiB are asked, and so on.
#[test]
fn programs_with_one_fault_have_one_finding() {
    let cases: [(&str, &[(Kind, Severity)]); 8] = [
        ("healthy_varlen", &[]),
        ("kv_decode", &[]),
        ("sgd_momentum_late", &[]),
        ("leak_outputs_noann", &[(Kind::Growth, Severity::Medium)]),
        ("leak_inputs_varlen", &[(Kind::Growth, Severity::Medium)]),
        ("empty_cache_storm", &[(Kind::DriverCalls, Severity::Medium)]),
        ("oom_lack", &[(Kind::OutOfMemory, Severity::High)]),
        ("oom_frag", &[(Kind::OutOfMemory, Severity::High), (Kind::OutOfMemory, Severity::High)]),
    ];
    for (name, expected) in cases {
        let (_, replay) = read(&format!("insight_{name}"));
        let found = found(&replay);
        let kinds: Vec<_> = found
            .iter()
            .filter(|finding| finding.severity > Severity::Low)
            .map(|finding| (finding.kind, finding.severity))
            .collect();
        assert_eq!(kinds, expected, "{name}");
        match name {
            "leak_outputs_noann" => {
                assert_eq!(evidence(&found[0], "bytes per step"), Amount::Bytes(512 * 1024 * 4));
            }
            "oom_lack" => assert_eq!(evidence(&found[0], "cause"), Amount::Text("lack".into())),
            "oom_frag" => {
                assert_eq!(evidence(&found[0], "cause"), Amount::Text("fragmentation".into()));
                assert_eq!(evidence(&found[0], "free in holes"), Amount::Bytes(102 * 12 * MIB));
                // Each freed piece lies alone.
                assert_eq!(
                    evidence(&found[0], "largest request that would have fitted"),
                    Amount::Bytes(12 * MIB)
                );
            }
            _ => {}
        }
    }
}

/// Four ranks that begin the same steps together, but one 40 ms later, of 100 ms that a step takes.
#[test]
fn a_rank_that_comes_late_is_a_straggler() {
    let (_, replay) = trace(&[("alloc", 0, MIB)]);
    let digest = |rank: u64| {
        let when = (replay.peak(Counter::Requested), replay.end());
        let mut digest = RankDigest::new(Some(rank), &replay, when, |_, _| true);
        let late = if rank == 3 { 40_000 } else { 0 };
        digest.starts =
            (0..5).map(|step| (("step".to_owned(), step), i64::from(step) * 100_000 + late)).collect();
        digest
    };
    let ranks: Vec<_> = (0..4).map(digest).collect();
    let found = rank_insights(&ranks, &compare_ranks(&ranks), &|n| n.to_string());
    let [straggler] = found.as_slice() else { panic!("{found:?}") };
    assert_eq!((straggler.kind, straggler.site.rank), (Kind::Straggler, Some(3)));
    assert_eq!(evidence(straggler, "later by"), Amount::Micros(40_000));
    assert_eq!(evidence(straggler, "time of a step"), Amount::Micros(100_000));
}
