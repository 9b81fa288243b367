//! JSON within a budget: lists are shortened, all to the same length, and `left_out` says which.

use std::collections::BTreeMap;
use std::io::{self, Write};

use serde_json::{Map, Value, json};
use vramscope_format::tokens;

use super::{Budget, LAST};

/// One document, or one per line.
pub(crate) struct Json<'a> {
    out: &'a mut dyn Write,
    budget: Budget,
    /// A document is shortened as a whole, so it is kept until it ends.
    text: Vec<u8>,
}

impl<'a> Json<'a> {
    pub(super) fn new(out: &'a mut dyn Write, budget: Budget) -> Self {
        Self { out, budget, text: Vec::new() }
    }

    pub(super) fn take(&mut self, bytes: &[u8]) {
        self.text.extend_from_slice(bytes);
    }

    pub(super) fn finish(self) -> io::Result<()> {
        let text = String::from_utf8_lossy(&self.text);
        let (all, allowed) = (tokens(&text), self.budget.allowed());
        if all <= allowed {
            return self.out.write_all(text.as_bytes());
        }
        let command = &self.budget.command;
        let room = allowed.saturating_sub(LAST);
        match serde_json::from_str(&text) {
            Ok(Value::Object(document)) => {
                let (mut document, lists) = shorten(&document, room);
                let lists: Vec<_> = lists
                    .into_iter()
                    .map(|(path, (shown, of))| json!({"list": path, "shown": shown, "of": of}))
                    .collect();
                let left_out =
                    json!({"tokens": all, "budget": self.budget.tokens, "lists": lists, "command": command});
                document.insert("left_out".to_owned(), left_out);
                vramscope_files::json(&mut *self.out, &document).map_err(io::Error::other)?;
                writeln!(self.out)
            }
            // One object per line: whole lines go.
            _ => {
                let mut sum = 0;
                let lines: Vec<&str> = text.lines().collect();
                let fits = lines.iter().take_while(|line| {
                    sum += tokens(line) + 1;
                    sum <= room
                });
                let fits = fits.count();
                lines.iter().take(fits).try_for_each(|line| writeln!(self.out, "{line}"))?;
                let left_out = json!({"tokens": all, "budget": self.budget.tokens, "lines": lines.len() - fits, "command": command});
                let last = json!({"schema": "vramscope/left_out/1", "left_out": left_out});
                vramscope_files::json(&mut *self.out, &last).map_err(io::Error::other)?;
                writeln!(self.out)
            }
        }
    }
}

/// For each list that is cut, by its path: the entries that are shown, and how many there are.
type Cut = BTreeMap<String, (usize, usize)>;

/// The document with lists as long as there is room for.
fn shorten(document: &Map<String, Value>, room: u64) -> (Map<String, Value>, Cut) {
    let cut_to = |length: usize| {
        let mut cut = Cut::new();
        let shown = cut_object(document, length, "", &mut cut);
        let cost = tokens(&serde_json::to_string(&shown).unwrap_or_default()) + 20 * cut.len() as u64;
        (shown, cut, cost)
    };
    let (mut fits, mut too_long) = (0, longest(&Value::Object(document.clone())) + 1);
    while fits + 1 < too_long {
        let middle = fits + (too_long - fits) / 2;
        if cut_to(middle).2 <= room {
            fits = middle;
        } else {
            too_long = middle;
        }
    }
    let (shown, cut, _) = cut_to(fits);
    (shown, cut)
}

fn longest(value: &Value) -> usize {
    match value {
        Value::Array(list) => list.iter().map(longest).max().unwrap_or(0).max(list.len()),
        Value::Object(map) => map.values().map(longest).max().unwrap_or(0),
        _ => 0,
    }
}

/// Lists of so few numbers are values, such as a pool.
const VALUE: usize = 3;

fn cut_object(map: &Map<String, Value>, length: usize, path: &str, cut: &mut Cut) -> Map<String, Value> {
    let entry = |(key, value): (&String, &Value)| {
        let path = if path.is_empty() { key.clone() } else { format!("{path}.{key}") };
        (key.clone(), cut_value(value, length, &path, cut))
    };
    map.iter().map(entry).collect()
}

fn cut_value(value: &Value, length: usize, path: &str, cut: &mut Cut) -> Value {
    match value {
        Value::Array(list) => {
            let is_value = list.len() <= VALUE && list.iter().all(Value::is_number);
            let shown = if is_value { list.len() } else { length.min(list.len()) };
            if shown < list.len() {
                let (sum, of) = cut.entry(path.to_owned()).or_default();
                (*sum, *of) = (*sum + shown, *of + list.len());
            }
            let path = format!("{path}[]");
            list.iter().take(shown).map(|value| cut_value(value, length, &path, cut)).collect()
        }
        Value::Object(map) => Value::Object(cut_object(map, length, path, cut)),
        value => value.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::super::Limited;
    use super::*;

    fn limited(text: &str, tokens: u64) -> String {
        let mut out = Vec::new();
        let budget = Budget { tokens, is_json: true, command: "vramscope at FILE --json --budget 0".into() };
        let mut writer = Limited::new(&mut out, budget);
        writer.write_all(text.as_bytes()).unwrap();
        writer.finish().unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn lists_are_cut_to_one_length_and_named() {
        let live: Vec<_> =
            (0..200).map(|row| json!({"size": row, "pool": [0, 0], "stack": ["a", "b"]})).collect();
        let text = json!({"schema": "vramscope/at/1", "live": live}).to_string();
        let shown = limited(&text, 300);
        assert!(tokens(&shown) <= 300, "{shown}");
        let value: Value = serde_json::from_str(&shown).unwrap();
        let kept = value["live"].as_array().unwrap().len();
        assert!(kept > 2 && kept < 200, "{shown}");
        assert_eq!(value["live"][0]["pool"], json!([0, 0]));
        assert_eq!(value["left_out"]["lists"], json!([{"list": "live", "shown": kept, "of": 200}]));
        assert_eq!(value["left_out"]["command"], "vramscope at FILE --json --budget 0");
        assert_eq!(limited(&text, 100_000), text);
    }

    #[test]
    fn of_one_object_per_line_whole_lines_go() {
        let text: String = (0..200).map(|row| format!("{{\"event\":{row}}}\n")).collect();
        let shown = limited(&text, 200);
        let lines: Vec<Value> = shown.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        let (last, kept) = lines.split_last().unwrap();
        assert_eq!(last["left_out"]["lines"], 200 - kept.len());
        assert!(tokens(&shown) <= 200 && kept.len() > 3, "{shown}");
    }
}
