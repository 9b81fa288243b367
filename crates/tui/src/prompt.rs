//! The line at the bottom that takes text: searching, going somewhere, filtering.

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use vramscope_analysis::Place;
use vramscope_analysis::query::{FILTER_GRAMMAR, MOMENT_GRAMMAR, MomentSpec, Pattern};
use vramscope_format::plural;

use crate::app::{App, Mode};
use crate::branches::Towards;
use crate::document::Subject;
use crate::keys::{Action, View};
use crate::live::ActiveFilter;
use crate::pane::{NOTHING_FOUND, Reply, act_in_tree};
use crate::views::Names;
use crate::views::timeline::FoundPhases;

/// What the text is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Search,
    GoTo,
    Filter,
    Settings,
    Limit,
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
            Kind::Settings => "settings ",
            Kind::Limit => "limit ",
        }
    }

    /// What can be typed.
    pub(crate) fn hint(&self) -> String {
        match self.kind {
            Kind::Search => "a regular expression, matched against file:line name".into(),
            Kind::GoTo => in_short(MOMENT_GRAMMAR),
            Kind::Filter => FILTER_GRAMMAR.into(),
            Kind::Settings => "as in PYTORCH_CUDA_ALLOC_CONF: expandable_segments:True,max_split_size_mb:128; nothing for the defaults".into(),
            Kind::Limit => "a size like 80GiB, none, or nothing for that of the recording".into(),
        }
    }
}

/// A grammar in one line: without what explains its words.
fn in_short(grammar: &str) -> String {
    let mut short = String::new();
    let mut depth = 0;
    for c in grammar.split(';').next().unwrap_or_default().chars() {
        match c {
            '(' => depth += 1,
            ')' => depth -= 1,
            '\n' if depth == 0 => short.push(' '),
            c if depth == 0 => short.push(c),
            _ => {}
        }
    }
    short.replace(" ,", ",").trim_end().to_owned()
}

/// Most characters that can be typed.
const MOST: usize = 500;

