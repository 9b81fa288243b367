//! Numbers as people read them, the same on every surface.

/// Bytes in binary units with three significant digits: `3.21 GiB`.
pub fn bytes(bytes: i64) -> String {
    const UNITS: [&str; 6] = ["KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
    let sign = if bytes < 0 { "-" } else { "" };
    let size = bytes.unsigned_abs();
    if size < 1024 {
        return format!("{sign}{size} B");
    }
    let mut value = size as f64 / 1024.0;
    let mut unit = 0;
    while value >= 1023.5 && unit + 1 < UNITS.len() {
        value /= 1024.0;
        unit += 1;
    }
    let decimals = match value {
        v if v < 9.995 => 2,
        v => usize::from(v < 99.95),
    };
    format!("{sign}{value:.decimals$} {}", UNITS[unit])
}

/// A whole number in groups of three: `11 823`.
pub fn count(n: impl TryInto<u64>) -> String {
    let digits = n.try_into().unwrap_or(u64::MAX).to_string();
    let mut text = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(' ');
        }
        text.push(digit);
    }
    text
}

/// A size as people type it: bytes, or with a binary or decimal unit: `512`, `20MiB`.
pub fn parse_bytes(text: &str) -> Result<u64, String> {
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic() || c == ' ');
    let unit = text.get(digits.len()..).unwrap_or_default().trim();
    let scale: f64 = match unit.to_ascii_lowercase().as_str() {
        "" | "b" => 1.0,
        "k" | "kib" => 1024.0,
        "m" | "mib" => 1_048_576.0,
        "g" | "gib" => 1_073_741_824.0,
        "t" | "tib" => 1_099_511_627_776.0,
        "kb" => 1e3,
        "mb" => 1e6,
        "gb" => 1e9,
        _ => return Err(format!("unknown unit {unit:?} in {text:?}: try MiB")),
    };
    match digits.parse::<f64>() {
        Ok(n) if n >= 0.0 && n.is_finite() => Ok((n * scale) as u64),
        _ => Err(format!("{text:?} is no size: try 20MiB")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn three_significant_digits() {
        let cases = [
            (0, "0 B"),
            (1023, "1023 B"),
            (1024, "1.00 KiB"),
            (10_239, "10.0 KiB"),
            (1_023_590, "1000 KiB"),
            ((1 << 20) - 1, "1.00 MiB"),
            (16 << 20, "16.0 MiB"),
            (3_446_711_910, "3.21 GiB"),
            (i64::MAX, "8.00 EiB"),
            (-2048, "-2.00 KiB"),
        ];
        for (n, expected) in cases {
            assert_eq!(bytes(n), expected);
        }
    }

    #[test]
    fn groups_of_three() {
        assert_eq!([0, 999, 1000, 1_355_321].map(|n: u64| count(n)), ["0", "999", "1 000", "1 355 321"]);
    }

    #[test]
    fn sizes_as_they_are_typed() {
        assert_eq!(parse_bytes("512"), Ok(512));
        assert_eq!(parse_bytes("20MiB"), Ok(20 << 20));
        assert_eq!(parse_bytes("1.5 g"), Ok(3 << 29));
        assert_eq!(parse_bytes("2MB"), Ok(2_000_000));
        assert!(parse_bytes("20 parsecs").unwrap_err().contains("unknown unit"));
        assert!(parse_bytes("-1").is_err());
    }
}
