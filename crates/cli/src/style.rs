//! How output looks: units and colors, chosen once at the start.

use std::io::IsTerminal;
use std::sync::OnceLock;

use clap::ValueEnum;

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Units {
    /// KiB, MiB, GiB
    Binary,
    /// kB, MB, GB
    Decimal,
    /// Bytes
    Bytes,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum ColorChoice {
    Auto,
    Always,
    Never,
}

static CHOSEN: OnceLock<(Units, bool)> = OnceLock::new();

/// Sets units and colors for the whole run.
pub(crate) fn choose(units: Units, color: ColorChoice) {
    let is_colored = match color {
        ColorChoice::Always => true,
        ColorChoice::Never => false,
        ColorChoice::Auto => {
            std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
                && std::io::stdout().is_terminal()
        }
    };
    // Only the first choice counts, and there is only one.
    let _ = CHOSEN.set((units, is_colored));
}

/// A size in the chosen units.
pub(crate) fn bytes(n: i64) -> String {
    match CHOSEN.get().map_or(Units::Binary, |(units, _)| *units) {
        Units::Binary => vramscope_format::bytes(n),
        Units::Decimal => decimal(n),
        Units::Bytes => format!("{n} B"),
    }
}

fn decimal(n: i64) -> String {
    const UNITS: [&str; 6] = ["kB", "MB", "GB", "TB", "PB", "EB"];
    let sign = if n < 0 { "-" } else { "" };
    let size = n.unsigned_abs();
    if size < 1000 {
        return format!("{sign}{size} B");
    }
    let mut value = size as f64 / 1e3;
    let mut unit = 0;
    while value >= 999.5 && unit + 1 < UNITS.len() {
        value /= 1e3;
        unit += 1;
    }
    let decimals = if value < 9.995 { 2 } else { usize::from(value < 99.95) };
    format!("{sign}{value:.decimals$} {}", UNITS[unit])
}

/// What a text is, for its color. Color is never the only sign.
#[derive(Clone, Copy)]
pub(crate) enum Role {
    Plain,
    Fine,
    Warning,
    Bad,
    /// What matters less than the rest.
    Dim,
    /// Names and headings.
    Strong,
    /// Bars and curves.
    Chart,
}

/// The role of a number by the share of the whole that it is.
pub(crate) fn heat(share: f64) -> Role {
    match share {
        0.25.. => Role::Bad,
        0.1.. => Role::Warning,
        _ => Role::Plain,
    }
}

/// The text in the color of its role, if there are colors.
pub(crate) fn paint(role: Role, text: &str) -> String {
    if text.is_empty() || !CHOSEN.get().is_some_and(|(_, is_colored)| *is_colored) {
        return text.to_owned();
    }
    let code = match role {
        Role::Plain => return text.to_owned(),
        Role::Fine => 32,
        Role::Warning => 33,
        Role::Bad => 31,
        Role::Dim => 2,
        Role::Strong => 1,
        Role::Chart => 36,
    };
    format!("\x1b[{code}m{text}\x1b[0m")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decimal_units() {
        let cases =
            [(999, "999 B"), (1000, "1.00 kB"), (3_446_711_910, "3.45 GB"), (-20_000_000, "-20.0 MB")];
        for (n, expected) in cases {
            assert_eq!(decimal(n), expected);
        }
    }
}
