//! A stack and a line of the program: what they allocated, and what of it is live.

use std::cmp::Reverse;
use std::io::Write;

use anyhow::bail;
use serde::Serialize;
use vramscope_analysis::query::{Thing, ends_with_path};
use vramscope_analysis::{AllocIdx, Made, Moment, Weight, makers, user_frame};
use vramscope_snapshot::{Frame, StackId};

use super::{event_words, fact, print_stack};
use crate::stack::StackJson;
use crate::subject::Subject;
use crate::table::Table;
use crate::text;

/// What some stacks allocated.
#[derive(Clone, Copy, Debug, Default, Serialize)]
struct Sums {
    allocations: u64,
    bytes: u64,
    largest: u64,
    /// At the moment that is asked about.
    live_count: u64,
    live_bytes: u64,
    #[serde(skip)]
    made: Made,
}

impl Sums {
    /// Adds a stack, with what it has live.
    fn add(&mut self, made: &Made, live: Option<&Weight>) {
        self.made = self.made.plus(made);
        (self.allocations, self.bytes, self.largest) = (self.made.count, self.made.bytes, self.made.largest);
        if let Some(live) = live {
            self.live_count += live.count;
            self.live_bytes = self.live_bytes.saturating_add(live.bytes);
        }
    }

    fn print(&self, subject: &Subject, at: Moment, out: &mut dyn Write) -> std::io::Result<()> {
        if self.allocations == 0 {
            return fact(out, "made", "no allocation: it frees, or calls the driver");
        }
        let handle = |index: AllocIdx| format!(" ({})", subject.handle(Thing::Allocation(index)));
        let all = text::plural(self.allocations, "allocation");
        let made = format!(
            "{all}, {} in all; the largest {}{}, the first{}",
            text::size(self.bytes),
            text::size(self.largest),
            handle(self.made.largest_index),
            handle(self.made.first)
        );
        fact(out, "made", &made)?;
        let live = format!(
            "{} in {}, after {}",
            text::size(self.live_bytes),
            text::plural(self.live_count, "allocation"),
            event_words(subject, at, "nothing")
        );
        fact(out, "live", &live)
    }
}

#[derive(Serialize)]
pub(super) struct Stack<'a> {
    frames: StackJson<'a>,
    event: Option<u32>,
    #[serde(flatten)]
    made: Sums,
    #[serde(skip)]
    id: StackId,
    #[serde(skip)]
    at: Moment,
}

impl<'a> Stack<'a> {
    pub(super) fn new(subject: &'a Subject, id: StackId, at: Moment) -> anyhow::Result<Self> {
        // Those that were worked out for backward memory have ids, too.
        if let Some(last) = subject.snapshot().stacks.ids().last().filter(|last| id > *last) {
            bail!("there is no stack s:{}: the last is s:{}", id.0, last.0);
        }
        let mut made = Sums::default();
        if let Some(found) = subject.made().get(id.0 as usize) {
            made.add(found, subject.live_by_stack(at).get(&id));
        }
        let event = at.event().map(|event| event.0);
        Ok(Self { frames: StackJson(subject.snapshot(), id), event, made, id, at })
    }

    pub(super) fn print(&self, subject: &Subject, out: &mut dyn Write) -> std::io::Result<()> {
        subject.print_heading(
            &format!("{}, {}", subject.handle(Thing::Stack(self.id)), subject.place(self.id)),
            out,
        )?;
        self.made.print(subject, self.at, out)?;
        if self.made.allocations == 0 {
            let events = format!(
                "vramscope events {} --stack {}",
                subject.path(),
                subject.handle(Thing::Stack(self.id))
            );
            fact(out, "events", &events)?;
        }
        print_stack(subject, "stack", self.id, out)
    }
}

/// Stacks of a line that are listed.
const STACKS: usize = 8;

#[derive(Serialize)]
pub(super) struct Line<'a> {
    /// Every spelling of the place: file, line and function.
    places: Vec<String>,
    source: Option<&'a str>,
    event: Option<u32>,
    /// What the line itself allocates: it is the innermost of the program's own.
    own: Sums,
    /// What it allocates itself or through what it calls.
    through: Sums,
    /// The stacks that it is in, most live bytes first.
    stacks: Vec<StackRow>,
    /// Findings that name it.
    findings: Vec<String>,
    #[serde(skip)]
    at: Moment,
    #[serde(skip)]
    said: Vec<String>,
}

