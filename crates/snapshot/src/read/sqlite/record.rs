//! One row: a list of types, then the values.

/// A value of a row.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(in crate::read) enum Value<'a> {
    Null,
    Int(i64),
    Float(f64),
    Text(&'a [u8]),
    Blob,
}

impl<'a> Value<'a> {
    /// A whole number, also where it is written as text, as times are in some tables.
    pub(in crate::read) fn int(self) -> Option<i64> {
        match self {
            Self::Int(n) => Some(n),
            Self::Float(n) if n.is_finite() && n.abs() < 9e18 => Some(n as i64),
            Self::Text(text) => std::str::from_utf8(text).ok()?.trim().parse().ok(),
            _ => None,
        }
    }

    /// A number that counts something.
    pub(in crate::read) fn unsigned(self) -> Option<u64> {
        self.int().and_then(|n| u64::try_from(n).ok())
    }

    pub(in crate::read) fn text(self) -> Option<&'a [u8]> {
        match self {
            Self::Text(text) => Some(text),
            _ => None,
        }
    }
}

/// The most columns whose values are looked at; tables of profilers have a dozen or two.
const MAX_COLUMNS: usize = 48;

/// A row whose values have been found.
pub(super) struct Record<'a> {
    values: [Value<'a>; MAX_COLUMNS],
}

impl<'a> Record<'a> {
    /// `None` if the row ends before its values do.
    pub(super) fn new(payload: &'a [u8]) -> Option<Self> {
        let (header, mut at) = varint(payload)?;
        let header =
            usize::try_from(header).ok().filter(|&header| header >= at && header <= payload.len())?;
        let mut body = payload.get(header..)?;
        let mut values = [Value::Null; MAX_COLUMNS];
        for value in &mut values {
            if at >= header {
                break;
            }
            let (kind, used) = varint(payload.get(at..header)?)?;
            at += used;
            let len = match kind {
                0 | 8 | 9 => 0,
                1..=4 => kind as usize,
                5 => 6,
                6 | 7 => 8,
                12.. => usize::try_from((kind - 12) / 2).ok()?,
                _ => return None,
            };
            let (bytes, rest) = body.split_at_checked(len)?;
            body = rest;
            *value = match kind {
                0 => Value::Null,
                1..=6 => Value::Int(signed(bytes)),
                7 => Value::Float(f64::from_bits(signed(bytes) as u64)),
                8 => Value::Int(0),
                9 => Value::Int(1),
                kind if kind % 2 == 1 => Value::Text(bytes),
                _ => Value::Blob,
            };
        }
        Some(Self { values })
    }

    pub(super) fn get(&self, column: usize) -> Value<'a> {
        self.values.get(column).copied().unwrap_or(Value::Null)
    }
}

/// Big-endian bytes with a sign.
fn signed(bytes: &[u8]) -> i64 {
    let start = if bytes.first().is_some_and(|first| first & 0x80 != 0) { -1 } else { 0 };
    bytes.iter().fold(start, |n, &byte| n << 8 | i64::from(byte))
}

/// A number of one to nine bytes, and how many they are.
pub(super) fn varint(bytes: &[u8]) -> Option<(i64, usize)> {
    let mut n = 0_u64;
    for (at, &byte) in bytes.iter().enumerate().take(9) {
        if at == 8 {
            return Some(((n << 8 | u64::from(byte)) as i64, 9));
        }
        n = n << 7 | u64::from(byte & 0x7f);
        if byte & 0x80 == 0 {
            return Some((n as i64, at + 1));
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_any_length() {
        assert_eq!(varint(&[0x07]), Some((7, 1)));
        assert_eq!(varint(&[0x81, 0x00]), Some((128, 2)));
        assert_eq!(varint(&[0xff; 9]), Some((-1, 9)));
        assert_eq!(varint(&[0x81]), None);
        assert_eq!([signed(&[0xff]), signed(&[0x01, 0x00]), signed(&[])], [-1, 256, 0]);
    }

    #[test]
    fn a_row_of_every_type() {
        // Header of 7 bytes: NULL, 1, a byte, a text of 2, a blob of 1, a float; then the values.
        let mut row = vec![7, 0, 9, 1, 17, 14, 7, 0xfe, b'h', b'i', 0x55];
        row.extend(1.5_f64.to_bits().to_be_bytes());
        let record = Record::new(&row).unwrap();
        let values: Vec<_> = (0..7).map(|column| record.get(column)).collect();
        let expected = [
            Value::Null,
            Value::Int(1),
            Value::Int(-2),
            Value::Text(b"hi"),
            Value::Blob,
            Value::Float(1.5),
            Value::Null,
        ];
        assert_eq!(values, expected);
        assert!(Record::new(&row[..9]).is_none(), "it ends inside a value");
        assert!(Record::new(&[3, 10, 10]).is_none(), "a type that does not exist");
    }
}
