//! The program as plain data: what is open, what is shown, and what a key changes. Knows no terminal.

use std::path::Path;
use std::sync::Arc;

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use ratatui::layout::Rect;
use vramscope_analysis::Moment;
use vramscope_analysis::shapes::{Dims, Shapes};
use vramscope_files::Input;

use crate::document::{Document, Subject};
use crate::keys::{self, Action, View};
use crate::load::{Job, Purpose};
use crate::pane::{Pane, Reply, act_in_tree};
use crate::prompt::{Kind, Prompt};
use crate::theme::{Ground, Theme};
use crate::views::Shape;
use crate::views::diff::{Diff, Side};
use crate::views::help::{self, Help};
use crate::views::ranks::{Progress, Ranks};

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
    pub(crate) active: usize,
    pub(crate) split: Split,
    pub(crate) is_linked: bool,
    /// Whether two files were asked for from the beginning.
    pub(crate) starts_with_two: bool,
    pub(crate) ranks: Ranks,
    /// The file of each pane.
    pub(crate) shown: Vec<usize>,
    pub(crate) diff: Diff,
    pub(crate) mode: Mode,
    pub(crate) theme: Theme,
    pub(crate) has_mouse: bool,
    pub(crate) size: (u16, u16),
    pub(crate) message: Option<String>,
    pub(crate) loading: Vec<Job>,
    /// Why nothing is shown.
    pub(crate) failure: Option<String>,
    pub(crate) effects: Vec<Effect>,
    pub(crate) shapes: Option<Arc<Shapes>>,
}

/// Lines of the screen that are not for views, at the least.
const LEAST_HEIGHT_FOR_TABS: u16 = 14;

