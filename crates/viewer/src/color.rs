//! What colors say.
//!
//! A stack has the hue of the user's own line, the same in every view, rank and run; lightness steps from one
//! allocation to the next, so that bands separate for any eye. Amounts run along one ramp from dark to light.

use egui::Color32;
use serde::{Deserialize, Serialize};
use vramscope_analysis::categories::DEFAULT_CATEGORIES;
use vramscope_engine::{Owner, Summary};

use crate::theme::{Palette, blend};

/// What decides the color of an allocation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub(crate) enum ColorBy {
    #[default]
    Stack,
    Size,
    Lifetime,
    Category,
    Pool,
    Stream,
}

impl ColorBy {
    pub(crate) const ALL: [Self; 6] =
        [Self::Stack, Self::Size, Self::Lifetime, Self::Category, Self::Pool, Self::Stream];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Stack => "stack",
            Self::Size => "size",
            Self::Lifetime => "lifetime",
            Self::Category => "category",
            Self::Pool => "pool",
            Self::Stream => "stream",
        }
    }
}

/// An OKLCH color.
pub(crate) fn oklch(lightness: f32, chroma: f32, hue: f32) -> Color32 {
    let [r, g, b] = vramscope_format::color::oklch(lightness.into(), chroma.into(), hue.into());
    Color32::from_rgb(r, g, b)
}

/// Eight colors that the common color-blindnesses tell apart.
const EIGHT: [Color32; 8] = [
    Color32::from_rgb(0x56, 0xb4, 0xe9),
    Color32::from_rgb(0xe6, 0x9f, 0x00),
    Color32::from_rgb(0x00, 0x9e, 0x73),
    Color32::from_rgb(0xcc, 0x79, 0xa7),
    Color32::from_rgb(0xd5, 0x5e, 0x00),
    Color32::from_rgb(0x3f, 0x7f, 0xc4),
    Color32::from_rgb(0xd9, 0xcf, 0x3a),
    Color32::from_rgb(0x9a, 0xa3, 0xae),
];

/// The color of a line of the program, by its number.
pub(crate) fn of_line(line: u32, step: u32) -> Color32 {
    if line == 0 {
        return oklch(0.56 + 0.03 * (step % 3) as f32, 0.01, 250.0);
    }
    // The hash is spread once more, so that near texts get far hues.
    let hash = line.wrapping_mul(0x9e37_79b1);
    let hue = (hash >> 16) as f32 / 65_536.0 * 360.0;
    let chroma = 0.10 + 0.04 * ((hash >> 8 & 0xff) as f32 / 255.0);
    oklch(0.63 + 0.045 * (step % 3) as f32, chroma, hue)
}

/// From dark blue over green to yellow, for 0 to 1.
pub(crate) fn ramp(share: f32) -> Color32 {
    const STOPS: [(f32, f32, f32); 5] = [
        (0.34, 0.10, 300.0),
        (0.47, 0.10, 262.0),
        (0.60, 0.10, 190.0),
        (0.74, 0.15, 145.0),
        (0.90, 0.17, 104.0),
    ];
    let at = share.clamp(0.0, 1.0) * (STOPS.len() - 1) as f32;
    let below = (at as usize).min(STOPS.len() - 2);
    let part = at - below as f32;
    let (a, b) = (STOPS[below], STOPS[below + 1]);
    let mix = |a: f32, b: f32| a + (b - a) * part;
    oklch(mix(a.0, b.0), mix(a.1, b.1), mix(a.2, b.2))
}

/// Bytes on the ramp: from 512 B to 4 GiB, each doubling a step.
pub(crate) fn of_bytes(bytes: u64) -> Color32 {
    ramp(((bytes.max(1) as f32).log2() - 9.0) / 23.0)
}

/// What colors depend on beside the allocation.
#[derive(Clone, Debug)]
pub(crate) struct Coloring<'a> {
    pub(crate) by: ColorBy,
    pub(crate) palette: Palette,
    pub(crate) events: u32,
    /// While searching: the stacks that fit; the rest is dimmed.
    pub(crate) found: Option<&'a [u32]>,
}

impl Coloring<'_> {
    /// The color of an allocation.
    pub(crate) fn of(&self, owner: &Owner) -> Color32 {
        if owner.idle {
            return self.palette.hole;
        }
        let color = match self.by {
            ColorBy::Stack => of_line(owner.line, owner.alloc),
            ColorBy::Size => of_bytes(owner.requested),
            ColorBy::Lifetime => {
                let lived = owner.closed.min(self.events).saturating_sub(owner.opened).max(1) as f32;
                ramp(lived.log2() / (self.events.max(2) as f32).log2())
            }
            ColorBy::Category => number(owner.category.into(), owner.alloc),
            ColorBy::Pool => number(owner.pool.saturating_sub(1), owner.alloc),
            ColorBy::Stream => number(owner.stream, owner.alloc),
        };
        // What was there before the recording is muted.
        let color = if owner.opened == 0 && self.by == ColorBy::Stack {
            blend(color, self.palette.ground, if self.palette.dark { 0.34 } else { 0.42 })
        } else {
            color
        };
        match self.found {
            Some(found) if found.binary_search(&owner.stack).is_err() => {
                blend(color, self.palette.ground, 0.86)
            }
            _ => color,
        }
    }

    /// What the colors say: a name for each of a few of them.
    pub(crate) fn legend(&self, summary: &Summary) -> Vec<(Color32, String)> {
        let numbered = |names: Vec<String>| {
            names.into_iter().enumerate().map(|(n, name)| (number(n as u32, 1), name)).collect()
        };
        match self.by {
            ColorBy::Stack => Vec::new(),
            ColorBy::Category => numbered(DEFAULT_CATEGORIES.map(str::to_owned).to_vec()),
            ColorBy::Size => (0..6).map(|n| 10 + n * 4).map(|n| (of_bytes(1 << n), text(1 << n))).collect(),
            ColorBy::Lifetime => {
                let most = (self.events.max(2) as f32).log2();
                let lived = (0..5).map(|n| (n as f32 / 4.0, (2_f32.powf(most * n as f32 / 4.0)) as u64));
                lived
                    .map(|(share, n)| (ramp(share), format!("{} events", vramscope_format::count(n))))
                    .collect()
            }
            ColorBy::Pool => numbered(summary.pools.iter().skip(1).cloned().collect()),
            ColorBy::Stream => {
                numbered(summary.streams.iter().map(|handle| format!("stream {handle:#x}")).collect())
            }
        }
    }
}

fn text(bytes: u64) -> String {
    vramscope_format::bytes(bytes as i64)
}

/// The color of one of a few kinds.
fn number(kind: u32, step: u32) -> Color32 {
    // Of the categories the last is what is not known: a grey of its own.
    let color = EIGHT.get(kind as usize).copied().unwrap_or(Color32::from_rgb(0x5b, 0x64, 0x70));
    blend(color, Color32::BLACK, 0.05 * (step % 3) as f32)
}
