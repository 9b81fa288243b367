//! `vramscope diff`: what changed between two files, or two moments of one.

use std::io::Write;
use std::process::ExitCode;
use std::str::FromStr;

use serde::Serialize;
use vramscope_analysis::{Change, Counter, Line, Moment, by_stack, changes, units};

use crate::args::DiffArgs;
use crate::filter::Subject;
use crate::output::FrameJson;
use crate::text;

/// A limit as it is typed: `peak+5%`, `end:reserved+100MiB`.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Limit {
    text: String,
    at_peak: bool,
    counter: Counter,
    more: More,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum More {
    Bytes(u64),
    Percent(f64),
}

impl FromStr for Limit {
    type Err = String;

    fn from_str(typed: &str) -> Result<Self, String> {
        let wrong = || format!("{typed:?} is no limit: try peak+5% or end:reserved+100MiB");
        let (what, more) = typed.split_once('+').ok_or_else(wrong)?;
        let (when, counter) = match what.split_once(':') {
            Some((when, name)) => {
                let counter = Counter::ALL.into_iter().find(|counter| counter.name() == name);
                (when, counter.ok_or_else(wrong)?)
            }
            None => (what, Counter::Requested),
        };
        let at_peak = match when {
            "peak" => true,
            "end" => false,
            _ => return Err(wrong()),
        };
        let more = match more.strip_suffix('%') {
            Some(percent) => More::Percent(percent.parse().map_err(|_| wrong())?),
            None => More::Bytes(units::parse_bytes(more)?),
        };
        Ok(Self { text: typed.to_owned(), at_peak, counter, more })
    }
}

impl Limit {
    /// What is wrong with these values, if anything.
    fn exceeded(&self, before: &Totals, after: &Totals) -> Option<String> {
        let get =
            |totals: &Totals| if self.at_peak { totals.peak } else { totals.end }[self.counter as usize];
        let (before, after) = (get(before), get(after));
        let allowed = match self.more {
            More::Bytes(bytes) => i64::try_from(bytes).unwrap_or(i64::MAX),
            More::Percent(percent) => (before.max(0) as f64 * percent / 100.0) as i64,
        };
        let grown = after.saturating_sub(before);
        (grown > allowed).then(|| {
            let (when, name) = (if self.at_peak { "peak" } else { "end" }, self.counter.name());
            format!(
                "{}: {when} {name} is {}, was {} ({}, {} allowed)",
                self.text,
                text::bytes(after),
                text::bytes(before),
                text::signed(grown),
                text::signed(allowed)
            )
        })
    }
}

/// Peak and end of the four counters, in the order of [`Counter::ALL`].
struct Totals {
    peak: [i64; 4],
    end: [i64; 4],
}

impl Totals {
    fn at(subject: &Subject, moment: Moment) -> Self {
        let counters = subject.replay().counters(moment);
        let counters = Counter::ALL.map(|counter| counters[counter]);
        Self { peak: counters, end: counters }
    }

    fn new(subject: &Subject) -> Self {
        let replay = subject.replay();
        let end = replay.counters(replay.end());
        Self {
            peak: Counter::ALL.map(|counter| replay.peak(counter).bytes),
            end: Counter::ALL.map(|counter| end[counter]),
        }
    }
}

type StackChange = Change<Vec<Line>>;

/// Stacks of each kind that are shown where nobody asked for a number.
const DEFAULT_ROWS: usize = 12;

