//! Not a test: writes screens of the terminal to `docs/screenshots`, when `cargo xtask screenshots` asks for it.
//!
//! A screen becomes an SVG: its letters are text, its blocks and lines are shapes, so that it looks the same with every
//! font and needs no program to draw it.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::PathBuf;

use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::buffer::{Buffer, Cell};
use ratatui::style::{Color, Modifier};
use vramscope_tui::{Colors, Theme, draw};

use crate::common::{PLAIN, Session};

/// The sizes that people have.
const SIZES: [(u16, u16); 3] = [(80, 24), (140, 42), (200, 60)];

#[cfg_attr(feature = "screenshots", test)]
#[cfg_attr(not(feature = "screenshots"), allow(dead_code, reason = "compiled and linted with the tests"))]
fn screenshots_of_the_terminal() {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../docs/screenshots");
    let theme = Theme { colors: Colors::True, ..PLAIN };
    let save = |name: &str, (width, height): (u16, u16), session: &mut Session| {
        // What is worked out while nothing is pressed.
        session.app.settle();
        let mut screen = Terminal::new(TestBackend::new(width, height)).unwrap();
        screen.draw(|frame| draw(frame, &session.app)).unwrap();
        let path = folder.join(format!("terminal-{name}-{width}x{height}.svg"));
        std::fs::write(path, svg(screen.backend().buffer())).unwrap();
    };
    for size in SIZES {
        let mut session = Session::open(&["oom.pickle.xz"], false, size, theme);
        save("timeline", size, &mut session);
    }
    let views = [
        ("flame", "leak_graph.pickle.xz", vec!["3", "Down", "Down"]),
        ("segments", "cudagraph_pools.pickle.xz", vec!["4", "Down", "Right"]),
        ("help", "oom.pickle.xz", vec!["?"]),
    ];
    for (name, file, keys) in views {
        let mut session = Session::open(&[file], false, SIZES[1], theme);
        session.press(&keys);
        save(name, SIZES[1], &mut session);
    }
}

/// A cell in units of the picture: eighths of its width and half-eighths of its height are whole numbers.
const CELL: (u32, u32) = (8, 16);
/// Of a dark terminal.
const BACKGROUND: u32 = 0x10_14_18;
const FOREGROUND: u32 = 0xd5_db_e3;

/// A screen as a picture.
fn svg(buffer: &Buffer) -> String {
    let (width, height) = (buffer.area.width, buffer.area.height);
    // Shapes by color and opacity in percent, one path each; behind them the backgrounds.
    let (mut behind, mut shapes): (BTreeMap<u32, String>, BTreeMap<(u32, u32), String>) = Default::default();
    let mut texts = String::new();
    for y in 0..height {
        let cells: Vec<&Cell> = (0..width).filter_map(|x| buffer.cell((x, y))).collect();
        let mut x = 0;
        while x < cells.len() {
            let look = Look::of(cells[x]);
            let glyph = Glyph::of(cells[x].symbol());
            let alike = |other: &&&Cell| match (glyph, Glyph::of(other.symbol())) {
                // Of what is not ASCII, fonts have letters of any width: each is put where it belongs.
                (Glyph::Text { is_ascii: true }, Glyph::Text { is_ascii }) => {
                    is_ascii && Look::of(other) == look
                }
                (Glyph::Text { .. }, _) => false,
                (one, other_glyph) => one == other_glyph && Look::of(other) == look,
            };
            let run = 1 + cells[x + 1..].iter().take_while(alike).count();
            let at = (x as u32 * CELL.0, u32::from(y) * CELL.1);
            let long = run as u32 * CELL.0;
            if look.background != BACKGROUND {
                rect(behind.entry(look.background).or_default(), at, (long, CELL.1));
            }
            let path = shapes.entry((look.foreground, glyph.opacity())).or_default();
            match glyph {
                Glyph::Below(eighths) => {
                    let high = eighths * CELL.1 / 8;
                    rect(path, (at.0, at.1 + CELL.1 - high), (long, high));
                }
                Glyph::Shade(_) => rect(path, at, (long, CELL.1)),
                Glyph::Left(eighths) => {
                    (0..run as u32).for_each(|n| rect(path, (at.0 + n * CELL.0, at.1), (eighths, CELL.1)));
                }
                Glyph::Quarters(filled) => {
                    let half = (CELL.0 / 2, CELL.1 / 2);
                    for n in (0..run as u32).flat_map(|n| (0..4).map(move |quarter| (n, quarter))) {
                        let corner = (at.0 + n.0 * CELL.0 + n.1 % 2 * half.0, at.1 + n.1 / 2 * half.1);
                        if filled[n.1 as usize] {
                            rect(path, corner, half);
                        }
                    }
                }
                Glyph::Lines { .. } => {
                    (0..run as u32).for_each(|n| glyph.lines(path, (at.0 + n * CELL.0, at.1)));
                }
                Glyph::Text { .. } => {
                    let text: String = cells[x..x + run].iter().map(|cell| cell.symbol()).collect();
                    look.write(&mut texts, at, &text);
                }
            }
            x += run;
        }
    }
    let (wide, high) = (u32::from(width) * CELL.0, u32::from(height) * CELL.1);
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {wide} {high}\" width=\"{wide}\" height=\"{high}\" \
         font-family=\"ui-monospace,Menlo,Consolas,DejaVu Sans Mono,monospace\" font-size=\"13\" fill=\"#{FOREGROUND:06x}\" \
         xml:space=\"preserve\">\n<rect width=\"{wide}\" height=\"{high}\" fill=\"#{BACKGROUND:06x}\"/>\n\
         <g shape-rendering=\"crispEdges\">\n"
    );
    for (color, path) in behind {
        let _ = writeln!(svg, "<path fill=\"#{color:06x}\" d=\"{path}\"/>");
    }
    for ((color, opacity), path) in shapes.into_iter().filter(|(_, path)| !path.is_empty()) {
        let faint = if opacity < 100 { format!(" opacity=\".{opacity}\"") } else { String::new() };
        let _ = writeln!(svg, "<path fill=\"#{color:06x}\"{faint} d=\"{path}\"/>");
    }
    svg + "</g>\n" + &texts + "</svg>\n"
}

