//! `vramscope events`: the trace, event by event, as it streams by.

use std::io::Write;
use std::process::ExitCode;

use anyhow::bail;
use serde::Serialize;
use vramscope_analysis::user_frame;
use vramscope_snapshot::{Action, Event, EventTable};

use crate::args::EventsArgs;
use crate::filter::Subject;
use crate::text;

pub(crate) fn run(args: &EventsArgs, out: &mut dyn Write) -> anyhow::Result<ExitCode> {
    let known: Vec<_> = Action::ALL.iter().map(|action| action.name()).collect();
    for action in &args.action {
        if !known.contains(&action.as_str()) {
            bail!("there is no action {action:?}; there are: {}", known.join(", "));
        }
    }
    let subject = Subject::open(&args.source)?;
    let events = subject.snapshot().events(subject.replay().device());
    let (from, to) = subject.range();
    let rows = (from.0 as usize..to.0 as usize).filter(|&row| {
        let event = events.get(row);
        (args.action.is_empty() || args.action.iter().any(|action| action == event.action.name()))
            && subject.keeps_event(&event)
    });
    let first_time = events.time_us(0);
    for row in rows.skip(args.skip).take(args.limit.unwrap_or(usize::MAX)) {
        let event = events.get(row);
        if args.source.output.json {
            serde_json::to_writer(&mut *out, &json(&subject, events, row, &event))?;
            writeln!(out)?;
            continue;
        }
        let time = events.time_us(row);
        let since = match (time, first_time) {
            (Some(time), Some(first)) => format!("{:+.6}", time.saturating_sub(first) as f64 / 1e6),
            _ => String::new(),
        };
        let size = text::bytes(i64::try_from(event.size).unwrap_or(i64::MAX));
        let place = match (event.action, event.stack.has_frames()) {
            (Action::Oom, _) => {
                let free = text::bytes(i64::try_from(event.addr).unwrap_or(i64::MAX));
                format!("{free} free on the device")
            }
            (_, true) => text::place(subject.snapshot(), event.stack),
            (_, false) => String::new(),
        };
        let addr = if event.action == Action::Oom { String::new() } else { format!("{:#x}", event.addr) };
        let action = event.action.name();
        let line = format!("{row:>9}  {since:>14}  {action:14}  {size:>10}  {addr:>16}  {place}");
        writeln!(out, "{}", line.trim_end())?;
    }
    Ok(ExitCode::SUCCESS)
}

#[derive(Serialize)]
struct EventJson<'a> {
    event: usize,
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
}

fn json<'a>(subject: &'a Subject, events: &EventTable, row: usize, event: &Event) -> EventJson<'a> {
    let snapshot = subject.snapshot();
    let frame = user_frame(snapshot, event.stack).unwrap_or_default();
    let meta = snapshot.meta(event.meta);
    let is_oom = event.action == Action::Oom;
    EventJson {
        event: row,
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
    }
}
