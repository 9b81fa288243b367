//! Numbers with their units.

/// Units of sizes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Units {
    /// KiB, MiB, GiB.
    #[default]
    Binary,
    /// kB, MB, GB.
    Decimal,
    /// Plain bytes.
    Bytes,
}

impl Units {
    /// A size with three significant digits: `3.21 GiB`.
    pub fn bytes(self, n: i64) -> String {
        match self {
            Self::Binary => scaled(n, 1024, ["KiB", "MiB", "GiB", "TiB", "PiB", "EiB"]),
            Self::Decimal => scaled(n, 1000, ["kB", "MB", "GB", "TB", "PB", "EB"]),
            Self::Bytes => format!("{} B", grouped(n)),
        }
    }

    /// The same for a size that cannot be negative.
    pub fn size(self, n: u64) -> String {
        self.bytes(signed(n))
    }

    /// What changed, with its sign: `+3.21 GiB`.
    pub fn change(self, n: i64) -> String {
        if n > 0 { format!("+{}", self.bytes(n)) } else { self.bytes(n) }
    }
}

/// A size in binary units with three significant digits: `3.21 GiB`.
pub fn bytes(n: i64) -> String {
    Units::Binary.bytes(n)
}

/// The same for a size that cannot be negative.
pub fn size(n: u64) -> String {
    Units::Binary.size(n)
}

/// What changed, with its sign: `+3.21 GiB`.
pub fn change(n: i64) -> String {
    Units::Binary.change(n)
}

/// The number as a signed one; sizes above 8 EiB are not told apart.
pub fn signed(n: u64) -> i64 {
    i64::try_from(n).unwrap_or(i64::MAX)
}

fn scaled(n: i64, base: u32, units: [&str; 6]) -> String {
    let sign = if n < 0 { "-" } else { "" };
    let size = n.unsigned_abs();
    if size < u64::from(base) {
        return format!("{sign}{size} B");
    }
    let base = f64::from(base);
    let mut value = size as f64 / base;
    let mut unit = 0;
    // Half a unit below the next one already rounds up to it.
    while value >= base - 0.5 && unit + 1 < units.len() {
        value /= base;
        unit += 1;
    }
    let decimals = if value < 9.995 { 2 } else { usize::from(value < 99.95) };
    format!("{sign}{value:.decimals$} {}", units[unit])
}

/// A whole number in groups of three: `11 823`.
pub fn count(n: impl TryInto<u64>) -> String {
    groups(&n.try_into().unwrap_or(u64::MAX).to_string())
}

fn grouped(n: i64) -> String {
    let sign = if n < 0 { "-" } else { "" };
    format!("{sign}{}", count(n.unsigned_abs()))
}

fn groups(digits: &str) -> String {
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(' ');
        }
        text.push(digit);
    }
    text
}

/// `1 event`, `2 events`, `1 retry`, `2 retries`.
pub fn plural(n: impl TryInto<u64>, word: &str) -> String {
    let n = n.try_into().unwrap_or(u64::MAX);
    let number = count(n);
    match word {
        word if n == 1 => format!("{number} {word}"),
        word if word.ends_with(['h', 's', 'x']) => format!("{number} {word}es"),
        word => match word.strip_suffix('y') {
            Some(stem) if !stem.ends_with(['a', 'e', 'i', 'o', 'u']) => format!("{number} {stem}ies"),
            _ => format!("{number} {word}s"),
        },
    }
}

/// A part of a whole, from 0 to 1, as a percentage: `33.3%`.
pub fn percent(share: f64) -> String {
    let percent = share * 100.0;
    if percent.abs() >= 99.95 { format!("{percent:.0}%") } else { format!("{percent:.1}%") }
}

/// The percentage that a part is of a whole.
pub fn share(part: u64, whole: u64) -> String {
    percent(if whole == 0 { 0.0 } else { part as f64 / whole as f64 })
}

/// A size as people type it: bytes, or with a binary or decimal unit: `512`, `20MiB`, `1.5GB`.
pub fn parse_bytes(text: &str) -> Result<u64, String> {
    let wrong = || format!("'{text}' is not a valid size (try 512, 20MiB, 1.5GB)");
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
        "tb" => 1e12,
        _ => return Err(wrong()),
    };
    match digits.trim().replace(['_', ' '], "").parse::<f64>() {
        Ok(n) if n >= 0.0 && n.is_finite() => Ok((n * scale) as u64),
        _ => Err(wrong()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_have_three_significant_digits() {
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
        assert_eq!(change(2048), "+2.00 KiB");
    }

    #[test]
    fn decimal_units_and_plain_bytes() {
        let cases =
            [(999, "999 B"), (1000, "1.00 kB"), (3_446_711_910, "3.45 GB"), (-20_000_000, "-20.0 MB")];
        for (n, expected) in cases {
            assert_eq!(Units::Decimal.bytes(n), expected);
        }
        assert_eq!(Units::Bytes.bytes(-20_000_000), "-20 000 000 B");
    }

    #[test]
    fn counts_are_in_groups_of_three() {
        assert_eq!([0, 999, 1000, 1_355_321].map(|n: u64| count(n)), ["0", "999", "1 000", "1 355 321"]);
    }

    #[test]
    fn plurals() {
        assert_eq!(plural(1_u32, "event"), "1 event");
        assert_eq!(plural(0_u32, "event"), "0 events");
        assert_eq!(plural(2_u32, "retry"), "2 retries");
        assert_eq!(plural(2_u32, "branch"), "2 branches");
        assert_eq!(plural(2_u32, "day"), "2 days");
    }

    #[test]
    fn percentages() {
        assert_eq!([share(1, 3), share(3, 3), share(0, 0), percent(1.5)], ["33.3%", "100%", "0.0%", "150%"]);
    }

    #[test]
    fn sizes_as_they_are_typed() {
        assert_eq!(parse_bytes("512"), Ok(512));
        assert_eq!(parse_bytes("20MiB"), Ok(20 << 20));
        assert_eq!(parse_bytes("1.5 g"), Ok(3 << 29));
        assert_eq!(parse_bytes("2MB"), Ok(2_000_000));
        assert_eq!(parse_bytes("12q").unwrap_err(), "'12q' is not a valid size (try 512, 20MiB, 1.5GB)");
        assert!(parse_bytes("-1").is_err());
        assert!(parse_bytes("").is_err());
    }
}
