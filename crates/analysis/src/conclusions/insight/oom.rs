//! Out of memory: what was asked, what was free, and why it did not fit.
//!
//! By the time PyTorch gives up it has returned every segment in which nothing lives. What is left is either
//! in use, or a hole in a segment that something pins. The cause is
//! - *another pool or stream*, if a hole was large enough but serves somebody else;
//! - *fragmentation*, if the free bytes, in holes and on the device, would have been enough in one piece, or if some
//!   setting gets past the request in a simulation;
//! - *lack*, if neither is so.
//!
//! If the device itself had room, a limit was in force (`set_per_process_memory_fraction`, or a quota): then
//! only the holes count as free.

use vramscope_snapshot::StackId;

use super::trial::{REMEDIES, Tried};
use super::{Amount, Case, Finding, Kind, Severity, Site};
use crate::questions::compare::by_line;
use crate::questions::frames::user_frame;
use crate::questions::pins::{largest_fit, pinned};
use crate::questions::weights::live_weights;
use crate::replay::Oom;
use crate::replay::allocations::Moment;
use crate::replay::counters::Counter;
use vramscope_format::count;

/// Why an allocation failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Cause {
    OtherPool,
    Fragmentation,
    Lack,
}

impl Cause {
    const fn name(self) -> &'static str {
        match self {
            Self::OtherPool => "other pool or stream",
            Self::Fragmentation => "fragmentation",
            Self::Lack => "lack",
        }
    }
}

/// A loop that catches the error can make thousands: the first ones and the last are told.
const MOST: usize = 8;

pub(super) fn find(case: &Case<'_>) -> Vec<Finding> {
    let ooms = case.replay.ooms();
    let told = ooms.iter().take(MOST).chain(ooms.iter().skip(MOST).next_back());
    told.map(|oom| one(case, oom)).collect()
}

/// Of a profile, which does not show what was free and where.
fn without_map(case: &Case<'_>, oom: &Oom) -> Finding {
    let Case { snapshot, replay, bytes, .. } = *case;
    let at = Moment::after(oom.event);
    let in_use = super::signed(replay.counters(at).active);
    let stack = snapshot.events(replay.device()).get(oom.event.index()).stack;
    let event = count(oom.event.0);
    Finding {
        kind: Kind::OutOfMemory,
        severity: Severity::High,
        bytes: oom.requested,
        when: (at, at),
        site: Site {
            stack: Some(stack).filter(|stack| *stack != StackId::ABSENT),
            line: case.line(user_frame(snapshot, stack)),
            ..Site::default()
        },
        what: format!(
            "out of memory at event {event}: requested {} while {} was in use; what was free is not in this file",
            bytes(oom.requested),
            bytes(in_use)
        ),
        evidence: Vec::new(),
        advice: "Record a snapshot to see why: torch.cuda.memory._record_memory_history()".into(),
    }
    .with("requested", Amount::Bytes(oom.requested))
    .with("in use", Amount::Bytes(in_use))
}

/// Whether some setting gets past a request.
enum Remedy {
    Found(Tried),
    None,
    /// Why that is not known.
    Unknown(String),
}

/// The first setting that gets past a request whatever the device's addresses.
fn remedy(case: &Case<'_>, oom: &Oom) -> Remedy {
    let at = Moment::after(oom.event);
    if case.replay.ooms().first().is_none_or(|first| first.event != oom.event) {
        return Remedy::Unknown("what the program does after an error depends on the error".into());
    }
    for settings in REMEDIES {
        match case.trial.run(settings) {
            Ok(tried) if tried.passes == Some(at) && !tried.unsure => return Remedy::Found(tried),
            Ok(_) => {}
            Err(reason) => return Remedy::Unknown(reason),
        }
    }
    Remedy::None
}

