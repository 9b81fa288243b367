//! All keys, from the table that dispatches them.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use vramscope_format::fit;

use super::{put, row_of};
use crate::keys::{KEYS, View};
use crate::theme::{Role, Theme};

/// What the help shows.
#[derive(Clone, Debug, Default)]
pub(crate) struct Help {
    pub(crate) typed: String,
    pub(crate) top: usize,
}

/// A row of the help: keys and what they do; the keys of the view first, then those of other views.
pub(crate) fn rows(view: View, is_compare: bool, typed: &str) -> Vec<(String, String)> {
    let typed = typed.to_lowercase();
    let keys = |here: bool| {
        let typed = typed.clone();
        KEYS.iter().filter(move |row| row.is_for(view, is_compare) == here).filter_map(move |row| {
            let keys = row.keys.join(" ");
            let text = format!("{keys} {}", row.help).to_lowercase();
            text.contains(&typed).then(|| (keys, row.help.to_owned()))
        })
    };
    let mut rows: Vec<_> = keys(true).collect();
    let elsewhere: Vec<_> = keys(false).collect();
    if !elsewhere.is_empty() {
        rows.push((String::new(), "in other views".into()));
        rows.extend(elsewhere);
    }
    rows
}

pub(crate) fn draw(buffer: &mut Buffer, screen: Rect, help: &Help, rows: &[(String, String)], theme: &Theme) {
    let width = screen.width.min(96);
    let area = Rect { x: screen.x + (screen.width - width) / 2, width, ..screen };
    for y in area.top()..area.bottom() {
        for x in area.left()..area.right() {
            if let Some(cell) = buffer.cell_mut((x, y)) {
                cell.reset();
            }
        }
    }
    let (text, dim) = (theme.style(Role::Text), theme.style(Role::Dim));
    let title = match help.typed.is_empty() {
        true => "Keys. Type to find one; Esc or ? closes".to_owned(),
        false => format!("Keys with “{}”; Esc closes", help.typed),
    };
    put(buffer, area, area.x + 1, area.y, &title, theme.style(Role::Title));
    let list = Rect { y: area.y + 1, height: area.height.saturating_sub(1), ..area };
    let top = help.top.min(rows.len().saturating_sub(list.height.into()));
    for (number, (keys, what)) in rows.iter().skip(top).take(list.height.into()).enumerate() {
        let line = row_of(list, number as u16);
        if keys.is_empty() {
            put(buffer, line, line.x + 1, line.y, &format!("── {what} "), dim);
            continue;
        }
        put(buffer, line, line.x + 1, line.y, &format!("{:>14}", fit(keys, 14)), theme.style(Role::Accent));
        put(buffer, line, line.x + 17, line.y, &fit(what, usize::from(width).saturating_sub(18)), text);
    }
}
