//! Pictures and tables as files.

use std::sync::{Arc, PoisonError};

use vramscope_engine::{
    AllocationRow, DiffTreeNode, Insight, Label, LifetimeRow, Request, Response, StackRow, TreeNode, paint,
};
use vramscope_format::{Formulas, csv};

use crate::app::App;
use crate::desk::Slot;
use crate::views::Tab;

impl App {
    /// Saves bytes and says where.
    pub fn save(&mut self, name: &str, bytes: &[u8]) {
        let said = match self.desk.host.save(name, bytes) {
            Ok(place) => format!("Saved {place}"),
            Err(error) => format!("Could not save {name}: {error}"),
        };
        self.say(said);
    }

    /// Asks for a picture of the window, to be saved when it comes.
    pub(crate) fn take_picture(&self, ctx: &egui::Context) {
        let (slot, waker) = (Arc::clone(&self.picture), ctx.clone());
        let keep = move |image| {
            *slot.lock().unwrap_or_else(PoisonError::into_inner) = Some(image);
            waker.request_repaint();
        };
        ctx.send_viewport_cmd(egui::ViewportCommand::Screenshot(egui::ScreenshotCallback::new(keep)));
    }

    /// Saves the picture that has come.
    pub(crate) fn save_picture(&mut self) {
        let image = self.picture.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(image) = image {
            self.save("vramscope.png", &png(&image));
        }
    }

    /// Whether a recording is shown.
    pub fn has_device(&self) -> bool {
        self.device().is_some()
    }

    /// Events and allocations of the recording that is shown.
    pub fn extent(&self) -> (u32, u32) {
        self.device().map_or((0, 0), |(_, summary)| (summary.events, summary.allocations))
    }

    /// Where the memory timeline is drawn.
    pub fn timeline_rect(&self) -> egui::Rect {
        self.parts.timeline.plot
    }

    /// Whether the memory timeline shows just what it was last asked for.
    pub fn is_sharp(&self) -> bool {
        self.desk.look(Slot::Timeline).is_some_and(|answer| answer.fresh)
    }

    /// Whether everything that is shown is sharp and nothing is on its way.
    pub fn is_at_rest(&self) -> bool {
        self.device().is_some() && !self.desk.is_waiting() && self.reading.is_empty()
    }
}

/// An image as a PNG file.
pub(crate) fn png(image: &egui::ColorImage) -> Vec<u8> {
    let pixels: Vec<_> = image.pixels.iter().map(|pixel| [pixel.r(), pixel.g(), pixel.b()]).collect();
    paint::png(image.size.map(|side| side as u32), &pixels)
}

/// Rows that are asked for at once.
const ROWS: u32 = 50_000;

/// A table on its way to a file, page by page.
pub(crate) struct Saving {
    name: &'static str,
    request: Request,
    text: String,
    rows: u32,
}

impl App {
    /// The data behind the lower view as CSV: all of its rows, not only those that are seen.
    pub(crate) fn save_data(&mut self) {
        let slot = match self.settings.tab {
            Tab::Tables if self.parts.tables.by_stack => Some((Slot::Stacks, "stacks.csv", STACKS)),
            Tab::Tables => Some((Slot::Allocations, "allocations.csv", ALLOCATIONS)),
            Tab::Lifetimes => Some((Slot::Lifetimes, "lifetimes.csv", LIFETIMES)),
            _ => None,
        };
        if let Some((slot, name, heading)) = slot {
            let Some(answer) = self.desk.look(slot) else { return self.say(NOTHING.into()) };
            self.desk.forget(Slot::Save);
            let text = format!("{heading}\n");
            self.saving = Some(Saving { name, request: answer.request, text, rows: 0 });
            return;
        }
        let (name, text) = match self.settings.tab {
            Tab::Flame => ("flame.csv", tree(self, Slot::Flame)),
            Tab::Tree => ("tree.csv", tree(self, Slot::Tree)),
            Tab::State => ("state.csv", state(self)),
            Tab::Compare => ("compare.csv", diff(self)),
            Tab::Segments => ("segments.csv", lanes(self)),
            Tab::Insights => ("insights.csv", insights(self)),
            Tab::Settings | Tab::Tables | Tab::Lifetimes => ("settings.csv", settings(self)),
        };
        match text {
            Some(text) => self.save(name, text.as_bytes()),
            None => self.say(NOTHING.into()),
        }
    }

    /// Takes in the page that has come, asks for the next, and saves after the last.
    pub(crate) fn save_rows(&mut self, ctx: &egui::Context) {
        let Some(mut saving) = self.saving.take() else { return };
        let mut request = saving.request.clone();
        if let Request::Allocations { first, count, .. }
        | Request::Stacks { first, count, .. }
        | Request::Lifetimes { first, count, .. } = &mut request
        {
            (*first, *count) = (saving.rows, ROWS);
        }
        if let Some(answer) = self.desk.want(Slot::Save, request).filter(|answer| answer.fresh) {
            let (text, got, total) = page(&answer.response);
            saving.text += &text;
            saving.rows += got;
            if got == 0 || saving.rows >= total {
                self.desk.forget(Slot::Save);
                return self.save(saving.name, saving.text.as_bytes());
            }
            self.say(format!("Saving {}: {} of {total} rows", saving.name, saving.rows));
            ctx.request_repaint();
        }
        self.saving = Some(saving);
    }
}

const NOTHING: &str = "There is nothing to save yet";
const ALLOCATIONS: &str = "requested_bytes,block_bytes,opened_moment,closed_moment,lived_us,address,line";
const STACKS: &str = "requested_bytes,count,largest_bytes,line,operator";
const LIFETIMES: &str = "requested_bytes,opened_moment,closed_moment,from_us,to_us,line";

