//! Pictures and tables as files.

use std::sync::{Arc, Mutex, PoisonError};

use vramscope_analysis::Line;
use vramscope_analysis::tables::{
    ALLOCATIONS, BLOCKS, DIFF, EVENTS, FINDINGS, LANES, SETTINGS, TOTALS, TREE, TRIALS,
};
use vramscope_analysis::whatif::Row;
use vramscope_engine::{
    AskAllocations, AskCsv, AskDiff, AskLifetimes, AskReport, AskStacks, AskState, AskTree, CsvOf,
    DiffTreeNode, Insight, Label, LaneInfo, ReportRow, Source, TreeNode, paint,
};
use vramscope_format::table::{Column, Value, csv_heading, csv_row};
use vramscope_format::{Formulas, count, csv};

use crate::app::App;
use crate::requests::Slot;
use crate::views::Tab;

/// What is on its way to a file.
#[derive(Default)]
pub(crate) struct Saves {
    table: Option<Saving>,
    /// A picture of the window, once it has come.
    picture: Arc<Mutex<Option<Arc<egui::ColorImage>>>>,
}

impl App {
    /// Saves bytes and says where.
    pub fn save(&mut self, name: &str, bytes: &[u8]) {
        let said = match self.requests.host.save(name, bytes) {
            Ok(place) => format!("Saved {place}"),
            Err(error) => format!("Could not save {name}: {error}"),
        };
        self.say(said);
    }

    /// Asks for a picture of the window, to be saved when it comes.
    pub(crate) fn take_picture(&self, ctx: &egui::Context) {
        let (slot, waker) = (Arc::clone(&self.saves.picture), ctx.clone());
        let keep = move |image| {
            *slot.lock().unwrap_or_else(PoisonError::into_inner) = Some(image);
            waker.request_repaint();
        };
        ctx.send_viewport_cmd(egui::ViewportCommand::Screenshot(egui::ScreenshotCallback::new(keep)));
    }

    /// Saves the picture that has come.
    pub(crate) fn save_picture(&mut self) {
        let image = self.saves.picture.lock().unwrap_or_else(PoisonError::into_inner).take();
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
        self.requests.is_fresh(Slot::Timeline)
    }

    /// Whether everything that is shown is sharp and nothing is on its way.
    pub fn is_at_rest(&self) -> bool {
        let is_idle = !self.requests.is_waiting() && self.files.reading.is_empty();
        self.device().is_some() && is_idle && !self.moving
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
struct Saving {
    of: Source,
    table: CsvOf,
    text: String,
    rows: u32,
}

impl Saving {
    fn new(of: Source, table: CsvOf) -> Self {
        let columns: &[Column] = match table {
            CsvOf::Allocations(_) | CsvOf::Lifetimes(..) => &ALLOCATIONS,
            CsvOf::Totals(_) => &TOTALS,
            CsvOf::Events => &EVENTS,
            // Its columns come with its rows.
            CsvOf::Sql(_) => &[],
        };
        let text = if columns.is_empty() { String::new() } else { csv_heading(columns) };
        Self { of, table, text, rows: 0 }
    }

    fn name(&self) -> &'static str {
        match self.table {
            CsvOf::Allocations(_) => "allocations.csv",
            CsvOf::Lifetimes(..) => "lifetimes.csv",
            CsvOf::Totals(_) => "totals.csv",
            CsvOf::Events => "events.csv",
            CsvOf::Sql(_) => "query.csv",
        }
    }
}

impl App {
    /// The data behind the lower view as CSV: all of its rows, not only those that are seen.
    pub(crate) fn save_data(&mut self) {
        let requests = &self.requests;
        let (name, text) = match self.settings.tab {
            Tab::Tables if self.parts.tables.by_stack => {
                let shown = requests.look::<AskStacks>(Slot::Stacks).map(|answer| answer.request);
                return self.save_table(shown.map(|ask| Saving::new(ask.of, CsvOf::Totals(ask.list))));
            }
            Tab::Tables => {
                let shown = requests.look::<AskAllocations>(Slot::Allocations).map(|answer| answer.request);
                return self.save_table(shown.map(|ask| Saving::new(ask.of, CsvOf::Allocations(ask.list))));
            }
            Tab::Lifetimes => {
                let shown = requests.look::<AskLifetimes>(Slot::Lifetimes).map(|answer| answer.request);
                let bars = |ask: AskLifetimes| Saving::new(ask.of, CsvOf::Lifetimes(ask.which, ask.group));
                return self.save_table(shown.map(bars));
            }
            Tab::Events => {
                let of = self.device().map(|(of, _)| of);
                return self.save_table(of.map(|of| Saving::new(of, CsvOf::Events)));
            }
            Tab::Sql => return self.save_query(),
            Tab::Breakdown => ("breakdown.csv", report(self)),
            Tab::Flame => ("flame.csv", tree(self, Slot::Flame)),
            Tab::Tree => ("tree.csv", tree(self, Slot::Tree)),
            Tab::State => ("state.csv", state(self)),
            Tab::Compare => ("compare.csv", diff(self)),
            Tab::Segments => ("segments.csv", lanes(self)),
            Tab::Insights => ("insights.csv", Some(insights(self))),
            Tab::Settings => ("settings.csv", settings(self)),
            Tab::WhatIf => ("whatif.csv", trials(self)),
        };
        match text {
            Some(text) => self.save(name, text.as_bytes()),
            None => self.say(NOTHING.into()),
        }
    }

