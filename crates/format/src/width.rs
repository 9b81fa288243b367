//! Text in a number of columns.

use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

/// Columns that a text takes on a terminal.
pub fn width(text: &str) -> usize {
    text.width()
}

/// The text cut to a number of columns, with a mark where it was cut.
pub fn fit(text: &str, columns: usize) -> String {
    if text.width() <= columns {
        return text.to_owned();
    }
    let mut short = head(text, columns.saturating_sub(1));
    short.push('…');
    short
}

/// The same, cut at the front: of a chain of calls the end says most.
pub fn fit_end(text: &str, columns: usize) -> String {
    if text.width() <= columns {
        return text.to_owned();
    }
    format!("…{}", tail(text, columns.saturating_sub(1)))
}

/// The same, cut in the middle, with at least the last `kept` columns whole.
pub fn fit_middle(text: &str, kept: usize, columns: usize) -> String {
    if text.width() <= columns {
        return text.to_owned();
    }
    let room = columns.saturating_sub(1);
    let end = (room / 3).max(kept.min(room));
    format!("{}…{}", head(text, room - end), tail(text, end))
}

fn head(text: &str, mut room: usize) -> String {
    let fits = |c: &char| {
        let width = c.width().unwrap_or(0);
        let fits = width <= room;
        room = room.saturating_sub(width);
        fits
    };
    text.chars().take_while(fits).collect()
}

fn tail(text: &str, room: usize) -> String {
    let backwards: String = text.chars().rev().collect();
    head(&backwards, room).chars().rev().collect()
}

/// A text in lines of at most `columns` columns, broken at spaces; a longer word is cut.
pub fn wrap(text: &str, columns: usize) -> Vec<String> {
    let columns = columns.max(8);
    let mut lines = vec![String::new()];
    for word in text.split(' ') {
        let Some(last) = lines.last_mut() else { break };
        if last.is_empty() {
            last.push_str(&fit(word, columns));
        } else if last.width() + 1 + word.width() <= columns {
            last.push(' ');
            last.push_str(word);
        } else {
            lines.push(fit(word, columns));
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cutting_counts_columns() {
        assert_eq!(fit("abcdef", 4), "abc…");
        assert_eq!(fit("日本語", 4), "日…");
        assert_eq!(fit_end("abcdef", 4), "…def");
        assert_eq!(fit_middle("abcdefgh", 6, 7), "…cdefgh", "the tail stays");
        assert_eq!(fit_middle("abcdefghij", 0, 7), "abcd…ij");
    }

    #[test]
    fn lines_break_at_spaces() {
        assert_eq!(
            wrap("detach the loss before keeping it", 12),
            ["detach the", "loss before", "keeping it"]
        );
    }
}
