//! Pictures and tables as files.

use std::sync::{Arc, Mutex, PoisonError};

use vramscope_analysis::Moment;
use vramscope_engine::{
    AllocationRow, Ask, AskAllocations, AskDiff, AskLifetimes, AskStacks, AskState, AskTree, DiffTreeNode,
    Insight, Label, LaneInfo, LifetimeRow, MapBlock, MapRange, StackRow, TreeNode, paint,
};
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
        self.device().is_some() && !self.requests.is_waiting() && self.files.reading.is_empty()
    }
}

/// An image as a PNG file.
pub(crate) fn png(image: &egui::ColorImage) -> Vec<u8> {
    let pixels: Vec<_> = image.pixels.iter().map(|pixel| [pixel.r(), pixel.g(), pixel.b()]).collect();
    paint::png(image.size.map(|side| side as u32), &pixels)
}

/// Rows that are asked for at once.
const ROWS: u32 = 50_000;

/// A table whose rows come page by page.
#[derive(Clone)]
enum Table {
    Allocations(AskAllocations),
    Stacks(AskStacks),
    Lifetimes(AskLifetimes),
}

/// A table on its way to a file.
struct Saving {
    table: Table,
    text: String,
    rows: u32,
}

/// Rows of a page as text, how many there are, and how many there are in all.
type Rows = (String, u32, u32);

impl Table {
    fn name(&self) -> &'static str {
        match self {
            Self::Allocations(_) => "allocations.csv",
            Self::Stacks(_) => "stacks.csv",
            Self::Lifetimes(_) => "lifetimes.csv",
        }
    }

    fn heading(&self) -> &'static str {
        match self {
            Self::Allocations(_) => {
                "requested_bytes,block_bytes,opened_moment,closed_moment,lived_us,address,line\n"
            }
            Self::Stacks(_) => "requested_bytes,count,largest_bytes,line,operator\n",
            Self::Lifetimes(_) => "requested_bytes,opened_moment,closed_moment,from_us,to_us,line\n",
        }
    }

    /// The rows from `first` on, once they have come.
    fn rows(&self, app: &mut App, first: u32) -> Option<Rows> {
        let count = ROWS;
        match self.clone() {
            Self::Allocations(mut ask) => {
                (ask.list.first, ask.list.count) = (first, count);
                let page = fresh(app, ask)?;
                Some((lines(page.rows.iter().map(allocation)), page.rows.len() as u32, page.total))
            }
            Self::Stacks(mut ask) => {
                (ask.list.first, ask.list.count) = (first, count);
                let page = fresh(app, ask)?;
                Some((lines(page.rows.iter().map(stack)), page.rows.len() as u32, page.total))
            }
            Self::Lifetimes(ask) => {
                let page = fresh(app, AskLifetimes { first, count, ..ask })?;
                Some((lines(page.rows.iter().filter_map(lifetime)), page.rows.len() as u32, page.total))
            }
        }
    }
}

fn fresh<A: Ask>(app: &mut App, ask: A) -> Option<Arc<A::Answer>> {
    app.requests.want(Slot::Save, ask).filter(|answer| answer.fresh).map(|answer| answer.value)
}

impl App {
    /// The data behind the lower view as CSV: all of its rows, not only those that are seen.
    pub(crate) fn save_data(&mut self) {
        let requests = &self.requests;
        let (name, text) = match self.settings.tab {
            Tab::Tables if self.parts.tables.by_stack => {
                return self
                    .save_table(requests.look(Slot::Stacks).map(|answer| Table::Stacks(answer.request)));
            }
            Tab::Tables => {
                let answer = requests.look(Slot::Allocations);
                return self.save_table(answer.map(|answer| Table::Allocations(answer.request)));
            }
            Tab::Lifetimes => {
                let answer = requests.look(Slot::Lifetimes);
                return self.save_table(answer.map(|answer| Table::Lifetimes(answer.request)));
            }
            Tab::Flame => ("flame.csv", tree(self, Slot::Flame)),
            Tab::Tree => ("tree.csv", tree(self, Slot::Tree)),
            Tab::State => ("state.csv", state(self)),
            Tab::Compare => ("compare.csv", diff(self)),
            Tab::Segments => ("segments.csv", lanes(self)),
            Tab::Insights => ("insights.csv", Some(insights(self))),
            Tab::Settings => ("settings.csv", settings(self)),
        };
        match text {
            Some(text) => self.save(name, text.as_bytes()),
            None => self.say(NOTHING.into()),
        }
    }

    fn save_table(&mut self, table: Option<Table>) {
        let Some(table) = table else { return self.say(NOTHING.into()) };
        self.requests.forget(Slot::Save);
        self.saves.table = Some(Saving { text: table.heading().to_owned(), table, rows: 0 });
    }

