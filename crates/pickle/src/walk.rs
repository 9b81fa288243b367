//! A pickle stepped over as fast as it can be.

use crate::decode::{DecodeError, decode};
use crate::opcode::*;

/// What [`walk`] saw.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Walk {
    /// Operations, `STOP` included.
    pub operations: u64,
    /// Bytes up to and including `STOP`.
    pub bytes: u64,
}

/// Length of each opcode with its operand where that is fixed; 0 where it is not.
const FIXED: [u8; 256] = {
    let mut len = [0; 256];
    let single = [
        MARK,
        POP,
        POP_MARK,
        DUP,
        NONE,
        APPEND,
        APPENDS,
        SETITEM,
        SETITEMS,
        EMPTY_DICT,
        EMPTY_LIST,
        EMPTY_TUPLE,
        DICT,
        LIST,
        TUPLE,
        TUPLE1,
        TUPLE2,
        TUPLE3,
        NEWTRUE,
        NEWFALSE,
        MEMOIZE,
    ];
    let mut i = 0;
    while i < single.len() {
        len[single[i] as usize] = 1;
        i += 1;
    }
    len[BINGET as usize] = 2;
    len[BINPUT as usize] = 2;
    len[BININT1 as usize] = 2;
    len[BININT2 as usize] = 3;
    len[LONG_BINGET as usize] = 5;
    len[LONG_BINPUT as usize] = 5;
    len[BININT as usize] = 5;
    len[BINFLOAT as usize] = 9;
    len[FRAME as usize] = 9;
    len
};

/// Steps over the operations of a whole pickle up to `STOP`, or up to where the input ends.
///
/// Nothing is kept and no operand is read but lengths: no reader of these bytes that looks at every
/// operation can be faster, so this is the yardstick of the benchmarks.
pub fn walk(input: &[u8]) -> Result<Walk, DecodeError> {
    let mut walk = Walk::default();
    let mut at = 0;
    while let Some(&opcode) = input.get(at) {
        let fixed = FIXED[opcode as usize];
        let len = if fixed != 0 {
            usize::from(fixed)
        } else if let (LONG1 | SHORT_BINUNICODE, Some(&n)) = (opcode, input.get(at + 1)) {
            usize::from(n) + 2
        } else {
            match decode(input.get(at..).unwrap_or_default())? {
                Some((_, len)) => len,
                None => break,
            }
        };
        at += len;
        walk.operations += 1;
        if opcode == STOP {
            break;
        }
    }
    walk.bytes = at.min(input.len()) as u64;
    Ok(walk)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_operations_up_to_stop() {
        // PROTO, EMPTY_LIST, MEMOIZE, MARK, BININT1, LONG1, APPENDS, STOP; then junk.
        let pickle = b"\x80\x04]\x94(K\x01\x8a\x02ab\x65.junk";
        assert_eq!(walk(pickle), Ok(Walk { operations: 8, bytes: pickle.len() as u64 - 4 }));
    }
}
