//! Random damage to a real file, for robustness tests: what a crash, a bad disk or a fuzzer would leave.
//!
//! Random bytes alone rarely get past the first opcode, so most kinds keep the file plausible: they change
//! lengths, integers and opcodes, or move whole ranges. Up to four kinds are stacked on one file.

#![allow(clippy::ptr_arg, reason = "all kinds of damage have one signature, also those that keep the length")]

use crate::rng::Rng;

type Kind = fn(&mut Vec<u8>, &mut Rng);

const KINDS: [Kind; 14] = [
    flip_bits,
    set_bytes,
    cut,
    insert,
    delete,
    duplicate,
    splice,
    huge_length,
    swap_opcode,
    swap_two_opcodes,
    append,
    huge_integer,
    zero_range,
    memo_reference,
];

/// Every opcode of every protocol.
pub(crate) const OPCODES: &[u8] = b"(.012FIJKLMNPQRSTUVX]abcdeghijlopqrstu}BC)G\
    \x80\x81\x82\x83\x84\x85\x86\x87\x88\x89\x8a\x8b\x8c\x8d\x8e\x8f\x90\x91\x92\x93\x94\x95\x96\x97\x98";

/// The bytes with one to four random mutations; almost always different from the input.
pub fn damage(bytes: &[u8], rng: &mut Rng) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    for _ in 0..*rng.pick(&[1, 1, 1, 2, 3, 4]) {
        rng.pick(&KINDS)(&mut bytes, rng);
    }
    bytes
}

/// Words that readers look for, of every format.
const WORDS: &[&[u8]] = &[
    b"\"traceEvents\"",
    b"\"device_traces\"",
    b"\"segments\"",
    b"\"external_annotations\"",
    b"\"frames\"",
    b"\"[memory]\"",
    b"\"ph\": \"X\"",
    b"\"Bytes\"",
    b"\"Addr\"",
    b"alloc",
    b"free_requested",
    b"free_completed",
    b"segment_alloc",
    b"segment_free",
    b"segment_map",
    b"segment_unmap",
    b"oom",
    b"START",
    b"END",
    b"null",
    b"{}",
    b"[]",
    b"[[",
    b"]]",
    b",",
    b":",
    b"\"",
    b"\\u",
    b"\n",
    b"\t",
    b"1e308",
    b"-1",
    b"18446744073709551615",
    b"-9223372036854775808",
    b"0.5",
    b"OP_MEMORY",
    b"STRING_IDS",
    b"MEMORY_RECORD",
    b"CREATE TABLE",
    b"Name,Size(KB),Allocation Time(us)",
    b"\xff\xff\xff\xff",
];

/// The bytes with one to four random mutations of any format's kind; `other` is a file to take pieces from.
pub fn mutate(bytes: &[u8], other: &[u8], rng: &mut Rng) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    for _ in 0..*rng.pick(&[1, 1, 1, 2, 3, 4]) {
        match rng.below(10) {
            0 => put_word(&mut bytes, rng),
            1 => change_digits(&mut bytes, rng),
            2 => {
                let from = range(other, rng);
                let to = range(&bytes, rng);
                bytes.splice(to, other[from].iter().copied());
            }
            3 => big_endian(&mut bytes, rng),
            _ => rng.pick(&KINDS)(&mut bytes, rng),
        }
    }
    bytes
}

/// Puts a word somewhere, or over what is there.
fn put_word(bytes: &mut Vec<u8>, rng: &mut Rng) {
    let word = *rng.pick(WORDS);
    let at = rng.index(bytes.len() + 1);
    let end = if rng.percent(50) { at } else { (at + word.len()).min(bytes.len()) };
    bytes.splice(at..end, word.iter().copied());
}

/// Replaces a number that is written in digits.
fn change_digits(bytes: &mut Vec<u8>, rng: &mut Rng) {
    let Some(at) = find(bytes, rng, b"0123456789") else { return };
    let len = bytes[at..].iter().take_while(|byte| byte.is_ascii_digit()).count();
    let numbers: [&[u8]; 9] = [
        b"0",
        b"1",
        b"-1",
        b"281474976710656",
        b"9223372036854775807",
        b"18446744073709551616",
        b"1e18",
        b"0.1",
        b"",
    ];
    bytes.splice(at..at + len, rng.pick(&numbers).iter().copied());
}

