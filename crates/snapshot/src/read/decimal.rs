//! Decimal numbers as profilers write them, without a detour over floating point: at today's microseconds
//! since 1970 a double is a quarter of a microsecond wide.

/// A number of microseconds, e.g. `1790000000000100.010`, as nanoseconds. More digits are cut off.
pub(super) fn micros_as_nanos(text: &[u8]) -> Option<i64> {
    let text = text.trim_ascii();
    if text.iter().any(|byte| matches!(byte, b'e' | b'E')) {
        let micros: f64 = std::str::from_utf8(text).ok()?.parse().ok()?;
        return (micros.abs() < 9e15).then_some((micros * 1000.0).round() as i64);
    }
    let (sign, digits) = match text {
        [b'-', rest @ ..] => (-1, rest),
        _ => (1, text),
    };
    let point = digits.iter().position(|&byte| byte == b'.').unwrap_or(digits.len());
    let (whole, fraction) = digits.split_at_checked(point)?;
    let fraction = fraction.get(1..).unwrap_or_default();
    let mut nanos = integer(whole)?.checked_mul(1000)?;
    let mut scale = 100;
    for &digit in fraction {
        nanos = nanos.checked_add(scale * digit_of(digit)?)?;
        scale /= 10;
    }
    nanos.checked_mul(sign)
}

/// A whole number without sign.
pub(super) fn integer(digits: &[u8]) -> Option<i64> {
    if digits.is_empty() {
        return None;
    }
    digits.iter().try_fold(0_i64, |n, &digit| n.checked_mul(10)?.checked_add(digit_of(digit)?))
}

fn digit_of(byte: u8) -> Option<i64> {
    byte.is_ascii_digit().then(|| i64::from(byte - b'0'))
}

/// A number of units of `unit` bytes, e.g. `8.5` KiB, as bytes, and how many digits follow the point.
pub(super) fn bytes(text: &[u8], unit: u64) -> Option<(u64, usize)> {
    let text = std::str::from_utf8(text.trim_ascii()).ok()?;
    let amount: f64 = text.parse().ok()?;
    let bytes = amount * unit as f64;
    // 48 bits of bytes and 11 decimals fit a double: the product of what a writer divided is exact.
    let decimals = text.split_once('.').map_or(0, |(_, decimals)| decimals.len());
    (0.0..281_474_976_710_656.0).contains(&bytes).then(|| (bytes.round() as u64, decimals))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nanoseconds_are_exact() {
        assert_eq!(micros_as_nanos(b"1790000000000100.010\t"), Some(1_790_000_000_000_100_010));
        assert_eq!(micros_as_nanos(b"3868850436877.855"), Some(3_868_850_436_877_855));
        assert_eq!(micros_as_nanos(b"12"), Some(12_000));
        assert_eq!(micros_as_nanos(b"-1.5"), Some(-1_500));
        assert_eq!(micros_as_nanos(b"1.5e3"), Some(1_500_000));
        for wrong in [&b""[..], b"x", b"1.2.3", b"99999999999999999999", b"nan"] {
            assert_eq!(micros_as_nanos(wrong), None, "{wrong:?}");
        }
    }

    #[test]
    fn bytes_are_exact() {
        assert_eq!(bytes(b"8.5", 1 << 10), Some((8704, 1)));
        // 12 000 MiB and 8.5 KiB.
        assert_eq!(bytes(b"12000.00830078125", 1 << 20), Some((12_000 * (1 << 20) + 8704, 11)));
        assert_eq!(bytes(b"-1", 1 << 20), None);
        assert_eq!(bytes(b"inf", 1 << 20), None);
    }
}
