//! One file under two names: as a path was typed, and in full.
//!
//! `cache fill` names files in full, since nobody knows how they will be typed. What answers say of their file is its path
//! and, as JSON, the group of its run, which is the path without its rank: both are put back when an answer is printed.

use std::ffi::{OsStr, OsString};
use std::io::{self, Write};
use std::path::{Path, absolute};

use vramscope_naming::{Name, name};

/// What to write instead of the full path and group.
pub(super) struct Spelling {
    pairs: Vec<(String, String)>,
}

impl Spelling {
    /// How a path is spelled if it is not typed in full. `None` also if its folders say more about the file, such as
    /// the rank, and if it is written in other ways in some answers.
    pub(super) fn of(typed: &Path) -> Option<Self> {
        let full = absolute(typed).ok()?;
        let (full, typed) = (full.to_str()?, typed.to_str()?);
        let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_./".contains(c);
        if full == typed || !full.chars().all(is_plain) {
            return None;
        }
        let (in_full, as_typed) = (name(full), name(typed));
        let facts = |name: &Name| Name { group: String::new(), ..name.clone() };
        if facts(&in_full) != facts(&as_typed) {
            return None;
        }
        // A group may be a folder, which other paths begin with.
        let group = |name: Name| format!("\"group\":\"{}\"", name.group);
        Some(Self { pairs: vec![(full.to_owned(), typed.to_owned()), (group(in_full), group(as_typed))] })
    }

    /// A command line with the path in full; `None` if something else in it is spelled like the path.
    pub(super) fn in_full(&self, line: &[OsString]) -> Option<Vec<OsString>> {
        let (full, typed) = self.pairs.first()?;
        let mut places = line.iter().enumerate().filter(|(_, word)| *word == OsStr::new(typed));
        let (Some((place, _)), None) = (places.next(), places.next()) else { return None };
        let mut line = line.to_vec();
        *line.get_mut(place)? = full.into();
        Some(line)
    }

    /// Writes an answer as if its file had been named as it was typed.
    pub(super) fn write(&self, text: &[u8], out: &mut dyn Write) -> io::Result<()> {
        match str::from_utf8(text) {
            Ok(text) => write(text, &self.pairs, out),
            Err(_) => out.write_all(text),
        }
    }

    /// A message in the same way.
    pub(super) fn message(&self, text: &str) -> String {
        self.pairs.iter().fold(text.to_owned(), |text, (full, typed)| text.replace(full, typed))
    }
}

/// Without a copy of all of it: an answer may be long.
fn write(text: &str, pairs: &[(String, String)], out: &mut dyn Write) -> io::Result<()> {
    let Some(((full, typed), others)) = pairs.split_first() else { return out.write_all(text.as_bytes()) };
    for (number, part) in text.split(full).enumerate() {
        if number > 0 {
            out.write_all(typed.as_bytes())?;
        }
        write(part, others, out)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_names_the_file_as_it_was_typed() {
        let here = std::env::current_dir().unwrap();
        let spelling = Spelling::of(Path::new("runs/rank3_snapshot.pickle")).unwrap();
        let full = here.join("runs/rank3_snapshot.pickle").display().to_string();
        let group = name(&full).group;
        assert_ne!(group, full);
        let mut out = Vec::new();
        let text = format!("{{\"path\":\"{full}\",\"group\":\"{group}\"}}\nvramscope top {full} é\n");
        spelling.write(text.as_bytes(), &mut out).unwrap();
        let typed = "runs/rank3_snapshot.pickle";
        let group = name(typed).group;
        let expected = format!("{{\"path\":\"{typed}\",\"group\":\"{group}\"}}\nvramscope top {typed} é\n");
        assert_eq!(String::from_utf8(out).unwrap(), expected);
        assert_eq!(spelling.message(&format!("{full}: cut")), format!("{typed}: cut"));
        let line = ["vramscope", "top", typed].map(OsString::from);
        assert_eq!(spelling.in_full(&line).unwrap(), ["vramscope", "top", &full].map(OsString::from));
        let twice = ["vramscope", "top", typed, "--stack", typed].map(OsString::from);
        assert!(spelling.in_full(&twice).is_none(), "one of the two is not the file");
    }

    #[test]
    fn a_path_in_full_stays() {
        let full = std::env::current_dir().unwrap().join("a.pickle");
        assert!(Spelling::of(&full).is_none());
    }
}
