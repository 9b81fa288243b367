//! Text as people read it, the same on every surface: times, and what fits a number of columns.

use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

/// A time as date and clock in UTC, to the microsecond.
pub fn time(time_us: i64) -> String {
    let (days, in_day) = (time_us.div_euclid(86_400_000_000), time_us.rem_euclid(86_400_000_000));
    let (year, month, day) = civil(days);
    format!("{year}-{month:02}-{day:02} {}.{:06} UTC", seconds(in_day), in_day % 1_000_000)
}

/// The clock of a time in UTC, to the microsecond: `14:03:22.123 456`.
pub fn clock(time_us: i64) -> String {
    let in_day = time_us.rem_euclid(86_400_000_000);
    format!("{}.{:03} {:03}", seconds(in_day), in_day / 1000 % 1000, in_day % 1000)
}

/// Hours, minutes and seconds of a number of microseconds.
fn seconds(micros: i64) -> String {
    let seconds = micros / 1_000_000;
    format!("{:02}:{:02}:{:02}", seconds / 3600, seconds / 60 % 60, seconds % 60)
}

/// Year, month and day of a number of days since 1970, by counting 400-year cycles from March.
fn civil(days: i64) -> (i64, i64, i64) {
    let days = days + 719_468;
    let cycle = days.div_euclid(146_097);
    let day_of_cycle = days.rem_euclid(146_097);
    let year_of_cycle =
        (day_of_cycle - day_of_cycle / 1460 + day_of_cycle / 36_524 - day_of_cycle / 146_096) / 365;
    let day_of_year = day_of_cycle - (365 * year_of_cycle + year_of_cycle / 4 - year_of_cycle / 100);
    let month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    (cycle * 400 + year_of_cycle + i64::from(month <= 2), month, day)
}

/// Whether a character does something to a terminal or to the text around it instead of being shown: control
/// characters, marks that turn the direction of writing or take no room, and what is no character.
pub fn is_unprintable(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{61c}' | '\u{180e}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{fffe}' | '\u{ffff}'
            | '\u{e0000}'..='\u{e007f}')
}

/// Text from a file with everything [unprintable](is_unprintable) replaced.
pub fn printable(text: &str) -> String {
    text.chars().map(|c| if is_unprintable(c) { '\u{fffd}' } else { c }).collect()
}

/// The text cut to a number of columns, with a mark where it was cut.
pub fn fit(text: &str, columns: usize) -> String {
    if text.width() <= columns {
        return text.to_owned();
    }
    let mut room = columns.saturating_sub(1);
    let mut short = String::new();
    for c in text.chars() {
        let width = c.width().unwrap_or(0);
        if width > room {
            break;
        }
        room -= width;
        short.push(c);
    }
    short.push('…');
    short
}

/// The same, cut at the front: of a chain of calls the end says most.
pub fn fit_end(text: &str, columns: usize) -> String {
    if text.width() <= columns {
        return text.to_owned();
    }
    let backwards: String = text.chars().rev().collect();
    fit(&backwards, columns).chars().rev().collect()
}

/// The same, cut in the middle: of `train.py:88` the line is what tells rows apart, so a tail can be kept whole.
pub fn fit_middle(text: &str, tail: usize, columns: usize) -> String {
    if text.width() <= columns {
        return text.to_owned();
    }
    let room = columns.saturating_sub(1);
    let end = room.saturating_sub(room / 2).max(tail.min(room));
    let first: String = text.chars().take(room - end).collect();
    let last: Vec<char> = text.chars().rev().take(end).collect();
    format!("{first}…{}", last.into_iter().rev().collect::<String>())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_utc() {
        assert_eq!(time(0), "1970-01-01 00:00:00.000000 UTC");
        // date -u -d @1794725346 says Sun Nov 15 06:49:06 2026.
        assert_eq!(time(1_794_725_346_326_863), "2026-11-15 06:49:06.326863 UTC");
        assert_eq!(clock(1_794_725_346_326_863), "06:49:06.326 863");
        assert_eq!(time(951_782_400_000_000), "2000-02-29 00:00:00.000000 UTC");
        assert_eq!(time(-1), "1969-12-31 23:59:59.999999 UTC");
    }

    #[test]
    fn cutting_counts_columns() {
        assert_eq!(fit("abcdef", 4), "abc…");
        assert_eq!(fit("日本語", 4), "日…");
        assert_eq!(fit_middle("modeling_llama.py:175", 4, 13), "modeli…py:175");
        assert_eq!(fit_middle("abcdefgh", 6, 7), "…cdefgh", "the tail stays");
        assert_eq!(printable("a\x1b[2Jb"), "a\u{fffd}[2Jb");
        assert_eq!(printable("a\u{202e}b"), "a\u{fffd}b");
        assert_eq!(printable("\u{61c}\u{9b}\u{fffe}é"), "\u{fffd}\u{fffd}\u{fffd}é");
    }
}
