//! An id buffer as a picture: its pixels in color, and the whole timeline as a PNG file.

use vramscope_analysis::pictures::Axis;
use vramscope_analysis::{Counter, Moment};

use crate::color::{ColorBy, Coloring, Ground, Rgb, Scheme, blend};
use crate::{AskSummary, AskTile, Session, Source, Stretch, Summary, Tile, Which};

/// Bands at least this high get a line between them.
const LINED: usize = 5;
/// The cell of what is not memory, and the one of free memory.
const NOTHING: u32 = 0;
const HOLE: usize = 1;
/// How near to the ground the color of memory is that is in use for a part of a column only.
const PALE: f32 = 0.5;

/// The color of something that is in use for a part of a column only.
pub fn paled(color: Rgb, ground: Ground) -> Rgb {
    blend(color, ground.ground, PALE)
}

impl Summary {
    /// The ranges of both axes that show everything: the whole run, up to the peak, and up to what is reserved
    /// unless that is far above.
    pub fn whole(&self, axis: Axis, counter: Counter) -> [(f64, f64); 2] {
        let peak = |counter| self.peak(counter).bytes.max(1) as f64;
        let (stacked, held) = (peak(counter), peak(Counter::Reserved));
        let top = if held < stacked * 2.5 { held.max(stacked) } else { stacked };
        [(0.0, self.length(axis)), (0.0, top * 1.10)]
    }

    /// How long the axis is.
    pub fn length(&self, axis: Axis) -> f64 {
        match axis {
            Axis::Events => f64::from(self.events) + 1.0,
            Axis::Time => self.time.map_or(1, |(_, span)| span.max(1)) as f64,
        }
    }
}

/// The pixels of a tile, column by column from the bottom up, in the color type of the caller. `None` is
/// where nothing is.
pub fn pixels<P: Copy>(tile: &Tile, coloring: &Coloring<'_>, pixel: impl Fn(Option<Rgb>) -> P) -> Vec<P> {
    let Ground { dark, ground, dim, hole } = coloring.ground;
    let nothing = pixel(None);
    // One color for each owner; its shades are mixed where they are seen, since most owners are a pixel or two high.
    let colors: Vec<Rgb> =
        [ground, hole].into_iter().chain(tile.owners.iter().map(|owner| coloring.of(owner))).collect();
    let height = tile.height as usize;
    let mut pixels = Vec::with_capacity(tile.cells.len());
    for (x, column) in tile.cells.chunks(height.max(1)).enumerate() {
        let lowest = x * height + tile.solid(x);
        // What lies above the lowest moment of the column is pale.
        let shade = |color: Rgb, at: usize| {
            pixel(Some(if at < lowest { color } else { paled(color, coloring.ground) }))
        };
        for run in column.chunk_by(|a, b| a == b) {
            let Some(&cell) = run.first() else { continue };
            let (start, end) = (pixels.len(), pixels.len() + run.len());
            let is_idle = cell >= Tile::FIRST_IDLE;
            let color = colors.get(if is_idle { HOLE } else { cell as usize });
            let Some(&color) = color.filter(|_| cell != NOTHING) else {
                pixels.resize(end, nothing);
                continue;
            };
            pixels.resize(lowest.clamp(start, end), pixel(Some(color)));
            pixels.resize(end, pixel(Some(paled(color, coloring.ground))));
            let owner = tile.owner_of(cell);
            if owner.is_none() && !is_idle {
                continue;
            }
            if is_idle || owner.is_some_and(|owner| owner.awaiting) {
                let stripe = if is_idle { blend(hole, dim, 0.35) } else { blend(color, ground, 0.45) };
                for (at, pixel) in pixels.iter_mut().enumerate().skip(start) {
                    if (x + at - x * height) % 6 < 2 {
                        *pixel = shade(stripe, at);
                    }
                }
            }
            if run.len() >= LINED
                && let Some(last) = pixels.last_mut()
            {
                *last = shade(blend(color, if dark { [0; 3] } else { [255; 3] }, 0.22), end - 1);
            }
        }
    }
    pixels.resize(height * tile.shown.len(), nothing);
    pixels
}

/// A tile as the window shows it at first, upright, row by row: by category.
pub fn upright(tile: &Tile, last: Moment, ground: Ground) -> Vec<Rgb> {
    let coloring =
        Coloring { by: ColorBy::Category, scheme: Scheme::Standard, ground, last, found: None, focus: None };
    let side = pixels(tile, &coloring, |color| color.unwrap_or(ground.ground));
    let (width, height) = (tile.shown.len(), tile.height as usize);
    let at = |x: usize, y: usize| side.get(x * height + (height - 1 - y)).copied().unwrap_or_default();
    (0..width * height).map(|n| at(n % width, n / width)).collect()
}

/// The whole memory timeline of a device as a PNG file, for paper and for pages without script.
pub fn poster(session: &Session, of: Source, (width, height): (u32, u32), ground: Ground) -> Option<Vec<u8>> {
    let summary = session.ask(AskSummary { of })?;
    let (axis, counter) = (Axis::Events, Counter::Requested);
    let [x, y] = summary.whole(axis, counter);
    let stretch = Stretch { axis, x, width };
    let tile = session.ask(AskTile {
        of,
        counter,
        stretch,
        y,
        height,
        pools: true,
        categories: true,
        only: Which::default(),
    })?;
    Some(png([tile.shown.len() as u32, tile.height], &upright(&tile, summary.last(), ground)))
}

/// A PNG file.
pub fn png([width, height]: [u32; 2], pixels: &[Rgb]) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut encoder = png::Encoder::new(&mut bytes, width, height);
    encoder.set_color(png::ColorType::Rgb);
    encoder.set_depth(png::BitDepth::Eight);
    encoder.set_compression(png::Compression::High);
    encoder.set_filter(png::Filter::Adaptive);
    // Writing to memory does not fail.
    if let Ok(mut writer) = encoder.write_header() {
        let _ = writer.write_image_data(pixels.as_flattened());
    }
    bytes
}
