//! Colors as roles, for terminals from none to all of them, dark and light.
//!
//! Text keeps the terminal's own foreground and background, so it is readable wherever the terminal is. Color is
//! never the only sign: what is selected is also bold or reversed, and what is grave also has a mark.

use std::env;

use ratatui::buffer::Buffer;
use ratatui::style::{Color, Modifier, Style};
use vramscope_format::color;

/// How many colors the terminal has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Colors {
    /// None: `NO_COLOR`, or `--color never`.
    None,
    /// The sixteen that every terminal has.
    Sixteen,
    /// The 256 of xterm.
    Indexed,
    /// Red, green and blue.
    True,
}

/// What is behind the text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ground {
    /// Light text on dark.
    Dark,
    /// Dark text on light.
    Light,
}

/// How things look.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Theme {
    /// How many colors there are.
    pub colors: Colors,
    /// What is behind the text.
    pub ground: Ground,
    /// Whether only ASCII can be shown.
    pub ascii: bool,
}

/// What something is, for its color.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Role {
    Text,
    Dim,
    Title,
    Accent,
    Warm,
    Danger,
    Fine,
    /// What is certain of a bar: below the least of its column.
    Bar,
    /// From the least of its column to its mean.
    Mostly,
    /// What a bar reaches only at times: up to the most of its column.
    Range,
    Cursor,
    Selected,
    Match,
    /// A share of the total, from 0 to 1.
    Heat(f64),
}

impl Theme {
    /// What the environment says about the terminal.
    pub fn of_environment() -> Self {
        let var = |name: &str| env::var(name).unwrap_or_default();
        let (term, colorterm) = (var("TERM"), var("COLORTERM"));
        let colors = if !var("NO_COLOR").is_empty() || term == "dumb" {
            Colors::None
        } else if colorterm == "truecolor" || colorterm == "24bit" || term.ends_with("-direct") {
            Colors::True
        } else if term.contains("256color") {
            Colors::Indexed
        } else {
            Colors::Sixteen
        };
        // rxvt, Konsole and others tell: "foreground;background", where 7 and above 8 are light.
        let background = var("COLORFGBG").rsplit(';').next().and_then(|last| last.parse::<u8>().ok());
        let is_light = match var("VRAMSCOPE_THEME").as_str() {
            "light" => true,
            "dark" => false,
            _ => background.is_some_and(|color| color == 7 || color > 8),
        };
        let locale = ["LC_ALL", "LC_CTYPE", "LANG"].map(var).into_iter().find(|value| !value.is_empty());
        let locale = locale.unwrap_or_default().to_ascii_lowercase();
        let ascii = cfg!(unix) && !(locale.contains("utf-8") || locale.contains("utf8"));
        Self { colors, ground: if is_light { Ground::Light } else { Ground::Dark }, ascii }
    }

