//! The memory timeline as a picture without a window, for paper and for pages without script.

use egui::ColorImage;
use vramscope_engine::{Axis, Bytes, Request, Response, Session, Source, Stretch, Tile};

use crate::color::{ColorBy, Coloring};
use crate::picture;
use crate::save::png;
use crate::theme::Palette;
use crate::view::View;

/// The colors of a tile as the window shows them at first, upright: by stack, on a dark ground.
pub fn paint(tile: &Tile, events: u32) -> ColorImage {
    let palette = Palette::new(true);
    let coloring = Coloring { by: ColorBy::Stack, palette, events, found: None };
    let side = picture::image(tile, &coloring);
    let [height, width] = side.size;
    let at = |x: usize, y: usize| {
        let color = side.pixels.get(x * height + (height - 1 - y)).copied().unwrap_or_default();
        if color.a() == 0 { palette.ground } else { color }
    };
    let pixels = (0..width * height).map(|n| at(n % width, n / width)).collect();
    ColorImage::new([width, height], pixels)
}

/// The whole memory timeline of a device as a PNG file.
pub fn poster(session: &Session, of: Source, (width, height): (u32, u32)) -> Option<Vec<u8>> {
    let ask = |request| session.answer(&request, &|| true);
    let Some(Response::Summary(summary)) = ask(Request::Summary(of)) else { return None };
    let View { x, y, .. } = View::whole(&summary, Axis::Events, Bytes::Requested);
    let stretch = Stretch { axis: Axis::Events, x, width };
    let tile =
        Request::Tile { of, bytes: Bytes::Requested, stretch, y, height, pools: true, categories: false };
    let Some(Response::Tile(tile)) = ask(tile) else { return None };
    Some(png(&paint(&tile, summary.events)))
}