/// Overwrites two or four bytes as databases write their numbers.
fn big_endian(bytes: &mut Vec<u8>, rng: &mut Rng) {
    if bytes.is_empty() {
        return;
    }
    let at = position(bytes.len(), rng);
    let value = if rng.percent(50) { rng.below(64) as u32 } else { rng.next_u64() as u32 };
    let width = *rng.pick(&[2, 4]);
    overwrite(bytes, at, &value.to_be_bytes()[4 - width..]);
}

fn flip_bits(bytes: &mut Vec<u8>, rng: &mut Rng) {
    for _ in 0..*rng.pick(&[1, 1, 2, 8, 64]) {
        change_byte(bytes, rng, |byte, rng| byte ^ (1 << rng.below(8)));
    }
}

fn set_bytes(bytes: &mut Vec<u8>, rng: &mut Rng) {
    for _ in 0..*rng.pick(&[1, 1, 2, 8]) {
        change_byte(bytes, rng, |_, rng| *rng.pick(&[0x00, 0x01, 0x7f, 0x80, 0xfe, 0xff, b'\n', b'.', b'(']));
    }
}

fn cut(bytes: &mut Vec<u8>, rng: &mut Rng) {
    bytes.truncate(rng.index(bytes.len() + 1));
}

fn insert(bytes: &mut Vec<u8>, rng: &mut Rng) {
    let at = rng.index(bytes.len() + 1);
    let junk = junk(rng, 64);
    bytes.splice(at..at, junk);
}

fn delete(bytes: &mut Vec<u8>, rng: &mut Rng) {
    let range = range(bytes, rng);
    bytes.drain(range);
}

fn duplicate(bytes: &mut Vec<u8>, rng: &mut Rng) {
    let range = range(bytes, rng);
    let copy = bytes[range.clone()].to_vec();
    for _ in 0..*rng.pick(&[1, 1, 3, 20]) {
        bytes.splice(range.end..range.end, copy.iter().copied());
    }
}

/// Copies a range over another place.
fn splice(bytes: &mut Vec<u8>, rng: &mut Rng) {
    let range = range(bytes, rng);
    let copy = bytes[range].to_vec();
    let at = rng.index(bytes.len() + 1);
    let end = if rng.percent(50) { at } else { (at + copy.len()).min(bytes.len()) };
    bytes.splice(at..end, copy);
}

/// Overwrites the length behind an opcode that has one.
fn huge_length(bytes: &mut Vec<u8>, rng: &mut Rng) {
    let Some(at) = find(bytes, rng, b"XBTC\x8c\x8d\x8e\x8a\x8b\x95\x96U") else { return };
    let width = match bytes[at] {
        0x8d | 0x8e | 0x95 | 0x96 => 8,
        b'X' | b'B' | b'T' | 0x8b => 4,
        _ => 1,
    };
    let value =
        *rng.pick(&[u64::MAX, i64::MAX as u64, 1 << 63, 1 << 60, 0x7fff_ffff, 0xffff_ffff, 1 << 16, 0]);
    overwrite(bytes, at + 1, &value.to_le_bytes()[..width]);
}

fn swap_opcode(bytes: &mut Vec<u8>, rng: &mut Rng) {
    if let Some(at) = find(bytes, rng, OPCODES) {
        bytes[at] = *rng.pick(OPCODES);
    }
}

fn swap_two_opcodes(bytes: &mut Vec<u8>, rng: &mut Rng) {
    if let (Some(a), Some(b)) = (find(bytes, rng, OPCODES), find(bytes, rng, OPCODES)) {
        bytes.swap(a, b);
    }
}

fn append(bytes: &mut Vec<u8>, rng: &mut Rng) {
    if rng.percent(30) {
        let range = range(bytes, rng);
        bytes.extend_from_within(range);
    } else {
        bytes.extend(junk(rng, 1000));
    }
}

