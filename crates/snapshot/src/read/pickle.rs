//! The push parser for pickles: bytes in chunks of any size into the machine.

use vramscope_pickle::{decode, opcode};

use super::machine::{Fault, Machine};

/// Parses a pickle that arrives in pieces. Operations that a chunk ends in are kept until the rest of
/// them arrives; everything else is parsed where it lies, without copying.
pub(super) struct PickleReader {
    pub(super) machine: Machine,
    /// The start of an operation whose end has not arrived.
    pending: Vec<u8>,
    /// Bytes parsed so far.
    pub(super) offset: u64,
    /// Bytes after the end, and whether any is more than padding.
    after_end: u64,
    more_than_padding: bool,
}

impl PickleReader {
    pub(super) fn new() -> Self {
        Self {
            machine: Machine::new(),
            pending: Vec::new(),
            offset: 0,
            after_end: 0,
            more_than_padding: false,
        }
    }

    /// Bytes of an operation whose end has not arrived.
    pub(super) fn has_partial_operation(&self) -> bool {
        !self.pending.is_empty()
    }

    /// Parses what has arrived.
    pub(super) fn feed(&mut self, mut chunk: &[u8]) -> Result<(), Fault> {
        if self.machine.done {
            self.note_rest(chunk);
            return Ok(());
        }
        // Join the kept bytes with ever larger pieces of the chunk until the operation is complete:
        // each byte is copied a constant number of times, however small the chunks are.
        let mut piece = 64;
        while !self.pending.is_empty() && !chunk.is_empty() && !self.machine.done {
            let kept = self.pending.len();
            let (head, rest) = chunk.split_at(piece.min(chunk.len()));
            self.pending.extend_from_slice(head);
            if self.pending.first().is_some_and(ends_with_newline) && memchr::memchr(b'\n', head).is_none() {
                // Looking through all of a long line again for its end would take quadratic time.
                chunk = rest;
                piece *= 2;
                continue;
            }
            let pending = std::mem::take(&mut self.pending);
            let used = self.run(&pending)?;
            if used >= kept {
                // Past the kept bytes: go on inside the chunk itself.
                chunk = chunk.get(used - kept..).unwrap_or_default();
                break;
            }
            self.pending = pending;
            self.pending.drain(..used);
            chunk = rest;
            piece *= 2;
        }
        if self.pending.is_empty() && !self.machine.done {
            let used = self.run(chunk)?;
            let rest = chunk.get(used..).unwrap_or_default();
            match self.machine.done {
                true => self.note_rest(rest),
                false => self.pending.extend_from_slice(rest),
            }
        } else if self.machine.done {
            self.note_rest(chunk);
        }
        Ok(())
    }

    fn note_rest(&mut self, rest: &[u8]) {
        self.after_end += rest.len() as u64;
        self.more_than_padding |= rest.iter().any(|&byte| byte != 0);
    }

    /// What is to be said about bytes after the end, if they are more than padding.
    pub(super) fn warning(&self) -> Option<String> {
        self.more_than_padding.then(|| {
            format!(
                "{} bytes follow the end of the snapshot at byte {}; they are not read",
                self.after_end, self.offset
            )
        })
    }

    /// Runs the complete operations of `input` and says how many bytes they are.
    fn run(&mut self, input: &[u8]) -> Result<usize, Fault> {
        let base = self.offset;
        let mut at = 0;
        let result = loop {
            let Some(&next) = input.get(at) else { break Ok(at) };
            let offset = base + at as u64;
            if next == opcode::EMPTY_DICT
                && let Some(end) = self.machine.fast_event(input, at, offset)
            {
                at = end;
                continue;
            }
            match decode(input.get(at..).unwrap_or_default()) {
                Ok(Some((op, len))) => {
                    if let Err(fault) = self.machine.apply(op, offset) {
                        break Err(fault);
                    }
                    at += len;
                    if self.machine.done {
                        break Ok(at);
                    }
                }
                Ok(None) => break Ok(at),
                Err(error) => break Err(error.into()),
            }
        };
        self.offset = base + at as u64;
        result
    }
}

/// Whether the operand of an opcode is text that ends with its line.
fn ends_with_newline(opcode: &u8) -> bool {
    use opcode::{FLOAT, GET, GLOBAL, INST, INT, LONG, PERSID, PUT, STRING, UNICODE};
    matches!(*opcode, FLOAT | GET | GLOBAL | INST | INT | LONG | PERSID | PUT | STRING | UNICODE)
}
