//! A device at first sight, and a moment at a glance.

use vramscope_analysis::{
    Capacity, Counter, Gap, Moment, RankDigest, Status, gap, recorded, verdict_notes, verdict_sentence,
};
use vramscope_format::{count, phase, plural, size, words};
use vramscope_snapshot::{Action, PoolId};

use crate::answers::{Capabilities, LaneInfo, MomentInfo, OomInfo, SpanInfo, Summary};
use crate::device::{DeviceIndex, File};

pub(crate) fn summary(file: &File, device: &DeviceIndex) -> Summary {
    let (snapshot, replay) = (&file.snapshot, &device.replay);
    let clock = device.clock(snapshot);
    let origin = clock.map_or(0, |clock| clock.origin());
    let span_end = clock.map_or(0, |clock| clock.span());
    let time = |at: Moment| clock.map_or(0, |clock| clock.of(at));
    let verdict = replay.verdict();
    let damage = snapshot.damage.as_ref().map(|damage| {
        format!(
            "The file is damaged or cut at byte {} ({}). Everything before it is intact: {}, {}.",
            count(damage.offset),
            damage.reason,
            plural(replay.end().0, "event"),
            plural(replay.allocations().len() as u64, "allocation"),
        )
    });
    Summary {
        file: file.name.clone(),
        rank: file.rank.clone(),
        role: file.role.clone().unwrap_or_default(),
        has: Capabilities {
            addresses: snapshot.has.addresses,
            requested: snapshot.has.requested,
            stacks: snapshot.has.stacks,
            reserved: snapshot.has_reserved(replay.device()),
        },
        damage,
        device: snapshot.device_name(replay.device()),
        by_default: device.by_default,
        has_sql: false,
        capacity: Capacity::of(replay)
            .filter(|capacity| !capacity.is_limit)
            .and_then(|capacity| u64::try_from(capacity.bytes).ok()),
        file_bytes: file.bytes,
        format: snapshot.format.clone(),
        events: replay.end().0,
        allocations: replay.allocations().len() as u32,
        time: clock.map(|clock| (clock.origin(), clock.span())),
        start: replay.counters(Moment::START),
        end: replay.counters(replay.end()),
        peaks: Counter::ALL.map(|counter| replay.peak(counter)),
        peak_times: Counter::ALL.map(|counter| time(replay.peak(counter).at)),
        status: words(verdict.status.name()),
        verdict: verdict_sentence(verdict, &size),
        exact: verdict.status == Status::Exact,
        notes: verdict_notes(verdict, &size),
        warnings: snapshot.warnings.clone(),
        settings: snapshot.settings.all.clone(),
        recorded: recorded(snapshot, replay.device(), &|bytes| size(bytes))
            .into_iter()
            .map(|(name, words)| (name.to_owned(), words))
            .collect(),
        spans: replay
            .spans()
            .iter()
            .map(|span| SpanInfo {
                name: phase(snapshot.text(span.name)).to_owned(),
                depth: span.depth,
                from: span.from,
                to: span.to,
                time: (
                    span.start_us.saturating_sub(origin),
                    span.end_us.map_or(span_end, |end| end.saturating_sub(origin)),
                ),
            })
            .collect(),
        ooms: replay
            .ooms()
            .iter()
            .map(|oom| OomInfo {
                at: Moment::after(oom.event),
                time: time(Moment::after(oom.event)),
                requested: oom.requested,
                device_free: oom.device_free,
            })
            .collect(),
        lanes: device
            .lanes()
            .iter()
            .map(|lane| LaneInfo { addr: lane.addr, size: lane.size, expandable: lane.expandable })
            .collect(),
        streams: snapshot.streams.clone(),
        envelopes: device
            .pools()
            .envelopes()
            .iter()
            .map(|envelope| {
                if envelope.stream == 0 {
                    vramscope_format::pool(envelope.pool)
                } else {
                    vramscope_format::pool_and_stream(envelope.pool, envelope.stream)
                }
            })
            .collect(),
        pools: (0..snapshot.pools.len()).map(|row| file.pool_name(PoolId::from_index(row))).collect(),
    }
}

pub(crate) fn moment(file: &File, device: &DeviceIndex, at: Moment, whole: bool) -> MomentInfo {
    let (snapshot, replay) = (&file.snapshot, &device.replay);
    let at = at.min(replay.end());
    let state = whole.then(|| replay.state(at));
    let events = device.events(snapshot);
    let happened = at.event().map_or_else(String::new, |event| {
        let event = events.get(event.index());
        match event.action {
            Action::Snapshot | Action::UserDefined | Action::Unknown => words(event.action.name()),
            action => format!("{} {}", words(action.name()), size(event.size)),
        }
    });
    let gap = state.as_ref().map(|state| gap(replay, state));
    let causes = gap.iter().flat_map(Gap::causes);
    MomentInfo {
        at,
        time: at.event().and_then(|event| events.time_us(event.index())),
        counters: replay.counters(at),
        event: happened,
        alloc: at.event().and_then(|event| replay.allocation_of(event)),
        phases: device.phases(snapshot, at),
        gap: causes.map(|(cause, bytes)| (cause.to_owned(), bytes)).collect(),
        live: state.map_or(0, |state| state.live.len() as u32),
    }
}

/// What is compared between the ranks of a run.
pub(crate) fn rank(file: &File, device: &DeviceIndex) -> RankDigest {
    let (snapshot, replay) = (&file.snapshot, &device.replay);
    let number = || file.rank.split(' ').find_map(|word| word.parse().ok());
    let moments = (replay.peak(Counter::Requested), replay.end());
    RankDigest::new(snapshot.rank.or_else(number), replay, moments, |_, _| true)
}
