//! The push parser for JSON of the same shape.
//!
//! JSON tokens are handed to the machine as the pickle operations that build the same value, so
//! there is one place that knows what a snapshot is. Like CPython's pickler it closes a long array
//! every thousand items, which keeps the stack small.

use vramscope_pickle::Op;

use super::machine::{Fault, Machine};

const BATCH: usize = 1000;

/// Deeper nesting than any snapshot has.
const MAX_DEPTH: usize = 512;

/// Parses JSON that arrives in pieces.
pub(super) struct JsonReader {
    pub(super) machine: Machine,
    state: State,
    /// Bytes of the token being read: a string's content or a number's digits.
    token: Vec<u8>,
    open: Vec<Open>,
    /// Where the string being read begins.
    string_start: u64,
    pub(super) offset: u64,
}

enum Open {
    Object,
    Array { items: usize },
}

#[derive(Clone, Copy)]
enum State {
    /// A value may begin here.
    Value,
    /// A key or the end of an object.
    Key,
    Colon,
    /// A comma or the end of the container.
    After,
    String {
        key: bool,
    },
    Escape {
        key: bool,
    },
    Word,
}

impl JsonReader {
    pub(super) fn new() -> Self {
        let state = State::Value;
        Self {
            machine: Machine::new(),
            state,
            token: Vec::new(),
            open: Vec::new(),
            string_start: 0,
            offset: 0,
        }
    }

    /// Parses as much as there is.
    pub(super) fn feed(&mut self, chunk: &[u8]) -> Result<(), Fault> {
        let base = self.offset;
        let mut at = 0;
        while let Some(&byte) = chunk.get(at) {
            if self.machine.done {
                return Ok(());
            }
            self.offset = base + at as u64;
            match self.state {
                State::String { key } => {
                    self.offset = self.string_start;
                    let rest = chunk.get(at..).unwrap_or_default();
                    let plain = memchr::memchr2(b'"', b'\\', rest).unwrap_or(rest.len());
                    self.token.extend_from_slice(rest.get(..plain).unwrap_or_default());
                    at += plain;
                    match chunk.get(at) {
                        Some(b'"') => {
                            at += 1;
                            self.string(key)?;
                        }
                        Some(_) => {
                            at += 1;
                            self.token.push(b'\\');
                            self.state = State::Escape { key };
                        }
                        None => break,
                    }
                    continue;
                }
                // Kept as it is until the string is whole, so that nothing depends on where it is cut.
                State::Escape { key } => {
                    self.token.push(byte);
                    self.state = State::String { key };
                }
                State::Word => match byte {
                    b'0'..=b'9' | b'a'..=b'z' | b'A'..=b'Z' | b'+' | b'-' | b'.' => self.token.push(byte),
                    _ => {
                        self.word()?;
                        continue;
                    }
                },
                _ if matches!(byte, b' ' | b'\t' | b'\r' | b'\n') => {}
                State::Value => match byte {
                    b'{' => self.begin(Open::Object, Op::EmptyDict, State::Key)?,
                    b'[' => self.begin(Open::Array { items: 0 }, Op::EmptyList, State::Value)?,
                    b']' => self.end(byte)?,
                    b'"' => self.begin_string(false),
                    _ => {
                        self.token.push(byte);
                        self.state = State::Word;
                    }
                },
                State::Key => match byte {
                    b'"' => self.begin_string(true),
                    b'}' => self.end(byte)?,
                    _ => return Err(Fault::Damaged("a key in quotes is expected")),
                },
                State::Colon => match byte {
                    b':' => self.state = State::Value,
                    _ => return Err(Fault::Damaged("a colon is expected")),
                },
                State::After => match (byte, self.open.last_mut()) {
                    (b',', Some(Open::Object)) => self.state = State::Key,
                    (b',', Some(Open::Array { .. })) => self.state = State::Value,
                    (b'}' | b']', _) => self.end(byte)?,
                    _ => return Err(Fault::Damaged("a comma or the end of a list is expected")),
                },
            }
            at += 1;
        }
        self.offset = base + at as u64;
        Ok(())
    }

    fn apply(&mut self, op: Op<'_>) -> Result<(), Fault> {
        self.machine.apply(op, self.offset)
    }

    fn begin(&mut self, open: Open, op: Op<'_>, state: State) -> Result<(), Fault> {
        if self.open.len() >= MAX_DEPTH {
            return Err(Fault::Damaged("lists are nested deeper than in any snapshot"));
        }
        self.apply(op)?;
        self.apply(Op::Mark)?;
        self.open.push(open);
        self.state = state;
        Ok(())
    }

    fn begin_string(&mut self, key: bool) {
        self.string_start = self.offset;
        self.state = State::String { key };
    }