/// A rectangle of a path.
fn rect(path: &mut String, (x, y): (u32, u32), (wide, high): (u32, u32)) {
    if wide > 0 && high > 0 {
        let _ = write!(path, "M{x} {y}h{wide}v{high}h-{wide}z");
    }
}

/// The colors of a cell.
#[derive(Clone, Copy, PartialEq)]
struct Look {
    foreground: u32,
    background: u32,
    is_bold: bool,
    is_underlined: bool,
}

impl Look {
    fn of(cell: &Cell) -> Self {
        let (mut foreground, mut background) = (rgb(cell.fg, FOREGROUND), rgb(cell.bg, BACKGROUND));
        if cell.modifier.contains(Modifier::REVERSED) {
            std::mem::swap(&mut foreground, &mut background);
        }
        if cell.modifier.contains(Modifier::DIM) {
            let mix =
                |shift: u32| (((foreground >> shift & 0xff) + (background >> shift & 0xff)) / 2) << shift;
            foreground = mix(16) | mix(8) | mix(0);
        }
        let has = |modifier| cell.modifier.contains(modifier);
        Self {
            foreground,
            background,
            is_bold: has(Modifier::BOLD),
            is_underlined: has(Modifier::UNDERLINED),
        }
    }

    /// Writes the words of a text, each where it belongs.
    fn write(&self, texts: &mut String, (x, y): (u32, u32), text: &str) {
        let mut from = 0;
        // Two spaces end a word: what is between columns needs no letters.
        for part in text.split("  ") {
            let before = part.len() - part.trim_start().len();
            let word = part.trim();
            let letters = word.chars().count() as u32;
            if letters > 0 {
                let at = x + (from + before) as u32 * CELL.0;
                let escaped = word.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
                let _ =
                    write!(texts, "<text x=\"{at}\" y=\"{}\" textLength=\"{}\"", y + 12, letters * CELL.0);
                if letters == 1 {
                    texts.push_str(" lengthAdjust=\"spacingAndGlyphs\"");
                }
                if self.foreground != FOREGROUND {
                    let _ = write!(texts, " fill=\"#{:06x}\"", self.foreground);
                }
                if self.is_bold {
                    texts.push_str(" font-weight=\"bold\"");
                }
                if self.is_underlined {
                    texts.push_str(" text-decoration=\"underline\"");
                }
                let _ = writeln!(texts, ">{escaped}</text>");
            }
            from += part.len() + 2;
        }
    }
}

