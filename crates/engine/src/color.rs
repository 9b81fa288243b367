//! What the colors of a picture mean, the same in the window, in a browser and in a report.
//!
//! A stack has the hue of the user's own line, the same in every view, rank and run; lightness steps from one
//! allocation to the next, so that bands separate for any eye. Amounts run along one ramp from dark to light.

use serde::{Deserialize, Serialize};
use vramscope_analysis::Moment;
use vramscope_analysis::categories::DEFAULT_CATEGORIES;
use vramscope_format::{color, plural, size, stream};
use vramscope_snapshot::StackId;

pub use crate::scheme::Scheme;
use crate::{Group, LineId, Owner, Summary};

/// Red, green and blue.
pub type Rgb = [u8; 3];

/// What decides the color of an allocation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum ColorBy {
    /// The user's own line.
    #[default]
    Stack,
    /// Bytes.
    Size,
    /// How long it lived.
    Lifetime,
    /// What it is for.
    Category,
    /// The pool it lies in.
    Pool,
    /// The stream it was allocated on.
    Stream,
}

impl ColorBy {
    /// All of them.
    pub const ALL: [Self; 6] =
        [Self::Stack, Self::Size, Self::Lifetime, Self::Category, Self::Pool, Self::Stream];

    /// The word for it.
    pub fn name(self) -> &'static str {
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
pub fn oklch(lightness: f32, chroma: f32, hue: f32) -> Rgb {
    color::oklch(lightness.into(), chroma.into(), hue.into())
}

/// A color between two.
pub fn blend(a: Rgb, b: Rgb, share: f32) -> Rgb {
    // A conversion cuts off, so that a half is added; `round` is a call that takes ten times as long.
    let mix = |a: u8, b: u8| (f32::from(a) + (f32::from(b) - f32::from(a)) * share + 0.5) as u8;
    [mix(a[0], b[0]), mix(a[1], b[1]), mix(a[2], b[2])]
}

/// From dark blue over green to yellow, for 0 to 1.
pub fn ramp(share: f32) -> Rgb {
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
fn of_bytes(bytes: u64) -> Rgb {
    ramp(((bytes.max(1) as f32).log2() - 9.0) / 23.0)
}

/// What a picture is drawn on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ground {
    /// Whether it is dark.
    pub dark: bool,
    /// Behind the picture.
    pub ground: Rgb,
    /// Weak text, and the stripes of idle memory.
    pub dim: Rgb,
    /// Free memory that is held.
    pub hole: Rgb,
}

impl Ground {
    /// For eyes in the dark.
    pub const DARK: Self =
        Self { dark: true, ground: [0x0d, 0x11, 0x15], dim: [0x8a, 0x94, 0xa3], hole: [0x23, 0x29, 0x31] };
    /// For paper.
    pub const LIGHT: Self =
        Self { dark: false, ground: [0xff, 0xff, 0xff], dim: [0x60, 0x69, 0x75], hole: [0xe9, 0xe9, 0xe6] };
}

/// What colors depend on beside the allocation.
#[derive(Clone, Debug)]
pub struct Coloring<'a> {
    /// What decides the color.
    pub by: ColorBy,
    /// Which colors there are.
    pub scheme: Scheme,
    /// What the picture is drawn on.
    pub ground: Ground,
    /// The end of the recording, for lifetimes.
    pub last: Moment,
    /// While searching: the stacks that match, sorted; the rest is dimmed.
    pub found: Option<&'a [StackId]>,
    /// While a group is pointed at: the rest is dimmed.
    pub focus: Option<&'a Group>,
}

impl Coloring<'_> {
    /// The color of an allocation.
    pub fn of(&self, owner: &Owner) -> Rgb {
        let Ground { dark, ground, .. } = self.ground;
        let color = match self.by {
            ColorBy::Stack => self.scheme.of_line(owner.line, owner.alloc.0),
            ColorBy::Size => of_bytes(owner.requested),
            ColorBy::Lifetime => {
                let lived = owner.events(self.last).max(1) as f32;
                ramp(lived.log2() / (self.last.0.max(2) as f32).log2())
            }
            ColorBy::Category => self.scheme.of_kind(owner.category.into(), owner.alloc.0),
            ColorBy::Pool => self.scheme.of_kind(owner.pool.0.saturating_sub(1), owner.alloc.0),
            ColorBy::Stream => self.scheme.of_kind(owner.stream.0, owner.alloc.0),
        };
        // What was there before the recording is muted.
        let color = if owner.opened == Moment::START && self.by == ColorBy::Stack {
            blend(color, ground, if dark { 0.34 } else { 0.42 })
        } else {
            color
        };
        let is_found = self.found.is_none_or(|found| found.binary_search(&owner.stack).is_ok());
        let is_in_focus = self.focus.is_none_or(|group| group.has_owner(owner));
        if is_found && is_in_focus { color } else { blend(color, ground, 0.86) }
    }

    /// What the colors mean: a name for each of a few of them.
    pub fn legend(&self, summary: &Summary) -> Vec<(Rgb, String)> {
        let numbered = |names: Vec<String>| {
            names.into_iter().enumerate().map(|(n, name)| (self.scheme.of_kind(n as u32, 1), name)).collect()
        };
        match self.by {
            ColorBy::Stack => Vec::new(),
            ColorBy::Category => numbered(DEFAULT_CATEGORIES.map(str::to_owned).to_vec()),
            ColorBy::Size => (0..6).map(|n| 10 + n * 4).map(|n| (of_bytes(1 << n), size(1 << n))).collect(),
            ColorBy::Lifetime => {
                let most = (self.last.0.max(2) as f32).log2();
                let lived = (0..5).map(|n| (n as f32 / 4.0, (2_f32.powf(most * n as f32 / 4.0)) as u64));
                lived.map(|(share, n)| (ramp(share), plural(n, "event"))).collect()
            }
            ColorBy::Pool => numbered(summary.pools.iter().skip(1).cloned().collect()),
            ColorBy::Stream => {
                numbered(summary.streams.iter().map(|handle| format!("stream {}", stream(*handle))).collect())
            }
        }
    }
}

/// The usual color of a category, by its number.
pub fn of_category(category: u32) -> Rgb {
    Scheme::Standard.of_kind(category, 0)
}

/// The usual color of a line of the program.
pub fn of_line(line: LineId, step: u32) -> Rgb {
    Scheme::Standard.of_line(line, step)
}