pub(crate) fn run(args: &DiffArgs, out: &mut dyn Write) -> anyhow::Result<ExitCode> {
    let before = Subject::open_path(&args.before, &args.filter, &args.output.cache)?;
    let other = match &args.after {
        Some(path) => Some(Subject::open_path(path, &args.filter, &args.output.cache)?),
        None => None,
    };
    let after = other.as_ref().unwrap_or(&before);
    let moments = (before.moment(&args.at)?, after.moment(args.vs.as_ref().unwrap_or(&args.at))?);
    let weigh = |subject: &Subject, at: Moment| {
        let weights = subject.live(&subject.replay().state(at));
        by_stack(subject.snapshot(), &weights, |frame| subject.shows(frame))
    };
    let changes = changes(&weigh(&before, moments.0), &weigh(after, moments.1));
    // Of two moments of one file, the moments themselves are compared.
    let totals = match &other {
        Some(other) => (Totals::new(&before), Totals::new(other)),
        None => (Totals::at(&before, moments.0), Totals::at(&before, moments.1)),
    };
    let exceeded: Vec<_> =
        args.fail_on.iter().filter_map(|limit| limit.exceeded(&totals.0, &totals.1)).collect();
    let at = (before.replay().counters(moments.0).requested, after.replay().counters(moments.1).requested);
    if args.output.json {
        let shown: Vec<&StackChange> = match args.limit {
            Some(limit) => most_changed(&changes, limit),
            None => changes.iter().collect(),
        };
        json(&before, after, moments, at, &shown, &totals, &exceeded, out)?;
    } else {
        print(args, (&before, after), at, &changes, &totals, out)?;
    }
    out.flush()?;
    if exceeded.is_empty() {
        return Ok(ExitCode::SUCCESS);
    }
    for limit in &exceeded {
        text::complain(limit);
    }
    if let Some(worst) = changes.first().filter(|change| change.bytes() > 0) {
        let line = text::line(worst.key.first());
        text::complain(&format!("most of it: {line}, {}", text::signed(worst.bytes())));
    }
    Ok(ExitCode::from(1))
}

/// So many that grew most, and so many that shrank most, each with the largest change first.
fn most_changed(changes: &[StackChange], limit: usize) -> Vec<&StackChange> {
    let grew = changes.iter().filter(|change| change.bytes() >= 0);
    let shrank = changes.iter().rev().filter(|change| change.bytes() < 0);
    grew.take(limit).chain(shrank.take(limit)).collect()
}

fn print(
    args: &DiffArgs,
    (before, after): (&Subject, &Subject),
    at: (i64, i64),
    changes: &[StackChange],
    totals: &(Totals, Totals),
    out: &mut dyn Write,
) -> std::io::Result<()> {
    let name = |subject: &Subject| text::printable(&subject.opened.path.display().to_string());
    writeln!(out, "A  {}\nB  {}\n", name(before), name(after))?;
    let difference = at.1.saturating_sub(at.0);
    match (difference, changes.first().filter(|change| change.bytes() > 0)) {
        _ if changes.is_empty() => return writeln!(out, "nothing differs"),
        (1.., Some(most)) => writeln!(
            out,
            "B requests {} more: most of it, {}, in {}",
            text::bytes(difference),
            text::signed(most.bytes()),
            text::line(most.key.first())
        )?,
        (0, _) => writeln!(out, "B requests as much as A, in other stacks")?,
        _ => {
            let least =
                changes.last().map(|least| (text::signed(least.bytes()), text::line(least.key.first())));
            let (bytes, line) = least.unwrap_or_default();
            writeln!(out, "B requests {} less: most of it, {bytes}, in {line}", text::bytes(-difference))?;
        }
    }
    writeln!(out, "\n  {:20}{:>12}{:>12}{:>13}", "", "A", "B", "change")?;
    for (when, a, b) in [("peak", totals.0.peak, totals.1.peak), ("end", totals.0.end, totals.1.end)] {
        for (row, counter) in Counter::ALL.iter().enumerate() {
            let label = format!("{when} {}", counter.name());
            let (a, b) = (a[row], b[row]);
            let change = text::signed(b.saturating_sub(a));
            writeln!(out, "  {label:20}{:>12}{:>12}{change:>13}", text::bytes(a), text::bytes(b))?;
        }
    }
    writeln!(out, "\n  {:>11}  {:>10}  {:>10}  {:>8}  stack", "change", "A", "B", "count")?;
    let room = text::columns().saturating_sub(50).max(24);
    let mut row = |change: &StackChange| {
        let bytes = |n: u64| text::bytes(i64::try_from(n).unwrap_or(i64::MAX));
        let stack: Vec<_> = change.key.iter().take(3).map(|line| text::line(Some(line))).collect();
        let stack = if stack.is_empty() { text::line(None) } else { stack.join(" ‹ ") };
        let count = change.after.count as i64 - change.before.count as i64;
        writeln!(
            out,
            "  {:>11}  {:>10}  {:>10}  {count:>+8}  {}",
            text::signed(change.bytes()),
            bytes(change.before.bytes),
            bytes(change.after.bytes),
            text::fit(&stack, room)
        )
    };
    let shown = most_changed(changes, args.limit.unwrap_or(DEFAULT_ROWS));
    shown.iter().try_for_each(|change| row(change))?;
    let hidden = changes.len() - shown.len();
    if hidden > 0 {
        writeln!(out, "  {:>11}  {} more; --limit shows them", "", text::plural(hidden, "stack"))?;
    }
    Ok(())
}

