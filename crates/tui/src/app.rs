//! The program as plain data: what is open, what is shown, and what a key changes. Knows no terminal.

use std::path::Path;
use std::sync::Arc;

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use ratatui::layout::Rect;
use vramscope_analysis::Moment;
use vramscope_analysis::shapes::{Dims, Shapes};
use vramscope_files::Input;
use vramscope_format::plural;

use crate::document::{Document, Subject};
use crate::keys::{self, Action, View};
use crate::live::ActiveFilter;
use crate::load::{Job, Purpose, Question, Watched};
use crate::pane::{Pane, Reply, act_in_tree};
use crate::prompt::{Kind, Prompt};
use crate::ranks::Ranks;
use crate::theme::{Ground, Theme};
use crate::views::Shape;
use crate::views::diff::{Diff, Side};
use crate::views::help::{self, Help};

/// How two panes share the screen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Split {
    #[default]
    Columns,
    Rows,
}

/// What the terminal is to do.
#[derive(Clone, Debug)]
pub enum Effect {
    /// Leave, with an exit code.
    Quit(u8),
    /// Stop until the shell continues the program.
    Suspend,
    /// Put a text on the clipboard.
    Copy(String),
    /// Write a text to a new file whose name begins and ends so.
    Write {
        /// How the name begins.
        stem: String,
        /// How it ends.
        ending: &'static str,
        /// What is in it.
        text: String,
    },
    /// Read a file.
    Load(Job),
    /// Draw the conclusions about a file, which is on the screen already.
    Analyze(Arc<Document>),
    /// Answer a request about a file.
    Ask(Question),
    /// Say when a file changes.
    Watch(Watched),
    /// Read files for their figures.
    Rank(Vec<(usize, Input)>),
    /// Take the mouse, or leave it to the terminal.
    Mouse(bool),
}

/// What keys are taken for.
pub(crate) enum Mode {
    Normal,
    Prompt(Prompt),
    Help(Help),
}

/// The whole program.
pub struct App {
    pub(crate) panes: Vec<Pane>,
    pub(crate) pair: Pair,
    pub(crate) files: Files,
    pub(crate) diff: Diff,
    pub(crate) mode: Mode,
    pub(crate) screen: Screen,
    pub(crate) message: Option<String>,
    pub(crate) effects: Vec<Effect>,
}

/// How panes go together.
#[derive(Debug)]
pub(crate) struct Pair {
    pub(crate) active: usize,
    pub(crate) split: Split,
    pub(crate) is_linked: bool,
    /// Whether two files were asked for from the beginning.
    pub(crate) starts_with_two: bool,
}

/// What was named, and how far it is read.
pub(crate) struct Files {
    pub(crate) ranks: Ranks,
    pub(crate) loading: Vec<Job>,
    /// Why nothing is shown.
    pub(crate) failure: Option<String>,
    pub(crate) shapes: Option<Arc<Shapes>>,
}

/// What it is drawn on.
#[derive(Debug)]
pub(crate) struct Screen {
    pub(crate) theme: Theme,
    pub(crate) has_mouse: bool,
    pub(crate) size: (u16, u16),
    /// The button is down, and the pointer has moved since.
    pub(crate) dragging: bool,
}

/// Lower screens have no line of tabs.
const LEAST_HEIGHT_FOR_TABS: u16 = 14;

impl App {
    /// Begins to load the first of some files; or the first two, to compare them.
    pub fn new(inputs: Vec<Input>, compare: bool, theme: Theme, has_mouse: bool) -> Self {
        let mut app = Self {
            panes: Vec::new(),
            pair: Pair { active: 0, split: Split::Columns, is_linked: true, starts_with_two: compare },
            files: Files { ranks: Ranks::new(inputs), loading: Vec::new(), failure: None, shapes: None },
            diff: Diff::new(),
            mode: Mode::Normal,
            screen: Screen { theme, has_mouse, size: (80, 24), dragging: false },
            message: None,
            effects: Vec::new(),
        };
        app.load(0, Purpose::Show);
        if compare {
            app.load(1, Purpose::Beside);
        }
        app
    }

    /// Lets allocations be explained as tensors of a model.
    #[must_use]
    pub fn with_dims(mut self, dims: &Dims) -> Self {
        self.files.shapes = (*dims != Dims::default()).then(|| Arc::new(Shapes::new(dims)));
        self
    }

