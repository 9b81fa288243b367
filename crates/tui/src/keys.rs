//! Every key: what it is called, where it works, and what it does. The footer, the help and the dispatch all come
//! from this one table.

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

/// What the screen shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum View {
    /// Memory over the trace.
    Timeline,
    /// The call tree of what is live at a moment.
    Tree,
    /// The same as a flame graph.
    Flame,
    /// The map of segments at a moment.
    Segments,
    /// Findings.
    Insights,
    /// All files.
    Ranks,
    /// The trace, event by event.
    Events,
    /// Memory by pool at a moment.
    Pools,
    /// What changed between two moments or files, as a tree.
    Diff,
    /// Live allocations, one by one.
    Allocations,
    /// Other allocator settings, simulated.
    WhatIf,
}

impl View {
    /// All views, in the order of their numbers.
    pub const ALL: [Self; 11] = [
        Self::Timeline,
        Self::Tree,
        Self::Flame,
        Self::Segments,
        Self::Insights,
        Self::Ranks,
        Self::Events,
        Self::Pools,
        Self::Diff,
        Self::WhatIf,
        Self::Allocations,
    ];

    /// The word for it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Timeline => "timeline",
            Self::Tree => "tree",
            Self::Flame => "flame",
            Self::Segments => "segments",
            Self::Insights => "insights",
            Self::Ranks => "ranks",
            Self::Events => "events",
            Self::Pools => "pools",
            Self::Diff => "diff",
            Self::Allocations => "allocations",
            Self::WhatIf => "whatif",
        }
    }

    const fn bit(self) -> u16 {
        1 << self as u16
    }

    /// Whether it shows a moment.
    pub(crate) fn is_of_a_moment(self) -> bool {
        matches!(
            self,
            Self::Tree | Self::Flame | Self::Segments | Self::Pools | Self::Allocations | Self::WhatIf
        )
    }
}

/// What a key does. What a movement means depends on the view.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the table says what each one is")]
pub enum Action {
    Left,
    Right,
    Up,
    Down,
    PageUp,
    PageDown,
    HalfUp,
    HalfDown,
    First,
    Last,
    Enter,
    JumpLeft,
    JumpRight,
    Previous,
    Next,
    PanLeft,
    PanRight,
    ZoomIn,
    ZoomOut,
    Fit,
    ResetY,
    FitY,
    Counter,
    Axis,
    Peak,
    NextOom,
    PreviousOom,
    End,
    NextMark,
    PreviousMark,
    NextEvent,
    PreviousEvent,
    GoTo,
    Mark,
    Compare,
    ExpandBelow,
    ExpandAll,
    Collapse,
    CollapseAll,
    Top,
    Focus,
    Internal,
    Invert,
    Chains,
    Sort,
    Info,
    /// Who had the address of what is selected.
    History,
    Search,
    SearchNext,
    SearchPrevious,
    SearchSame,
    Filter,
    Settings,
    Limit,
    View(View),
    NextDevice,
    PreviousDevice,
    NextFile,
    PreviousFile,
    Reload,
    NextPane,
    PreviousPane,
    Split,
    Link,
    Copy,
    WriteText,
    WriteJson,
    Mouse,
    Theme,
    Help,
    Escape,
    Back,
    Quit,
    Suspend,
}

