//! The snapshot inside a page: one that `torch.cuda._memory_viz` made, or a report of vramscope.
//!
//! The first holds `const local_files = [{"name": …, "base64": "…"}]`, the second
//! `<script type="text/plain" data-snapshot="…" …>…</script>`. The digits are decoded as they arrive; everything else is
//! skipped.

use base64::Engine;
use base64::alphabet;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};

const LENIENT: GeneralPurpose = GeneralPurpose::new(
    &alphabet::STANDARD,
    GeneralPurposeConfig::new()
        .with_decode_allow_trailing_bits(true)
        .with_decode_padding_mode(DecodePaddingMode::RequireNone),
);

/// What is before the digits in a page of PyTorch, and in a report.
const KEY: &[u8] = b"\"base64\"";
const REPORT: &[u8] = b"<script type=\"text/plain\" data-snapshot=\"";

/// The beginning of a key that a chunk may end with.
const MOST_KEPT: usize = REPORT.len() - 1;

/// Finds and decodes the first embedded file of a page that arrives in pieces.
#[derive(Default)]
pub(super) struct HtmlReader {
    state: State,
    /// Text that may be the beginning of what is looked for, or base64 digits short of a group.
    kept: Vec<u8>,
    decoded: Vec<u8>,
    /// Whether it is a report, and how many recordings it holds besides the first.
    is_report: bool,
    more: usize,
}

#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum State {
    #[default]
    Searching,
    /// After the key, before the opening quote.
    Opening,
    /// In the tag of a report, before its end.
    Tag,
    Decoding,
    Done,
}

impl HtmlReader {
    /// Whether an embedded file was found.
    pub(super) fn found(&self) -> bool {
        matches!(self.state, State::Decoding | State::Done)
    }

    /// Whether the embedded file was there to its end.
    pub(super) fn is_complete(&self) -> bool {
        self.state == State::Done
    }

    /// Recordings of a report that are not read.
    pub(super) fn more(&self) -> usize {
        self.more
    }

    /// Whether the next key in what was kept and a chunk is that of a report, and what of the chunk follows it.
    fn next_key<'a>(&mut self, chunk: &'a [u8]) -> Option<(bool, &'a [u8])> {
        let kept = self.kept.len();
        self.kept.extend_from_slice(chunk.get(..MOST_KEPT).unwrap_or(chunk));
        // A match across the border ends inside the chunk: shorter beginnings alone are kept.
        let across = key(&self.kept).map(|(report, end)| (report, end.saturating_sub(kept)));
        if let Some((is_report, end)) = across.or_else(|| key(chunk)) {
            self.kept.clear();
            return Some((is_report, chunk.get(end..).unwrap_or_default()));
        }
        if chunk.len() > MOST_KEPT {
            self.kept.clear();
            self.kept.extend_from_slice(chunk);
        }
        let surplus = self.kept.len().saturating_sub(MOST_KEPT);
        self.kept.drain(..surplus);
        None
    }

    /// The next decoded bytes.
    pub(super) fn feed(&mut self, mut chunk: &[u8]) -> &[u8] {
        self.decoded.clear();
        while !chunk.is_empty() {
            match self.state {
                State::Searching => match self.next_key(chunk) {
                    Some((is_report, rest)) => {
                        chunk = rest;
                        self.is_report = is_report;
                        self.state = if self.is_report { State::Tag } else { State::Opening };
                    }
                    None => break,
                },
                State::Tag => match memchr::memchr(b'>', chunk) {
                    Some(end) => {
                        chunk = chunk.get(end + 1..).unwrap_or_default();
                        self.state = State::Decoding;
                    }
                    None => break,
                },
                State::Opening => {
                    let (&byte, rest) = chunk.split_first().unwrap_or((&0, &[]));
                    chunk = rest;
                    self.state = match byte {
                        b' ' | b':' | b'\n' | b'\t' => State::Opening,
                        b'"' => State::Decoding,
                        _ => State::Searching,
                    };
                }
                State::Decoding => {
                    let ends = |&byte: &u8| {
                        !(byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/' | b'\\' | b'\n' | b'\r'))
                    };
                    let end = chunk.iter().position(ends);
                    let digits = chunk.get(..end.unwrap_or(chunk.len())).unwrap_or_default();
                    self.kept
                        .extend(digits.iter().copied().filter(|byte| !matches!(byte, b'\\' | b'\n' | b'\r')));
                    if end.is_some() {
                        self.state = State::Done;
                    }
                    self.decode();
                    chunk = chunk.get(digits.len()..).unwrap_or_default();
                }
                // Further recordings of a report are counted.
                State::Done if self.is_report => match self.next_key(chunk) {
                    Some((is_report, rest)) => {
                        chunk = rest;
                        self.more += usize::from(is_report);
                    }
                    None => break,
                },
                State::Done => break,
            }
        }
        &self.decoded
    }

    /// Decodes the groups of four that are complete; at the end also the last, shorter one, of which a
    /// single digit would be no byte.
    fn decode(&mut self) {
        let whole = self.kept.len() / 4 * 4;
        let rest = self.kept.len() - whole;
        let usable = if self.state == State::Done && rest > 1 { whole + rest } else { whole };
        let rest = self.kept.split_off(usable);
        let digits = std::mem::replace(&mut self.kept, rest);
        if self.state == State::Done {
            self.kept.clear();
        }
        // Only digits got here, and any bits that the last one has to spare are allowed.
        let _ = LENIENT.decode_vec(&digits, &mut self.decoded);
    }
}

/// The first key in a text: whether it is that of a report, and where it ends. Both have a quote, so one look at each quote
/// finds the first of the two.
fn key(text: &[u8]) -> Option<(bool, usize)> {
    memchr::memchr_iter(b'"', text).find_map(|at| {
        let (before, after) = text.split_at_checked(at)?;
        match (before.ends_with(REPORT.get(..MOST_KEPT)?), after.starts_with(KEY)) {
            (true, _) => Some((true, at + 1)),
            (_, true) => Some((false, at + KEY.len())),
            _ => None,
        }
    })
}

#[cfg(test)]
mod tests {
    use super::HtmlReader;

    /// Wherever the text is cut, the first recording is decoded and the others are counted.
    #[test]
    fn a_report_is_decoded_in_pieces_of_any_size() {
        let page = "<p data-x=\"\">&quot;base64&quot; a data-snapshot=&quot;</p><script id=\"module\">QUJD</script>\
             <script type=\"text/plain\" data-snapshot=\"a.pickle\" data-rank=\"rank 0\">aGVsbG8=</script>\
             <script type=\"text/plain\" data-snapshot=\"b.pickle\">d29ybGQ=</script>const data = {\"base64\": \"\"}";
        for size in 1..page.len() {
            let mut reader = HtmlReader::default();
            let decoded: Vec<u8> =
                page.as_bytes().chunks(size).flat_map(|chunk| reader.feed(chunk).to_vec()).collect();
            assert_eq!((decoded.as_slice(), reader.more()), (b"hello".as_slice(), 1), "pieces of {size}");
            assert!(reader.found() && reader.is_complete());
        }
    }
}
