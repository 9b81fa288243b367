//! `vramscope diff`: what changed between two files, or two moments of one.

use std::io::Write;
use std::process::ExitCode;
use std::str::FromStr;

use serde::Serialize;
use vramscope_analysis::{Change, Counter, Line, Moment, by_line, by_stack, changes};
use vramscope_format::parse_bytes;

use crate::args::{DiffArgs, DiffBy};
use crate::output::FrameJson;
use crate::subject::{Subject, open_path};
use crate::table::Table;
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
        let wrong = || format!("'{typed}' is not a limit (try peak+5%, end:reserved+100MiB)");
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
            None => More::Bytes(parse_bytes(more)?),
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
            More::Bytes(bytes) => vramscope_format::signed(bytes),
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

/// A line, or a whole stack, innermost frame first.
type StackChange = Change<Vec<Line>>;

/// Lines or stacks of each kind that are shown where nobody asked for a number.
const DEFAULT_ROWS: usize = 12;

/// One device of both files.
struct Pair<'a> {
    before: &'a Subject,
    after: &'a Subject,
    moments: (Moment, Moment),
    totals: (Totals, Totals),
    changes: Vec<StackChange>,
    exceeded: Vec<String>,
}

pub(crate) fn run(args: &DiffArgs, out: &mut dyn Write) -> anyhow::Result<ExitCode> {
    let before = open_path(&args.before, &args.filter, &args.output.cache)?;
    let other = match &args.after {
        Some(path) => Some(open_path(path, &args.filter, &args.output.cache)?),
        None => None,
    };
    let pairs = pairs(args, &before, other.as_deref())?;
    if args.output.json {
        let is_list = pairs.len() > 1;
        if is_list {
            write!(out, "{{\"schema\":\"vramscope/devices/1\",\"devices\":[")?;
        }
        for (number, pair) in pairs.iter().enumerate() {
            write!(out, "{}", if number > 0 { "," } else { "" })?;
            json(args, pair, out)?;
        }
        writeln!(out, "{}", if is_list { "]}" } else { "" })?;
    } else {
        for (number, pair) in pairs.iter().enumerate() {
            if number == 0 {
                writeln!(out, "A  {}\nB  {}", pair.before.path(), pair.after.path())?;
            }
            writeln!(out)?;
            if pairs.len() > 1 {
                writeln!(out, "{}", pair.after.device())?;
            }
            print(args, pair, out)?;
        }
    }
    out.flush()?;
    let exceeded: Vec<_> = pairs.iter().filter(|pair| !pair.exceeded.is_empty()).collect();
    for pair in &exceeded {
        pair.exceeded.iter().for_each(|limit| text::complain(limit));
        if let Some(worst) = pair.changes.first().filter(|change| change.bytes() > 0) {
            text::complain(&format!(
                "{}: {}, {}",
                largest(pair, worst),
                name(worst),
                text::signed(worst.bytes())
            ));
        }
    }
    Ok(ExitCode::from(u8::from(!exceeded.is_empty())))
}

/// The devices that both files have, at the moments that are compared.
fn pairs<'a>(
    args: &DiffArgs,
    before: &'a [Subject],
    other: Option<&'a [Subject]>,
) -> anyhow::Result<Vec<Pair<'a>>> {
    let at = args.moment.spec();
    let vs = args.vs.as_ref().unwrap_or(&at);
    let mut pairs = Vec::new();
    let mut failed = None;
    for after in other.unwrap_or(before) {
        let device = after.replay().device();
        // Two files of one device each are compared whatever the devices are called.
        let is_same = |subject: &&Subject| subject.replay().device() == device;
        let both_single = before.len() == 1 && other.unwrap_or(before).len() == 1;
        let Some(before) = before.iter().find(|subject| both_single || is_same(subject)) else { continue };
        let moments = match (before.moment(&at), after.moment(vs)) {
            (Ok(a), Ok(b)) => (a, b),
            (Err(error), _) | (_, Err(error)) => {
                failed = failed.or(Some(error));
                continue;
            }
        };
        let weigh = |subject: &Subject, at: Moment| {
            let weights = subject.live(&subject.replay().state(at));
            match args.by {
                DiffBy::Stack => by_stack(subject.snapshot(), &weights, |frame| subject.shows(frame)),
                DiffBy::Line => {
                    let lines = by_line(subject.snapshot(), &weights);
                    lines.into_iter().map(|(line, sum)| (vec![line], sum)).collect()
                }
            }
        };
        let changes = changes(&weigh(before, moments.0), &weigh(after, moments.1));
        // Of two moments of one file, the moments themselves are compared.
        let totals = match other {
            Some(_) => (Totals::new(before), Totals::new(after)),
            None => (Totals::at(before, moments.0), Totals::at(before, moments.1)),
        };
        let exceeded = args.fail_on.iter().filter_map(|limit| limit.exceeded(&totals.0, &totals.1)).collect();
        pairs.push(Pair { before, after, moments, totals, changes, exceeded });
    }
    match failed {
        Some(error) if pairs.is_empty() => Err(error.into()),
        None if pairs.is_empty() => anyhow::bail!("the two files have no device in common"),
        _ => Ok(pairs),
    }
}