fn one(case: &Case<'_>, oom: &Oom) -> Finding {
    let Case { snapshot, replay, bytes, .. } = *case;
    if !snapshot.has.addresses {
        return without_map(case, oom);
    }
    let at = Moment::after(oom.event);
    let state = replay.state(at);
    let event = snapshot.events(replay.device()).get(oom.event.index());
    let (pool, stream) = (snapshot.pool(event.pool).unwrap_or((0, 0)), event.stream);
    let fits = largest_fit(snapshot, replay, &state, pool, stream);
    let holes = state.holes.iter().fold(0_u64, |sum, hole| sum.saturating_add(hole.size));
    // Below a limit the room on the device is of no use.
    let is_limited = oom.device_free >= oom.requested;
    let free = if is_limited { holes } else { holes.saturating_add(oom.device_free) };
    let remedy = remedy(case, oom);
    let cause = if state.largest_hole() >= oom.requested && fits < oom.requested {
        Cause::OtherPool
    } else if free >= oom.requested || holes > 0 && matches!(remedy, Remedy::Found(_)) {
        Cause::Fragmentation
    } else {
        Cause::Lack
    };
    let on_device = match is_limited {
        true => format!("{} was free on the device, but a per-process limit applied", bytes(oom.device_free)),
        false => format!("{} was free on the device", bytes(oom.device_free)),
    };
    let short = |by: u64| bytes(oom.requested.saturating_sub(by));
    let why = match cause {
        Cause::OtherPool => {
            format!("a hole of {} was there, but for another pool or stream", bytes(state.largest_hole()))
        }
        Cause::Fragmentation => format!(
            "fragmentation: {} was free in holes; the largest request that fits is {}, {} short",
            bytes(holes),
            bytes(fits),
            short(fits)
        ),
        Cause::Lack => {
            format!("lack of memory: {} was free in holes, {} short", bytes(holes), short(free))
        }
    };
    let what = format!(
        "out of memory at event {}: requested {}; {on_device}; {why}",
        count(oom.event.0),
        bytes(oom.requested)
    );
    let lines = by_line(snapshot, &live_weights(replay, &state, |_, _| true));
    let heaviest = lines.into_iter().max_by_key(|(line, sum)| (sum.bytes, std::cmp::Reverse(line.clone())));
    let most = heaviest.filter(|(line, _)| !line.is_missing()).map(|(line, sum)| (line.short(), sum.bytes));
    let advice = match cause {
        Cause::OtherPool => {
            "Let the streams and CUDA graphs share a pool, or free what the other one holds".into()
        }
        Cause::Fragmentation => {
            let order = "Allocate long-lived tensors before short-lived ones";
            match &remedy {
                Remedy::Found(tried) => {
                    let before = super::signed(replay.peak(Counter::Reserved).bytes);
                    format!(
                        "Set PYTORCH_CUDA_ALLOC_CONF={} (simulated: gets past this request; peak reserved {} → {})",
                        tried.settings,
                        bytes(before),
                        bytes(tried.reserved_peak)
                    )
                }
                Remedy::None => {
                    format!("{order}. No setting helps: simulated, each runs out of memory by this request")
                }
                Remedy::Unknown(_) if snapshot.settings.expandable_segments => order.into(),
                Remedy::Unknown(reason) => {
                    format!("Set PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True (not simulated: {reason})")
                }
            }
        }
        Cause::Lack if is_limited => {
            "Raise torch.cuda.set_per_process_memory_fraction, or the quota; or hold less at once".into()
        }
        Cause::Lack => match &most {
            Some((place, held)) => format!("Make {place} hold less: it has {} of it", bytes(*held)),
            None => "Make the batch smaller, or checkpoint activations".into(),
        },
    };
    let site = Site {
        stack: Some(event.stack).filter(|stack| *stack != StackId::ABSENT),
        line: case.line(user_frame(snapshot, event.stack)),
        pool: Some(pool),
        stream: Some(snapshot.stream(stream)),
        ..Site::default()
    };
    let mut finding = Finding {
        kind: Kind::OutOfMemory,
        severity: Severity::High,
        bytes: oom.requested,
        when: (at, at),
        site,
        what,
        evidence: Vec::new(),
        advice,
    }
    .with("cause", Amount::Text(cause.name().to_owned()))
    .with("requested", Amount::Bytes(oom.requested))
    .with("free on the device", Amount::Bytes(oom.device_free))
    .with("free in holes", Amount::Bytes(holes))
    .with(
        "largest request that would have fitted",
        Amount::Bytes(if is_limited { fits } else { fits.max(oom.device_free) }),
    )
    .with("in use", Amount::Bytes(super::signed(state.counters.active)))
    .with("reserved", Amount::Bytes(super::signed(state.counters.reserved)));
    if let Some((place, held)) = most {
        finding = finding.at("most is held by", place, held);
    }
    if let Some(worst) = pinned(replay, &state).first() {
        finding = finding.with("most free in one pinned segment", Amount::Bytes(worst.free));
    }
    finding
}