    /// Takes in the page that has come, asks for the next, and saves after the last.
    pub(crate) fn save_rows(&mut self, ctx: &egui::Context) {
        let Some(mut saving) = self.saves.table.take() else { return };
        let name = saving.table.name();
        if let Some((text, got, total)) = saving.table.clone().rows(self, saving.rows) {
            saving.text += &text;
            saving.rows += got;
            if got == 0 || saving.rows >= total {
                self.requests.forget(Slot::Save);
                return self.save(name, saving.text.as_bytes());
            }
            self.say(format!("Saving {name}: {} of {} rows", count(saving.rows), count(total)));
            ctx.request_repaint();
        }
        self.saves.table = Some(saving);
    }
}

const NOTHING: &str = "There is nothing to save yet";

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

/// A value that may be missing: an empty field.
fn optional(value: Option<impl ToString>) -> String {
    value.map_or_else(String::new, |value| value.to_string())
}

fn moment(at: Option<Moment>) -> String {
    optional(at.map(|at| at.0))
}

fn allocation(row: &AllocationRow) -> Vec<String> {
    vec![
        row.owner.requested.to_string(),
        row.size.to_string(),
        moment(Some(row.owner.opened)),
        moment(row.owner.closed),
        optional(row.lived_us),
        format!("{:#x}", row.addr),
        row.place.clone(),
    ]
}

fn stack(row: &StackRow) -> Vec<String> {
    let numbers = [row.sum.bytes, row.sum.count, row.largest_bytes].map(|number| number.to_string());
    numbers.into_iter().chain([row.place.clone(), row.operator.clone()]).collect()
}

fn lifetime(row: &LifetimeRow) -> Option<Vec<String>> {
    match row {
        LifetimeRow::Group { .. } => None,
        LifetimeRow::Bar { owner, time, place, .. } => Some(vec![
            owner.requested.to_string(),
            moment(Some(owner.opened)),
            moment(owner.closed),
            time.0.to_string(),
            optional(time.1),
            place.clone(),
        ]),
    }
}

/// A tree as rows, each below the one that it lies in: its depth, its numbers, its line.
fn outline<N>(
    nodes: &[N],
    labels: &[Label],
    parts: impl Fn(&N) -> (u32, &[u32]),
    numbers: impl Fn(&N) -> Vec<u64>,
) -> Option<Vec<Vec<String>>> {
    let mut open = vec![(0_u32, 0_u64)];
    let mut lines = Vec::new();
    while let Some((node, depth)) = open.pop() {
        let node = nodes.get(node as usize)?;
        let (label, children) = parts(node);
        let at = &labels.get(label as usize)?.at;
        let mut line: Vec<String> =
            std::iter::once(depth).chain(numbers(node)).map(|number| number.to_string()).collect();
        line.extend([at.name.clone(), at.file.clone(), at.line.to_string()]);
        lines.push(line);
        open.extend(children.iter().rev().map(|&child| (child, depth + 1)));
    }
    Some(lines)
}

fn tree(app: &App, slot: Slot) -> Option<String> {
    let tree = app.requests.look::<AskTree>(slot)?.value;
    let numbers = |node: &TreeNode| vec![node.bytes, node.own, node.count];
    let lines = outline(&tree.nodes, &tree.labels, |node| (node.label, &node.children), numbers)?;
    Some(rows("depth,bytes,own_bytes,count,function,file,line", lines.into_iter()))
}

fn diff(app: &App) -> Option<String> {
    let tree = app.requests.look::<AskDiff>(Slot::Diff)?.value;
    let numbers = |node: &DiffTreeNode| vec![node.before.bytes, node.after.bytes];
    let lines = outline(&tree.nodes, &tree.labels, |node| (node.label, &node.children), numbers)?;
    Some(rows("depth,before_bytes,after_bytes,function,file,line", lines.into_iter()))
}

fn state(app: &App) -> Option<String> {
    let map = app.requests.look::<AskState>(Slot::State)?.value;
    let row = |range: &MapRange| {
        let segment = format!("{:#x}", range.addr);
        let block = move |block: &MapBlock| {
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

fn insights(app: &mut App) -> String {
    let row = |insight: Insight| {
        let (severity, bytes) = (insight.severity.name().to_owned(), insight.bytes.to_string());
        vec![insight.kind, severity, bytes, insight.title, insight.advice]
    };
    let found = crate::views::insights::all(app);
    rows("kind,severity,bytes,what,advice", found.into_iter().map(row))
}

fn lanes(app: &App) -> Option<String> {
    let (_, summary) = app.device()?;
    let row = |lane: &LaneInfo| {
        vec![format!("{:#x}", lane.addr), lane.size.to_string(), lane.expandable.to_string()]
    };
    Some(rows("address,bytes,expandable", summary.lanes.iter().map(row)))
}

fn settings(app: &App) -> Option<String> {
    let (_, summary) = app.device()?;
    let row = |(name, value): &(String, String)| vec![name.clone(), value.clone()];
    Some(rows("setting,value", summary.settings.iter().map(row)))
}
