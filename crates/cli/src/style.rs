//! How output looks: units and colors, chosen once at the start.

use std::io::IsTerminal;
use std::sync::OnceLock;

use clap::ValueEnum;
use serde::{Deserialize, Serialize};
use vramscope_format::Units;

use crate::layout;

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum UnitsArg {
    /// KiB, MiB, GiB
    Binary,
    /// kB, MB, GB
    Decimal,
    /// Bytes
    Bytes,
}

impl From<UnitsArg> for Units {
    fn from(units: UnitsArg) -> Self {
        match units {
            UnitsArg::Binary => Self::Binary,
            UnitsArg::Decimal => Self::Decimal,
            UnitsArg::Bytes => Self::Bytes,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum ColorChoice {
    Auto,
    Always,
    Never,
}

static CHOSEN: OnceLock<(Units, bool)> = OnceLock::new();

/// Sets units and colors for the whole run.
pub(crate) fn choose(units: UnitsArg, color: ColorChoice) {
    let is_colored = match color {
        ColorChoice::Always => true,
        ColorChoice::Never => false,
        ColorChoice::Auto => {
            std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
                && std::io::stdout().is_terminal()
        }
    };
    // Only the first choice counts, and there is only one.
    let _ = CHOSEN.set((units.into(), is_colored));
}

/// The chosen units.
pub(crate) fn units() -> Units {
    CHOSEN.get().map_or(Units::Binary, |(units, _)| *units)
}

/// Whether there are colors.
pub(crate) fn is_colored() -> bool {
    CHOSEN.get().is_some_and(|(_, is_colored)| *is_colored)
}

/// What a text is, for its color. Color is never the only sign.
#[derive(Clone, Copy, Serialize, Deserialize)]
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
    if text.is_empty() || !(is_colored() || layout::is_recording()) {
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
