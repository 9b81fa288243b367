//! A trace in Chrome's JSON format, which Perfetto opens.

use std::io::Write;

use serde_json::{Value, json};
use vramscope_analysis::Moment;

use crate::subject::Subject;

/// Counters after every event of the range, phases as slices, out-of-memory events as marks, and the
/// allocations that pass the filters as slices from their allocation to their free. Times are
/// microseconds since 1970; of a trace without times, event numbers.
pub(super) fn write(subjects: &[Subject], out: &mut dyn Write) -> anyhow::Result<()> {
    let mut entries = Entries { out, any: false };
    entries.begin()?;
    subjects.iter().try_for_each(|subject| device(subject, &mut entries))?;
    entries.end()
}

fn device(subject: &Subject, entries: &mut Entries<'_>) -> anyhow::Result<()> {
    let (snapshot, replay) = (subject.snapshot(), subject.replay());
    let events = snapshot.events(replay.device());
    let (from, to) = subject.range();
    let time = |row: usize| events.time_us(row).unwrap_or(row as i64);
    let at = |moment: Moment| moment.event().map_or_else(|| time(0), |event| time(event.index()));
    let pid = replay.device().0;
    entries.add(
        &json!({"ph": "M", "pid": pid, "name": "process_name", "args": {"name": snapshot.device_name(replay.device())}}),
    )?;
    let rows = from.0 as usize..to.0 as usize;
    for (row, after) in rows.clone().zip(replay.all_counters().skip(rows.start)) {
        let mut levels =
            json!({"requested": after.requested, "allocated": after.allocated, "active": after.active});
        if subject.has_reserved() {
            levels["reserved"] = after.reserved.into();
        }
        entries.add(&json!({"ph": "C", "pid": pid, "name": "memory", "ts": time(row), "args": levels}))?;
    }
    for span in replay.spans() {
        let end = span.end_us.unwrap_or_else(|| at(replay.end()));
        entries.add(
            &json!({"ph": "X", "pid": pid, "tid": 1, "cat": "phase", "name": vramscope_format::phase(snapshot.text(span.name)),
            "ts": span.start_us, "dur": end.saturating_sub(span.start_us).max(0)}),
        )?;
    }
    for oom in replay.ooms() {
        entries.add(&json!({"ph": "i", "s": "p", "pid": pid, "tid": 1, "name": "out of memory",
            "ts": time(oom.event.index()), "args": {"requested": oom.requested, "device_free": oom.device_free}}))?;
    }
    for (index, allocation) in replay.allocations().iter() {
        if !subject.keeps(index, &allocation) {
            continue;
        }
        let common = |phase: &str, moment: Moment| {
            json!({"ph": phase, "pid": pid, "cat": "allocation", "id": index.0, "ts": at(moment),
                "name": subject.place(allocation.stack),
                "args": {"requested": allocation.requested, "size": allocation.size, "addr": allocation.addr}})
        };
        entries.add(&common("b", allocation.opened))?;
        entries.add(&common("e", allocation.closed.min(replay.end())))?;
    }
    Ok(())
}

/// A JSON array that is written as it goes.
struct Entries<'a> {
    out: &'a mut dyn Write,
    any: bool,
}

impl Entries<'_> {
    fn begin(&mut self) -> anyhow::Result<()> {
        Ok(self.out.write_all(b"{\"displayTimeUnit\": \"ms\", \"traceEvents\": [\n")?)
    }

    fn add(&mut self, entry: &Value) -> anyhow::Result<()> {
        if std::mem::replace(&mut self.any, true) {
            self.out.write_all(b",\n")?;
        }
        Ok(vramscope_files::json(&mut *self.out, entry)?)
    }

    fn end(self) -> anyhow::Result<()> {
        Ok(self.out.write_all(b"\n]}\n")?)
    }
}