    pub(crate) fn style(&self, role: Role) -> Style {
        let plain = Style::new();
        let styled = |color: Color| if self.colors == Colors::None { plain } else { plain.fg(color) };
        match role {
            Role::Text => plain,
            Role::Title => plain.add_modifier(Modifier::BOLD),
            Role::Dim if self.colors <= Colors::Sixteen => plain.add_modifier(Modifier::DIM),
            Role::Dim => styled(self.pick(0x8a94a3, 0x5a6472, Color::DarkGray, Color::DarkGray)),
            Role::Accent => styled(self.pick(0x4cb5f5, 0x0b6fb8, Color::Cyan, Color::Blue)),
            Role::Warm => styled(self.pick(0xffb454, 0xa85400, Color::Yellow, Color::Magenta)),
            Role::Danger => styled(self.pick(0xff6b6b, 0xc4262e, Color::Red, Color::Red)),
            Role::Fine => styled(self.pick(0x7cc77f, 0x2e7d32, Color::Green, Color::Green)),
            Role::Bar => styled(self.pick(0x3d8fc6, 0x4a97cc, Color::Blue, Color::Blue)),
            Role::Mostly => styled(self.pick(0x3374a0, 0x7ab4da, Color::Blue, Color::Blue)),
            Role::Range => styled(self.pick(0x2a5a7b, 0xa9cfe8, Color::Cyan, Color::Cyan)),
            Role::Cursor => styled(self.pick(0xffb454, 0xa85400, Color::Yellow, Color::Magenta))
                .add_modifier(Modifier::BOLD),
            Role::Selected if self.colors <= Colors::Sixteen => plain.add_modifier(Modifier::REVERSED),
            Role::Selected => {
                plain.bg(self.pick(0x2a3b4d, 0xd3e3f2, Color::Blue, Color::Blue)).add_modifier(Modifier::BOLD)
            }
            Role::Match => styled(self.pick(0xffb454, 0xa85400, Color::Yellow, Color::Magenta))
                .add_modifier(Modifier::BOLD | Modifier::UNDERLINED),
            Role::Heat(share) => match share {
                s if s < 0.05 => styled(self.pick(0x7f9fcf, 0x3f63a5, Color::Blue, Color::Blue)),
                s if s < 0.20 => styled(self.pick(0x4fb3bf, 0x0b7285, Color::Cyan, Color::Cyan)),
                s if s < 0.40 => styled(self.pick(0x7cc77f, 0x2e7d32, Color::Green, Color::Green)),
                s if s < 0.70 => styled(self.pick(0xe5c453, 0x8a6100, Color::Yellow, Color::Magenta)),
                _ => styled(self.pick(0xff6b6b, 0xc4262e, Color::Red, Color::Red)),
            },
        }
    }

    /// The color of a part of the program, as a background with text that is readable on it: always the same for
    /// the same name.
    pub(crate) fn of_name(&self, name: &str) -> Style {
        let [r, g, b] = color::of(name);
        let on = |color: Color| Style::new().bg(color).fg(Color::Black);
        match self.colors {
            Colors::None => Style::new().add_modifier(Modifier::REVERSED),
            Colors::Sixteen => {
                let six =
                    [Color::Blue, Color::Cyan, Color::Green, Color::Yellow, Color::Magenta, Color::LightBlue];
                on(six[usize::from(r ^ g.rotate_left(3) ^ b) % six.len()])
            }
            Colors::Indexed => on(indexed(r, g, b)),
            Colors::True => on(Color::Rgb(r, g, b)),
        }
    }

    /// The same color for what is not the data itself: a tint behind ordinary text.
    pub(crate) fn tint_of_name(&self, name: &str) -> Style {
        let [r, g, b] = self.faded(color::of(name), 2);
        match self.colors {
            Colors::True => Style::new().bg(Color::Rgb(r, g, b)),
            Colors::Indexed => Style::new().bg(indexed(r, g, b)),
            Colors::None | Colors::Sixteen => Style::new().add_modifier(Modifier::UNDERLINED),
        }
    }

    /// The color of a category, fainter by up to two steps the less often there is so much of it.
    pub(crate) fn category(&self, category: usize, steps: u8) -> Color {
        const SIXTEEN: [Color; 9] = [
            Color::Blue,
            Color::Yellow,
            Color::Green,
            Color::Magenta,
            Color::Red,
            Color::Cyan,
            Color::LightYellow,
            Color::Gray,
            Color::DarkGray,
        ];
        let [r, g, b] = vramscope_engine::color::of_category(category as u32);
        let [r, g, b] = self.faded([r, g, b], steps);
        match self.colors {
            Colors::None | Colors::Sixteen => SIXTEEN.get(category).copied().unwrap_or(Color::Gray),
            Colors::Indexed => indexed(r, g, b),
            Colors::True => Color::Rgb(r, g, b),
        }
    }