/// How to call the largest change: "most of it" only where that is so.
fn largest(pair: &Pair<'_>, change: &StackChange) -> &'static str {
    let (a, b) = pair.requested();
    let is_most = change.bytes().saturating_mul(2).abs() > b.saturating_sub(a).abs();
    if is_most { "most of it" } else { "the largest part" }
}

impl Pair<'_> {
    /// Requested bytes of both at the moments that are compared.
    fn requested(&self) -> (i64, i64) {
        let of = |subject: &Subject, at: Moment| subject.replay().counters(at).requested;
        (of(self.before, self.moments.0), of(self.after, self.moments.1))
    }
}

fn name(change: &StackChange) -> String {
    let lines: Vec<_> = change.key.iter().take(3).map(text::line).collect();
    if lines.is_empty() { "(no frame)".into() } else { lines.join(" ‹ ") }
}

/// The `limit` that grew most and the `limit` that shrank most, each with the largest change first.
fn most_changed(changes: &[StackChange], limit: usize) -> Vec<&StackChange> {
    let grew = changes.iter().filter(|change| change.bytes() >= 0);
    let shrank = changes.iter().rev().filter(|change| change.bytes() < 0);
    grew.take(limit).chain(shrank.take(limit)).collect()
}

fn print(args: &DiffArgs, pair: &Pair<'_>, out: &mut dyn Write) -> std::io::Result<()> {
    let Pair { before, after, changes, totals, .. } = pair;
    if before.is_empty() && after.is_empty() {
        return writeln!(out, "no match: the filters leave no allocation in either");
    }
    if changes.is_empty() {
        return writeln!(out, "nothing differs");
    }
    let (a, b) = pair.requested();
    let difference = b.saturating_sub(a);
    let worst = if difference < 0 { changes.last() } else { changes.first() };
    match (difference, worst) {
        (0, _) => writeln!(out, "B requests as much as A, in other places")?,
        (_, Some(worst)) => {
            let more = if difference > 0 { "more" } else { "less" };
            let (size, part, change) =
                (text::bytes(difference.abs()), largest(pair, worst), text::signed(worst.bytes()));
            writeln!(out, "B requests {size} {more}; {part}, {change}, in {}", name(worst))?;
        }
        _ => {}
    }
    writeln!(out)?;
    let mut table = Table::new("").left("", 0).column("A").column("B").column("change");
    for (when, a, b) in [("peak", totals.0.peak, totals.1.peak), ("end", totals.0.end, totals.1.end)] {
        for (row, counter) in Counter::ALL.iter().enumerate() {
            let label = format!("{when} {}", counter.name());
            let change = text::signed(b[row].saturating_sub(a[row]));
            table.row([label, text::bytes(a[row]), text::bytes(b[row]), change], "");
        }
    }
    table.print(out)?;
    writeln!(out)?;
    let heading = if args.by == DiffBy::Line { "line" } else { "stack, innermost frames first" };
    let mut table = Table::new(heading).column("change").column("A").column("B").optional("count", 1);
    let shown = most_changed(changes, args.limit.unwrap_or(DEFAULT_ROWS));
    for change in &shown {
        let count = (change.after.count as i64).saturating_sub(change.before.count as i64);
        let sizes = [change.before.bytes, change.after.bytes].map(text::size);
        let [before, after] = sizes;
        table.row([text::signed(change.bytes()), before, after, format!("{count:+}")], name(change));
    }
    table.print(out)?;
    let hidden = changes.len() - shown.len();
    if hidden > 0 {
        writeln!(out, "  {} more; --limit shows them", text::count(hidden as u64))?;
    }
    Ok(())
}

#[derive(Serialize)]
struct Report<'a> {
    schema: &'static str,
    /// What `changes` are grouped by: `line` or `stack`.
    by: &'static str,
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
        let line =
            |line: &'a Line| FrameJson { name: &line.name, file: &line.file, line: line.line, source: None };
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

fn json(args: &DiffArgs, pair: &Pair<'_>, out: &mut dyn Write) -> anyhow::Result<()> {
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
    let shown: Vec<&StackChange> = match args.limit {
        Some(limit) => most_changed(&pair.changes, limit),
        None => pair.changes.iter().collect(),
    };
    let at = pair.requested();
    let report = Report {
        schema: "vramscope/diff/1",
        by: if args.by == DiffBy::Line { "line" } else { "stack" },
        before: side(pair.before, pair.moments.0, at.0, &pair.totals.0),
        after: side(pair.after, pair.moments.1, at.1, &pair.totals.1),
        requested_change: at.1.saturating_sub(at.0),
        exceeded: &pair.exceeded,
        changes: shown.iter().map(|change| ChangeJson::new(change)).collect(),
    };
    Ok(vramscope_files::json(out, &report)?)
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
