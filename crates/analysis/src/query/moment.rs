//! Moments in words.

use std::str::FromStr;

use vramscope_format::{phase, plural, printable};
use vramscope_replay::{Counter, Moment, moment_at_time};
use vramscope_snapshot::EventIdx;

use super::{QueryError, error};
use crate::device::Device;
use crate::questions::spans::phase_name;
use crate::questions::spans::{Span, is_internal_phase};

/// A moment as it is typed.
#[derive(Clone, Debug, PartialEq)]
pub enum MomentSpec {
    /// Before the first event.
    Start,
    /// After the last event.
    End,
    /// After an event.
    Event(u32),
    /// After the last event at or before a time in microseconds since 1970.
    Time(i64),
    /// The same, in seconds since the first event.
    Since(f64),
    /// When a counter was highest.
    Peak(Counter),
    /// The Kth time that memory ran out, from 1; the last time if none is given.
    Oom(Option<usize>),
    /// Inside the Kth annotation of a name, from 1; of several, the one with the highest peak.
    In {
        /// Its name, or a part of it.
        name: String,
        /// Which of them.
        nth: Option<usize>,
        /// Where in it.
        place: InPhase,
    },
}

/// Where in a phase.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum InPhase {
    /// Before its first event.
    Start,
    /// Where requested bytes were highest in it.
    #[default]
    Peak,
    /// After its last event.
    End,
}

/// What can be typed as a moment, for help texts.
pub const MOMENT_GRAMMAR: &str = "\
start, end, peak, peak:COUNTER (requested, allocated, active, reserved), oom, oom:K (the Kth),
N or e:N (after event N), +S (S seconds after the first event), @T (microseconds since 1970),
in:PHASE (its peak), in:PHASE#K (the Kth), in:PHASE:start, in:PHASE#K:end; the in: may be left out";

impl FromStr for MomentSpec {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let text = text.trim();
        let wrong = || {
            let grammar = MOMENT_GRAMMAR.replace('\n', " ");
            format!("'{text}' is not a moment. Moments are: {grammar}")
        };
        let (word, rest) = match text.split_once(':') {
            Some((word, rest)) => (word, Some(rest)),
            None => (text, None),
        };
        Ok(match (word, rest) {
            ("", None) => return Err(wrong()),
            ("start", None) => Self::Start,
            ("end", None) => Self::End,
            ("peak", None) => Self::Peak(Counter::Requested),
            ("peak", Some(name)) => {
                let counter = Counter::ALL.into_iter().find(|counter| counter.name() == name);
                Self::Peak(counter.ok_or_else(wrong)?)
            }
            ("oom", None) => Self::Oom(None),
            ("oom", Some(number)) => Self::Oom(Some(number.parse().map_err(|_| wrong())?)),
            ("e", Some(number)) => Self::Event(number.parse().map_err(|_| wrong())?),
            ("in", Some(rest)) => in_phase(rest),
            _ => match text.as_bytes() {
                [b'@', ..] => Self::Time(text[1..].parse().map_err(|_| wrong())?),
                [b'+', ..] => {
                    let seconds = text[1..].trim_end_matches('s').trim().parse::<f64>();
                    Self::Since(seconds.ok().filter(|seconds| seconds.is_finite()).ok_or_else(wrong)?)
                }
                // `11 823` and `11_823` are how event numbers are printed and typed.
                [b'0'..=b'9', ..] if text.bytes().all(|b| b.is_ascii_digit() || b" _,".contains(&b)) => {
                    let digits: String = text.chars().filter(char::is_ascii_digit).collect();
                    Self::Event(digits.parse().map_err(|_| wrong())?)
                }
                _ => in_phase(text),
            },
        })
    }
}

fn in_phase(text: &str) -> MomentSpec {
    let (rest, place) = match text.rsplit_once(':') {
        Some((rest, "start")) => (rest, InPhase::Start),
        Some((rest, "end")) => (rest, InPhase::End),
        Some((rest, "peak")) => (rest, InPhase::Peak),
        _ => (text, InPhase::Peak),
    };
    let (name, nth) = match rest.rsplit_once('#') {
        Some((name, nth)) => match nth.parse() {
            Ok(nth) => (name, Some(nth)),
            Err(_) => (rest, None),
        },
        None => (rest, None),
    };
    MomentSpec::In { name: name.to_owned(), nth, place }
}

impl MomentSpec {
    /// The moment in a trace. `within` bounds what "peak" means; without bounds it is the whole trace.
    pub fn resolve(&self, device: &Device, within: Option<(Moment, Moment)>) -> Result<Moment, QueryError> {
        let (snapshot, replay) = (device.snapshot(), device.replay());
        let events = snapshot.events(replay.device());
        let (from, to) = within.unwrap_or((Moment::START, replay.end()));
        Ok(match self {
            Self::Start => from,
            Self::End => to,
            Self::Event(event) => match replay.events() {
                0 => {
                    return error(format!("there is no event {event}: the snapshot has no history. Try end"));
                }
                count if *event as usize >= count => {
                    let last = vramscope_format::count(count as u64 - 1);
                    return error(format!("there is no event {event}: the trace has events 0 to {last}"));
                }
                _ => Moment::after(EventIdx(*event)),
            },
            Self::Time(_) | Self::Since(_)
                if (0..events.len()).all(|row| events.time_us(row).is_none()) && !events.is_empty() =>
            {
                return error("the events of this snapshot have no times; name an event by its number");
            }
            Self::Time(time) => moment_at_time(events, *time),
            Self::Since(seconds) => {
                let first = (0..events.len()).find_map(|row| events.time_us(row)).unwrap_or_default();
                moment_at_time(events, first.saturating_add((seconds * 1e6) as i64))
            }
            Self::Peak(counter) if within.is_none() => replay.peak(*counter).at,
            Self::Peak(counter) => replay.highest(*counter, from, to),
            Self::Oom(number) => {
                let ooms: Vec<_> = replay
                    .ooms()
                    .iter()
                    .map(|oom| Moment::after(oom.event))
                    .filter(|at| (from..=to).contains(at))
                    .collect();
                let found = match number {
                    None => ooms.last(),
                    Some(number) => number.checked_sub(1).and_then(|row| ooms.get(row)),
                };
                match (found, number) {
                    (Some(&at), _) => at,
                    (None, Some(number)) if !ooms.is_empty() => {
                        let times = plural(ooms.len() as u64, "time");
                        return error(format!("oom:{number} does not exist: memory ran out {times}"));
                    }
                    _ => return error("memory never ran out in this recording. Try peak"),
                }
            }
            Self::In { name, nth, place } => {
                let span = find_span(device, name, *nth)?;
                match place {
                    InPhase::Start => span.from,
                    InPhase::End => span.to,
                    InPhase::Peak => replay.highest(Counter::Requested, span.from, span.to),
                }
            }
        })
    }
}

