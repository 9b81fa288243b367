//! The call tree as a flame graph: the outermost calls on top, each as wide as what it holds.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::{Modifier, Style};
use vramscope_analysis::Sum;
use vramscope_format::{elide_place, fit, fit_end, plural, share, size, width};

use super::{Names, put, row_of};
use crate::branches::Towards;
use crate::keys::{Action, View};
use crate::outline::NodeId;
use crate::pane::{NOTHING_FOUND, Pane, Reply};
use crate::theme::{Colors, Role, Theme};

/// Letters of a name that bytes leave room for.
const LEAST_NAME: usize = 24;

/// A call on the screen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Cell {
    pub(crate) node: NodeId,
    pub(crate) depth: u32,
    pub(crate) x: u16,
    pub(crate) width: u16,
}

/// The calls that are at least a cell wide and not deeper than asked, by depth and then from left to right.
pub(crate) fn cells(pane: &Pane, width: u16, deepest: u32) -> Vec<Cell> {
    let outline = &pane.calls.tree.outline;
    let root = pane.calls.tree.root();
    let Some(total) = outline.get(root).map(|item| item.now.bytes.max(1)) else { return Vec::new() };
    let mut cells = vec![Cell { node: root, depth: 0, x: 0, width }];
    let mut next = 0;
    while let Some(&cell) = cells.get(next) {
        next += 1;
        if cell.depth >= deepest {
            break;
        }
        // Edges are rounded, not widths, so that children never outgrow their parent.
        let mut before = 0_u64;
        let scale = f64::from(width) / total as f64;
        let base = f64::from(cell.x);
        for child in outline.children(cell.node) {
            let Some(item) = outline.get(child) else { break };
            let left = base + before as f64 * scale;
            before = before.saturating_add(item.now.bytes);
            let right = (base + before as f64 * scale).round().min(f64::from(cell.x + cell.width));
            let left = left.round();
            if right - left >= 1.0 {
                cells.push(Cell {
                    node: child,
                    depth: cell.depth + 1,
                    x: left as u16,
                    width: (right - left) as u16,
                });
            }
        }
    }
    cells
}

pub(crate) fn act(pane: &mut Pane, action: Action) -> Reply {
    let at = pane.calls.flame_at;
    let outline = &pane.calls.tree.outline;
    let Some(item) = outline.get(at) else { return Reply::Nothing };
    let root = pane.calls.tree.root();
    match action {
        Action::Up if at != root => pane.calls.flame_at = item.parent,
        Action::Down => pane.calls.flame_at = outline.children(at).next().unwrap_or(at),
        Action::Right if at != root => {
            let end = outline.get(item.parent).map_or(0, |parent| parent.end);
            pane.calls.flame_at = if item.end < end { item.end } else { at };
        }
        Action::Left if at != root => {
            pane.calls.flame_at =
                outline.children(item.parent).take_while(|&child| child < at).last().unwrap_or(at);
        }
        Action::First => pane.calls.flame_at = root,
        Action::Last => {
            let mut deepest = at;
            while let Some(child) = pane.calls.tree.outline.children(deepest).next() {
                deepest = child;
            }
            pane.calls.flame_at = deepest;
        }
        Action::Enter if !outline.has_children(at) => pane.open(View::Allocations),
        Action::Enter | Action::Focus => pane.calls.tree.focus_on(at),
        Action::SearchNext | Action::SearchPrevious => {
            let towards = if action == Action::SearchNext { Towards::Next } else { Towards::Previous };
            if !pane.calls.go_to_match_in_flame(towards) {
                return Reply::Say(NOTHING_FOUND.into());
            }
        }
        Action::Back | Action::Escape if !pane.calls.tree.unfocus() => return Reply::Leave,
        _ => {}
    }
    // What is in focus has everything that can be reached.
    let root = pane.calls.tree.root();
    let end = pane.calls.tree.outline.get(root).map_or(0, |item| item.end);
    if !(root..end).contains(&pane.calls.flame_at) {
        pane.calls.flame_at = root;
    }
    Reply::Nothing
}

/// How deep a node lies below what is in focus.
fn depth_of(pane: &Pane, node: NodeId) -> u32 {
    pane.calls.tree.outline.upwards(node).take_while(|&above| above != pane.calls.tree.root()).count() as u32
}

/// Where the graph is, and how.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Layout {
    pub(crate) graph: Rect,
    /// Lines that each call takes: one for its name and, if all of them fit, one for its bytes.
    pub(crate) lines: u16,
    /// The first depth that is drawn, so that the cursor is in sight.
    pub(crate) top: u32,
}

