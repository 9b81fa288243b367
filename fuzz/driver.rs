//! One driver that asks many things of the same bytes. It runs under `cargo fuzz`, and on stable over
//! tens of thousands of damaged recordings.

use vramscope_analysis::categories::{Rules, classify};
use vramscope_analysis::pools::Pools;
use vramscope_analysis::{
    Counter, Counters, Device, Moment, RankDigest, compare_ranks, fragmentation, pending, phases,
};
use vramscope_format::Units;
use vramscope_snapshot::{
    AscendPart, AscendProfile, Damage, DeviceId, ReadError, Reader, Snapshot, embedded,
};

/// Devices and moments that are looked at closely; a hostile file may have very many.
const DEVICES: usize = 8;
const MOMENTS: usize = 9;

/// Reads bytes that arrive in chunks of pseudo-random length.
fn read_chunked(mut bytes: &[u8], mut seed: u64) -> Result<Snapshot, ReadError> {
    let mut reader = Reader::new().expect_len(seed % 3 * bytes.len() as u64);
    while !bytes.is_empty() {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let longest = [1, 3, 17, 400, 70_000][(seed >> 60) as usize % 5];
        let (chunk, rest) = bytes.split_at(((seed >> 33) as usize % longest + 1).min(bytes.len()));
        reader.feed(chunk)?;
        bytes = rest;
    }
    reader.finish()
}

fn read(bytes: &[u8]) -> Result<Snapshot, ReadError> {
    let mut reader = Reader::new();
    reader.feed(bytes)?;
    reader.finish()
}

fn brief(result: &Result<Snapshot, ReadError>) -> Result<(usize, Option<Damage>, &[String]), &ReadError> {
    let events = |snapshot: &Snapshot| snapshot.traces.iter().map(|trace| trace.events.len()).sum();
    result.as_ref().map(|snapshot| (events(snapshot), snapshot.damage.clone(), snapshot.warnings.as_slice()))
}

/// Bytes one at a time: the fast path for events never sees a whole one, so this is the general path.
fn read_bytewise(bytes: &[u8]) -> Result<Snapshot, ReadError> {
    let mut reader = Reader::new();
    for byte in bytes.chunks(1) {
        reader.feed(byte)?;
    }
    reader.finish()
}

/// Longer inputs are not read byte by byte.
const BYTEWISE: usize = 20_000;

/// Panics if anything that must hold for any bytes does not. Says whether there was a snapshot.
pub(crate) fn check(bytes: &[u8], seed: u64) -> bool {
    let whole = read(bytes);
    let chunked = read_chunked(bytes, seed);
    // Compared without printing: a snapshot is megabytes of text.
    assert!(
        whole == chunked,
        "the result depends on where the input is cut (seed {seed}): {:?} or {:?}",
        brief(&whole),
        brief(&chunked)
    );
    if bytes.len() <= BYTEWISE {
        let slow = read_bytewise(bytes);
        assert!(whole == slow, "fast and general path differ: {:?} or {:?}", brief(&whole), brief(&slow));
    }
    if bytes.len() <= BYTEWISE && matches!(bytes.first(), Some(b'[' | b'{' | b'A'..=b'Z')) {
        check_files_of_a_profile(bytes);
    }
    let Ok(snapshot) = whole else { return false };
    check_snapshot(&snapshot, seed);
    true
}

/// Panics if a report does not keep a snapshot, or if something is wrong with what is concluded from it.
pub(crate) fn check_snapshot(snapshot: &Snapshot, seed: u64) {
    let mut data = Vec::new();
    assert!(embedded::encode(snapshot, &mut data).is_ok(), "a vector takes all bytes");
    let again = embedded::decode(&data);
    assert!(again.as_ref() == Ok(snapshot), "a report does not keep what it was given: {:?}", again.err());

    for device in snapshot.devices().into_iter().take(DEVICES) {
        let replay = Device::new(snapshot.clone(), device);
        check_replay(&replay);
        // They take longer than the reading, so not every damaged file is asked.
        if seed.is_multiple_of(4) {
            check_questions(&replay);
            check_parts(&replay);
        }
    }
}

