//! The line at the bottom that takes text: searching, going somewhere, filtering.

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use regex_lite::Regex;
use vramscope_analysis::{Moment, Place};
use vramscope_snapshot::EventIdx;

use crate::app::{App, Mode};
use crate::branches::Towards;
use crate::document::Subject;
use crate::filter::{self, Filter};
use crate::keys::View;

/// What the text is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Search,
    GoTo,
    Filter,
}

#[derive(Clone, Debug)]
pub(crate) struct Prompt {
    pub(crate) kind: Kind,
    pub(crate) text: String,
    pub(crate) error: Option<String>,
}

impl Prompt {
    pub(crate) fn new(kind: Kind, text: String) -> Self {
        Self { kind, text, error: None }
    }

    /// What stands before the text.
    pub(crate) fn sign(&self) -> &'static str {
        match self.kind {
            Kind::Search => "/",
            Kind::GoTo => ":",
            Kind::Filter => "filter ",
        }
    }

    /// What can be typed.
    pub(crate) fn hint(&self) -> &'static str {
        match self.kind {
            Kind::Search => "a regular expression, on file:line name",
            Kind::GoTo => "an event, +seconds, a phase, peak, oom, start, end",
            Kind::Filter => filter::GRAMMAR,
        }
    }
}

/// Most characters that can be typed.
const MOST: usize = 500;

impl App {
    pub(crate) fn update_prompt(&mut self, mut prompt: Prompt, key: KeyEvent) {
        let is_control = key.modifiers.contains(KeyModifiers::CONTROL);
        match key.code {
            KeyCode::Esc => {
                if prompt.kind == Kind::Search {
                    // Nothing is always found.
                    let _ = self.search("");
                }
                return;
            }
            KeyCode::Enter => {
                prompt.error = self.submit(&prompt).err();
                if prompt.error.is_none() {
                    return;
                }
            }
            KeyCode::Backspace if prompt.text.pop().is_none() => return,
            KeyCode::Backspace => self.typed(&mut prompt),
            KeyCode::Char('u') if is_control => {
                prompt.text.clear();
                self.typed(&mut prompt);
            }
            KeyCode::Char('w') if is_control => {
                let kept = prompt.text.trim_end().rfind(' ').map_or(0, |at| at + 1);
                prompt.text.truncate(kept);
                self.typed(&mut prompt);
            }
            KeyCode::Char(c) if !is_control && prompt.text.chars().count() < MOST => {
                prompt.text.push(c);
                self.typed(&mut prompt);
            }
            _ => {}
        }
        self.mode = Mode::Prompt(prompt);
    }

    /// Takes text that was pasted.
    pub fn paste(&mut self, text: &str) {
        if let Mode::Prompt(prompt) = &mut self.mode {
            let clean = text.chars().filter(|c| !c.is_control());
            let room = MOST.saturating_sub(prompt.text.chars().count());
            prompt.text.extend(clean.take(room));
            let mut prompt = prompt.clone();
            self.typed(&mut prompt);
            self.mode = Mode::Prompt(prompt);
            self.refresh();
        }
    }

    /// Trees show what is found while it is typed.
    fn typed(&mut self, prompt: &mut Prompt) {
        prompt.error = None;
        if prompt.kind == Kind::Search && matches!(self.view(), View::Tree | View::Flame | View::Diff) {
            prompt.error = self.search(&prompt.text).err();
        }
    }

    fn submit(&mut self, prompt: &Prompt) -> Result<(), String> {
        match prompt.kind {
            Kind::Search => self.search(&prompt.text),
            Kind::GoTo => self.go_to(prompt.text.trim()),
            Kind::Filter => {
                let Some(pane) = self.panes.get_mut(self.active) else { return Ok(()) };
                let snapshot = &pane.doc.opened.snapshot;
                let filter = Filter::parse(&prompt.text, snapshot)?;
                pane.set_filter(filter);
                Ok(())
            }
        }
    }

    /// Searches the view for a pattern, and goes to the first match from where it is; nothing clears the search.
    fn search(&mut self, pattern: &str) -> Result<(), String> {
        let regex = if pattern.is_empty() { None } else { Some(filter::regex(pattern)?) };
        let view = self.view();
        if view == View::Diff {
            match regex {
                None => self.diff.tree.found = None,
                Some(regex) => {
                    let frames = self.diff.names().matching(&regex);
                    self.diff.tree.search(frames);
                    found(self.diff.tree.go_to_match(Towards::Here))?;
                }
            }
            return Ok(());
        }
        let Some(pane) = self.panes.get_mut(self.active) else { return Ok(()) };
        let doc = std::sync::Arc::clone(&pane.doc);
        let subject = Subject { doc: &doc, device: pane.device };
        match (view, regex) {
            (View::Tree | View::Flame, None) => pane.tree.found = None,
            (View::Tree | View::Flame, Some(regex)) => {
                let frames = crate::views::Names::Snapshot(subject.snapshot()).matching(&regex);
                pane.tree.search(frames);
                let is_there = pane.tree.go_to_match(Towards::Here);
                if view == View::Flame
                    && let Some(row) = pane.tree.selected()
                {
                    pane.flame_at = row.node;
                }
                found(is_there)?;
            }
            (View::Timeline, regex) => {
                pane.phase = regex;
                if pane.phase.is_some() {
                    found(pane.go_to_phase(true))?;
                }
            }
            (View::Events, None) => pane.events.found = None,
            (View::Events, Some(regex)) => {
                pane.events.search(subject, &regex);
                found(pane.events.go_to_match(true, true))?;
            }
            (View::Allocations, regex) => {
                pane.allocations.found = regex;
                if pane.allocations.found.is_some() {
                    found(pane.allocations.go_to_match(subject, true, true))?;
                }
            }
            _ => {}
        }
        Ok(())
    }

