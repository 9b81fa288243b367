//! What is known about a frame or an allocation: its source, its stack, and the facts.

use std::path::Path;

use hashbrown::HashMap;
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use vramscope_analysis::shapes::{Clues, SHOWN};
use vramscope_analysis::{AllocIdx, Moment, Place, State, fx_words, user_frame};
use vramscope_files::{Links, read_regular};
use vramscope_format::{count, duration, elide_place, fit, fit_end, plural, printable, size, stream, words};
use vramscope_snapshot::Frame;

use super::{Names, frame_long, put, row_of};
use crate::document::Subject;
use crate::outline::{NodeId, Outline};
use crate::theme::{Role, Theme};

/// Larger files are not shown as source.
const MOST_BYTES: u64 = 4 << 20;
/// Lines of source before and after the one that is meant.
const AROUND: usize = 3;

/// Source files that were read.
#[derive(Debug, Default)]
pub(crate) struct Sources(HashMap<String, Option<Vec<String>>>);

impl Sources {
    /// The lines around one, with their numbers, if the file is on this machine.
    fn around(&mut self, file: &str, line: u32) -> Vec<(usize, String)> {
        let lines = self.0.entry_ref(file).or_insert_with(|| read(Path::new(file)));
        let (Some(lines), Some(at)) = (lines, (line as usize).checked_sub(1)) else { return Vec::new() };
        let from = at.saturating_sub(AROUND);
        let shown = lines.get(from..(at + AROUND + 1).min(lines.len())).unwrap_or_default();
        shown.iter().enumerate().map(|(offset, text)| (from + offset + 1, text.clone())).collect()
    }
}

/// A file's lines. Names come from the recording, so only plain files of sensible size are opened.
fn read(path: &Path) -> Option<Vec<String>> {
    if !path.is_absolute() {
        return None;
    }
    let text = read_regular(path, Links::Follow, MOST_BYTES).ok()?;
    Some(String::from_utf8_lossy(&text).lines().map(|line| printable(&line.replace('\t', "    "))).collect())
}

/// What is known about something.
#[derive(Clone, Debug, Default)]
pub(crate) struct Info {
    pub(crate) title: String,
    pub(crate) facts: Vec<(&'static str, String)>,
    /// Innermost frame first.
    pub(crate) stack: Vec<String>,
    /// Which of the stack is selected.
    pub(crate) selected: usize,
    /// Lines of the file with their numbers, and the line that is meant.
    pub(crate) source: Vec<(usize, String)>,
    pub(crate) line: u32,
}

impl Info {
    /// A node of a call tree, with the largest of its allocations.
    pub(crate) fn of_node(
        subject: Subject<'_>,
        outline: &Outline,
        (node, last): (NodeId, NodeId),
        members: &[(NodeId, AllocIdx)],
        state: &State,
        inverted: bool,
        sources: &mut Sources,
    ) -> Self {
        let names = Names::Snapshot(subject.snapshot());
        // A row may be a chain: the place is where it happens, the stack is all of it.
        let place = outline.get(node).map(|item| item.place);
        let path = outline.path(last);
        let mut stack: Vec<String> = path.iter().map(|&place| names.long(place)).collect();
        if !inverted {
            stack.reverse();
        }
        let requested = |&(_, index): &(NodeId, AllocIdx)| subject.replay().allocation(index).requested;
        let largest = members.iter().max_by_key(|member| (requested(member), std::cmp::Reverse(member.1)));
        let mut info = Self {
            title: place.map_or("all".into(), |place| names.short(place)),
            stack,
            selected: if inverted { outline.path(node).len().saturating_sub(1) } else { 0 },
            ..Self::default()
        };
        info.facts.push((
            "holds",
            match outline.get(node) {
                Some(item) => {
                    format!("{} in {}", size(item.now.bytes), plural(item.now.count, "allocation"))
                }
                None => String::new(),
            },
        ));
        if let Some(&(_, index)) = largest {
            if members.len() > 1 {
                info.facts.push(("largest", size(subject.replay().allocation(index).requested)));
            }
            info.facts.extend(facts(subject, index, state));
        }
        if let Some(Place::Frame(frame)) = place {
            info.show_source(subject, subject.snapshot().stacks.frame(frame), sources);
        }
        info
    }