/// Replaces an integer by one at the edge of what 64 bits hold, of the same or another width.
fn huge_integer(bytes: &mut Vec<u8>, rng: &mut Rng) {
    let Some(at) = find(bytes, rng, b"KMJ\x8a") else { return };
    let old = match bytes[at] {
        b'K' => 2,
        b'M' => 3,
        b'J' => 5,
        _ => 2 + usize::from(bytes.get(at + 1).copied().unwrap_or(0)),
    };
    let edges =
        [1i128 << 63, (1 << 63) - 1, -(1 << 63), (1 << 64) - 1, 1 << 64, -1, 0, 1 << 100, (1 << 32) - 1];
    let value = *rng.pick(&edges);
    let mut new = vec![0x8a, 16];
    new.extend(value.to_le_bytes());
    bytes.splice(at..(at + old).min(bytes.len()), new);
}

fn zero_range(bytes: &mut Vec<u8>, rng: &mut Rng) {
    let range = range(bytes, rng);
    bytes[range].fill(0);
}

/// Sends a memo reference elsewhere.
fn memo_reference(bytes: &mut Vec<u8>, rng: &mut Rng) {
    let Some(at) = find(bytes, rng, b"hjqr") else { return };
    let value = if rng.percent(50) { rng.next_u64() } else { rng.below(1000) };
    let width = if matches!(bytes[at], b'h' | b'q') { 1 } else { 4 };
    overwrite(bytes, at + 1, &value.to_le_bytes()[..width]);
}

fn change_byte(bytes: &mut [u8], rng: &mut Rng, change: impl Fn(u8, &mut Rng) -> u8) {
    if !bytes.is_empty() {
        let at = position(bytes.len(), rng);
        bytes[at] = change(bytes[at], rng);
    }
}

/// A place in the file; its first kilobyte, where the structure is set up, is hit more often.
fn position(len: usize, rng: &mut Rng) -> usize {
    if rng.percent(25) { rng.index(len.min(1024)) } else { rng.index(len) }
}

fn range(bytes: &[u8], rng: &mut Rng) -> std::ops::Range<usize> {
    if bytes.is_empty() {
        return 0..0;
    }
    let start = position(bytes.len(), rng);
    let len = *rng.pick(&[1, 2, 9, 64, 1000, 66_000]);
    start..start + rng.index(len.min(bytes.len() - start)) + 1
}

/// The first of these bytes at or after a random place.
fn find(bytes: &[u8], rng: &mut Rng, wanted: &[u8]) -> Option<usize> {
    if bytes.is_empty() {
        return None;
    }
    let start = position(bytes.len(), rng);
    bytes[start..].iter().position(|byte| wanted.contains(byte)).map(|at| start + at)
}

fn overwrite(bytes: &mut [u8], at: usize, new: &[u8]) {
    let end = (at + new.len()).min(bytes.len());
    if at < end {
        bytes[at..end].copy_from_slice(&new[..end - at]);
    }
}

fn junk(rng: &mut Rng, most: u64) -> Vec<u8> {
    let opcodes = rng.percent(50);
    (0..rng.range(1, most)).map(|_| if opcodes { *rng.pick(OPCODES) } else { rng.next_u64() as u8 }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::value::{event, snapshot};
    use crate::{Dialect, pickle};

    #[test]
    fn changes_almost_every_file_and_repeats_for_a_seed() {
        let file = pickle(&snapshot([], [[event("alloc", 1 << 40, 512)]]).into(), Dialect::Protocol(4));
        let changed = (0..1000).filter(|seed| damage(&file, &mut Rng::new(*seed)) != file).count();
        assert!(changed > 950, "{changed}");
        assert_eq!(damage(&file, &mut Rng::new(3)), damage(&file, &mut Rng::new(3)));
    }

    #[test]
    fn every_kind_accepts_every_short_file() {
        for kind in KINDS.into_iter().chain([put_word as Kind, change_digits, big_endian]) {
            for len in 0..20 {
                for seed in 0..50 {
                    let mut bytes: Vec<u8> =
                        (0..len).map(|i| OPCODES[(i * 7 + seed) % OPCODES.len()]).collect();
                    kind(&mut bytes, &mut Rng::new(seed as u64));
                }
            }
        }
    }
}