impl App {
    pub(crate) fn update_prompt(&mut self, mut prompt: Prompt, key: KeyEvent) {
        let is_control = key.modifiers.contains(KeyModifiers::CONTROL);
        match key.code {
            KeyCode::Esc => {
                if prompt.kind == Kind::Search {
                    // An empty search always succeeds.
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

    /// Trees show what is found while it is typed; the timeline and the events count it.
    fn typed(&mut self, prompt: &mut Prompt) {
        prompt.error = None;
        if prompt.kind != Kind::Search {
            return;
        }
        prompt.error = match self.view() {
            View::Tree | View::Flame | View::Diff => self.search(&prompt.text).err(),
            View::Timeline => self.find_phases(&prompt.text).err(),
            View::Events => self.count_events(&prompt.text).err(),
            _ => None,
        };
    }

    fn submit(&mut self, prompt: &Prompt) -> Result<(), String> {
        match prompt.kind {
            Kind::Search => self.search(&prompt.text),
            Kind::GoTo => self.go_to(prompt.text.trim()),
            Kind::Filter => self.filter(&prompt.text),
            Kind::Settings => self.simulate(&prompt.text),
            Kind::Limit => self.limit(&prompt.text),
        }
    }

    fn simulate(&mut self, text: &str) -> Result<(), String> {
        let Some(pane) = self.panes.get_mut(self.pair.active) else { return Ok(()) };
        pane.whatif.add(text)
    }

    fn limit(&mut self, text: &str) -> Result<(), String> {
        let limit = text.parse()?;
        if let Some(pane) = self.panes.get_mut(self.pair.active) {
            pane.whatif.set_limit(limit);
        }
        Ok(())
    }

    fn filter(&mut self, text: &str) -> Result<(), String> {
        let Some(pane) = self.panes.get_mut(self.pair.active) else { return Ok(()) };
        let filter = ActiveFilter::new(text, pane.subject())?;
        if !filter.matches_any(pane.subject()) {
            self.message =
                Some(format!("no allocation of this trace passes {}; Esc clears the filter", filter.text));
        }
        pane.set_filter(filter);
        Ok(())
    }

    /// Looks for the phases whose name matches.
    fn find_phases(&mut self, text: &str) -> Result<(), String> {
        let pattern = pattern(text)?;
        let Some(pane) = self.panes.get_mut(self.pair.active) else { return Ok(()) };
        pane.timeline.phases = pattern.map(|pattern| FoundPhases::new(pane.subject(), &pattern));
        Ok(())
    }

    /// Counts the events that a search would find.
    fn count_events(&mut self, text: &str) -> Result<(), String> {
        let pattern = pattern(text)?;
        let Some(pane) = self.panes.get_mut(self.pair.active) else { return Ok(()) };
        let doc = std::sync::Arc::clone(&pane.doc);
        pane.events.count(Subject { doc: &doc, device: pane.device }, pattern.as_ref());
        Ok(())
    }

    /// Searches the view for a pattern, and goes to the first match from where it is; nothing clears the search.
    fn search(&mut self, text: &str) -> Result<(), String> {
        let pattern = pattern(text)?;
        let view = self.view();
        if view == View::Diff {
            match pattern {
                None => self.diff.tree.found = None,
                Some(pattern) => {
                    let frames = self.diff.names().matching(&pattern);
                    self.diff.tree.search(frames);
                    found(self.diff.tree.go_to_match(Towards::Here))?;
                }
            }
            return Ok(());
        }
        if view == View::Timeline {
            self.find_phases(text)?;
        }
        let Some(pane) = self.panes.get_mut(self.pair.active) else { return Ok(()) };
        let doc = std::sync::Arc::clone(&pane.doc);
        let subject = Subject { doc: &doc, device: pane.device };
        match (view, pattern) {
            (View::Tree | View::Flame, None) => pane.calls.tree.found = None,
            (View::Tree | View::Flame, Some(pattern)) => {
                pane.calls.tree.search(Names::Snapshot(subject.snapshot()).matching(&pattern));
                found(match view {
                    View::Flame => pane.calls.go_to_match_in_flame(Towards::Here),
                    _ => pane.calls.tree.go_to_match(Towards::Here),
                })?;
            }
            (View::Timeline, Some(_)) => found(pane.go_to_phase(Towards::Here))?,
            (View::Events, None) => (pane.events.found, pane.events.would_find) = (None, None),
            (View::Events, Some(pattern)) => {
                pane.events.search(subject, &pattern);
                found(pane.events.go_to_match(true, true))?;
            }
            (View::Allocations, pattern) => {
                pane.allocations.found = pattern;
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
        let Some(pane) = self.panes.get_mut(self.pair.active) else { return };
        let doc = std::sync::Arc::clone(&pane.doc);
        let subject = Subject { doc: &doc, device: pane.device };
        let is_there = match view {
            View::Timeline => pane.go_to_phase(if forwards { Towards::Next } else { Towards::Previous }),
            View::Events => pane.events.go_to_match(forwards, false),
            View::Allocations => pane.allocations.go_to_match(subject, forwards, false),
            View::Tree | View::Flame | View::Diff => {
                let action = if forwards { Action::SearchNext } else { Action::SearchPrevious };
                let reply = match view {
                    View::Diff => act_in_tree(&mut self.diff.tree, action, 1),
                    _ => pane.act(action),
                };
                reply == Reply::Nothing
            }
            _ => false,
        };
        if !is_there {
            self.message = Some(NOTHING_FOUND.into());
        }
    }

    /// Marks all frames equal to the selected one.
    pub(crate) fn search_same(&mut self) {
        let is_diff = self.view() == View::Diff;
        let Some(pane) = self.panes.get_mut(self.pair.active) else { return };
        let (tree, frames) = match is_diff {
            true => (&mut self.diff.tree, self.diff.lines.len()),
            false => (&mut pane.calls.tree, pane.doc.opened.snapshot.stacks.frame_count()),
        };
        let node = match pane.view {
            View::Flame => Some(pane.calls.flame_at),
            _ => tree.selected().map(|row| tree.last_of(row)),
        };
        let place = node.and_then(|node| tree.outline.get(node)).map(|item| item.place);
        let Some(Place::Frame(frame)) = place else {
            self.message = Some("this row is not a frame".into());
            return;
        };
        tree.search((0..frames).map(|row| row == frame.index()).collect());
        let count = tree.found.as_ref().map_or(0, |found| found.nodes.len());
        self.message = Some(format!("{} with this frame; n and N go to the next", plural(count, "place")));
    }

    /// Goes to a moment that was typed.
    fn go_to(&mut self, text: &str) -> Result<(), String> {
        let view = self.view();
        let Some(pane) = self.panes.get_mut(self.pair.active).filter(|_| !text.is_empty()) else {
            return Ok(());
        };
        let moment: MomentSpec = text.parse()?;
        let subject = pane.subject();
        let at = moment.resolve(subject.replay(), None).map_err(|error| error.to_string())?;
        pane.go_to(at);
        if !view.is_of_a_moment() && view != View::Events {
            pane.open(View::Timeline);
        }
        self.follow();
        Ok(())
    }
}

/// A pattern as it is typed; none without text.
fn pattern(text: &str) -> Result<Option<Pattern>, String> {
    if text.is_empty() { Ok(None) } else { Pattern::new(text).map(Some) }
}

fn found(is_there: bool) -> Result<(), String> {
    if is_there { Ok(()) } else { Err(NOTHING_FOUND.into()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hints_are_the_grammar_without_its_explanations() {
        assert_eq!(in_short("a, b:C (c, d),\nN (after N), +S; e"), "a, b:C, N, +S");
        assert!(
            Prompt::new(Kind::GoTo, String::new()).hint().starts_with("start, end, peak, peak:COUNTER, oom")
        );
    }
}
