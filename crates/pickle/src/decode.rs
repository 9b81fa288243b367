//! One operation off the front of a byte slice.

use crate::opcode::*;

/// One pickle operation with its operand, borrowed from the input.
///
/// Opcodes that mean the same are one operation: `BININT`, `BININT1`, `LONG1` and the text forms are
/// all [`Op::Int`]; every spelling of a text string that needs no unescaping is [`Op::Str`].
#[derive(Clone, Copy, Debug, PartialEq)]
#[allow(missing_docs, reason = "operands are named as in `pickletools`")]
pub enum Op<'a> {
    Proto(u8),
    /// Length of the frame that follows. A hint to readers that buffer; safe to ignore.
    Frame(u64),
    Stop,
    Mark,
    Pop,
    PopMark,
    Dup,
    None,
    Bool(bool),
    Int(i64),
    /// An integer in 2^63 ..= 2^64-1, which does not fit [`Op::Int`].
    UInt(u64),
    /// An integer beyond 64 bits.
    HugeInt,
    Float(f64),
    /// Text, in UTF-8 as far as the writer kept to it.
    Str(&'a [u8]),
    /// The operand of `STRING`: a quoted Python literal. See [`crate::text::unquote`].
    Quoted(&'a [u8]),
    /// The operand of `UNICODE`: raw-unicode-escape. See [`crate::text::unescape_raw_unicode`].
    RawUnicode(&'a [u8]),
    Bytes(&'a [u8]),
    EmptyDict,
    EmptyList,
    EmptyTuple,
    EmptySet,
    Dict,
    List,
    /// A tuple of everything above the mark.
    Tuple,
    /// A tuple of the top one, two or three values.
    TupleOf(u8),
    FrozenSet,
    Append,
    Appends,
    AddItems,
    SetItem,
    SetItems,
    /// Remember the top of the stack under this number.
    Put(u64),
    /// Remember the top of the stack under the next number.
    Memoize,
    Get(u64),
    Global {
        module: &'a [u8],
        name: &'a [u8],
    },
    Inst {
        module: &'a [u8],
        name: &'a [u8],
    },
    StackGlobal,
    Reduce,
    Build,
    Obj,
    NewObj,
    NewObjEx,
    /// `EXT1`, `EXT2`, `EXT4`: an object by its number in Python's extension registry.
    Ext(u32),
    /// `PERSID` or `BINPERSID`: an object kept outside the pickle.
    PersistentId,
    /// `NEXT_BUFFER` or `READONLY_BUFFER`: data kept outside the pickle.
    Buffer,
}

/// Why the bytes at the front are not an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DecodeError {
    /// No pickle protocol up to 5 has this opcode.
    #[error("unknown pickle opcode 0x{0:02x}")]
    UnknownOpcode(u8),
    /// `PROTO` with a version that does not exist yet.
    #[error("pickle protocol {0}; protocols 0 to 5 are known")]
    UnknownProtocol(u8),
    /// A protocol 0 operand is not the number it should be.
    #[error("a number was expected after opcode '{}'", char::from(*.0))]
    BadNumber(u8),
    /// A length field with its sign bit set.
    #[error("a negative length after opcode 0x{0:02x}")]
    NegativeLength(u8),
}

/// The operation at the front of `input` and its length in bytes; `None` if `input` ends inside it.
#[inline]
pub fn decode(input: &[u8]) -> Result<Option<(Op<'_>, usize)>, DecodeError> {
    let Some((&opcode, rest)) = input.split_first() else { return Ok(None) };
    let simple = |op| Ok(Some((op, 1)));
    match opcode {
        BINGET => Ok(rest.first().map(|&n| (Op::Get(n.into()), 2))),
        LONG_BINGET => Ok(u32_le(rest).map(|n| (Op::Get(n.into()), 5))),
        MEMOIZE => simple(Op::Memoize),
        LONG1 => Ok(rest
            .split_first()
            .and_then(|(&n, rest)| rest.get(..n.into()))
            .map(|digits| (little_endian_int(digits), 2 + digits.len()))),
        BININT1 => Ok(rest.first().map(|&n| (Op::Int(n.into()), 2))),
        BININT2 => Ok(rest.first_chunk().map(|&n| (Op::Int(u16::from_le_bytes(n).into()), 3))),
        BININT => Ok(rest.first_chunk().map(|&n| (Op::Int(i32::from_le_bytes(n).into()), 5))),
        SHORT_BINUNICODE => Ok(short(rest).map(|s| (Op::Str(s), 2 + s.len()))),
        BINUNICODE => Ok(counted4(rest).map(|s| (Op::Str(s), 5 + s.len()))),
        BINUNICODE8 => Ok(counted8(rest).map(|s| (Op::Str(s), 9 + s.len()))),
        MARK => simple(Op::Mark),
        EMPTY_DICT => simple(Op::EmptyDict),
        EMPTY_LIST => simple(Op::EmptyList),
        SETITEMS => simple(Op::SetItems),
        APPENDS => simple(Op::Appends),
        SETITEM => simple(Op::SetItem),
        APPEND => simple(Op::Append),
        TUPLE2 => simple(Op::TupleOf(2)),
        BINPUT => Ok(rest.first().map(|&n| (Op::Put(n.into()), 2))),
        LONG_BINPUT => Ok(u32_le(rest).map(|n| (Op::Put(n.into()), 5))),
        NONE => simple(Op::None),
        NEWTRUE => simple(Op::Bool(true)),
        NEWFALSE => simple(Op::Bool(false)),
        BINFLOAT => Ok(rest.first_chunk().map(|&f| (Op::Float(f64::from_be_bytes(f)), 9))),
        FRAME => Ok(rest.first_chunk().map(|&n| (Op::Frame(u64::from_le_bytes(n)), 9))),
        PROTO => match rest.first() {
            None => Ok(None),
            Some(&version @ 0..=5) => Ok(Some((Op::Proto(version), 2))),
            Some(&version) => Err(DecodeError::UnknownProtocol(version)),
        },
        STOP => simple(Op::Stop),
        _ => decode_rare(opcode, rest),
    }
}

/// What snapshots of today hardly ever contain: text opcodes, byte strings, and all that runs code.
#[cold]
#[inline(never)]
fn decode_rare(opcode: u8, rest: &[u8]) -> Result<Option<(Op<'_>, usize)>, DecodeError> {
    let simple = |op| Ok(Some((op, 1)));
    let one_line = |make: fn(&[u8]) -> Option<Op<'_>>| match line(rest) {
        None => Ok(None),
        Some(text) => match make(text) {
            Some(op) => Ok(Some((op, text.len() + 2))),
            None => Err(DecodeError::BadNumber(opcode)),
        },
    };
    match opcode {
        POP => simple(Op::Pop),
        POP_MARK => simple(Op::PopMark),
        DUP => simple(Op::Dup),
        EMPTY_TUPLE => simple(Op::EmptyTuple),
        EMPTY_SET => simple(Op::EmptySet),
        DICT => simple(Op::Dict),
        LIST => simple(Op::List),
        TUPLE => simple(Op::Tuple),
        TUPLE1 => simple(Op::TupleOf(1)),
        TUPLE3 => simple(Op::TupleOf(3)),
        FROZENSET => simple(Op::FrozenSet),
        ADDITEMS => simple(Op::AddItems),
        REDUCE => simple(Op::Reduce),
        BUILD => simple(Op::Build),
        OBJ => simple(Op::Obj),
        NEWOBJ => simple(Op::NewObj),
        NEWOBJ_EX => simple(Op::NewObjEx),
        STACK_GLOBAL => simple(Op::StackGlobal),
        BINPERSID => simple(Op::PersistentId),
        NEXT_BUFFER | READONLY_BUFFER => simple(Op::Buffer),
        INT => one_line(|text| match text {
            b"00" => Some(Op::Bool(false)),
            b"01" => Some(Op::Bool(true)),
            _ => decimal(text),
        }),
        LONG => one_line(|text| decimal(text.strip_suffix(b"L").unwrap_or(text))),
        FLOAT => one_line(|text| std::str::from_utf8(text).ok()?.trim().parse().ok().map(Op::Float)),
        GET => one_line(|text| memo_number(text).map(Op::Get)),
        PUT => one_line(|text| memo_number(text).map(Op::Put)),
        STRING => one_line(|text| Some(Op::Quoted(text))),
        UNICODE => one_line(|text| Some(Op::RawUnicode(text))),
        PERSID => one_line(|_| Some(Op::PersistentId)),
        GLOBAL => Ok(two_lines(rest).map(|(module, name, len)| (Op::Global { module, name }, len))),
        INST => Ok(two_lines(rest).map(|(module, name, len)| (Op::Inst { module, name }, len))),
        SHORT_BINSTRING => Ok(short(rest).map(|s| (Op::Str(s), 2 + s.len()))),
        SHORT_BINBYTES => Ok(short(rest).map(|s| (Op::Bytes(s), 2 + s.len()))),
        BINSTRING => {
            signed_length(rest, opcode)?;
            Ok(counted4(rest).map(|s| (Op::Str(s), 5 + s.len())))
        }
        BINBYTES => Ok(counted4(rest).map(|s| (Op::Bytes(s), 5 + s.len()))),
        BINBYTES8 | BYTEARRAY8 => Ok(counted8(rest).map(|s| (Op::Bytes(s), 9 + s.len()))),
        LONG4 => {
            signed_length(rest, opcode)?;
            Ok(counted4(rest).map(|s| (little_endian_int(s), 5 + s.len())))
        }
        EXT1 => Ok(rest.first().map(|&n| (Op::Ext(n.into()), 2))),
        EXT2 => Ok(rest.first_chunk().map(|&n| (Op::Ext(u16::from_le_bytes(n).into()), 3))),
        EXT4 => Ok(u32_le(rest).map(|n| (Op::Ext(n), 5))),
        _ => Err(DecodeError::UnknownOpcode(opcode)),
    }
}

/// A two's-complement integer of any length, as `LONG1` and `LONG4` store it.
#[inline]
pub fn little_endian_int(digits: &[u8]) -> Op<'static> {
    let mut word = [0; 8];
    if let Some(head) = word.get_mut(..digits.len()) {
        head.copy_from_slice(digits);
        let unused = 64 - 8 * digits.len() as u32;
        // Shifting up and back extends the sign bit; an empty operand is zero.
        let value = i64::from_le_bytes(word).checked_shl(unused).unwrap_or(0);
        return Op::Int(value.checked_shr(unused).unwrap_or(0));
    }
    let (low, high) = digits.split_at(8);
    word.copy_from_slice(low);
    let value = u64::from_le_bytes(word);
    let negative = value >> 63 == 1;
    match high {
        _ if high.iter().all(|&b| b == 0) && negative => Op::UInt(value),
        _ if high.iter().all(|&b| b == 0) && !negative => Op::Int(value as i64),
        _ if high.iter().all(|&b| b == 0xff) && negative => Op::Int(value as i64),
        _ => Op::HugeInt,
    }
}