impl Layout {
    pub(crate) fn new(pane: &Pane) -> Self {
        let area = pane.area;
        let graph = Rect { y: area.y + 1, height: area.height.saturating_sub(3), ..area };
        let deepest = cells(pane, graph.width, u32::from(graph.height)).last().map_or(0, |cell| cell.depth);
        let lines = if (deepest + 1) * 2 <= u32::from(graph.height) { 2 } else { 1 };
        let top = (depth_of(pane, pane.calls.flame_at) + 1).saturating_sub(u32::from(graph.height / lines));
        Self { graph, lines, top }
    }
}

pub(crate) fn draw(buffer: &mut Buffer, area: Rect, pane: &Pane, theme: &Theme) {
    let subject = pane.subject();
    let names = Names::Snapshot(subject.snapshot());
    super::tree::draw_moment(buffer, row_of(area, 0), pane, theme);
    let outline = &pane.calls.tree.outline;
    let Layout { graph, lines, top } = Layout::new(pane);
    let total = outline.root().map_or(Sum::default(), |root| root.now);
    for cell in cells(pane, graph.width, top + u32::from(graph.height)) {
        let rows = u32::from(graph.height / lines);
        let Some(row) = cell.depth.checked_sub(top).filter(|&row| row < rows) else {
            continue;
        };
        let Some(item) = outline.get(cell.node) else { continue };
        let y = graph.y + row as u16 * lines;
        let line = Rect { x: graph.x + cell.x, y, width: cell.width, height: 1 };
        let name = names.short(item.place);
        let is_match = pane.calls.tree.found.as_ref().is_some_and(|found| found.matches(item.place));
        let is_chosen = cell.node == pane.calls.flame_at;
        let mut style = theme.of_name(&name);
        if is_chosen {
            style = chosen(theme);
        } else if is_match {
            style = style.add_modifier(Modifier::BOLD | Modifier::UNDERLINED);
        } else if pane.calls.tree.found.is_some() && theme.colors != Colors::None {
            // While searching, the rest steps back: its own color, near to the ground.
            style = theme.tint_of_name(&name);
        }
        // The first cell of each box is an edge, so that neighbors are told apart without colors too.
        let room = usize::from(cell.width);
        // Bytes and share stand at the end of a box that has room for them beside its name.
        let amount = format!(" {} {} ", size(item.now.bytes), share(item.now.bytes, total.bytes));
        if lines > 1 {
            let below = Rect { y: y + 1, ..line };
            let shown = format!("▏{}", amount.trim());
            // Bytes alone, where the share has no room; neither, where they would be cut.
            let shown = if width(&shown) <= room { shown } else { format!("▏{}", size(item.now.bytes)) };
            let shown = if width(&shown) <= room { shown } else { "▏".into() };
            put(buffer, below, below.x, below.y, &format!("{shown:room$}"), style);
        }
        let fits = lines == 1 && width(&name).min(LEAST_NAME) + width(&amount) < room;
        let amount = if fits { amount } else { String::new() };
        let room = room - width(&amount);
        let text = if room >= 3 { format!("▏{}", elide_place(&name, room - 1)) } else { "▏".into() };
        let shown = fit(&text, room);
        let pad = " ".repeat(room.saturating_sub(width(&shown)));
        put(buffer, line, line.x, line.y, &format!("{shown}{pad}{amount}"), style);
    }
    let Some(item) = outline.get(pane.calls.flame_at) else { return };
    let foot = Rect { y: area.bottom().saturating_sub(2), height: 2, ..area };
    let words = format!(
        "{}  {} of all  {}  ",
        size(item.now.bytes),
        share(item.now.bytes, total.bytes),
        plural(item.now.count, "allocation")
    );
    let x = put(buffer, foot, foot.x, foot.y, &words, theme.style(Role::Cursor));
    let place = elide_place(&names.short(item.place), usize::from(foot.right().saturating_sub(x)));
    put(buffer, foot, x, foot.y, &place, theme.style(Role::Text));
    let path = fit_end(&names.long(item.place), foot.width.into());
    put(buffer, foot, foot.x, foot.y + 1, &path, theme.style(Role::Dim));
}

/// The selected box: in a color that no other has, or without any, the only one that is not reversed.
fn chosen(theme: &Theme) -> Style {
    match theme.colors {
        Colors::None => Style::new().add_modifier(Modifier::BOLD | Modifier::UNDERLINED),
        Colors::Sixteen => theme.style(Role::Selected).add_modifier(Modifier::BOLD),
        Colors::Indexed | Colors::True => theme.style(Role::Cursor).add_modifier(Modifier::REVERSED),
    }
}