impl App {
    /// Begins to load the first of some files; or the first two, to compare them.
    pub fn new(inputs: Vec<Input>, compare: bool, theme: Theme, has_mouse: bool) -> Self {
        let mut app = Self {
            panes: Vec::new(),
            active: 0,
            split: Split::Columns,
            is_linked: true,
            starts_with_two: compare,
            ranks: Ranks::new(inputs),
            shown: Vec::new(),
            diff: Diff::new(),
            mode: Mode::Normal,
            theme,
            has_mouse,
            size: (80, 24),
            message: None,
            loading: Vec::new(),
            failure: None,
            effects: Vec::new(),
            shapes: None,
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
        self.shapes = (*dims != Dims::default()).then(|| Arc::new(Shapes::new(dims)));
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
        !self.loading.is_empty()
            || self.ranks.rows.iter().any(|row| matches!(row.progress, Progress::Waiting))
    }

    pub(crate) fn say(&mut self, words: String) {
        self.message = Some(words);
    }

    /// Takes another size of the screen.
    pub fn resize(&mut self, width: u16, height: u16) {
        self.size = (width, height);
        self.refresh();
    }

    pub(crate) fn has_tabs(&self) -> bool {
        self.size.1 >= LEAST_HEIGHT_FOR_TABS
    }

    /// The screen without its first and last lines.
    pub(crate) fn body(&self) -> Rect {
        let (width, height) = self.size;
        let above = 1 + u16::from(self.has_tabs());
        Rect::new(0, above.min(height), width, height.saturating_sub(above + 1))
    }

    /// Gives every pane its place.
    pub(crate) fn layout(&mut self) {
        let body = self.body();
        let shape =
            self.panes.iter().map(|pane| Shape::new(pane.subject())).fold(Shape::default(), Shape::or);
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
        let areas = match self.split {
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
            View::Ranks => self.ranks.refresh(height.saturating_sub(7)),
            View::Diff => {
                if let Some(((doc_a, device_a, at_a), (doc_b, device_b, at_b))) = self.compared() {
                    let before = Side { subject: Subject { doc: &doc_a, device: device_a }, at: at_a };
                    let after = Side { subject: Subject { doc: &doc_b, device: device_b }, at: at_b };
                    self.diff.refresh(before, after, height.saturating_sub(2));
                }
            }
            _ => {}
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
            [before, after] => Some((side(before, before.at), side(after, after.at))),
            [only] => Some((side(only, only.mark.unwrap_or(Moment::START)), side(only, only.at))),
            _ => None,
        }
    }

    pub(crate) fn pane(&self) -> Option<&Pane> {
        self.panes.get(self.active)
    }

    fn pane_mut(&mut self) -> Option<&mut Pane> {
        self.panes.get_mut(self.active)
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

    /// While nothing is loaded, a file can be called off.
    fn update_empty(&mut self, key: KeyEvent) {
        match keys::name(&key).as_deref() {
            Some("q" | "Q" | "Esc") => {
                for job in &self.loading {
                    job.tracker.cancel();
                }
                self.effects.push(Effect::Quit(if self.failure.is_some() { 2 } else { 0 }));
            }
            Some("Ctrl-z") => self.effects.push(Effect::Suspend),
            _ => {}
        }
    }

    fn update_help(&mut self, mut help: Help, key: KeyEvent) {
        match (key.code, keys::name(&key).as_deref()) {
            (KeyCode::Esc, _) | (_, Some("?" | "F1")) => return,
            (KeyCode::Down, _) => help.top += 1,
            (KeyCode::Up, _) => help.top = help.top.saturating_sub(1),
            (KeyCode::PageDown, _) => help.top += usize::from(self.size.1.saturating_sub(2)),
            (KeyCode::PageUp, _) => help.top = help.top.saturating_sub(self.size.1.saturating_sub(2).into()),
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
        let rows = help::rows(self.view(), self.is_compare(), &help.typed).len();
        help.top = help.top.min(rows.saturating_sub(self.size.1.saturating_sub(3).into()));
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
                let text = self.pane().map(|pane| pane.filter.text.clone()).unwrap_or_default();
                self.mode = Mode::Prompt(Prompt::new(Kind::Filter, text));
            }
            Action::Mouse => {
                self.has_mouse = !self.has_mouse;
                self.effects.push(Effect::Mouse(self.has_mouse));
                let words = if self.has_mouse { "mouse on" } else { "mouse off: the terminal selects text" };
                self.message = Some(words.into());
            }
            Action::Theme => {
                let light = self.theme.ground == Ground::Dark;
                self.theme.ground = if light { Ground::Light } else { Ground::Dark };
                self.message =
                    Some(format!("colours for a {} terminal", if light { "light" } else { "dark" }));
            }
            Action::NextPane | Action::PreviousPane => {
                self.active = (self.active + 1) % self.panes.len().max(1);
            }
            Action::Split => {
                self.split = if self.split == Split::Columns { Split::Rows } else { Split::Columns };
            }
            Action::Link => {
                self.is_linked = !self.is_linked;
                self.message = Some(match self.is_linked {
                    true => "cursors move together".into(),
                    false => "each cursor moves alone".into(),
                });
                self.follow();
            }
            Action::NextFile | Action::PreviousFile => {
                let at = self.shown.get(self.active).copied().unwrap_or(0);
                let next = if action == Action::NextFile { at + 1 } else { at.wrapping_sub(1) };
                match next < self.ranks.rows.len() {
                    true => self.load(next, Purpose::Show),
                    false => self.message = Some("there is no other file in this direction".into()),
                }
            }
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
                if let Some(row) = self.ranks.selected() {
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
            self.message = Some("there is no stack here to copy".into());
        } else {
            self.message = Some(format!("copied {}", crate::words::plural(stack.len(), "frame")));
            self.effects.push(Effect::Copy(stack.join("\n") + "\n"));
        }
    }

    fn open(&mut self, view: View) {
        let all = self.is_linked || matches!(view, View::Diff | View::Ranks);
        for (number, pane) in self.panes.iter_mut().enumerate() {
            if number == self.active || all {
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
                if let Some(row) = self.ranks.selected() {
                    if self.shown.get(self.active) == Some(&row) {
                        self.back();
                    } else {
                        self.load(row, Purpose::Show);
                    }
                }
                Reply::Nothing
            }
            View::Ranks => self.ranks.act(action, height),
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
        let active = self.active;
        let linked = self.is_linked;
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
        if !self.is_linked {
            return;
        }
        let [a, b] = self.panes.as_mut_slice() else { return };
        let (leader, follower) = if self.active == 0 { (a, b) } else { (b, a) };
        let doc = Arc::clone(&follower.doc);
        let subject = Subject { doc: &doc, device: follower.device };
        follower.timeline.follow(subject, &leader.timeline, leader.subject());
    }

    /// Leaves the view; from the first one, the program.
    fn back(&mut self) {
        let linked = self.is_linked || self.is_whole_screen();
        let active = self.active;
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
        if self.is_compare() && !self.starts_with_two {
            self.panes.truncate(1);
            self.shown.truncate(1);
            self.active = 0;
        } else {
            self.effects.push(Effect::Quit(0));
        }
    }

    /// Stops reading, or clears the search, or else the filter. Says whether there was any.
    fn clear(&mut self) -> bool {
        if !self.loading.is_empty() {
            self.loading.iter().for_each(|job| job.tracker.cancel());
            self.message = Some("reading is cancelled".into());
            return true;
        }
        if self.view() == View::Diff {
            return self.diff.tree.found.take().is_some();
        }
        let Some(pane) = self.pane_mut() else { return false };
        let had_search = match pane.view {
            View::Tree | View::Flame => pane.tree.found.take().is_some(),
            View::Events => pane.events.found.take().is_some(),
            View::Allocations => pane.allocations.found.take().is_some(),
            View::Timeline => pane.phase.take().is_some(),
            _ => false,
        };
        if !had_search && !pane.filter.is_empty() {
            pane.set_filter(crate::filter::Filter::default());
            return true;
        }
        had_search
    }

    /// The files that are shown.
    pub(crate) fn open_paths(&self) -> Vec<&Path> {
        self.shown
            .iter()
            .filter_map(|&row| self.ranks.rows.get(row))
            .map(|row| row.input.path.as_path())
            .collect()
    }
}