    /// Goes to the next match of the search that is on.
    pub(crate) fn search_on(&mut self, forwards: bool) {
        let view = self.view();
        let Some(pane) = self.panes.get_mut(self.active) else { return };
        let doc = std::sync::Arc::clone(&pane.doc);
        let subject = Subject { doc: &doc, device: pane.device };
        let is_there = match view {
            View::Timeline => pane.phase.is_some() && pane.go_to_phase(forwards),
            View::Events => pane.events.go_to_match(forwards, false),
            View::Allocations => pane.allocations.go_to_match(subject, forwards, false),
            View::Tree | View::Flame | View::Diff => {
                let action = if forwards {
                    crate::keys::Action::SearchNext
                } else {
                    crate::keys::Action::SearchPrevious
                };
                let reply = if view == View::Diff {
                    crate::pane::act_in_tree(&mut self.diff.tree, action, 1)
                } else {
                    pane.act(action)
                };
                reply == crate::pane::Reply::Nothing
            }
            _ => false,
        };
        if !is_there {
            self.message = Some("nothing found".into());
        }
    }

    /// Marks all frames equal to the selected one.
    pub(crate) fn search_same(&mut self) {
        let is_diff = self.view() == View::Diff;
        let Some(pane) = self.panes.get_mut(self.active) else { return };
        let (tree, frames) = match is_diff {
            true => (&mut self.diff.tree, self.diff.lines.len()),
            false => (&mut pane.tree, pane.doc.opened.snapshot.stacks.frame_count()),
        };
        let node = match pane.view {
            View::Flame => Some(pane.flame_at),
            _ => tree.selected().map(|row| tree.last_of(row)),
        };
        let place = node.and_then(|node| tree.outline.get(node)).map(|item| item.place);
        let Some(Place::Frame(frame)) = place else {
            self.message = Some("this is no frame".into());
            return;
        };
        tree.search((0..frames).map(|row| row == frame.index()).collect());
        let count = tree.found.as_ref().map_or(0, |found| found.nodes.len());
        self.message =
            Some(format!("{} with this frame; n and N go round", crate::words::plural(count, "place")));
    }

    /// Goes to a moment that was typed.
    fn go_to(&mut self, text: &str) -> Result<(), String> {
        let view = self.view();
        let Some(pane) = self.panes.get_mut(self.active) else { return Ok(()) };
        let doc = std::sync::Arc::clone(&pane.doc);
        let subject = Subject { doc: &doc, device: pane.device };
        let at = moment(subject, text, pane.cursor())?;
        pane.go_to(at);
        if !view.is_of_a_moment() && view != View::Events {
            pane.open(View::Timeline);
        }
        self.follow();
        Ok(())
    }
}

fn found(is_there: bool) -> Result<(), String> {
    if is_there { Ok(()) } else { Err("nothing found".into()) }
}

/// A moment in words.
fn moment(subject: Subject<'_>, text: &str, from: Moment) -> Result<Moment, String> {
    let replay = subject.replay();
    match text {
        "" => return Ok(from),
        "start" => return Ok(Moment::START),
        "end" => return Ok(replay.end()),
        "peak" => return Ok(replay.peak(vramscope_analysis::Counter::Requested).at),
        "oom" => {
            let oom = replay.ooms().last().ok_or("memory never ran out in this recording")?;
            return Ok(Moment::after(oom.event));
        }
        _ => {}
    }
    let digits: String = text.chars().filter(|c| !matches!(c, ' ' | '_' | ',')).collect();
    if let Ok(event) = digits.parse::<u32>() {
        let events = replay.events();
        if event as usize >= events {
            return Err(format!("there is no event {event}; the last is {}", events.saturating_sub(1)));
        }
        return Ok(Moment::after(EventIdx(event)));
    }
    let seconds = text.strip_prefix('+').map(|rest| rest.trim_end_matches('s').trim());
    if let Some(Ok(seconds)) = seconds.map(str::parse::<f64>) {
        let (first, _) = subject.index().times.range().ok_or("the events have no times")?;
        let time = first.saturating_add((seconds * 1e6) as i64);
        return Ok(subject.index().times.at(subject.events(), time));
    }
    let regex: Regex = filter::regex(text)?;
    phase(subject, &regex, from, true).ok_or_else(|| format!("no event, time or phase is called {text:?}"))
}

/// The beginning of the next phase whose name matches, around the ends.
pub(crate) fn phase(subject: Subject<'_>, regex: &Regex, from: Moment, forwards: bool) -> Option<Moment> {
    let snapshot = subject.snapshot();
    let mut begins: Vec<Moment> = subject
        .index()
        .spans
        .iter()
        .filter(|span| regex.is_match(snapshot.text(span.name)))
        .map(|span| span.from)
        .collect();
    begins.sort_unstable();
    if forwards {
        begins.iter().find(|&&at| at > from).or(begins.first()).copied()
    } else {
        begins.iter().rev().find(|&&at| at < from).or(begins.last()).copied()
    }
}
