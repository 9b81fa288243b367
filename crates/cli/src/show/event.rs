//! An event: what it says, what it is part of, and the counters after it.

use std::io::Write;

use anyhow::bail;
use serde::Serialize;
use vramscope_analysis::query::Thing;
use vramscope_analysis::{Counters, Moment, open_spans, phase_name};
use vramscope_snapshot::{Action, EventIdx, StackId};

use super::{fact, print_stack};
use crate::events::{self, EventJson};
use crate::stack::StackJson;
use crate::subject::Subject;
use crate::text;

#[derive(Serialize)]
pub(super) struct Event<'a> {
    #[serde(flatten)]
    event: EventJson<'a>,
    /// The allocation that it begins or ends.
    allocation: Option<String>,
    stack_handle: String,
    stack: StackJson<'a>,
    /// Annotations that are open, outermost first.
    phases: Vec<String>,
    requested_after: i64,
    allocated_after: i64,
    active_after: i64,
    reserved_after: i64,
    #[serde(skip)]
    id: StackId,
    #[serde(skip)]
    index: EventIdx,
}

impl<'a> Event<'a> {
    pub(super) fn new(subject: &'a Subject, index: EventIdx) -> anyhow::Result<Self> {
        let (snapshot, replay) = (subject.snapshot(), subject.replay());
        let table = snapshot.events(replay.device());
        if index.index() >= table.len() {
            bail!(
                "{}: there is no event {}: the trace has {}",
                subject.device(),
                index.0,
                text::plural(table.len(), "event")
            );
        }
        let event = table.get(index.index());
        let at = Moment::after(index);
        let Counters { requested, allocated, active, reserved, .. } = replay.counters(at);
        let open = open_spans(subject.spans(), at);
        Ok(Self {
            event: events::json(subject, table, index.index(), &event),
            allocation: replay.allocation_of(index).map(|found| subject.handle(Thing::Allocation(found))),
            stack_handle: subject.handle(Thing::Stack(event.stack)),
            stack: StackJson(snapshot, event.stack),
            phases: open.iter().map(|span| phase_name(snapshot.text(span.name)).to_owned()).collect(),
            requested_after: requested,
            allocated_after: allocated,
            active_after: active,
            reserved_after: reserved,
            id: event.stack,
            index,
        })
    }

    pub(super) fn print(&self, subject: &Subject, out: &mut dyn Write) -> std::io::Result<()> {
        let events = subject.snapshot().events(subject.replay().device());
        let event = events.get(self.index.index());
        let handle = subject.handle(Thing::Event(self.index));
        let when =
            events.time_us(self.index.index()).map_or_else(String::new, |us| format!(", {}", text::time(us)));
        subject.print_heading(&format!("{handle}{when}"), out)?;
        fact(out, "action", event.action.name())?;
        fact(out, "size", &format!("{} ({} bytes)", text::size(event.size), text::count(event.size)))?;
        match event.action {
            Action::Oom => fact(out, "device free", &text::size(event.addr))?,
            _ => fact(out, "address", &format!("{:#x}", event.addr))?,
        }
        let (pool, stream) = (subject.snapshot().pool(event.pool), subject.snapshot().stream(event.stream));
        fact(out, "pool", &vramscope_format::pool_and_stream(pool, stream))?;
        if let Some(allocation) = &self.allocation {
            fact(out, "allocation", allocation)?;
        }
        if !self.phases.is_empty() {
            fact(out, "phases", &self.phases.join(" > "))?;
        }
        let after = format!(
            "requested {}, allocated {}, active {}, reserved {}",
            text::bytes(self.requested_after),
            text::bytes(self.allocated_after),
            text::bytes(self.active_after),
            text::bytes(self.reserved_after)
        );
        fact(out, "after it", &after)?;
        let meta = subject.snapshot().meta(event.meta);
        for (name, id) in
            [("compiled", meta.compile_context), ("metadata", meta.user_metadata), ("forward", meta.forward)]
        {
            let words = subject.snapshot().text(id);
            if !words.is_empty() {
                fact(out, name, words)?;
            }
        }
        print_stack(subject, "stack", self.id, out)
    }
}