    /// What the terminal is to do, in order.
    pub fn effects(&mut self) -> Vec<Effect> {
        std::mem::take(&mut self.effects)
    }

    pub(crate) fn has_effects(&self) -> bool {
        !self.effects.is_empty()
    }

    /// Whether a thread is at work whose progress is shown.
    pub(crate) fn is_waiting(&self) -> bool {
        !self.files.loading.is_empty()
            || self.panes.iter().any(|pane| pane.whatif.is_busy() || !pane.doc.is_analyzed())
            || self.files.ranks.is_waiting()
    }

    pub(crate) fn say(&mut self, words: String) {
        self.message = Some(words);
    }

    /// Takes another size of the screen.
    pub fn resize(&mut self, width: u16, height: u16) {
        self.screen.size = (width, height);
        self.refresh();
    }

    pub(crate) fn has_tabs(&self) -> bool {
        self.screen.size.1 >= LEAST_HEIGHT_FOR_TABS
    }

    /// The screen without its first and last lines.
    pub(crate) fn body(&self) -> Rect {
        let (width, height) = self.screen.size;
        let above = 1 + u16::from(self.has_tabs());
        Rect::new(0, above.min(height), width, height.saturating_sub(above + 1))
    }

    /// Gives every pane its place.
    pub(crate) fn layout(&mut self) {
        let body = self.body();
        let run = self.run_note();
        let shapes = self.panes.iter().map(|pane| Shape::new(pane, run.as_deref(), &self.screen.theme));
        let shape = shapes.fold(Shape::default(), Shape::or);
        for pane in &mut self.panes {
            pane.shape = shape;
        }
        if self.panes.len() < 2 {
            for pane in &mut self.panes {
                pane.area = body;
            }
            return;
        }
        // Each pane has a line for its name; between columns there is a hairline.
        let areas = match self.pair.split {
            Split::Columns => {
                let left = body.width.saturating_sub(1) / 2;
                let right = Rect { x: body.x + left + 1, width: body.width.saturating_sub(left + 1), ..body };
                [Rect { width: left, ..body }, right]
            }
            Split::Rows => {
                let above = body.height / 2;
                [
                    Rect { height: above, ..body },
                    Rect { y: body.y + above, height: body.height - above, ..body },
                ]
            }
        };
        for (pane, area) in self.panes.iter_mut().zip(areas) {
            pane.area = Rect { y: area.y + 1, height: area.height.saturating_sub(1), ..area };
        }
    }

    /// Works out what is about to be drawn.
    pub fn refresh(&mut self) {
        self.layout();
        for pane in &mut self.panes {
            pane.refresh();
        }
        let height = usize::from(self.body().height);
        match self.view() {
            View::Ranks => self.files.ranks.refresh(self.body()),
            View::Diff => {
                if let Some(((doc_a, device_a, at_a), (doc_b, device_b, at_b))) = self.compared() {
                    let before = Side { subject: Subject { doc: &doc_a, device: device_a }, at: at_a };
                    let after = Side { subject: Subject { doc: &doc_b, device: device_b }, at: at_b };
                    self.diff.refresh(before, after, height.saturating_sub(2));
                }
            }
            _ => {}
        }
        for pane in &mut self.panes {
            self.effects.extend(pane.ask().map(Effect::Ask));
        }
    }

    /// Works out what may take longer than a key should, once nothing else is to be done. Says whether anything
    /// changed.
    pub fn settle(&mut self) -> bool {
        self.panes.iter_mut().map(Pane::settle).filter(|changed| *changed).count() > 0
    }

    /// The two sides of a comparison: two panes, or the marked moment and the one that is shown.
    #[allow(clippy::type_complexity, reason = "two of the same")]
    fn compared(&self) -> Option<((Arc<Document>, usize, Moment), (Arc<Document>, usize, Moment))> {
        let side = |pane: &Pane, at: Moment| (Arc::clone(&pane.doc), pane.device, at);
        match self.panes.as_slice() {
            [before, after] => Some((side(before, before.scope.at), side(after, after.scope.at))),
            [only] => Some((side(only, only.scope.mark.unwrap_or(Moment::START)), side(only, only.scope.at))),
            _ => None,
        }
    }

    /// What there is to know about the other files, on the first screen.
    pub(crate) fn run_note(&self) -> Option<String> {
        self.files.ranks.note().filter(|_| !self.pair.starts_with_two)
    }