fn decimal(text: &[u8]) -> Option<Op<'static>> {
    let text = std::str::from_utf8(text).ok()?.trim();
    if let Ok(n) = text.parse() {
        return Some(Op::Int(n));
    }
    if let Ok(n) = text.parse() {
        return Some(Op::UInt(n));
    }
    let digits = text.strip_prefix('-').unwrap_or(text);
    (!digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit())).then_some(Op::HugeInt)
}

fn memo_number(text: &[u8]) -> Option<u64> {
    std::str::from_utf8(text).ok()?.trim().parse().ok()
}

#[inline]
fn u32_le(bytes: &[u8]) -> Option<u32> {
    bytes.first_chunk().map(|&n| u32::from_le_bytes(n))
}

fn short(bytes: &[u8]) -> Option<&[u8]> {
    let (&len, bytes) = bytes.split_first()?;
    bytes.get(..len.into())
}

fn counted4(bytes: &[u8]) -> Option<&[u8]> {
    let (len, bytes) = bytes.split_first_chunk()?;
    bytes.get(..usize::try_from(u32::from_le_bytes(*len)).ok()?)
}

fn counted8(bytes: &[u8]) -> Option<&[u8]> {
    let (len, bytes) = bytes.split_first_chunk()?;
    bytes.get(..usize::try_from(u64::from_le_bytes(*len)).ok()?)
}

