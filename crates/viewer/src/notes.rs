//! Notes at moments of a recording: kept with it, drawn on the chart, and part of a link.

use egui::{Align2, Context, Key, vec2};
use serde::{Deserialize, Serialize};
use vramscope_analysis::Moment;
use vramscope_analysis::pictures::Axis;
use vramscope_engine::AskMoment;

use crate::app::App;
use crate::requests::Slot;

/// Longer ones are for another place; a link has to stay one.
const MOST_LETTERS: usize = 200;
/// Notes of one recording.
const MOST_NOTES: usize = 50;

/// Words at a moment.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Note {
    pub(crate) at: Moment,
    /// Microseconds since the first event, where there is a clock.
    time: i64,
    pub(crate) text: String,
}

impl Note {
    /// Where it is on an axis.
    pub(crate) fn x(&self, axis: Axis) -> f64 {
        match axis {
            Axis::Events => f64::from(self.at.0),
            Axis::Time => self.time as f64,
        }
    }

    /// As a part of a link: letters and digits as they are, a space as `+`, all else as `~` and two digits.
    fn link(&self) -> String {
        let mut link = format!("&note={},{},", self.at.0, self.time);
        for byte in self.text.bytes() {
            match byte {
                b' ' => link.push('+'),
                byte if byte.is_ascii_alphanumeric() => link.push(byte.into()),
                byte => link += &format!("~{byte:02x}"),
            }
        }
        link
    }

    /// What a part of a link says; `None` if it says nothing.
    fn read(part: &str) -> Option<Self> {
        let mut parts = part.splitn(3, ',');
        let (at, time) = (parts.next()?.parse().ok()?, parts.next()?.parse().ok()?);
        let (mut bytes, mut letters) = (Vec::new(), parts.next()?.bytes());
        while let Some(letter) = letters.next() {
            let digit = |letter: Option<u8>| (letter? as char).to_digit(16);
            bytes.push(match letter {
                b'+' => b' ',
                b'~' => (digit(letters.next())? * 16 + digit(letters.next())?) as u8,
                letter => letter,
            });
        }
        let text = short(&String::from_utf8(bytes).ok()?);
        (!text.is_empty()).then_some(Self { at: Moment(at), time, text })
    }
}

/// One line of a bounded length.
fn short(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ").chars().take(MOST_LETTERS).collect()
}

impl App {
    /// Opens the note at the cursor, or a new one.
    pub(crate) fn edit_note(&mut self) {
        let at = self.selection.cursor;
        let text = self.notes.iter().find(|note| note.at == at).map(|note| note.text.clone());
        self.parts.note = Some(text.unwrap_or_default());
    }

    /// Puts words at the cursor; none take away what is there.
    pub(crate) fn put_note(&mut self, text: &str) {
        let (at, text) = (self.selection.cursor, short(text));
        let info = self.requests.look::<AskMoment>(Slot::Cursor).filter(|answer| answer.value.at == at);
        let time = info.and_then(|answer| answer.value.time);
        let origin = self.device().and_then(|(_, summary)| summary.time).map_or(0, |(origin, _)| origin);
        self.notes.retain(|note| note.at != at);
        if !text.is_empty() && self.notes.len() < MOST_NOTES {
            self.notes.push(Note { at, time: time.map_or(0, |time| time.saturating_sub(origin)), text });
            self.notes.sort_by_key(|note| note.at);
        }
    }

    /// Goes to the next note.
    pub(crate) fn next_note(&mut self) {
        let after = self.notes.iter().find(|note| note.at > self.selection.cursor).or(self.notes.first());
        match after.cloned() {
            Some(note) => self.jump(note.at, Some(note.time)),
            None => self.say("No notes: M pins one at the cursor".into()),
        }
    }

    /// All notes as parts of a link.
    pub(crate) fn notes_link(&self) -> String {
        self.notes.iter().map(Note::link).collect()
    }

    /// Takes the notes of a link; without any the known ones stay.
    pub(crate) fn follow_notes<'a>(&mut self, parts: impl Iterator<Item = &'a str>) {
        let mut notes: Vec<Note> = parts.filter_map(Note::read).take(MOST_NOTES).collect();
        if !notes.is_empty() {
            notes.sort_by_key(|note| note.at);
            notes.dedup_by_key(|note| note.at);
            self.notes = notes;
        }
    }
}

/// The field in which a note is written.
pub(crate) fn editor(app: &mut App, ctx: &Context) {
    let Some(mut text) = app.parts.note.take() else { return };
    let mut open = true;
    let (mut done, title) = (false, format!("Note at {}", app.selection.cursor.words()));
    egui::Window::new(title)
        .id(egui::Id::unique("note"))
        .open(&mut open)
        .anchor(Align2::CENTER_TOP, vec2(0.0, 120.0))
        .collapsible(false)
        .resizable(false)
        .show(ctx, |ui| {
            let edit = egui::TextEdit::singleline(&mut text).hint_text("what is here").desired_width(360.0);
            let response = ui.add(edit.char_limit(MOST_LETTERS));
            done = response.lost_focus() && ui.input(|input| input.key_pressed(Key::Enter));
            response.request_focus();
            ui.horizontal(|ui| {
                done |= ui.button("Pin").clicked();
                if ui.button("Remove").clicked() {
                    (text, done) = (String::new(), true);
                }
            });
        });
    if done {
        app.put_note(&text);
    } else if open && !ctx.input(|input| input.key_pressed(Key::Escape)) {
        app.parts.note = Some(text);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn notes_survive_a_link_whatever_they_say() {
        for text in ["first leak", "a&b=c, 100 % ~ #1 + 2", "größer → 漢字"] {
            let note = Note { at: Moment(8774), time: -5, text: text.to_owned() };
            let link = note.link();
            let part = link.strip_prefix("&note=").unwrap();
            assert!(
                part.bytes().all(|byte| byte.is_ascii_alphanumeric() || b",+~-".contains(&byte)),
                "{part}"
            );
            assert_eq!(Note::read(part), Some(note));
        }
        for bad in ["", "1", "1,2", "1,2,", "x,2,a", "1,2,~", "1,2,~g0", "1,2,~ff"] {
            assert_eq!(Note::read(bad), None, "{bad}");
        }
    }
}