fn rgb(color: Color, default: u32) -> u32 {
    match color {
        Color::Rgb(r, g, b) => u32::from_be_bytes([0, r, g, b]),
        Color::Black => 0,
        _ => default,
    }
}

/// What is drawn for a character.
#[derive(Clone, Copy, PartialEq)]
enum Glyph {
    /// As many eighths from below.
    Below(u32),
    /// As many eighths from the left.
    Left(u32),
    /// Quarters: upper left, upper right, lower left, lower right.
    Quarters([bool; 4]),
    /// A share of the whole cell, in percent.
    Shade(u32),
    /// Lines from the middle to the left, right, top and bottom: how thick they are, and in how many pieces.
    Lines { ends: [bool; 4], thick: u32, pieces: u32 },
    /// Whatever a font has for it.
    Text { is_ascii: bool },
}

impl Glyph {
    fn of(symbol: &str) -> Self {
        let Some(c) = symbol.chars().next() else { return Self::Text { is_ascii: true } };
        let lines = |ends: [u8; 4], thick: u32, pieces: u32| Self::Lines {
            ends: ends.map(|end| end == 1),
            thick,
            pieces,
        };
        match c {
            '▁'..='█' => Self::Below(c as u32 - '▁' as u32 + 1),
            '▐' => Self::Quarters([false, true, false, true]),
            '▘' => Self::Quarters([true, false, false, false]),
            '▝' => Self::Quarters([false, true, false, false]),
            '▖' => Self::Quarters([false, false, true, false]),
            '▗' => Self::Quarters([false, false, false, true]),
            '▙' => Self::Quarters([true, false, true, true]),
            '▟' => Self::Quarters([false, true, true, true]),
            '▛' => Self::Quarters([true, true, true, false]),
            '▜' => Self::Quarters([true, true, false, true]),
            '▚' => Self::Quarters([true, false, false, true]),
            '▞' => Self::Quarters([false, true, true, false]),
            '▉'..='▏' => Self::Left(7 - (c as u32 - '▉' as u32)),
            '░' => Self::Shade(25),
            '▒' => Self::Shade(50),
            '▓' => Self::Shade(75),
            '─' => lines([1, 1, 0, 0], 1, 1),
            '━' => lines([1, 1, 0, 0], 2, 1),
            '╌' | '┄' => lines([1, 1, 0, 0], 1, 2),
            '│' => lines([0, 0, 1, 1], 1, 1),
            '┃' => lines([0, 0, 1, 1], 2, 1),
            '┊' => lines([0, 0, 1, 1], 1, 4),
            '┌' => lines([0, 1, 0, 1], 1, 1),
            '┐' => lines([1, 0, 0, 1], 1, 1),
            '└' => lines([0, 1, 1, 0], 1, 1),
            '┘' => lines([1, 0, 1, 0], 1, 1),
            '┏' => lines([0, 1, 0, 1], 2, 1),
            '┓' => lines([1, 0, 0, 1], 2, 1),
            '┗' => lines([0, 1, 1, 0], 2, 1),
            '┛' => lines([1, 0, 1, 0], 2, 1),
            _ => Self::Text { is_ascii: c.is_ascii() },
        }
    }

    fn opacity(self) -> u32 {
        match self {
            Self::Shade(percent) => percent,
            _ => 100,
        }
    }

    /// Lines through the middle of a cell.
    fn lines(self, path: &mut String, (x, y): (u32, u32)) {
        let Self::Lines { ends: [left, right, top, bottom], thick, pieces } = self else { return };
        let middle = (CELL.0 / 2, CELL.1 / 2);
        if left || right {
            let from = if left { 0 } else { middle.0 };
            let to = if right { CELL.0 } else { middle.0 + thick };
            let (step, gap) = ((to - from) / pieces, u32::from(pieces > 1) * 2);
            (0..pieces).for_each(|n| rect(path, (x + from + n * step, y + middle.1), (step - gap, thick)));
        }
        if top || bottom {
            let from = if top { 0 } else { middle.1 };
            let to = if bottom { CELL.1 } else { middle.1 + thick };
            let (step, gap) = ((to - from) / pieces, u32::from(pieces > 1) * 2);
            (0..pieces).for_each(|n| rect(path, (x + middle.0, y + from + n * step), (thick, step - gap)));
        }
    }
}
