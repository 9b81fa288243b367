//! A moment in words: what `--since`, `--until`, `--at` and `--vs` take.

use std::str::FromStr;

use anyhow::{Context, bail};
use vramscope_analysis::{Counter, Moment, Replay, moment_at_time, spans};
use vramscope_snapshot::{EventIdx, Snapshot};

use crate::text;

/// A moment as it is typed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum MomentSpec {
    Start,
    End,
    /// After an event.
    Event(u32),
    /// After the last event at or before a time in microseconds.
    Time(i64),
    /// When a counter was highest.
    Peak(Counter),
    /// The Kth time that memory ran out, from 1; the last time if none is given.
    Oom(Option<usize>),
    /// Inside the Kth annotation span of a name, from 1: where it was highest, its start or its end.
    In {
        name: String,
        nth: Option<usize>,
        place: Place,
    },
}

/// Where in a span.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    Start,
    Peak,
    End,
}

/// What `--help` says about moments.
pub(crate) const GRAMMAR: &str = "\
Moments: start, end, peak, peak:COUNTER, oom, oom:K, an event's number, @T (microseconds since 1970),
or a phase: in:NAME, in:NAME#K (the Kth), in:NAME:start, in:NAME#K:end. Counters: requested, allocated,
active, reserved.";

impl FromStr for MomentSpec {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("not a moment: {text:?}. {}", GRAMMAR.replace('\n', " "));
        let (word, rest) = match text.split_once(':') {
            Some((word, rest)) => (word, Some(rest)),
            None => (text, None),
        };
        Ok(match (word, rest) {
            ("start", None) => Self::Start,
            ("end", None) => Self::End,
            ("peak", None) => Self::Peak(Counter::Requested),
            ("peak", Some(name)) => {
                let counter = Counter::ALL.into_iter().find(|counter| counter.name() == name);
                Self::Peak(counter.ok_or_else(wrong)?)
            }
            ("oom", None) => Self::Oom(None),
            ("oom", Some(number)) => Self::Oom(Some(number.parse().map_err(|_| wrong())?)),
            ("in", Some(rest)) => {
                let (rest, place) = match rest.rsplit_once(':') {
                    Some((rest, "start")) => (rest, Place::Start),
                    Some((rest, "end")) => (rest, Place::End),
                    Some((rest, "peak")) => (rest, Place::Peak),
                    _ => (rest, Place::Peak),
                };
                let (name, nth) = match rest.rsplit_once('#') {
                    Some((name, nth)) if !nth.is_empty() && nth.bytes().all(|b| b.is_ascii_digit()) => {
                        (name, Some(nth.parse().map_err(|_| wrong())?))
                    }
                    _ => (rest, None),
                };
                Self::In { name: name.to_owned(), nth, place }
            }
            _ => match text.strip_prefix('@') {
                Some(time) => Self::Time(time.parse().map_err(|_| wrong())?),
                None => Self::Event(text.parse().map_err(|_| wrong())?),
            },
        })
    }
}

impl MomentSpec {
    /// The moment in a trace, or why there is none.
    pub(crate) fn resolve(&self, snapshot: &Snapshot, replay: &Replay) -> anyhow::Result<Moment> {
        let events = snapshot.events(replay.device());
        Ok(match self {
            Self::Start => Moment::START,
            Self::End => replay.end(),
            Self::Event(event) => {
                let last = replay.events();
                if *event as usize >= last {
                    match last {
                        0 => bail!("there is no event {event}: the snapshot has no history. Try --end"),
                        _ => bail!("there is no event {event}: the trace has events 0 to {}", last - 1),
                    }
                }
                Moment::after(EventIdx(*event))
            }
            Self::Time(time) => {
                if !events.is_empty() && (0..events.len()).all(|row| events.time_us(row).is_none()) {
                    bail!("the events of this snapshot have no times; name an event by its number");
                }
                moment_at_time(events, *time)
            }
            Self::Peak(counter) => replay.peak(*counter).at,
            Self::Oom(number) => {
                let ooms = replay.ooms();
                let oom = match number {
                    None => ooms.last().context("memory never ran out in this snapshot. Try --peak")?,
                    Some(number) => {
                        number.checked_sub(1).and_then(|row| ooms.get(row)).with_context(|| {
                            format!(
                                "oom:{number} does not exist: memory ran out {}",
                                text::plural(ooms.len(), "time")
                            )
                        })?
                    }
                };
                Moment::after(oom.event)
            }
            Self::In { name, nth, place } => {
                let span = find_span(snapshot, replay, name, *nth)?;
                match place {
                    Place::Start => span.from,
                    Place::End => span.to,
                    Place::Peak => replay.highest(Counter::Requested, span.from, span.to),
                }
            }
        })
    }
}

/// The Kth span of a name, from 1; without a number the one with the highest peak.
fn find_span(
    snapshot: &Snapshot,
    replay: &Replay,
    name: &str,
    nth: Option<usize>,
) -> anyhow::Result<vramscope_analysis::Span> {
    let all = spans(snapshot, replay.device());
    let mut names: Vec<_> = all.iter().map(|span| snapshot.text(span.name)).collect();
    names.sort_unstable();
    names.dedup();
    // The whole name, or else a part of one: PyTorch users write "## backward ##".
    let wanted = name.to_lowercase();
    let parts: Vec<_> = names.iter().filter(|known| known.to_lowercase().contains(&wanted)).collect();
    let found = match (names.binary_search(&name), parts.as_slice()) {
        (Ok(_), _) => name,
        (Err(_), [only]) => only,
        (Err(_), []) if names.is_empty() => {
            bail!("the snapshot has no annotations: record_function(\"{name}\") makes one")
        }
        (Err(_), []) => {
            names.truncate(12);
            bail!("there is no annotation {name:?}; there are: {}", text::printable(&names.join(", ")));
        }
        (Err(_), several) => {
            let several: Vec<_> = several.iter().take(12).map(|name| **name).collect();
            bail!("several annotations match {name:?}: {}", text::printable(&several.join(", ")));
        }
    };
    let mut named: Vec<_> = all.iter().filter(|span| snapshot.text(span.name) == found).copied().collect();
    let count = named.len();
    match nth {
        Some(nth) => nth
            .checked_sub(1)
            .filter(|row| *row < count)
            .map(|row| named.swap_remove(row))
            .with_context(|| format!("{name:?} number {nth} does not exist; there are {count}")),
        None => named
            .into_iter()
            .max_by_key(|span| replay.extremes(span.from, span.to).1.requested)
            .context("at least one span"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_as_they_are_typed() {
        let cases = [
            ("start", MomentSpec::Start),
            ("12", MomentSpec::Event(12)),
            ("@-5", MomentSpec::Time(-5)),
            ("peak:reserved", MomentSpec::Peak(Counter::Reserved)),
            ("oom:2", MomentSpec::Oom(Some(2))),
            ("in:backward", MomentSpec::In { name: "backward".into(), nth: None, place: Place::Peak }),
            ("in:a:b#3:end", MomentSpec::In { name: "a:b".into(), nth: Some(3), place: Place::End }),
        ];
        for (text, expected) in cases {
            assert_eq!(text.parse(), Ok(expected), "{text}");
        }
        assert!("peek".parse::<MomentSpec>().unwrap_err().starts_with("not a moment: \"peek\""));
    }
}