#[derive(Serialize)]
struct StackRow {
    handle: String,
    place: String,
    #[serde(flatten)]
    made: Sums,
    #[serde(skip)]
    id: StackId,
}

impl<'a> Line<'a> {
    pub(super) fn new(subject: &'a Subject, file: &str, line: u32, at: Moment) -> anyhow::Result<Self> {
        let snapshot = subject.snapshot();
        let is_it = |frame: &Frame| frame.line == line && ends_with_path(snapshot.text(frame.file), file);
        let mut places = Vec::new();
        let mut source = None;
        // Which stacks the line is in: 1 if in it, 2 if it is the innermost of the program's own.
        let role = |stack: StackId| {
            let Some(frame) = snapshot.frames(stack).find(is_it) else { return 0_u8 };
            let (path, name) = (snapshot.text(frame.file), snapshot.text(frame.name));
            source = source.or_else(|| snapshot.extras.source_line(path, line));
            let place = vramscope_format::frame_text(path, line, name);
            if !places.contains(&place) {
                places.push(place);
            }
            if user_frame(snapshot, stack).as_ref().is_some_and(is_it) { 2 } else { 1 }
        };
        let roles: Vec<u8> = snapshot.stacks.ids().map(role).collect();
        if places.is_empty() {
            bail!(
                "no stack has a frame at {file}:{line}; vramscope top {} lists lines, --stack REGEX finds frames",
                subject.path()
            );
        }
        let (made, live) = (subject.made(), subject.live_by_stack(at));
        let (mut own, mut through) = (Sums::default(), Sums::default());
        let mut stacks = Vec::new();
        for (id, made) in makers(&made) {
            let role = roles.get(id.index()).copied().unwrap_or_default();
            if role == 0 {
                continue;
            }
            let mut sums = Sums::default();
            for sums in [&mut sums, &mut through].into_iter().chain((role == 2).then_some(&mut own)) {
                sums.add(made, live.get(&id));
            }
            let (handle, place) = (subject.handle(Thing::Stack(id)), subject.place(id));
            stacks.push(StackRow { handle, place, made: sums, id });
        }
        stacks.sort_by_key(|row| (Reverse((row.made.live_bytes, row.made.bytes)), row.id));
        let names_it = |finding: &vramscope_analysis::Finding| {
            finding
                .site
                .line
                .as_ref()
                .is_some_and(|site| site.line == line && ends_with_path(&site.file, file))
        };
        let found: Vec<_> = subject.findings().into_iter().filter(names_it).collect();
        let handles = found.iter().map(|finding| subject.handle(Thing::Finding(finding.name()))).collect();
        let said = found.into_iter().map(|finding| finding.what).collect();
        let event = at.event().map(|event| event.0);
        Ok(Self { places, source, event, own, through, stacks, findings: handles, at, said })
    }

    pub(super) fn print(&self, subject: &Subject, out: &mut dyn Write) -> std::io::Result<()> {
        subject.print_heading(&text::printable(&self.places.join("; ")), out)?;
        if let Some(source) = self.source {
            fact(out, "source", source.trim())?;
        }
        if self.own.allocations > 0 {
            writeln!(out, "  the line itself")?;
            self.own.print(subject, self.at, out)?;
        }
        if self.own.allocations != self.through.allocations {
            writeln!(out, "  with what it calls")?;
            self.through.print(subject, self.at, out)?;
        }
        for (handle, what) in self.findings.iter().zip(&self.said) {
            fact(out, handle, what)?;
        }
        writeln!(out)?;
        let mut table = Table::new("stack").column("live").column("in all").column("count");
        for row in self.stacks.iter().take(STACKS) {
            let cells = [
                text::size(row.made.live_bytes),
                text::size(row.made.bytes),
                text::count(row.made.allocations),
            ];
            table.row(cells, format!("{}  {}", row.handle, row.place));
        }
        table.print(out)?;
        match self.stacks.len().checked_sub(STACKS) {
            None | Some(0) => Ok(()),
            Some(more) => writeln!(out, "  {}: --json has them", text::plural(more, "more stack")),
        }
    }
}