    /// One allocation.
    pub(crate) fn of_allocation(
        subject: Subject<'_>,
        index: AllocIdx,
        state: &State,
        sources: &mut Sources,
    ) -> Self {
        let allocation = subject.replay().allocation(index);
        let snapshot = subject.snapshot();
        let mut info = Self { title: subject.place(allocation.stack), ..Self::default() };
        info.facts.push(("requested", exact(allocation.requested)));
        info.facts.extend(facts(subject, index, state));
        let frames: Vec<Frame> = snapshot.frames(allocation.stack).collect();
        let line = |&frame: &Frame| match fx_words(snapshot, frame) {
            Some(fx) => {
                format!("{} · torch.fx: {}", frame_long(snapshot, frame), printable(&fx.replace('\n', " · ")))
            }
            None => frame_long(snapshot, frame),
        };
        info.stack = frames.iter().map(line).collect();
        if let Some(own) = user_frame(snapshot, allocation.stack) {
            info.selected = frames.iter().position(|frame| *frame == own).unwrap_or(0);
            info.show_source(subject, own, sources);
        }
        info
    }

    fn show_source(&mut self, subject: Subject<'_>, frame: Frame, sources: &mut Sources) {
        self.line = frame.line;
        self.source = sources.around(subject.snapshot().text(frame.file), frame.line);
    }
}

fn exact(n: u64) -> String {
    format!("{} ({} B)", size(n), count(n))
}

/// What is known about one allocation, apart from its size.
fn facts(subject: Subject<'_>, index: AllocIdx, state: &State) -> Vec<(&'static str, String)> {
    let (replay, snapshot) = (subject.replay(), subject.snapshot());
    let allocation = replay.allocation(index);
    let when = |moment: Moment| match subject.since(moment, 3) {
        Some(since) => format!("{}, {since}", subject.moment_name(moment)),
        None => subject.moment_name(moment),
    };
    let mut facts = vec![(
        "block",
        format!(
            "{}{}{}",
            size(allocation.size),
            if allocation.estimated { " (inferred)" } else { "" },
            if subject.has_map() { format!(" at {:#x}", allocation.addr) } else { String::new() }
        ),
    )];
    facts.push((
        "allocated",
        match allocation.opened {
            Moment::START => "before the recording began".into(),
            opened => when(opened),
        },
    ));
    facts.push((
        "freed",
        match (allocation.released, allocation.closed) {
            (Moment::NEVER, _) => "never in this recording".into(),
            (released, closed) if released <= state.at => {
                let completed = match closed {
                    Moment::NEVER => "not completed in this recording".into(),
                    closed => format!("completed at {}", subject.moment_name(closed)),
                };
                format!("requested at {}, {completed}", subject.moment_name(released))
            }
            (released, _) => when(released),
        },
    ));
    let last = if allocation.closed == Moment::NEVER { replay.end() } else { allocation.closed };
    let events = last.0.saturating_sub(allocation.opened.0);
    let micros =
        subject.time(last).zip(subject.time(allocation.opened)).map(|(to, from)| to.saturating_sub(from));
    let lived = micros.map_or(String::new(), |micros| format!(", {}", duration(micros)));
    let open = if allocation.closed == Moment::NEVER { "at least " } else { "" };
    facts.push(("lives", format!("{open}{}{lived}", plural(events, "event"))));
    match subject.analysis() {
        None => facts.push(("category", "analyzing…".into())),
        Some(analysis) => {
            let concluded = analysis.conclusions.of(replay, index);
            facts.push(("category", words(&concluded.known_by.beside(concluded.category))));
            if let Some(module) = concluded.module {
                facts.push(("module", words(module)));
            }
            if let Some(step) = concluded.step {
                facts.push(("step", count(step)));
            }
        }
    }
    if let Some(shapes) = &subject.doc.shapes {
        let clues = Clues::of_stack(snapshot, allocation.stack);
        if let Some(hint) =
            shapes.hints(allocation.requested, &clues).first().filter(|hint| hint.confidence >= SHOWN)
        {
            let sides: Vec<_> = hint.shape.iter().map(u64::to_string).collect();
            facts.push((
                "may be",
                format!("{}[{}] {} {}", hint.dtype.name(), sides.join(", "), hint.names, hint.what),
            ));
        }
    }
    if subject.has_map() {
        let pool = subject.pool_name(state.pool_of(allocation.addr, allocation.pool));
        facts.push(("pool", format!("{pool} · stream {}", stream(snapshot.stream(allocation.stream)))));
    }
    if let Some(event) = allocation.opened.event() {
        let meta = snapshot.meta(subject.events().get(event.index()).meta);
        for (name, id) in [
            ("compiled", meta.compile_context),
            ("metadata", meta.user_metadata),
            ("profiler", meta.category),
        ] {
            let text = snapshot.text(id);
            if !text.is_empty() {
                facts.push((name, printable(text)));
            }
        }
    }
    facts
}

/// Draws beside a list, or below it.
pub(crate) fn draw(buffer: &mut Buffer, area: Rect, is_beside: bool, info: &Info, theme: &Theme) {
    let dim = theme.style(Role::Dim);
    // A hairline between, and nothing else.
    if is_beside {
        for y in area.top()..area.bottom() {
            put(buffer, area, area.x, y, "│", dim);
        }
    } else {
        put(buffer, area, area.x, area.y, &"─".repeat(area.width.into()), dim);
    }
    let inner = match is_beside {
        true => Rect { x: area.x + 2, width: area.width.saturating_sub(2), ..area },
        false => Rect { y: area.y + 1, height: area.height.saturating_sub(1), ..area },
    };
    // Below a list there is room for two columns; beside it, one under the other.
    if is_beside {
        let used = draw_facts(buffer, inner, info, theme);
        let rest = Rect { y: inner.y + used, height: inner.height.saturating_sub(used), ..inner };
        draw_stack(buffer, rest, info, theme);
    } else {
        let left = Rect { width: inner.width / 2, ..inner };
        draw_facts(buffer, Rect { width: left.width.saturating_sub(1), ..left }, info, theme);
        draw_stack(buffer, Rect { x: left.right(), width: inner.width - left.width, ..inner }, info, theme);
    }
}

/// The facts and the source; returns the rows that they take.
fn draw_facts(buffer: &mut Buffer, area: Rect, info: &Info, theme: &Theme) -> u16 {
    let (text, dim) = (theme.style(Role::Text), theme.style(Role::Dim));
    let room = usize::from(area.width);
    put(buffer, area, area.x, area.y, &elide_place(&info.title, room), theme.style(Role::Title));
    let mut row = 1;
    // What has no room is counted.
    let lines = usize::from(area.height.saturating_sub(1));
    let shown = if info.facts.len() <= lines { info.facts.len() } else { lines.saturating_sub(1) };
    for (name, value) in &info.facts[..shown] {
        let line = row_of(area, row);
        let x = put(buffer, line, line.x, line.y, &format!("{name:<10}"), dim);
        put(buffer, line, x, line.y, &fit(value, room.saturating_sub(10)), text);
        row += 1;
    }
    if shown < info.facts.len() {
        let line = row_of(area, row);
        let names: Vec<_> = info.facts[shown..].iter().map(|(name, _)| *name).collect();
        put(buffer, line, line.x, line.y, &fit(&format!("i: {}", names.join(", ")), room), dim);
        row += 1;
    }
    if !info.source.is_empty() && row + 2 < area.height {
        row += 1;
        for (number, source) in &info.source {
            let line = row_of(area, row);
            let is_meant = *number == info.line as usize;
            let style = if is_meant { theme.style(Role::Warm) } else { dim };
            let mark = if is_meant { "▸" } else { " " };
            put(buffer, line, line.x, line.y, &fit(&format!("{mark}{number:>5} {source}"), room), style);
            row += 1;
        }
    }
    (row + 1).min(area.height)
}

fn draw_stack(buffer: &mut Buffer, area: Rect, info: &Info, theme: &Theme) {
    let (text, dim) = (theme.style(Role::Text), theme.style(Role::Dim));
    let room = usize::from(area.width);
    put(buffer, area, area.x, area.y, "stack, innermost first", dim);
    let rows = usize::from(area.height.saturating_sub(1));
    // The selected frame stays in sight.
    let from = (info.selected + 2).saturating_sub(rows).min(info.stack.len().saturating_sub(rows));
    for (row, (number, frame)) in info.stack.iter().enumerate().skip(from).take(rows).enumerate() {
        let line = row_of(area, row as u16 + 1);
        let style = if number == info.selected { text } else { dim };
        put(buffer, line, line.x, line.y, &fit_end(frame, room), style);
    }
    if info.stack.is_empty() {
        put(buffer, area, area.x, area.y + 1, "no stack was recorded", dim);
    }
}