impl Action {
    /// The groups of the help, in their order.
    pub(crate) const GROUPS: [&'static str; 6] =
        ["this view", "moving", "moments", "finding", "views", "files and program"];

    /// The heading that it stands under in the help.
    pub(crate) fn group(self) -> &'static str {
        let at = match self {
            Self::Left
            | Self::Right
            | Self::Up
            | Self::Down
            | Self::PageUp
            | Self::PageDown
            | Self::HalfUp
            | Self::HalfDown
            | Self::First
            | Self::Last
            | Self::JumpLeft
            | Self::JumpRight
            | Self::Previous
            | Self::Next
            | Self::PanLeft
            | Self::PanRight => 1,
            Self::Peak
            | Self::NextOom
            | Self::PreviousOom
            | Self::End
            | Self::NextMark
            | Self::PreviousMark
            | Self::NextEvent
            | Self::PreviousEvent
            | Self::GoTo
            | Self::Mark
            | Self::Compare => 2,
            Self::Search
            | Self::SearchNext
            | Self::SearchPrevious
            | Self::SearchSame
            | Self::Filter
            | Self::History => 3,
            Self::View(_) => 4,
            Self::NextDevice
            | Self::PreviousDevice
            | Self::NextFile
            | Self::PreviousFile
            | Self::Reload
            | Self::NextPane
            | Self::PreviousPane
            | Self::Split
            | Self::Link
            | Self::Copy
            | Self::WriteText
            | Self::WriteJson
            | Self::Mouse
            | Self::Theme
            | Self::Help
            | Self::Escape
            | Self::Back
            | Self::Quit
            | Self::Suspend => 5,
            _ => 0,
        };
        Self::GROUPS[at]
    }
}

/// One row of the table.
#[derive(Clone, Copy, Debug)]
pub struct Binding {
    /// The keys, as they are written in the footer.
    pub keys: &'static [&'static str],
    /// The views in which they work.
    views: u16,
    /// Whether they need two panes.
    only_compare: bool,
    /// One or two words for the footer; empty for what needs no mention there.
    pub label: &'static str,
    /// A sentence for the help.
    pub help: &'static str,
    /// What they do.
    pub action: Action,
}

impl Binding {
    /// The views in which they work, in words.
    pub(crate) fn where_to(&self) -> String {
        if self.only_compare {
            return "two panes".into();
        }
        let names: Vec<_> =
            View::ALL.iter().filter(|view| self.views & view.bit() != 0).map(|view| view.name()).collect();
        // More than these are all that have rows.
        if names.len() > 6 { "lists and trees".into() } else { names.join(", ") }
    }

    /// Whether the keys work here.
    pub fn is_for(&self, view: View, is_compare: bool) -> bool {
        self.views & view.bit() != 0 && (is_compare || !self.only_compare)
    }
}

const TIMELINE: u16 = View::Timeline.bit();
const TREE: u16 = View::Tree.bit() | View::Diff.bit();
const FLAME: u16 = View::Flame.bit();
const SEGMENTS: u16 = View::Segments.bit();
const WHATIF: u16 = View::WhatIf.bit();
const LISTS: u16 = View::Insights.bit()
    | View::Ranks.bit()
    | View::Events.bit()
    | View::Pools.bit()
    | WHATIF
    | View::Allocations.bit();
const MOMENT: u16 =
    View::Tree.bit() | FLAME | SEGMENTS | View::Pools.bit() | WHATIF | View::Allocations.bit();
const STACKS: u16 = TREE | FLAME;
const ROWS: u16 = TREE | SEGMENTS | LISTS;
const ALL: u16 = u16::MAX;

const fn row(
    views: u16,
    keys: &'static [&'static str],
    label: &'static str,
    help: &'static str,
    action: Action,
) -> Binding {
    Binding { keys, views, only_compare: false, label, help, action }
}

const fn compare(
    keys: &'static [&'static str],
    label: &'static str,
    help: &'static str,
    action: Action,
) -> Binding {
    Binding { keys, views: ALL, only_compare: true, label, help, action }
}

