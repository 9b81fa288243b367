//! The push parser for JSON.
//!
//! It hands tokens to a [`Sink`]. For a snapshot that is the machine: tokens become the pickle operations
//! that build the same value, so there is one place that knows what a snapshot is; like CPython's pickler it
//! closes a long array every thousand items, which keeps the stack small. Traces of profilers have sinks of
//! their own, which keep a row per event and nothing else.

use vramscope_pickle::Op;

use super::machine::{Fault, Machine};

const BATCH: usize = 1000;

/// Deeper nesting than any snapshot or trace has.
const MAX_DEPTH: usize = 512;

/// The two kinds of containers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Container {
    Object,
    Array,
}

/// Takes the tokens of a JSON text in order; `at` is where they begin.
pub(super) trait Sink {
    fn begin(&mut self, container: Container, at: u64) -> Result<(), Fault>;
    fn end(&mut self, container: Container, at: u64) -> Result<(), Fault>;
    fn key(&mut self, text: &[u8], at: u64) -> Result<(), Fault>;
    fn string(&mut self, text: &[u8], at: u64) -> Result<(), Fault>;
    /// A number as it is written, or `true`, `false`, `null`.
    fn word(&mut self, word: &[u8], at: u64) -> Result<(), Fault>;
    /// Items of a long array between two checks.
    fn pause(&mut self, _at: u64) -> Result<(), Fault> {
        Ok(())
    }
    /// The outermost value is complete.
    fn finish(&mut self, at: u64) -> Result<(), Fault>;
    fn is_done(&self) -> bool;
}

impl Sink for Machine {
    fn begin(&mut self, container: Container, at: u64) -> Result<(), Fault> {
        let op = if container == Container::Object { Op::EmptyDict } else { Op::EmptyList };
        self.apply(op, at)?;
        self.apply(Op::Mark, at)
    }

    fn end(&mut self, container: Container, at: u64) -> Result<(), Fault> {
        self.apply(if container == Container::Object { Op::SetItems } else { Op::Appends }, at)
    }

    fn key(&mut self, text: &[u8], at: u64) -> Result<(), Fault> {
        self.apply(Op::Str(text), at)
    }

    fn string(&mut self, text: &[u8], at: u64) -> Result<(), Fault> {
        self.apply(Op::Str(text), at)
    }

    fn word(&mut self, word: &[u8], at: u64) -> Result<(), Fault> {
        let op = match word {
            b"null" | b"NaN" | b"Infinity" | b"-Infinity" => Op::None,
            b"true" => Op::Bool(true),
            b"false" => Op::Bool(false),
            digits => number(digits).ok_or(Fault::Damaged(NOT_A_VALUE))?,
        };
        self.apply(op, at)
    }

    fn pause(&mut self, at: u64) -> Result<(), Fault> {
        self.apply(Op::Appends, at)?;
        self.apply(Op::Mark, at)
    }

    fn finish(&mut self, at: u64) -> Result<(), Fault> {
        self.apply(Op::Stop, at)
    }

    fn is_done(&self) -> bool {
        self.done
    }
}

pub(super) const NOT_A_VALUE: &str = "a JSON value is expected";

/// Parses JSON that arrives in pieces.
pub(super) struct JsonReader<S> {
    pub(super) sink: S,
    state: State,
    /// Bytes of the token being read: a string's content or a number's digits.
    token: Vec<u8>,
    open: Vec<Open>,
    /// Where the string being read begins.
    string_start: u64,
    pub(super) offset: u64,
}

struct Open {
    container: Container,
    items: usize,
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

impl<S: Sink> JsonReader<S> {
    pub(super) fn new(sink: S) -> Self {
        let state = State::Value;
        Self { sink, state, token: Vec::new(), open: Vec::new(), string_start: 0, offset: 0 }
    }

