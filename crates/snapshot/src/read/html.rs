//! The snapshot inside a page that `torch.cuda._memory_viz` made.
//!
//! The page holds `const local_files = [{"name": …, "base64": "…"}]`. The text between the quotes is
//! decoded as it arrives; everything else is skipped.

use base64::Engine;
use base64::alphabet;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};

const LENIENT: GeneralPurpose = GeneralPurpose::new(
    &alphabet::STANDARD,
    GeneralPurposeConfig::new()
        .with_decode_allow_trailing_bits(true)
        .with_decode_padding_mode(DecodePaddingMode::RequireNone),
);

const KEY: &[u8] = b"\"base64\"";

/// Finds and decodes the first embedded file of a page that arrives in pieces.
#[derive(Default)]
pub(super) struct HtmlReader {
    state: State,
    /// Text that may be the beginning of what is looked for, or base64 digits short of a group.
    kept: Vec<u8>,
    decoded: Vec<u8>,
}

#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum State {
    #[default]
    Searching,
    /// After the key, before the opening quote.
    Opening,
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

    /// The next decoded bytes.
    pub(super) fn feed(&mut self, mut chunk: &[u8]) -> &[u8] {
        self.decoded.clear();
        while !chunk.is_empty() {
            match self.state {
                State::Searching => {
                    let kept = self.kept.len();
                    self.kept.extend_from_slice(chunk);
                    match memchr::memmem::find(&self.kept, KEY) {
                        Some(at) => {
                            // The match ends inside the chunk: shorter beginnings alone are kept.
                            chunk = chunk.get((at + KEY.len()).saturating_sub(kept)..).unwrap_or_default();
                            self.kept.clear();
                            self.state = State::Opening;
                        }
                        None => {
                            let surplus = self.kept.len().saturating_sub(KEY.len() - 1);
                            self.kept.drain(..surplus);
                            break;
                        }
                    }
                }
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
                    break;
                }
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
        // Only digits got here, and any bits that the last one has to spare are allowed.
        let _ = LENIENT.decode_vec(&digits, &mut self.decoded);
    }
}