/// Every question that can be asked has an answer.
fn check_questions(replay: &Device) {
    let findings = replay.findings(Units::Bytes);
    assert!(
        findings.iter().all(|finding| finding.when.0 <= finding.when.1),
        "findings begin before they end"
    );
    for phase in phases(replay) {
        assert!(phase.peak.bytes <= replay.peak(Counter::Requested).bytes, "no phase is above the peak");
    }
    let end = replay.end();
    let samples = fragmentation(replay, (Moment::START, end), MOMENTS as u32, None, |_| true).samples;
    assert!(samples.iter().all(|sample| sample.unusable <= sample.free), "what is unusable is free");
    pending(replay);
    let digest = || {
        let when = (replay.peak(Counter::Requested), end);
        RankDigest::new(Some(0), replay, when, |_, _| true)
    };
    let ranks = [digest(), digest(), digest()];
    let report = compare_ranks(&ranks);
    assert!(report.outliers.is_empty() && report.skew == 0, "a rank is like itself");
}

/// The bytes as each of the files that a profile has beside its rows.
fn check_files_of_a_profile(bytes: &[u8]) {
    let rows = b"Name,Size(KB),Allocation Time(us),Allocation Total Allocated(MB)\naten::mul,1,20,5\naten::mul,1,30,7\n";
    let parts = [
        AscendPart::TraceView,
        AscendPart::Info,
        AscendPart::MemoryRecord,
        AscendPart::ModuleMemory,
        AscendPart::Database,
    ];
    for part in parts {
        let mut profile = AscendProfile::new();
        profile.feed(AscendPart::OperatorMemory, rows);
        profile.feed(part, bytes);
        match profile.finish() {
            Ok(snapshot) => check_replay(&Device::new(snapshot.clone(), DeviceId(0))),
            // A database takes the place of the rows, and may be damaged; nothing else can spoil them.
            Err(_) => assert!(part == AscendPart::Database, "the rows are lost for {part:?}"),
        }
    }
}

fn check_replay(replay: &Device) {
    let end = replay.end();
    let (_, highest) = replay.extremes(Moment::START, end);
    for counter in Counter::ALL {
        let peak = replay.peak(counter);
        assert_eq!(peak.bytes, highest[counter], "the peak is the greatest value");
        assert_eq!(replay.counters(peak.at)[counter], peak.bytes, "the peak is where it says");
    }
    for step in 0..=MOMENTS {
        let at = Moment((end.0 as usize * step / MOMENTS) as u32);
        let state = replay.state(at);
        let mut sum = Counters { reserved: state.counters.reserved, ..Counters::default() };
        for &index in &state.live {
            let allocation = replay.allocation(index);
            assert!(allocation.is_live(at));
            let size = i64::try_from(allocation.size).unwrap_or(i64::MAX);
            sum.requested =
                sum.requested.saturating_add(i64::try_from(allocation.requested).unwrap_or(i64::MAX));
            sum.active = sum.active.saturating_add(size);
            if at < allocation.released {
                sum.allocated = sum.allocated.saturating_add(size);
            }
        }
        assert_eq!(sum, state.counters, "the live set adds up to the counters");
        assert!(state.holes.iter().all(|hole| hole.size > 0));
    }
}

/// Pools and categories: every live allocation is in exactly one of each.
fn check_parts(replay: &Device) {
    let pools = Pools::all(replay);
    let categories = classify(replay, &Rules::default());
    let end = replay.end();
    for at in [Moment::START, Moment(end.0 / 2), end] {
        let state = replay.state(at);
        assert!(state.live.iter().all(|&index| pools.envelope_of(index).is_some()), "each has a pool");
        let totals = categories.totals(&state, |_, _| true);
        let count: u64 = totals.iter().map(|total| total.count).sum();
        assert_eq!(count, state.live.len() as u64, "each has a category");
        assert_eq!(pools.summaries(replay, at).len(), pools.envelopes().len());
    }
    for envelope in pools.envelopes() {
        let (least, most) = envelope.extremes(Moment::START, end);
        assert!(
            envelope
                .steps()
                .all(|(_, level)| level.reserved <= most.reserved && level.active >= least.active)
        );
    }
    let series = categories.series(replay, MOMENTS);
    assert!(series.at.len() <= MOMENTS && series.bytes.iter().all(|column| column.len() == series.at.len()));
}
