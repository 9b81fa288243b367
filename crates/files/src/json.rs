//! JSON that is safe to look at: names come from files, and a terminal or an editor shows them.

use std::io::{self, Write};

use serde::Serialize;
use serde_json::ser::{CompactFormatter, Formatter};
use vramscope_format::is_hidden;

/// Writes a value as JSON in one line. Control characters of any kind and marks that change the direction of writing
/// are written as `\u` escapes, which mean the same to any reader.
pub fn json(out: &mut dyn Write, value: &impl Serialize) -> serde_json::Result<()> {
    value.serialize(&mut serde_json::Serializer::with_formatter(out, Escaping(CompactFormatter)))
}

/// The same for JSON that is written already.
pub fn escape_json(text: &str) -> String {
    let mut out = Vec::with_capacity(text.len());
    // Writing to memory does not fail, and what is written is text.
    let _ = escape(&mut out, text);
    String::from_utf8_lossy(&out).into_owned()
}

struct Escaping(CompactFormatter);

impl Formatter for Escaping {
    fn write_string_fragment<W: ?Sized + Write>(&mut self, out: &mut W, text: &str) -> io::Result<()> {
        escape(out, text)
    }
}

/// What is below DEL is escaped by all JSON, or is the space between values.
fn escape<W: ?Sized + Write>(out: &mut W, text: &str) -> io::Result<()> {
    let is_escaped = |c: char| c >= '\x7f' && is_hidden(c);
    let mut done = 0;
    if !text.bytes().all(|byte| byte < 0x7f) {
        for (at, c) in text.char_indices().filter(|(_, c)| is_escaped(*c)) {
            out.write_all(text.get(done..at).unwrap_or_default().as_bytes())?;
            done = at + c.len_utf8();
            for unit in c.encode_utf16(&mut [0; 2]) {
                write!(out, "\\u{unit:04x}")?;
            }
        }
    }
    out.write_all(text.get(done..).unwrap_or_default().as_bytes())
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test")]
mod tests {
    use super::{escape_json, json};

    #[test]
    fn what_a_terminal_acts_on_is_escaped_and_means_the_same() {
        let name = "a\u{9b}2J\u{7f}\u{202e}b\u{61c}é\u{e0041}\"\\\n\u{1b}日";
        let mut out = Vec::new();
        json(&mut out, &[name]).unwrap();
        let out = String::from_utf8(out).unwrap();
        let expected = r#"["a\u009b2J\u007f\u202eb\u061cé\udb40\udc41\"\\\n\u001b日"]"#;
        assert_eq!(out, expected);
        assert_eq!(escape_json("[\n  \"\u{9b}\"\n]"), "[\n  \"\\u009b\"\n]");
        assert_eq!(serde_json::from_str::<Vec<String>>(&out).unwrap(), [name]);
    }
}