    pub(crate) fn pane(&self) -> Option<&Pane> {
        self.panes.get(self.pair.active)
    }

    fn pane_mut(&mut self) -> Option<&mut Pane> {
        self.panes.get_mut(self.pair.active)
    }

    /// What the active pane shows.
    pub fn view(&self) -> View {
        self.pane().map_or(View::Timeline, |pane| pane.view)
    }

    pub(crate) fn is_compare(&self) -> bool {
        self.panes.len() > 1
    }

    /// Whether one view takes the whole screen although there are two panes.
    pub(crate) fn is_whole_screen(&self) -> bool {
        matches!(self.view(), View::Ranks | View::Diff)
    }

    /// Changes what a key changes.
    pub fn update(&mut self, key: KeyEvent) {
        self.message = None;
        let is_interrupt = key.code == KeyCode::Char('c') && key.modifiers.contains(KeyModifiers::CONTROL);
        if is_interrupt {
            self.effects.push(Effect::Quit(130));
            return;
        }
        match std::mem::replace(&mut self.mode, Mode::Normal) {
            Mode::Prompt(prompt) => self.update_prompt(prompt, key),
            Mode::Help(help) => self.update_help(help, key),
            Mode::Normal => {
                if self.panes.is_empty() {
                    self.update_empty(key);
                } else if let Some(action) = keys::find(&key, self.view(), self.is_compare()) {
                    self.act(action);
                }
            }
        }
        self.refresh();
    }

    /// While nothing is loaded, reading can be canceled.
    fn update_empty(&mut self, key: KeyEvent) {
        match keys::name(&key).as_deref() {
            Some("q" | "Q" | "Esc") => {
                for job in &self.files.loading {
                    job.tracker.cancel();
                }
                self.effects.push(Effect::Quit(if self.files.failure.is_some() { 2 } else { 0 }));
            }
            Some("Ctrl-z") => self.effects.push(Effect::Suspend),
            _ => {}
        }
    }

    /// The keys of what is shown, as far as they fit what was typed.
    pub(crate) fn help_rows(&self, typed: &str) -> Vec<(String, String)> {
        let verdict = self.pane().map(|pane| pane.subject().replay().verdict());
        help::wrapped(help::rows(self.view(), self.is_compare(), verdict, typed), self.help_area())
    }

    /// The screen without its last line.
    fn help_area(&self) -> Rect {
        let (width, height) = self.screen.size;
        Rect::new(0, 0, width, height.saturating_sub(1))
    }

    fn update_help(&mut self, mut help: Help, key: KeyEvent) {
        match (key.code, keys::name(&key).as_deref()) {
            (KeyCode::Esc, _) | (_, Some("?" | "F1")) => return,
            (KeyCode::Down, _) => help.top += 1,
            (KeyCode::Up, _) => help.top = help.top.saturating_sub(1),
            (KeyCode::PageDown, _) => help.top += usize::from(self.screen.size.1.saturating_sub(2)),
            (KeyCode::PageUp, _) => {
                help.top = help.top.saturating_sub(self.screen.size.1.saturating_sub(2).into());
            }
            (KeyCode::Home, _) => help.top = 0,
            (KeyCode::Backspace, _) => {
                help.typed.pop();
            }
            (KeyCode::Char('q'), _) if help.typed.is_empty() => return,
            (KeyCode::Char(c), Some(_)) if !key.modifiers.contains(KeyModifiers::CONTROL) => {
                help.typed.push(c);
                help.top = 0;
            }
            _ => {}
        }
        let rows = self.help_rows(&help.typed).len();
        let room = help::room(self.help_area());
        help.top = help.top.min(rows.saturating_sub(room));
        self.mode = Mode::Help(help);
    }

