//! `vramscope diff`: what changed between two files, or two moments of one; or several files beside each other.

mod limit;
mod matrix;

use std::io::Write;
use std::process::ExitCode;

use std::collections::BTreeMap;

use serde::Serialize;

use vramscope_analysis::{Change, Counter, Line, Modules, Moment, Sum, by_line, by_stack, changes};

use crate::args::{DiffArgs, DiffBy};
use crate::output::{FrameJson, json_of_each};
use crate::subject::{Subject, open_path};
use crate::table::Table;
use crate::text;
pub(crate) use limit::Limit;
use matrix::{Matrix, NAMES};

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
    let open = |path| open_path(path, &args.filter, &args.output.cache);
    let files = args.paths.iter().map(open).collect::<anyhow::Result<Vec<_>>>()?;
    let (before, other) = match files.as_slice() {
        [only] => (only, None),
        [before, after] => (before, Some(after.as_slice())),
        _ => return several(args, &files, out),
    };
    anyhow::ensure!(other.is_some() || args.vs.is_some(), "name a second file, or a second moment with --vs");
    let pairs = pairs(args, before, other)?;
    if args.output.json {
        json_of_each(&pairs, out, |pair, out| json(args, pair, out))?;
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

/// Three files or more.
fn several(args: &DiffArgs, files: &[Vec<Subject>], out: &mut dyn Write) -> anyhow::Result<ExitCode> {
    anyhow::ensure!(files.len() <= NAMES.len(), "at most {} files at once", NAMES.len());
    anyhow::ensure!(args.fail_on.is_empty() && args.vs.is_none(), "--fail-on and --vs compare two files");
    let found = Matrix::all(args, files)?;
    if args.output.json {
        json_of_each(&found, out, |matrix, out| matrix.json(args, out))?;
        return Ok(ExitCode::SUCCESS);
    }
    for (name, file) in NAMES.iter().zip(files) {
        writeln!(out, "{name}  {}", file.first().map_or_else(String::new, Subject::path))?;
    }
    for matrix in &found {
        writeln!(out)?;
        matrix.print(args, out)?;
    }
    Ok(ExitCode::SUCCESS)
}

/// What is live at a moment, by what is compared.
fn weigh(by: DiffBy, subject: &Subject, at: Moment) -> BTreeMap<Vec<Line>, Sum> {
    let (snapshot, replay) = (subject.snapshot(), subject.replay());
    let state = replay.state(at);
    match by {
        DiffBy::Stack => by_stack(snapshot, &subject.live(&state), |frame| subject.shows(frame)),
        DiffBy::Line => {
            let lines = by_line(snapshot, &subject.live(&state));
            lines.into_iter().map(|(line, sum)| (vec![line], sum)).collect()
        }
        DiffBy::Category => {
            let categories = subject.conclusions().categories;
            let totals = categories.totals(&state, |index, allocation| subject.keeps(index, allocation));
            let key = |name: &String| vec![Line { name: name.clone(), ..Line::default() }];
            let rows = categories.names().iter().zip(totals).filter(|(_, total)| total.count > 0);
            rows.map(|(name, total)| (key(name), Sum { bytes: total.requested, count: total.count }))
                .collect()
        }
        DiffBy::Module => {
            let modules = Modules::new(replay);
            let sums = modules.sums(&state, |index, allocation| subject.keeps(index, allocation));
            sums.into_iter().map(|(name, sum)| (vec![Line { name, ..Line::default() }], sum)).collect()
        }
    }
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
        let changes = changes(&weigh(args.by, before, moments.0), &weigh(args.by, after, moments.1));
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
    label(&change.key)
}

/// A line, the innermost frames of a stack, or a category.
fn label(key: &[Line]) -> String {
    let line = |line: &Line| match line.file.is_empty() {
        true => text::printable(&line.name),
        false => text::line(line),
    };
    let lines: Vec<_> = key.iter().take(3).map(line).collect();
    if lines.is_empty() { "(no frame)".into() } else { lines.join(" ‹ ") }
}

fn frame(line: &Line) -> FrameJson<'_> {
    FrameJson { name: &line.name, file: &line.file, line: line.line, source: None, fx: None }
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
    let mut table =
        Table::new(args.by.heading()).column("change").column("A").column("B").optional("count", 1);
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
    /// What `changes` are grouped by: `line`, `stack`, `category` or `module`.
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
        Self {
            change: change.bytes(),
            before: change.before.bytes,
            after: change.after.bytes,
            count_before: change.before.count,
            count_after: change.after.count,
            stack: change.key.iter().map(frame).collect(),
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
        by: args.by.name(),
        before: side(pair.before, pair.moments.0, at.0, &pair.totals.0),
        after: side(pair.after, pair.moments.1, at.1, &pair.totals.1),
        requested_change: at.1.saturating_sub(at.0),
        exceeded: &pair.exceeded,
        changes: shown.iter().map(|change| ChangeJson::new(change)).collect(),
    };
    Ok(vramscope_files::json(out, &report)?)
}
