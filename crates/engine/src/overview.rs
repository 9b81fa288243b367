//! A device at first sight, and a moment at a glance.

use vramscope_analysis::{
    Amount, Capacity, Counter, Finding, Moment, RankDigest, Status, compare_ranks, gap,
};
use vramscope_format::{count, percent, phase, seconds, size, words};
use vramscope_snapshot::{Action, PoolId};

use crate::answers::{Insight, LaneInfo, MomentInfo, OomInfo, SpanInfo, Summary, Told};
use crate::device::{Device, File};

pub(crate) fn summary(file: &File, device: &Device) -> Summary {
    let (snapshot, replay) = (&file.snapshot, &device.replay);
    let clock = device.clock(snapshot);
    let origin = clock.map_or(0, |clock| clock.origin());
    let span_end = clock.map_or(0, |clock| clock.span());
    let peak = |counter| {
        let peak = replay.peak(counter);
        (peak.bytes, peak.at.0)
    };
    let time = |at: Moment| clock.map_or(0, |clock| clock.of(at));
    let verdict = replay.verdict();
    let damage = snapshot.damage.as_ref().map(|damage| {
        format!(
            "The file is damaged or cut at byte {} ({}). What lies before is intact: {} events, {} allocations.",
            count(damage.offset),
            damage.reason,
            count(replay.end().0),
            count(replay.allocations().len() as u64),
        )
    });
    Summary {
        file: file.name.clone(),
        rank: file.rank.clone(),
        role: file.role.clone().unwrap_or_default(),
        told: Told {
            addresses: snapshot.has.addresses,
            requested: snapshot.has.requested,
            stacks: snapshot.has.stacks,
            reserved: snapshot.has_reserved(replay.device()),
        },
        damage,
        device: snapshot.device_name(replay.device()),
        capacity: Capacity::of(snapshot, replay)
            .filter(|capacity| !capacity.is_limit)
            .and_then(|capacity| u64::try_from(capacity.bytes).ok()),
        file_bytes: file.bytes,
        format: snapshot.format.clone(),
        events: replay.end().0,
        allocations: replay.allocations().len() as u32,
        time: clock.map(|clock| (clock.origin(), clock.span())),
        start: replay.counters(Moment::START).into(),
        end: replay.counters(replay.end()).into(),
        peaks: Counter::ALL.map(peak),
        peak_times: Counter::ALL.map(|counter| time(replay.peak(counter).at)),
        verdict: words(verdict.status.name()),
        exact: verdict.status == Status::Exact,
        notes: verdict.notes.clone(),
        warnings: snapshot.warnings.clone(),
        settings: snapshot.settings.all.clone(),
        spans: device
            .spans
            .iter()
            .map(|span| SpanInfo {
                name: phase(snapshot.text(span.name)).to_owned(),
                depth: span.depth,
                from: span.from.0,
                to: span.to.0,
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
                at: Moment::after(oom.event).0,
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
            .pools(snapshot)
            .envelopes()
            .iter()
            .map(|envelope| {
                let pool = vramscope_format::pool(envelope.pool);
                if envelope.stream == 0 { pool } else { format!("{pool}, stream {:#x}", envelope.stream) }
            })
            .collect(),
        pools: (0..snapshot.pools.len()).map(|row| file.pool_name(PoolId::from_index(row))).collect(),
    }
}

pub(crate) fn moment(file: &File, device: &Device, at: u32, whole: bool) -> MomentInfo {
    let (snapshot, replay) = (&file.snapshot, &device.replay);
    let at = Moment(at).min(replay.end());
    let state = whole.then(|| replay.state(at));
    let event = at.event().map(|event| device.events(snapshot).get(event.index()));
    let text = match event {
        None => "start".to_owned(),
        Some(event) if matches!(event.action, Action::Snapshot | Action::UserDefined | Action::Unknown) => {
            event.action.name().to_owned()
        }
        Some(event) => {
            format!("{} {}", event.action.name(), size(event.size))
        }
    };
    let gap = state.as_ref().map(|state| gap(snapshot, replay, state));
    let parts = gap.iter().flat_map(vramscope_analysis::Gap::parts).filter(|(_, bytes)| *bytes > 0);
    MomentInfo {
        at: at.0,
        time: at.event().and_then(|event| device.events(snapshot).time_us(event.index())),
        numbers: replay.counters(at).into(),
        event: text,
        alloc: at.event().and_then(|event| replay.allocation_of(event)).map(|index| index.0),
        phases: device.phases(snapshot, at),
        gap: parts.map(|(name, bytes)| (words(name), bytes)).collect(),
        live: state.map_or(0, |state| state.live.len() as u32),
    }
}

/// What looks wrong, the worst first.
pub(crate) fn insights(file: &File, device: &Device) -> Vec<Insight> {
    let found = vramscope_analysis::insights(&file.snapshot, &device.replay, &device.spans, &size);
    found.iter().map(|finding| insight(Some(device), finding, &size)).collect()
}

/// What is compared between the ranks of a run.
pub(crate) fn rank(file: &File, device: &Device) -> RankDigest {
    let (snapshot, replay) = (&file.snapshot, &device.replay);
    let number = || file.rank.split(' ').find_map(|word| word.parse().ok());
    let moments = (replay.peak(Counter::Requested), replay.end());
    RankDigest::new(snapshot.rank.or_else(number), (snapshot, replay, &device.spans), moments, |_, _| true)
}

/// What the comparison of ranks says is wrong, the worst first.
pub fn rank_insights(ranks: &[RankDigest]) -> Vec<Insight> {
    let found = vramscope_analysis::rank_insights(ranks, &compare_ranks(ranks), &size);
    found.iter().map(|finding| Insight { when: None, ..insight(None, finding, &size) }).collect()
}

fn insight(device: Option<&Device>, finding: &Finding, show: &dyn Fn(u64) -> String) -> Insight {
    let amount = |amount: &Amount| match amount {
        Amount::Bytes(n) => show(*n),
        Amount::Count(n) => count(*n),
        Amount::Share(share) => percent(*share),
        Amount::Micros(us) => seconds(*us),
        Amount::Text(text) => text.clone(),
    };
    let evidence = finding.evidence.iter().map(|evidence| {
        let place = evidence.place.as_deref().map_or_else(String::new, |place| format!("  {place}"));
        (words(evidence.name), format!("{}{place}", amount(&evidence.value)))
    });
    let largest = device.zip(finding.site.stack).and_then(|(device, stack)| device.totals().get(&stack));
    Insight {
        kind: words(finding.kind.name()),
        severity: finding.severity as u8,
        title: finding.what.clone(),
        evidence: evidence.collect(),
        advice: finding.advice.clone(),
        bytes: i64::try_from(finding.bytes).unwrap_or(i64::MAX),
        when: Some((finding.when.0.0, finding.when.1.0)),
        alloc: largest.map(|total| total.largest),
    }
}