    /// Parses what has arrived.
    pub(super) fn feed(&mut self, chunk: &[u8]) -> Result<(), Fault> {
        let base = self.offset;
        let mut at = 0;
        while let Some(&byte) = chunk.get(at) {
            if self.sink.is_done() {
                return Ok(());
            }
            self.offset = base + at as u64;
            match self.state {
                State::String { key } => {
                    self.offset = self.string_start;
                    let rest = chunk.get(at..).unwrap_or_default();
                    let plain = memchr::memchr2(b'"', b'\\', rest).unwrap_or(rest.len());
                    let text = rest.get(..plain).unwrap_or_default();
                    at += plain;
                    match chunk.get(at) {
                        Some(b'"') => {
                            at += 1;
                            self.string(key, text)?;
                        }
                        Some(_) => {
                            at += 1;
                            self.token.extend_from_slice(text);
                            self.token.push(b'\\');
                            self.state = State::Escape { key };
                        }
                        None => {
                            self.token.extend_from_slice(text);
                            break;
                        }
                    }
                    continue;
                }
                // Kept as it is until the string is whole, so that nothing depends on where it is cut.
                State::Escape { key } => {
                    self.token.push(byte);
                    self.state = State::String { key };
                }
                State::Word => {
                    let rest = chunk.get(at..).unwrap_or_default();
                    let len = rest.iter().position(|byte| !is_word(*byte)).unwrap_or(rest.len());
                    let digits = rest.get(..len).unwrap_or_default();
                    at += len;
                    self.offset = base + at as u64;
                    if at < chunk.len() {
                        self.word(digits)?;
                    } else {
                        self.token.extend_from_slice(digits);
                    }
                    continue;
                }
                _ if matches!(byte, b' ' | b'\t' | b'\r' | b'\n') => {}
                State::Value => match byte {
                    b'{' => self.begin(Container::Object, State::Key)?,
                    b'[' => self.begin(Container::Array, State::Value)?,
                    b']' => self.end(byte)?,
                    b'"' => self.begin_string(false),
                    _ if is_word(byte) => {
                        self.state = State::Word;
                        continue;
                    }
                    _ => return Err(Fault::Damaged(NOT_A_VALUE)),
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
                State::After => match (byte, self.open.last().map(|open| open.container)) {
                    (b',', Some(Container::Object)) => self.state = State::Key,
                    (b',', Some(Container::Array)) => self.state = State::Value,
                    (b'}' | b']', _) => self.end(byte)?,
                    _ => return Err(Fault::Damaged("a comma or the end of a list is expected")),
                },
            }
            at += 1;
        }
        self.offset = base + at as u64;
        Ok(())
    }

    fn begin(&mut self, container: Container, state: State) -> Result<(), Fault> {
        if self.open.len() >= MAX_DEPTH {
            return Err(Fault::Damaged("lists are nested deeper than in any snapshot"));
        }
        self.sink.begin(container, self.offset)?;
        self.open.push(Open { container, items: 0 });
        self.state = state;
        Ok(())
    }

    fn begin_string(&mut self, key: bool) {
        self.string_start = self.offset;
        self.state = State::String { key };
    }

    fn end(&mut self, byte: u8) -> Result<(), Fault> {
        let container = match (byte, self.open.pop().map(|open| open.container)) {
            (b'}', Some(Container::Object)) => Container::Object,
            (b']', Some(Container::Array)) => Container::Array,
            _ => return Err(Fault::Damaged("a bracket closes nothing")),
        };
        self.sink.end(container, self.offset)?;
        self.value_done()
    }

    fn value_done(&mut self) -> Result<(), Fault> {
        self.state = State::After;
        match self.open.last_mut() {
            None => self.sink.finish(self.offset),
            Some(Open { container: Container::Array, items }) => {
                *items += 1;
                if items.is_multiple_of(BATCH) { self.sink.pause(self.offset) } else { Ok(()) }
            }
            Some(_) => Ok(()),
        }
    }

    /// A string that ends with `last`; what came before is in the token.
    fn string(&mut self, key: bool, last: &[u8]) -> Result<(), Fault> {
        let mut token = std::mem::take(&mut self.token);
        let raw = if token.is_empty() {
            last
        } else {
            token.extend_from_slice(last);
            &token
        };
        let unescaped = memchr::memchr(b'\\', raw).map(|_| unescape(raw));
        let text = unescaped.as_ref().map_or(raw, |text| text.as_bytes());
        let result = match key {
            true => self.sink.key(text, self.offset),
            false => self.sink.string(text, self.offset),
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

    /// A number or name that ends with `last`.
    fn word(&mut self, last: &[u8]) -> Result<(), Fault> {
        let mut token = std::mem::take(&mut self.token);
        let word = if token.is_empty() {
            last
        } else {
            token.extend_from_slice(last);
            &token
        };
        let result = self.sink.word(word, self.offset);
        self.token = token;
        self.token.clear();
        result?;
        self.value_done()
    }
}

fn is_word(byte: u8) -> bool {
    matches!(byte, b'0'..=b'9' | b'a'..=b'z' | b'A'..=b'Z' | b'+' | b'-' | b'.')
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