/// Phases that an error lists.
const LISTED: usize = 12;

/// The Kth span of a name, from 1; without a number the one with the highest peak. A part of a name is enough where
/// only one phase has it; PyTorch's own phases count only where no other fits.
fn find_span(device: &Device, name: &str, nth: Option<usize>) -> Result<Span, QueryError> {
    let (snapshot, replay) = (device.snapshot(), device.replay());
    let all = device.spans();
    // A name that has a number of its own, as the profiler's steps have, is meant before the Kth of a name.
    let numbered = nth.map(|nth| format!("{name}#{nth}"));
    if let Some(span) =
        numbered.and_then(|name| all.iter().find(|span| phase(snapshot.text(span.name)) == name))
    {
        return Ok(*span);
    }
    let title = |span: &Span| phase_name(snapshot.text(span.name));
    let mut names: Vec<_> = all.iter().map(title).collect();
    names.sort_unstable_by_key(|name| (is_internal_phase(name), *name));
    names.dedup();
    let wanted = phase_name(name).to_lowercase();
    let exact = names.iter().find(|known| known.to_lowercase() == wanted);
    let own = |known: &&&str| !is_internal_phase(known);
    let parts: Vec<_> = names.iter().filter(|known| known.to_lowercase().contains(&wanted)).collect();
    let own_parts: Vec<_> = parts.iter().copied().filter(own).collect();
    let list = |names: &[&str]| {
        let more = names.len().saturating_sub(LISTED);
        let mut text = names.iter().take(LISTED).map(|name| printable(name)).collect::<Vec<_>>().join(", ");
        if more > 0 {
            text.push_str(&format!(" and {more} more"));
        }
        text
    };
    let found = match (exact, own_parts.as_slice(), parts.as_slice()) {
        (Some(exact), ..) => *exact,
        (None, [only], _) | (None, [], [only]) => **only,
        (None, [], []) if names.is_empty() => {
            return error(format!(
                "'{name}' is not a moment, and the recording has no phases: record_function(\"{name}\") marks one"
            ));
        }
        (None, [], []) => {
            let shown: Vec<&str> = names.iter().copied().filter(|name| !is_internal_phase(name)).collect();
            let shown = if shown.is_empty() { &names } else { &shown };
            return error(format!("there is no phase '{name}'; there are: {}", list(shown)));
        }
        (None, several, all) => {
            let several: Vec<&str> =
                if several.is_empty() { all } else { several }.iter().map(|n| **n).collect();
            return error(format!(
                "several phases match '{name}'; write one of them whole: {}",
                list(&several)
            ));
        }
    };
    let named: Vec<_> = all.iter().filter(|span| title(span) == found).copied().collect();
    let picked = match nth {
        Some(nth) => nth.checked_sub(1).and_then(|row| named.get(row)),
        None => named.iter().max_by_key(|span| replay.extremes(span.from, span.to).1.requested),
    };
    match picked {
        Some(span) => Ok(*span),
        None => error(format!(
            "'{found}' number {} does not exist: there are {}",
            nth.unwrap_or_default(),
            named.len()
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn in_phase(name: &str, nth: Option<usize>, place: InPhase) -> MomentSpec {
        MomentSpec::In { name: name.into(), nth, place }
    }

    #[test]
    fn moments_as_they_are_typed() {
        let cases = [
            ("start", MomentSpec::Start),
            ("12", MomentSpec::Event(12)),
            ("11 823", MomentSpec::Event(11_823)),
            ("@-5", MomentSpec::Time(-5)),
            ("+1.5", MomentSpec::Since(1.5)),
            ("+2s", MomentSpec::Since(2.0)),
            ("peak:reserved", MomentSpec::Peak(Counter::Reserved)),
            ("oom:2", MomentSpec::Oom(Some(2))),
            ("in:backward", in_phase("backward", None, InPhase::Peak)),
            ("in:a:b#3:end", in_phase("a:b", Some(3), InPhase::End)),
            ("backward#2", in_phase("backward", Some(2), InPhase::Peak)),
        ];
        for (text, expected) in cases {
            assert_eq!(text.parse(), Ok(expected), "{text}");
        }
        for wrong in ["", "peak:bytes", "oom:x", "@noon", "+soon"] {
            let message = wrong.parse::<MomentSpec>().unwrap_err();
            assert!(message.contains("is not a moment. Moments are: start, end, peak"), "{message}");
        }
    }
}