/// The table. The first row that fits counts; footers show labels in this order until they are full.
pub const KEYS: &[Binding] = &[
    // Two panes.
    compare(&["{", "Shift-Tab"], "pane", "previous pane", Action::PreviousPane),
    compare(&["}", "Tab"], "", "next pane", Action::NextPane),
    compare(&["s"], "split", "side by side, or one above the other", Action::Split),
    compare(&["L"], "link", "cursors move together, or each alone", Action::Link),
    // The timeline.
    row(
        TIMELINE,
        &["Enter"],
        "open",
        "what is live at the cursor: the moment of the column's maximum",
        Action::Enter,
    ),
    row(TIMELINE, &["Left", "h"], "", "one column back", Action::Left),
    row(TIMELINE, &["Right", "l"], "move", "one column on", Action::Right),
    row(TIMELINE, &["p"], "peak", "the highest moment", Action::Peak),
    row(TIMELINE, &["o"], "oom", "the next time memory ran out", Action::NextOom),
    row(TIMELINE, &["O"], "", "the previous time memory ran out", Action::PreviousOom),
    row(TIMELINE, &["e", "$"], "end", "after the last event", Action::End),
    row(TIMELINE, &["+", "=", "w"], "zoom", "zoom in at the cursor", Action::ZoomIn),
    row(TIMELINE, &["-", "_"], "", "zoom out", Action::ZoomOut),
    row(TIMELINE, &["s"], "", "zoom out (with two panes: split)", Action::ZoomOut),
    row(TIMELINE, &["z"], "fit", "the whole trace", Action::Fit),
    row(TIMELINE, &["c"], "counter", "requested, allocated, active, reserved", Action::Counter),
    row(TIMELINE, &["t"], "axis", "events or time along the axis", Action::Axis),
    row(TIMELINE, &["b"], "", "15 columns back", Action::JumpLeft),
    row(TIMELINE, &["f"], "", "15 columns on", Action::JumpRight),
    row(TIMELINE, &["["], "", "a quarter of the screen back", Action::Previous),
    row(TIMELINE, &["]"], "", "a quarter of the screen on", Action::Next),
    row(TIMELINE, &["PgUp", "Ctrl-b"], "", "a screen back", Action::PageUp),
    row(TIMELINE, &["PgDn", "Ctrl-f"], "", "a screen on", Action::PageDown),
    row(TIMELINE, &["Home", "g"], "", "before the first event", Action::First),
    row(TIMELINE, &["End", "G"], "", "after the last event", Action::Last),
    row(TIMELINE, &["a"], "", "move the view back, with the cursor where it is", Action::PanLeft),
    row(TIMELINE, &["d"], "", "move the view on", Action::PanRight),
    row(TIMELINE, &["Up", "k"], "", "raise the floor of the bytes", Action::Up),
    row(TIMELINE, &["Down", "j"], "floor", "lower the floor of the bytes", Action::Down),
    row(TIMELINE, &["r", "R"], "", "the floor back to zero", Action::ResetY),
    row(TIMELINE, &["Y"], "", "scale the bytes to what is shown", Action::FitY),
    row(TIMELINE, &["."], "", "the next mark: out of memory, segment, phase", Action::NextMark),
    row(TIMELINE, &[","], "mark", "the previous mark", Action::PreviousMark),
    row(TIMELINE, &["/"], "phase", "search phases by name", Action::Search),
    // Trees.
    row(STACKS, &["Enter"], "open", "open or close; on a line without calls, its allocations", Action::Enter),
    row(
        STACKS,
        &["/"],
        "search",
        "search everything, expanded or not; regular expressions work",
        Action::Search,
    ),
    row(STACKS, &["f"], "focus", "make this the root", Action::Focus),
    row(STACKS, &["h"], "internal", "hide or show frames of PyTorch and CPython", Action::Internal),
    row(TREE, &["e"], "expand", "expand this and everything below", Action::ExpandBelow),
    row(TREE, &["E", "*"], "", "expand everything", Action::ExpandAll),
    row(TREE, &["c"], "collapse", "collapse this and everything below", Action::Collapse),
    row(TREE, &["C"], "", "collapse everything", Action::CollapseAll),
    row(TREE, &["["], "", "the previous sibling", Action::Previous),
    row(TREE, &["]"], "sibling", "the next sibling", Action::Next),
    row(TREE, &["r"], "", "the first row", Action::Top),
    row(TREE, &["Left"], "", "the row that this lies in", Action::Left),
    row(TREE, &["Right", "l"], "", "the first row below, opening this", Action::Right),
    row(STACKS, &["v"], "invert", "from the innermost calls out, or from the outermost in", Action::Invert),
    row(TREE, &["u"], "", "show chains of calls in one row, or each call", Action::Chains),
    row(STACKS, &["#"], "", "mark all frames equal to this one", Action::SearchSame),
    row(FLAME, &["Left"], "", "the box to the left", Action::Left),
    row(FLAME, &["Right", "l"], "move", "the box to the right", Action::Right),
    row(FLAME, &["Up", "k"], "", "the caller", Action::Up),
    row(FLAME, &["Down", "j"], "", "the heaviest call below", Action::Down),
    // Maps and lists.
    row(View::Segments.bit(), &["Enter"], "allocation", "the allocation under the cursor", Action::Enter),
    row(SEGMENTS, &["Left"], "", "the block or hole before", Action::Left),
    row(SEGMENTS, &["Right", "l"], "block", "the next block or hole", Action::Right),
    row(SEGMENTS, &["z", "+"], "zoom", "this segment over the whole screen, or all of them", Action::Fit),
    row(SEGMENTS, &["t"], "scale", "segments as long as they are large, or all equally long", Action::Axis),
    row(View::Insights.bit(), &["Enter"], "evidence", "where it happens", Action::Enter),
    row(View::Ranks.bit(), &["Enter"], "open", "open this file", Action::Enter),
    row(View::Ranks.bit(), &["x", "D"], "compare", "beside the file that is open", Action::Compare),
    row(View::Events.bit(), &["Enter"], "open", "what is live after this event", Action::Enter),
    row(View::Events.bit(), &["/"], "search", "events whose line or action matches", Action::Search),
    row(WHATIF, &["Enter"], "over the timeline", "show the simulated curve over the timeline", Action::Enter),
    row(
        WHATIF,
        &["e"],
        "settings",
        "simulate other settings, as in PYTORCH_CUDA_ALLOC_CONF",
        Action::Settings,
    ),
    row(WHATIF, &["l"], "limit", "simulate under another limit", Action::Limit),
    row(View::Pools.bit(), &["Enter"], "segments", "the segments of this pool", Action::Enter),
    row(View::Allocations.bit(), &["Enter"], "its event", "the event that allocated it", Action::Enter),
    row(View::Allocations.bit(), &["/"], "search", "allocations whose line matches", Action::Search),
    row(
        View::Allocations.bit() | SEGMENTS | View::Ranks.bit(),
        &["S"],
        "sort",
        "another order",
        Action::Sort,
    ),
    row(ROWS, &["Up", "k"], "", "one row up", Action::Up),
    row(ROWS, &["Down", "j"], "", "one row down", Action::Down),
    row(ROWS & !View::Insights.bit(), &["PgUp", "Ctrl-b"], "", "a screen up", Action::PageUp),
    row(ROWS & !View::Insights.bit(), &["PgDn", "Ctrl-f"], "", "a screen down", Action::PageDown),
    row(View::Insights.bit(), &["PgUp", "Ctrl-b"], "", "back up in the text of the finding", Action::PageUp),
    row(View::Insights.bit(), &["PgDn", "Ctrl-f"], "", "the rest of the finding", Action::PageDown),
    row(ROWS, &["Ctrl-u"], "", "half a screen up", Action::HalfUp),
    row(ROWS, &["Ctrl-d"], "", "half a screen down", Action::HalfDown),
    row(ROWS | FLAME, &["Home", "g"], "", "the first row", Action::First),
    row(ROWS | FLAME, &["End", "G"], "", "the last row", Action::Last),
    // A moment.
    row(MOMENT, &["p"], "peak", "the highest moment", Action::Peak),
    row(MOMENT, &["o"], "", "the next time memory ran out", Action::NextOom),
    row(MOMENT, &["O"], "", "the previous time memory ran out", Action::PreviousOom),
    row(MOMENT, &["$"], "", "after the last event", Action::End),
    row(MOMENT, &["."], "", "after the next event", Action::NextEvent),
    row(MOMENT, &[","], "event", "before this event", Action::PreviousEvent),
    row(TIMELINE | MOMENT, &["x"], "", "mark this moment, to compare it with another", Action::Mark),
    row(
        TIMELINE | MOMENT,
        &["D"],
        "diff",
        "what changed since the mark, or between two panes",
        Action::Compare,
    ),
    row(
        View::Tree.bit() | View::Allocations.bit(),
        &["i"],
        "info",
        "source, stack and facts; on a low screen, again for all of them",
        Action::Info,
    ),
    row(
        SEGMENTS | View::Allocations.bit() | View::Events.bit(),
        &["H"],
        "history",
        "who had this address: all events of it",
        Action::History,
    ),
    row(ALL, &["n"], "", "the next match", Action::SearchNext),
    row(ALL, &["N"], "", "the previous match", Action::SearchPrevious),
    row(
        MOMENT | View::Events.bit(),
        &["F"],
        "filter",
        "by size, pool, stream, category, phase or stack",
        Action::Filter,
    ),
    row(
        ALL,
        &[":"],
        "go to",
        "a moment: peak, oom:2, in:backward#3:end, 11823, +1.5, start, end",
        Action::GoTo,
    ),
    row(ALL, &["y"], "copy", "the stack, to the clipboard of the terminal", Action::Copy),
    row(ALL, &["W"], "", "write what is on the screen to a file, as text", Action::WriteText),
    row(ALL, &["J"], "", "the same as JSON", Action::WriteJson),
    // Views.
    row(ALL, &["1"], "", "memory over the trace", Action::View(View::Timeline)),
    row(ALL, &["2"], "", "what is live, as a call tree", Action::View(View::Tree)),
    row(ALL, &["3"], "", "what is live, as a flame graph", Action::View(View::Flame)),
    row(ALL, &["4"], "", "segments, blocks and holes", Action::View(View::Segments)),
    row(ALL, &["5"], "", "findings, most severe first", Action::View(View::Insights)),
    row(ALL, &["6"], "", "all files: the ranks of a run", Action::View(View::Ranks)),
    row(ALL, &["7"], "", "the trace, event by event", Action::View(View::Events)),
    row(ALL, &["8"], "", "memory by pool", Action::View(View::Pools)),
    row(ALL, &["9"], "", "what changed, as a tree", Action::View(View::Diff)),
    row(
        ALL,
        &["0"],
        "",
        "the same run under other allocator settings, simulated",
        Action::View(View::WhatIf),
    ),
    row(STACKS, &["a"], "list", "the allocations below this, one by one", Action::View(View::Allocations)),
    row(SEGMENTS | LISTS, &["a"], "", "live allocations, one by one", Action::View(View::Allocations)),
    row(ALL, &["<"], "", "the previous device", Action::PreviousDevice),
    row(ALL, &[">"], "", "the next device", Action::NextDevice),
    row(ALL, &["("], "", "the previous file", Action::PreviousFile),
    row(ALL, &[")"], "", "the next file", Action::NextFile),
    row(ALL, &["Ctrl-r"], "", "read the file again, and stay where you are", Action::Reload),
    row(ALL, &["m"], "", "mouse on or off; off, the terminal selects text", Action::Mouse),
    row(ALL, &["T"], "", "colors for a light or a dark terminal", Action::Theme),
    row(ALL, &["Esc"], "", "clear the search, the filter, then go back", Action::Escape),
    row(ALL, &["q"], "back", "leave the focus, then the view, then the program", Action::Back),
    row(ALL, &["?", "F1"], "help", "all keys", Action::Help),
    row(ALL, &["Q", "Ctrl-c"], "", "quit", Action::Quit),
    row(ALL, &["Ctrl-z"], "", "suspend", Action::Suspend),
];