fn signed_length(bytes: &[u8], opcode: u8) -> Result<(), DecodeError> {
    match u32_le(bytes) {
        Some(n) if n > i32::MAX as u32 => Err(DecodeError::NegativeLength(opcode)),
        _ => Ok(()),
    }
}

/// The text up to the next newline, without it.
fn line(bytes: &[u8]) -> Option<&[u8]> {
    let end = memchr::memchr(b'\n', bytes)?;
    bytes.get(..end)
}

fn two_lines(bytes: &[u8]) -> Option<(&[u8], &[u8], usize)> {
    let first = line(bytes)?;
    let second = line(bytes.get(first.len() + 1..)?)?;
    Some((first, second, first.len() + second.len() + 3))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn op(bytes: &[u8]) -> Op<'_> {
        let (op, len) = decode(bytes).unwrap().unwrap();
        assert_eq!(len, bytes.len(), "{op:?} must use all of {bytes:?}");
        op
    }

    #[test]
    fn integers_of_every_spelling() {
        assert_eq!(op(b"K\xff"), Op::Int(255));
        assert_eq!(op(b"M\x01\x02"), Op::Int(0x0201));
        assert_eq!(op(b"J\xff\xff\xff\xff"), Op::Int(-1));
        assert_eq!(op(b"I-12\n"), Op::Int(-12));
        assert_eq!(op(b"I01\n"), Op::Bool(true));
        assert_eq!(op(b"L18446744073709551615L\n"), Op::UInt(u64::MAX));
        assert_eq!(op(b"L18446744073709551616L\n"), Op::HugeInt);
        assert_eq!(op(b"\x8a\x00"), Op::Int(0));
        assert_eq!(op(b"\x8a\x01\xff"), Op::Int(-1));
        // CPython writes 2^47 in 6 bytes and needs a ninth for an address of 2^63.
        assert_eq!(op(b"\x8a\x07\x00\x00\x00\x00\x00\x80\x00"), Op::Int(1 << 47));
        assert_eq!(op(b"\x8a\x09\x00\x00\x00\x00\x00\x00\x00\x80\x00"), Op::UInt(1 << 63));
        assert_eq!(op(b"\x8a\x09\x00\x00\x00\x00\x00\x00\x00\x00\x01"), Op::HugeInt);
        assert_eq!(op(b"\x8b\x02\x00\x00\x00\x00\x80"), Op::Int(-32768));
    }

    #[test]
    fn strings_of_every_spelling() {
        assert_eq!(op(b"\x8c\x02hi"), Op::Str(b"hi"));
        assert_eq!(op(b"X\x02\0\0\0hi"), Op::Str(b"hi"));
        assert_eq!(op(b"\x8d\x02\0\0\0\0\0\0\0hi"), Op::Str(b"hi"));
        assert_eq!(op(b"S'hi'\n"), Op::Quoted(b"'hi'"));
        assert_eq!(op(b"Vhi\n"), Op::RawUnicode(b"hi"));
    }

    #[test]
    fn an_operation_cut_anywhere_asks_for_more() {
        let whole: [&[u8]; 7] = [
            b"X\x02\0\0\0hi",
            b"\x8a\x03abc",
            b"cos\nsystem\n",
            b"j\x01\x02\x03\x04",
            b"L12L\n",
            b"G\0\0\0\0\0\0\0\0",
            b"\x8b\x02\0\0\0ab",
        ];
        for bytes in whole {
            for cut in 0..bytes.len() {
                assert_eq!(decode(&bytes[..cut]), Ok(None), "{bytes:?} cut at {cut}");
            }
        }
    }

    #[test]
    fn what_is_no_pickle_is_refused() {
        assert_eq!(decode(b"\x1f\x8b"), Err(DecodeError::UnknownOpcode(0x1f)));
        assert_eq!(decode(b"\x80\x06"), Err(DecodeError::UnknownProtocol(6)));
        assert_eq!(decode(b"Inonsense\n"), Err(DecodeError::BadNumber(b'I')));
        assert_eq!(decode(b"\x8b\xff\xff\xff\xff"), Err(DecodeError::NegativeLength(LONG4)));
    }
}