    fn end(&mut self, byte: u8) -> Result<(), Fault> {
        match (byte, self.open.pop()) {
            (b'}', Some(Open::Object)) => self.apply(Op::SetItems)?,
            (b']', Some(Open::Array { .. })) => self.apply(Op::Appends)?,
            _ => return Err(Fault::Damaged("a bracket closes nothing")),
        }
        self.value_done()
    }

    fn value_done(&mut self) -> Result<(), Fault> {
        self.state = State::After;
        match self.open.last_mut() {
            None => self.apply(Op::Stop),
            Some(Open::Array { items }) => {
                *items += 1;
                if items.is_multiple_of(BATCH) {
                    self.apply(Op::Appends)?;
                    self.apply(Op::Mark)?;
                }
                Ok(())
            }
            Some(Open::Object) => Ok(()),
        }
    }

    fn string(&mut self, key: bool) -> Result<(), Fault> {
        let token = std::mem::take(&mut self.token);
        let result = match memchr::memchr(b'\\', &token) {
            None => self.apply(Op::Str(&token)),
            Some(_) => self.apply(Op::Str(unescape(&token).as_bytes())),
        };
        self.token = token;
        self.token.clear();
        result?;
        if key {
            self.state = State::Colon;
            return Ok(());
        }
        self.value_done()
    }

    fn word(&mut self) -> Result<(), Fault> {
        let token = std::mem::take(&mut self.token);
        let op = match token.as_slice() {
            b"null" | b"NaN" | b"Infinity" | b"-Infinity" => Op::None,
            b"true" => Op::Bool(true),
            b"false" => Op::Bool(false),
            digits => number(digits).ok_or(Fault::Damaged("a JSON value is expected"))?,
        };
        self.token = token;
        self.token.clear();
        self.apply(op)?;
        self.value_done()
    }
}

fn number(digits: &[u8]) -> Option<Op<'static>> {
    let text = std::str::from_utf8(digits).ok()?;
    if let Ok(n) = text.parse() {
        return Some(Op::Int(n));
    }
    if let Ok(n) = text.parse() {
        return Some(Op::UInt(n));
    }
    let is_integer = text.strip_prefix('-').unwrap_or(text).bytes().all(|byte| byte.is_ascii_digit());
    match text.parse::<f64>() {
        Ok(_) if is_integer => Some(Op::HugeInt),
        Ok(n) if text.starts_with(|c: char| c.is_ascii_digit() || c == '-') => Some(Op::Float(n)),
        _ => None,
    }
}

/// The content of a JSON string. Unpaired surrogates become U+FFFD, as do other broken escapes.
fn unescape(token: &[u8]) -> String {
    let token = String::from_utf8_lossy(token);
    let mut text = String::with_capacity(token.len());
    let mut rest = token.as_ref();
    while let Some(at) = rest.find('\\') {
        text.push_str(rest.get(..at).unwrap_or_default());
        rest = rest.get(at + 1..).unwrap_or_default();
        let Some(escape) = rest.chars().next() else { break };
        rest = rest.get(escape.len_utf8()..).unwrap_or_default();
        match escape {
            'n' => text.push('\n'),
            't' => text.push('\t'),
            'r' => text.push('\r'),
            'b' => text.push('\u{8}'),
            'f' => text.push('\u{c}'),
            'u' => {
                let unit = |rest: &str| {
                    let digits =
                        rest.get(..4).filter(|digits| digits.bytes().all(|byte| byte.is_ascii_hexdigit()))?;
                    u16::from_str_radix(digits, 16).ok()
                };
                let Some(first) = unit(rest) else {
                    text.push(char::REPLACEMENT_CHARACTER);
                    continue;
                };
                rest = rest.get(4..).unwrap_or_default();
                let second = rest.strip_prefix("\\u").and_then(unit);
                let pair = second.and_then(|second| char::decode_utf16([first, second]).next()?.ok());
                match pair {
                    Some(c) if u32::from(c) > 0xffff => {
                        text.push(c);
                        rest = rest.get(6..).unwrap_or_default();
                    }
                    _ => text.push(char::from_u32(first.into()).unwrap_or(char::REPLACEMENT_CHARACTER)),
                }
            }
            other => text.push(other),
        }
    }
    text.push_str(rest);
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escapes() {
        assert_eq!(unescape(br#"a\n\"\\\u20ac\ud83d\ude00\ud83d!"#), "a\n\"\\€😀\u{fffd}!");
        assert_eq!(unescape(br"\u12"), "\u{fffd}12");
        assert_eq!(unescape(br"\u+073"), "\u{fffd}+073");
    }

    #[test]
    fn numbers() {
        assert_eq!(number(b"-3"), Some(Op::Int(-3)));
        assert_eq!(number(b"18446744073709551615"), Some(Op::UInt(u64::MAX)));
        assert_eq!(number(b"99999999999999999999999"), Some(Op::HugeInt));
        assert_eq!(number(b"1.5e3"), Some(Op::Float(1500.0)));
        assert_eq!(number(b"inf"), None);
        assert_eq!(number(b"x"), None);
    }
}