/// What a key does in a view.
pub fn find(key: &KeyEvent, view: View, is_compare: bool) -> Option<Action> {
    let name = name(key)?;
    let fits = |row: &&Binding| row.is_for(view, is_compare) && row.keys.contains(&name.as_str());
    KEYS.iter().find(fits).map(|row| row.action)
}

/// A key as the table writes it.
pub(crate) fn name(key: &KeyEvent) -> Option<String> {
    let base = match key.code {
        KeyCode::Char(' ') => "Space".to_owned(),
        KeyCode::Char(c) => c.to_string(),
        KeyCode::Left => "Left".into(),
        KeyCode::Right => "Right".into(),
        KeyCode::Up => "Up".into(),
        KeyCode::Down => "Down".into(),
        KeyCode::Enter => "Enter".into(),
        KeyCode::Esc => "Esc".into(),
        KeyCode::Tab => "Tab".into(),
        KeyCode::BackTab => return Some("Shift-Tab".into()),
        KeyCode::PageUp => "PgUp".into(),
        KeyCode::PageDown => "PgDn".into(),
        KeyCode::Home => "Home".into(),
        KeyCode::End => "End".into(),
        KeyCode::F(n) => format!("F{n}"),
        _ => return None,
    };
    if key.modifiers.contains(KeyModifiers::ALT) {
        return None;
    }
    Some(if key.modifiers.contains(KeyModifiers::CONTROL) { format!("Ctrl-{base}") } else { base })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn action(key: &str, view: View, is_compare: bool) -> Option<Action> {
        KEYS.iter().find(|row| row.is_for(view, is_compare) && row.keys.contains(&key)).map(|row| row.action)
    }

    #[test]
    fn no_key_means_two_things_in_one_view() {
        for view in View::ALL {
            let mut seen: Vec<&str> = Vec::new();
            for row in KEYS.iter().filter(|row| row.is_for(view, false)) {
                for key in row.keys {
                    assert!(!seen.contains(key), "{key} is in the table twice for {}", view.name());
                    seen.push(key);
                }
            }
        }
    }

    /// The whole key table of ptmem 0.1.2, with what each key does there.
    #[test]
    fn every_key_of_ptmem_does_what_it_does_there() {
        let timeline = [
            ("Left", Action::Left),
            ("Right", Action::Right),
            ("b", Action::JumpLeft),
            ("f", Action::JumpRight),
            ("[", Action::Previous),
            ("]", Action::Next),
            ("+", Action::ZoomIn),
            ("=", Action::ZoomIn),
            ("-", Action::ZoomOut),
            ("Up", Action::Up),
            ("Down", Action::Down),
            ("r", Action::ResetY),
            ("R", Action::ResetY),
            ("Enter", Action::Enter),
            ("q", Action::Back),
            ("Q", Action::Quit),
        ];
        let detail = [
            ("Up", Action::Up),
            ("Down", Action::Down),
            ("[", Action::Previous),
            ("]", Action::Next),
            ("Enter", Action::Enter),
            ("Right", Action::Right),
            ("Left", Action::Left),
            ("e", Action::ExpandBelow),
            ("c", Action::Collapse),
            ("r", Action::Top),
            ("f", Action::Focus),
            ("h", Action::Internal),
            ("/", Action::Search),
            ("n", Action::SearchNext),
            ("N", Action::SearchPrevious),
            ("Esc", Action::Escape),
            ("q", Action::Back),
            ("Q", Action::Quit),
        ];
        let compare = [("s", Action::Split), ("{", Action::PreviousPane), ("}", Action::NextPane)];
        for (view, keys) in [(View::Timeline, &timeline[..]), (View::Tree, &detail[..])] {
            for &(key, expected) in keys {
                assert_eq!(action(key, view, false), Some(expected), "{key} in the {}", view.name());
                assert_eq!(action(key, view, true), Some(expected), "{key} in the {}, compared", view.name());
            }
            for (key, expected) in compare {
                assert_eq!(action(key, view, true), Some(expected), "{key}");
            }
        }
    }

    #[test]
    fn keys_have_the_names_of_the_table() {
        let key = |code, modifiers| name(&KeyEvent::new(code, modifiers));
        assert_eq!(key(KeyCode::Char('c'), KeyModifiers::CONTROL).as_deref(), Some("Ctrl-c"));
        assert_eq!(key(KeyCode::Char('G'), KeyModifiers::SHIFT).as_deref(), Some("G"));
        assert_eq!(key(KeyCode::BackTab, KeyModifiers::SHIFT).as_deref(), Some("Shift-Tab"));
        assert_eq!(key(KeyCode::Char('x'), KeyModifiers::ALT), None);
    }
}