    /// Does what an action asks.
    pub(crate) fn act(&mut self, action: Action) {
        match action {
            Action::Quit => self.effects.push(Effect::Quit(0)),
            Action::Suspend => self.effects.push(Effect::Suspend),
            Action::Help => self.mode = Mode::Help(Help::default()),
            Action::Search => self.mode = Mode::Prompt(Prompt::new(Kind::Search, String::new())),
            Action::GoTo => self.mode = Mode::Prompt(Prompt::new(Kind::GoTo, String::new())),
            Action::Filter => {
                let text = self.pane().map(|pane| pane.scope.filter.text.clone()).unwrap_or_default();
                self.mode = Mode::Prompt(Prompt::new(Kind::Filter, text));
            }
            Action::Settings => {
                let text =
                    self.pane().map(|pane| pane.whatif.trials.last_typed().to_owned()).unwrap_or_default();
                self.mode = Mode::Prompt(Prompt::new(Kind::Settings, text));
            }
            Action::Limit => self.mode = Mode::Prompt(Prompt::new(Kind::Limit, String::new())),
            Action::Mouse => {
                self.screen.has_mouse = !self.screen.has_mouse;
                self.effects.push(Effect::Mouse(self.screen.has_mouse));
                let words =
                    if self.screen.has_mouse { "mouse on" } else { "mouse off: the terminal selects text" };
                self.message = Some(words.into());
            }
            Action::Theme => {
                let light = self.screen.theme.ground == Ground::Dark;
                self.screen.theme.ground = if light { Ground::Light } else { Ground::Dark };
                self.message =
                    Some(format!("colors for a {} terminal", if light { "light" } else { "dark" }));
            }
            Action::NextPane | Action::PreviousPane => {
                self.pair.active = (self.pair.active + 1) % self.panes.len().max(1);
            }
            Action::Split => {
                self.pair.split =
                    if self.pair.split == Split::Columns { Split::Rows } else { Split::Columns };
            }
            Action::Link => {
                self.pair.is_linked = !self.pair.is_linked;
                self.message = Some(match self.pair.is_linked {
                    true => "cursors move together".into(),
                    false => "each cursor moves alone".into(),
                });
                self.follow();
            }
            Action::NextFile | Action::PreviousFile => {
                let at = self.pane().map_or(0, |pane| pane.file);
                let next = if action == Action::NextFile { at + 1 } else { at.wrapping_sub(1) };
                match next < self.files.ranks.rows.len() {
                    true => self.load(next, Purpose::Show),
                    false => self.message = Some("there is no other file in this direction".into()),
                }
            }
            Action::Reload => self.reload(),
            Action::Copy => self.copy(),
            Action::WriteText => {
                let text = crate::draw::screen_text(self);
                self.write("txt", text);
            }
            Action::WriteJson => {
                let text = format!("{:#}\n", crate::export::json(self));
                self.write("json", vramscope_files::escape_json(&text));
            }
            Action::Compare if self.view() == View::Ranks => {
                if let Some(row) = self.files.ranks.selected() {
                    self.load(row, Purpose::Beside);
                }
            }
            Action::Compare => self.open(View::Diff),
            Action::View(view) => self.open(view),
            Action::SearchSame => self.search_same(),
            Action::SearchNext | Action::SearchPrevious => {
                self.search_on(action == Action::SearchNext);
            }
            Action::Escape if self.clear() => {}
            _ => self.act_in_panes(action),
        }
    }

    fn write(&mut self, ending: &'static str, text: String) {
        self.effects.push(Effect::Write { stem: format!("vramscope-{}", self.view().name()), ending, text });
    }

    fn copy(&mut self) {
        let stack = match self.view() {
            View::Diff => {
                let tree = &self.diff.tree;
                let path =
                    tree.selected().map(|row| tree.outline.path(tree.last_of(row))).unwrap_or_default();
                path.iter().rev().map(|&place| self.diff.names().long(place)).collect()
            }
            _ => self.pane().map(Pane::selected_stack).unwrap_or_default(),
        };
        if stack.is_empty() {
            self.message = Some("there is no stack to copy here".into());
        } else {
            self.message = Some(format!("copied {}", plural(stack.len(), "frame")));
            self.effects.push(Effect::Copy(stack.join("\n") + "\n"));
        }
    }

    fn open(&mut self, view: View) {
        let all = self.pair.is_linked || matches!(view, View::Diff | View::Ranks);
        for (number, pane) in self.panes.iter_mut().enumerate() {
            if number == self.pair.active || all {
                pane.open(view);
            }
        }
    }

    /// Panes side by side show what has a side.
    pub(crate) fn leave_whole_screen_views(&mut self) {
        for pane in &mut self.panes {
            while matches!(pane.view, View::Ranks | View::Diff) && pane.back() {}
        }
    }