#[derive(Serialize)]
struct Report<'a> {
    schema: &'static str,
    before: Side,
    after: Side,
    requested_change: i64,
    exceeded: &'a [String],
    changes: Vec<ChangeJson<'a>>,
}

#[derive(Serialize)]
struct Side {
    path: String,
    device: i32,
    event: Option<u32>,
    requested: i64,
    peak: CountersOf,
    end: CountersOf,
}

#[derive(Serialize)]
struct CountersOf {
    requested: i64,
    allocated: i64,
    active: i64,
    reserved: Option<i64>,
}

#[derive(Serialize)]
struct ChangeJson<'a> {
    change: i64,
    before: u64,
    after: u64,
    count_before: u64,
    count_after: u64,
    stack: Vec<FrameJson<'a>>,
}

impl<'a> ChangeJson<'a> {
    fn new(change: &'a StackChange) -> Self {
        let line = |line: &'a Line| FrameJson { name: &line.name, file: &line.file, line: line.line };
        Self {
            change: change.bytes(),
            before: change.before.bytes,
            after: change.after.bytes,
            count_before: change.before.count,
            count_after: change.after.count,
            stack: change.key.iter().map(line).collect(),
        }
    }
}

#[allow(clippy::too_many_arguments, reason = "what a report consists of")]
fn json(
    before: &Subject,
    after: &Subject,
    moments: (Moment, Moment),
    at: (i64, i64),
    changes: &[&StackChange],
    totals: &(Totals, Totals),
    exceeded: &[String],
    out: &mut dyn Write,
) -> anyhow::Result<()> {
    let counters = |subject: &Subject, [requested, allocated, active, reserved]: [i64; 4]| CountersOf {
        requested,
        allocated,
        active,
        reserved: subject.has_reserved().then_some(reserved),
    };
    let side = |subject: &Subject, moment: Moment, requested: i64, totals: &Totals| Side {
        path: subject.opened.path.display().to_string(),
        device: subject.replay().device().0,
        event: moment.event().map(|event| event.0),
        requested,
        peak: counters(subject, totals.peak),
        end: counters(subject, totals.end),
    };
    let report = Report {
        schema: "vramscope/diff/1",
        before: side(before, moments.0, at.0, &totals.0),
        after: side(after, moments.1, at.1, &totals.1),
        requested_change: at.1.saturating_sub(at.0),
        exceeded,
        changes: changes.iter().map(|change| ChangeJson::new(change)).collect(),
    };
    vramscope_files::json(&mut *out, &report)?;
    Ok(writeln!(out)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_as_they_are_typed() {
        let limit: Limit = "end:reserved+1KiB".parse().unwrap();
        assert_eq!((limit.at_peak, limit.counter, limit.more), (false, Counter::Reserved, More::Bytes(1024)));
        let totals = |bytes| Totals { peak: [bytes; 4], end: [bytes; 4] };
        let limit: Limit = "peak+5%".parse().unwrap();
        assert_eq!(limit.exceeded(&totals(1000), &totals(1050)), None);
        let message = limit.exceeded(&totals(1000), &totals(1051)).unwrap();
        assert_eq!(message, "peak+5%: peak requested is 1.03 KiB, was 1000 B (+51 B, +50 B allowed)");
        assert!("peak-5%".parse::<Limit>().unwrap_err().contains("try peak+5%"));
    }
}
