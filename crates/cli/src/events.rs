//! `vramscope events`: the trace, event by event, as it streams by.

use std::io::Write;
use std::process::ExitCode;

use anyhow::bail;
use serde::Serialize;
use vramscope_analysis::query::Thing;
use vramscope_analysis::user_frame;
use vramscope_snapshot::{Action, Actions, Event, EventIdx, EventTable, StackId};

use crate::args::EventsArgs;
use crate::subject::{Subject, open_path};
use crate::text;

/// No event has fewer tokens as text.
const LEAST_TOKENS: u64 = 8;

/// Prints events. `budget` is what the answer may cost in tokens: what cannot fit is not even put into words.
pub(crate) fn run(args: &EventsArgs, budget: Option<u64>, out: &mut dyn Write) -> anyhow::Result<ExitCode> {
    let most = budget.map(|tokens| usize::try_from(tokens / LEAST_TOKENS).unwrap_or(usize::MAX).max(1));
    let most = most.filter(|_| !args.source.output.json);
    let known: Vec<_> = Action::ALL.iter().map(|action| action.name()).collect();
    for action in &args.action {
        if !known.contains(&action.as_str()) {
            bail!("there is no action {action:?}; there are: {}", known.join(", "));
        }
    }
    let subjects = open_path(&args.source.path, &args.source.filter, &args.source.output.cache)?;
    let is_several = subjects.len() > 1;
    for subject in &subjects {
        if is_several && !args.source.output.json {
            writeln!(out, "{}", subject.device())?;
        }
        let shown = write(args, most, subject, out)?;
        if shown == 0 && !args.source.output.json {
            text::complain(&format!("{}: no event matches", subject.device()));
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// Writes the events of a device that match, and says how many they are.
fn write(
    args: &EventsArgs,
    most: Option<usize>,
    subject: &Subject,
    out: &mut dyn Write,
) -> anyhow::Result<usize> {
    let events = subject.snapshot().events(subject.replay().device());
    let (from, to) = subject.range();
    let is_filtered = subject.leaves_out_allocations();
    let is_all = args.action.is_empty() && !is_filtered;
    let (from, to) = (from.0 as usize, to.0 as usize);
    // Of a long trace no more is looked at than the question needs.
    let (from, skip) = if is_all { (from.saturating_add(args.skip).min(to), 0) } else { (from, args.skip) };
    let is_wanted =
        |action: Action| args.action.is_empty() || args.action.iter().any(|name| name == action.name());
    let keeps = |row: usize| !is_filtered || subject.keeps_event(EventIdx::from_index(row), &events.get(row));
    let rows = events.rows_like(from..to, Actions::of(is_wanted), subject.sizes()).filter(|&row| keeps(row));
    let first_time = events.time_us(0);
    // Standard output is a pipe more often than not: lines are cut only for a terminal.
    let columns = text::room();
    let mut shown = 0;
    for row in rows.skip(skip).take(args.limit.unwrap_or(usize::MAX)) {
        if most == Some(shown) {
            let rest = if is_all { text::count((to - row) as u64) } else { "some".to_owned() };
            writeln!(
                out,
                "\n… {rest} more events: --skip {} to go on, --limit N for a number of them",
                args.skip + shown
            )?;
            break;
        }
        shown += 1;
        let event = events.get(row);
        if args.source.output.json {
            vramscope_files::json(&mut *out, &json(subject, events, row, &event))?;
            writeln!(out)?;
            continue;
        }
        let since = match (events.time_us(row), first_time) {
            (Some(time), Some(first)) => format!("{:+.6}", time.saturating_sub(first) as f64 / 1e6),
            _ => String::new(),
        };
        let place = if event.stack == StackId::ABSENT { String::new() } else { subject.place(event.stack) };
        let (addr, place) = match event.action {
            Action::Oom => (String::new(), format!("{} free on the device  {place}", text::size(event.addr))),
            _ => (format!("{:#x}", event.addr), place),
        };
        let (action, size) = (event.action.name(), text::size(event.size));
        // A narrow terminal shows no addresses.
        let addr = if columns < 110 { String::new() } else { format!("{addr:>16}  ") };
        let handle = subject.handle(Thing::Event(EventIdx::from_index(row)));
        let head = format!("{handle:>10}  {since:>11}  {action:14}  {size:>10}  {addr}");
        let room = columns.saturating_sub(vramscope_format::width(&head)).max(12);
        writeln!(out, "{}", format!("{head}{}", text::elide(place.trim_end(), room)).trim_end())?;
    }
    Ok(shown)
}

#[derive(Serialize)]
pub(crate) struct EventJson<'a> {
    device: i32,
    event: usize,
    handle: String,
    time_us: Option<i64>,
    action: &'a str,
    size: u64,
    addr: Option<u64>,
    device_free: Option<u64>,
    stream: u64,
    pool: Option<(i64, i64)>,
    /// The user's own line.
    file: &'a str,
    line: u32,
    name: &'a str,
    compile_context: &'a str,
    user_metadata: &'a str,
    /// PyTorch's own mark.
    #[serde(skip_serializing_if = "str::is_empty")]
    internal_metadata: &'a str,
    /// The forward traceback of anomaly detection.
    #[serde(skip_serializing_if = "str::is_empty")]
    forward: &'a str,
}

/// An event with everything that is said of it alone.
pub(crate) fn json<'a>(
    subject: &'a Subject,
    events: &EventTable,
    row: usize,
    event: &Event,
) -> EventJson<'a> {
    let snapshot = subject.snapshot();
    let frame = user_frame(snapshot, event.stack).unwrap_or_default();
    let meta = snapshot.meta(event.meta);
    let is_oom = event.action == Action::Oom;
    EventJson {
        device: subject.replay().device().0,
        event: row,
        handle: subject.handle(Thing::Event(EventIdx::from_index(row))),
        time_us: events.time_us(row),
        action: match event.action {
            Action::Unknown => snapshot.text(meta.unknown_action),
            known => known.name(),
        },
        size: event.size,
        addr: (!is_oom).then_some(event.addr),
        device_free: is_oom.then_some(event.addr),
        stream: snapshot.stream(event.stream),
        pool: snapshot.pool(event.pool),
        file: snapshot.text(frame.file),
        line: frame.line,
        name: snapshot.text(frame.name),
        compile_context: snapshot.text(meta.compile_context),
        user_metadata: snapshot.text(meta.user_metadata),
        internal_metadata: snapshot.text(meta.internal_metadata),
        forward: snapshot.text(meta.forward),
    }
}