    /// Saves the rows of a query.
    pub(crate) fn save_result(&mut self, result: Option<u64>) {
        let of = self.device().map(|(of, _)| of);
        self.save_table(of.zip(result).map(|(of, result)| Saving::new(of, CsvOf::Sql(result))));
    }

    fn save_table(&mut self, saving: Option<Saving>) {
        let Some(saving) = saving else { return self.say(NOTHING.into()) };
        self.requests.forget(Slot::Save);
        self.saves.table = Some(saving);
    }

    /// Takes in the page that has come, asks for the next, and saves after the last.
    pub(crate) fn save_rows(&mut self, ctx: &egui::Context) {
        let Some(mut saving) = self.saves.table.take() else { return };
        let name = saving.name();
        let ask = AskCsv { of: saving.of, table: saving.table.clone(), first: saving.rows, count: ROWS };
        let page = self.requests.want(Slot::Save, ask).filter(|answer| answer.fresh);
        if let Some(page) = page.map(|answer| answer.value) {
            saving.text.extend(page.rows.iter().map(String::as_str));
            saving.rows += page.rows.len() as u32;
            if page.rows.is_empty() || saving.rows >= page.total {
                self.requests.forget(Slot::Save);
                return self.save(name, saving.text.as_bytes());
            }
            self.say(format!("Saving {name}: {} of {} rows", count(saving.rows), count(page.total)));
            ctx.request_repaint();
        } else if self.requests.is_fresh(Slot::Save) {
            return self.say(format!("Could not save {name}: its rows are not kept any more"));
        }
        self.saves.table = Some(saving);
    }
}

const NOTHING: &str = "There is nothing to save yet";

fn file<'a, const N: usize>(columns: &[Column; N], rows: impl IntoIterator<Item = [Value<'a>; N]>) -> String {
    rows.into_iter().fold(csv_heading(columns), |text, row| text + &csv_row(&row, Formulas::Escape))
}

/// The nodes of a tree, each below the one that it lies in, with their depth and line.
fn outline<'a, N>(
    nodes: &'a [N],
    labels: &'a [Label],
    parts: impl Fn(&N) -> (u32, &[u32]),
) -> Option<Vec<(&'a N, u32, &'a Line)>> {
    let mut open = vec![(0_u32, 0_u32)];
    let mut found = Vec::new();
    while let Some((node, depth)) = open.pop() {
        let node = nodes.get(node as usize)?;
        let (label, children) = parts(node);
        found.push((node, depth, &labels.get(label as usize)?.at));
        open.extend(children.iter().rev().map(|&child| (child, depth + 1)));
    }
    Some(found)
}