    fn act_in_panes(&mut self, action: Action) {
        let height = isize::try_from(self.body().height.saturating_sub(3).max(1)).unwrap_or(1);
        let reply = match self.view() {
            View::Ranks if action == Action::Enter => {
                if let Some(row) = self.files.ranks.selected() {
                    if self.pane().is_some_and(|pane| pane.file == row) {
                        self.back();
                    } else {
                        self.load(row, Purpose::Show);
                    }
                }
                Reply::Nothing
            }
            View::Ranks => self.files.ranks.act(action, height),
            View::Diff => match action {
                Action::Internal => {
                    self.diff.hide_internal = !self.diff.hide_internal;
                    Reply::Nothing
                }
                Action::Invert => {
                    self.diff.inverted = !self.diff.inverted;
                    Reply::Nothing
                }
                Action::Back if self.diff.tree.unfocus() => Reply::Nothing,
                _ => act_in_tree(&mut self.diff.tree, action, height),
            },
            view => self.act_in_pane(view, action),
        };
        match reply {
            Reply::Nothing => {}
            Reply::Say(words) => self.message = Some(words),
            Reply::Leave => self.back(),
        }
    }

    fn act_in_pane(&mut self, view: View, action: Action) -> Reply {
        if view == View::Timeline && matches!(action, Action::Back) {
            return Reply::Leave;
        }
        if view == View::Timeline && action == Action::Escape {
            return Reply::Nothing;
        }
        // What changes the view, or how it shows things, is for both panes if they are linked.
        let is_jump = matches!(
            action,
            Action::Peak | Action::NextOom | Action::PreviousOom | Action::End | Action::First | Action::Last
        );
        let is_for_both = matches!(action, Action::Internal | Action::Invert | Action::Info)
            || (view == View::Timeline && (is_jump || action == Action::Enter));
        let active = self.pair.active;
        let linked = self.pair.is_linked;
        let mut reply = Reply::Nothing;
        for (number, pane) in self.panes.iter_mut().enumerate() {
            if number == active || (linked && is_for_both && pane.view == view) {
                let answer = pane.act(action);
                if number == active {
                    reply = answer;
                }
            }
        }
        // The peak of the one is rarely that of the other: each goes to its own.
        if !is_jump {
            self.follow();
        }
        reply
    }

    /// Lets the other pane follow, if the two are linked.
    pub(crate) fn follow(&mut self) {
        if !self.pair.is_linked {
            return;
        }
        let [a, b] = self.panes.as_mut_slice() else { return };
        let (leader, follower) = if self.pair.active == 0 { (a, b) } else { (b, a) };
        let doc = Arc::clone(&follower.doc);
        let subject = Subject { doc: &doc, device: follower.device };
        follower.timeline.follow(subject, &leader.timeline, leader.subject());
    }

    /// Leaves the view; from the first one, the program.
    fn back(&mut self) {
        let linked = self.pair.is_linked || self.is_whole_screen();
        let active = self.pair.active;
        let mut left = false;
        for (number, pane) in self.panes.iter_mut().enumerate() {
            if number == active || linked {
                let went = pane.back();
                left = left || (number == active && went);
            }
        }
        if left {
            return;
        }
        if self.is_compare() && !self.pair.starts_with_two {
            self.panes.truncate(1);
            self.pair.active = 0;
        } else {
            self.effects.push(Effect::Quit(0));
        }
    }

    /// Stops reading, or clears the search, or else the filter. Says whether there was any.
    fn clear(&mut self) -> bool {
        if !self.files.loading.is_empty() {
            self.files.loading.iter().for_each(|job| job.tracker.cancel());
            self.message = Some("reading is canceled".into());
            return true;
        }
        if self.view() == View::Diff {
            return self.diff.tree.found.take().is_some();
        }
        let Some(pane) = self.pane_mut() else { return false };
        let had_search = match pane.view {
            View::Tree | View::Flame => pane.calls.tree.found.take().is_some(),
            View::Events => pane.events.found.take().is_some(),
            View::Allocations => pane.allocations.found.take().is_some(),
            View::Timeline => pane.timeline.phases.take().is_some(),
            View::WhatIf if pane.whatif.stop() => {
                self.message = Some("simulating is canceled; Enter goes on".into());
                return true;
            }
            _ => false,
        };
        if !had_search && !pane.scope.filter.is_empty() {
            pane.set_filter(ActiveFilter::default());
            return true;
        }
        had_search
    }

    /// The files that are shown.
    pub(crate) fn open_paths(&self) -> Vec<&Path> {
        let rows = self.panes.iter().filter_map(|pane| self.files.ranks.rows.get(pane.file));
        rows.map(|row| row.input.path.as_path()).collect()
    }
}