/// A page as text, how many rows it has, and how many there are in all.
fn page(response: &Response) -> (String, u32, u32) {
    match response {
        Response::Allocations(page) => {
            (lines(page.rows.iter().map(allocation)), page.rows.len() as u32, page.total)
        }
        Response::Stacks(page) => (lines(page.rows.iter().map(stack)), page.rows.len() as u32, page.total),
        Response::Lifetimes(page) => {
            (lines(page.rows.iter().filter_map(lifetime)), page.rows.len() as u32, page.total)
        }
        _ => (String::new(), 0, 0),
    }
}

fn rows(heading: &str, rows: impl Iterator<Item = Vec<String>>) -> String {
    format!("{heading}\n{}", lines(rows))
}

fn lines(rows: impl Iterator<Item = Vec<String>>) -> String {
    let mut text = String::new();
    for row in rows {
        text += &row.iter().map(|text| csv(text, Formulas::Escape)).collect::<Vec<_>>().join(",");
        text.push('\n');
    }
    text
}

fn allocation(row: &AllocationRow) -> Vec<String> {
    vec![
        row.owner.requested.to_string(),
        row.size.to_string(),
        row.owner.opened.to_string(),
        row.owner.closed.to_string(),
        row.lived_us.map_or_else(String::new, |us| us.to_string()),
        format!("{:#x}", row.addr),
        row.place.clone(),
    ]
}

fn stack(row: &StackRow) -> Vec<String> {
    vec![
        row.bytes.to_string(),
        row.count.to_string(),
        row.largest_bytes.to_string(),
        row.place.clone(),
        row.operator.clone(),
    ]
}

fn lifetime(row: &LifetimeRow) -> Option<Vec<String>> {
    match row {
        LifetimeRow::Group { .. } => None,
        LifetimeRow::Bar { owner, time, place, .. } => Some(vec![
            owner.requested.to_string(),
            owner.opened.to_string(),
            owner.closed.to_string(),
            time.0.to_string(),
            time.1.to_string(),
            place.clone(),
        ]),
    }
}

/// A tree as rows, each below the one that it lies in: its depth, its numbers, its line.
fn outline<N>(
    nodes: &[N],
    labels: &[Label],
    parts: impl Fn(&N) -> (u32, &[u32]),
    numbers: impl Fn(&N) -> Vec<String>,
) -> Option<Vec<Vec<String>>> {
    let mut open = vec![(0_u32, 0_usize)];
    let mut lines = Vec::new();
    while let Some((node, depth)) = open.pop() {
        let node = nodes.get(node as usize)?;
        let (label, children) = parts(node);
        let label = labels.get(label as usize)?;
        let mut line = vec![depth.to_string()];
        line.extend(numbers(node));
        line.extend([label.name.clone(), label.file.clone(), label.line.to_string()]);
        lines.push(line);
        open.extend(children.iter().rev().map(|&child| (child, depth + 1)));
    }
    Some(lines)
}

fn tree(app: &App, slot: Slot) -> Option<String> {
    let answer = app.desk.look(slot)?;
    let Response::Tree(tree) = &*answer.response else { return None };
    let numbers =
        |node: &TreeNode| vec![node.bytes.to_string(), node.own.to_string(), node.count.to_string()];
    let lines = outline(&tree.nodes, &tree.labels, |node| (node.label, &node.children), numbers)?;
    Some(rows("depth,bytes,own_bytes,count,function,file,line", lines.into_iter()))
}

fn diff(app: &App) -> Option<String> {
    let answer = app.desk.look(Slot::Diff)?;
    let Response::Diff(tree) = &*answer.response else { return None };
    let numbers = |node: &DiffTreeNode| vec![node.before.0.to_string(), node.after.0.to_string()];
    let lines = outline(&tree.nodes, &tree.labels, |node| (node.label, &node.children), numbers)?;
    Some(rows("depth,before_bytes,after_bytes,function,file,line", lines.into_iter()))
}

fn state(app: &App) -> Option<String> {
    let answer = app.desk.look(Slot::State)?;
    let Response::State(map) = &*answer.response else { return None };
    let row = |range: &vramscope_engine::MapRange| {
        let segment = format!("{:#x}", range.addr);
        let block = move |block: &vramscope_engine::MapBlock| {
            vec![
                segment.clone(),
                format!("{:#x}", block.addr),
                block.size.to_string(),
                block.owner.requested.to_string(),
                if block.owner.awaiting { "awaiting free" } else { "live" }.to_owned(),
            ]
        };
        range.blocks.iter().map(block).collect::<Vec<_>>()
    };
    Some(rows("segment,address,block_bytes,requested_bytes,state", map.ranges.iter().flat_map(row)))
}

fn insights(app: &mut App) -> Option<String> {
    let row = |insight: Insight| {
        vec![
            insight.kind,
            insight.severity.to_string(),
            insight.bytes.to_string(),
            insight.title,
            insight.advice,
        ]
    };
    let found = crate::views::insights::all(app);
    Some(rows("kind,severity,bytes,what,advice", found.into_iter().map(row)))
}

fn lanes(app: &App) -> Option<String> {
    let (_, summary) = app.device()?;
    let row = |lane: &vramscope_engine::LaneInfo| {
        vec![format!("{:#x}", lane.addr), lane.size.to_string(), lane.expandable.to_string()]
    };
    Some(rows("address,bytes,expandable", summary.lanes.iter().map(row)))
}

fn settings(app: &App) -> Option<String> {
    let (_, summary) = app.device()?;
    Some(rows(
        "setting,value",
        summary.settings.iter().map(|(name, value)| vec![name.clone(), value.clone()]),
    ))
}