    /// A color over what is behind: all of it, or a third less with each step.
    fn faded(&self, [r, g, b]: [u8; 3], steps: u8) -> [u8; 3] {
        let ground: [u8; 3] = match self.ground {
            Ground::Dark => [0x10, 0x14, 0x18],
            Ground::Light => [0xfb, 0xfb, 0xfa],
        };
        let steps = u16::from(steps.min(3));
        let mix =
            |color: u8, ground: u8| ((u16::from(color) * (3 - steps) + u16::from(ground) * steps) / 3) as u8;
        [mix(r, ground[0]), mix(g, ground[1]), mix(b, ground[2])]
    }

    fn pick(&self, dark: u32, light: u32, dark16: Color, light16: Color) -> Color {
        let (rgb, sixteen) = match self.ground {
            Ground::Dark => (dark, dark16),
            Ground::Light => (light, light16),
        };
        let [_, r, g, b] = rgb.to_be_bytes();
        match self.colors {
            Colors::None | Colors::Sixteen => sixteen,
            Colors::Indexed => indexed(r, g, b),
            Colors::True => Color::Rgb(r, g, b),
        }
    }

    /// Puts ASCII in the place of everything else, where that is all there is.
    pub(crate) fn finish(&self, buffer: &mut Buffer) {
        if !self.ascii {
            return;
        }
        for cell in &mut buffer.content {
            if !cell.symbol().is_ascii() {
                let c = cell.symbol().chars().next().map_or(' ', ascii);
                cell.set_char(c);
            }
        }
    }
}

/// The nearest of the 6×6×6 colors of xterm.
fn indexed(r: u8, g: u8, b: u8) -> Color {
    let level = |c: u8| match c {
        0..48 => 0,
        48..115 => 1,
        _ => (c - 35) / 40,
    };
    Color::Indexed(16 + 36 * level(r) + 6 * level(g) + level(b))
}

/// What stands for a character on a terminal that has only ASCII.
fn ascii(c: char) -> char {
    match c {
        '█' | '▊' | '▇' | '▆' => '#',
        '▉' => '|',
        '▓' => '%',
        '▚' => '&',
        '▅' | '▄' | '▒' => '=',
        '▃' | '▂' | '▁' => '_',
        '░' => ':',
        '▌' | '▐' | '▎' | '│' | '▏' | '┃' | '┊' => '|',
        '·' => '.',
        '…' => '~',
        '┄' => '"',
        '━' => '=',
        '─' | '╌' | '╸' | '–' | '−' => '-',
        '┌' | '┐' | '└' | '┘' | '┏' | '┓' | '┗' | '┛' => '+',
        '■' => '*',
        '▸' | '›' | '▶' | '→' | '▷' => '>',
        '▾' | '▼' | '↓' => 'v',
        '▲' | '↑' => '^',
        '‹' | '◀' | '←' => '<',
        '●' | '◆' => '*',
        '✕' | '×' => 'x',
        '±' => '+',
        '≥' => '>',
        _ => '?',
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ratatui::layout::Rect;

    #[test]
    fn xterm_colors() {
        // 0, 95, 135, 175, 215, 255 are the levels of the cube.
        assert_eq!(indexed(255, 0, 0), Color::Indexed(196));
        assert_eq!(indexed(95, 135, 175), Color::Indexed(67));
    }

    #[test]
    fn ascii_leaves_nothing_else() {
        let theme = Theme { colors: Colors::None, ground: Ground::Dark, ascii: true };
        let mut buffer = Buffer::empty(Rect::new(0, 0, 12, 1));
        buffer.set_string(0, 0, "a█▸·…é", Style::new());
        theme.finish(&mut buffer);
        let text: String = buffer.content.iter().map(ratatui::buffer::Cell::symbol).collect();
        assert_eq!(text.trim_end(), "a#>.~?");
    }

    #[test]
    fn without_colors_selection_still_shows() {
        let theme = Theme { colors: Colors::None, ground: Ground::Dark, ascii: false };
        let style = theme.style(Role::Selected);
        assert!(style.add_modifier.contains(Modifier::REVERSED));
        assert_eq!(theme.style(Role::Heat(0.9)).fg, None);
    }
}