/// The table of the breakdown that is shown: numbers, and words where there are none.
fn report(app: &App) -> Option<String> {
    let report = app.requests.look::<AskReport>(Slot::Report)?.value;
    let line = |cells: Vec<String>| {
        let cells: Vec<String> = cells.iter().map(|cell| csv(cell, Formulas::Escape)).collect();
        cells.join(",") + "\n"
    };
    let heading = std::iter::once(&report.name).chain(&report.columns).cloned();
    let row = |row: &ReportRow| {
        let number = |(value, words): &(i64, String)| {
            if words.contains(|c: char| c.is_ascii_digit()) { value.to_string() } else { words.clone() }
        };
        line(std::iter::once(row.name.clone()).chain(row.cells.iter().map(number)).collect())
    };
    Some(line(heading.collect()) + &report.rows.iter().map(row).collect::<String>())
}

fn tree(app: &App, slot: Slot) -> Option<String> {
    let tree = app.requests.look::<AskTree>(slot)?.value;
    let nodes = outline(&tree.nodes, &tree.labels, |node| (node.label, &node.children))?;
    let row = |(node, depth, at): (&TreeNode, u32, &Line)| {
        let [name, file, line] = place(at);
        [depth.into(), node.bytes.into(), node.own.into(), node.count.into(), name, file, line]
    };
    Some(file(&TREE, nodes.into_iter().map(row)))
}

fn diff(app: &App) -> Option<String> {
    let tree = app.requests.look::<AskDiff>(Slot::Diff)?.value;
    let nodes = outline(&tree.nodes, &tree.labels, |node| (node.label, &node.children))?;
    let row = |(DiffTreeNode { before, after, .. }, depth, at): (&DiffTreeNode, u32, &Line)| {
        let [name, file, line] = place(at);
        let (bytes, counts) = ([before.bytes, after.bytes], [before.count, after.count]);
        let ([before, after], [count_before, count_after]) =
            (bytes.map(Value::from), counts.map(Value::from));
        [depth.into(), before, after, count_before, count_after, name, file, line]
    };
    Some(file(&DIFF, nodes.into_iter().map(row)))
}

/// Function, file and line.
fn place<'a>(at: &Line) -> [Value<'a>; 3] {
    [at.name.clone().into(), at.file.clone().into(), at.line.into()]
}

fn state(app: &App) -> Option<String> {
    let map = app.requests.look::<AskState>(Slot::State)?.value;
    let blocks = map.ranges.iter().flat_map(|range| range.blocks.iter().map(|block| (range.addr, block)));
    let rows = blocks.map(|(segment, block)| {
        let owner = &block.owner;
        [segment.into(), block.addr.into(), block.size.into(), owner.requested.into(), owner.awaiting.into()]
    });
    Some(file(&BLOCKS, rows))
}

fn insights(app: &mut App) -> String {
    let row = |found: Insight| {
        let event = found.when.and_then(|(_, to)| to.event()).map(|event| event.0);
        [
            found.kind.into(),
            found.severity.name().into(),
            found.bytes.into(),
            found.title.into(),
            found.advice.into(),
            event.into(),
        ]
    };
    file(&FINDINGS, crate::views::insights::all(app).iter().cloned().map(row))
}

fn lanes(app: &App) -> Option<String> {
    let (_, summary) = app.device()?;
    let row = |lane: &LaneInfo| [lane.addr.into(), lane.size.into(), lane.expandable.into()];
    Some(file(&LANES, summary.lanes.iter().map(row)))
}

fn trials(app: &App) -> Option<String> {
    let (of, _) = app.device()?;
    let rows = app.parts.whatif.rows(of);
    (!rows.is_empty()).then(|| file(&TRIALS, rows.into_iter().map(Row::cells)))
}

fn settings(app: &App) -> Option<String> {
    let (_, summary) = app.device()?;
    let row = |(name, value): &(String, String)| [name.clone().into(), value.clone().into()];
    Some(file(&SETTINGS, summary.settings.iter().map(row)))
}
