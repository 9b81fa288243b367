//! An id buffer on the screen: colored once, drawn as one textured rectangle.
//!
//! The buffer lies column by column, so the texture is the picture on its side: the rows of the texture are
//! columns of the picture, and the corners of the rectangle put it upright.

use egui::{Color32, ColorImage, Mesh, Painter, Pos2, Rect, TextureHandle, TextureOptions, pos2};
use vramscope_engine::Tile;

use crate::color::Coloring;
use crate::theme::blend;

/// Bands at least so high get a line between them.
const LINED: usize = 5;

/// A picture that is ready to be drawn.
#[derive(Default)]
pub(crate) struct Painted {
    texture: Option<TextureHandle>,
    /// Which answer it was made of, and in which colors.
    made_of: Option<(u64, u64)>,
}

impl Painted {
    /// Colors a tile, if it or the colors have changed.
    pub(crate) fn update(
        &mut self,
        ctx: &egui::Context,
        name: &str,
        tile: &Tile,
        version: u64,
        colors: u64,
        coloring: &Coloring<'_>,
    ) {
        if self.made_of == Some((version, colors)) || tile.height == 0 || tile.shown.is_empty() {
            return;
        }
        self.made_of = Some((version, colors));
        let image = image(tile, coloring);
        match &mut self.texture {
            Some(texture) => texture.set(image, TextureOptions::NEAREST),
            None => self.texture = Some(ctx.load_texture(name, image, TextureOptions::NEAREST)),
        }
    }

    /// Draws the picture where its corners are; whatever is outside the painter's clip is left out.
    pub(crate) fn draw(&self, painter: &Painter, rect: Rect) {
        let Some(texture) = &self.texture else { return };
        let mut mesh = Mesh::with_texture(texture.id());
        let corner = |at: Pos2, u: f32, v: f32| egui::epaint::Vertex {
            pos: at,
            uv: pos2(u, v),
            color: Color32::WHITE,
        };
        mesh.vertices.extend([
            corner(rect.left_bottom(), 0.0, 0.0),
            corner(rect.right_bottom(), 0.0, 1.0),
            corner(rect.left_top(), 1.0, 0.0),
            corner(rect.right_top(), 1.0, 1.0),
        ]);
        mesh.indices.extend([0, 1, 2, 2, 1, 3]);
        painter.add(mesh);
    }
}

/// The colors of a tile, column by column.
pub(crate) fn image(tile: &Tile, coloring: &Coloring<'_>) -> ColorImage {
    let palette = &coloring.palette;
    let colors: Vec<Color32> = [Color32::TRANSPARENT, palette.hole]
        .into_iter()
        .chain(tile.owners.iter().map(|owner| coloring.of(owner)))
        .collect();
    let edge = if palette.dark { Color32::BLACK } else { Color32::WHITE };
    let edges: Vec<Color32> = colors.iter().map(|&color| blend(color, edge, 0.22)).collect();
    let stripe = |&color: &Color32| {
        let idle = color == palette.hole;
        blend(color, if idle { palette.dim } else { palette.ground }, if idle { 0.35 } else { 0.45 })
    };
    let stripes: Vec<Color32> = colors.iter().map(stripe).collect();
    let height = tile.height as usize;
    let mut pixels = Vec::with_capacity(tile.cells.len());
    for (x, column) in tile.cells.chunks(height).enumerate() {
        for run in column.chunk_by(|a, b| a == b) {
            let Some(&cell) = run.first() else { continue };
            let at = cell as usize;
            let color = colors.get(at).copied().unwrap_or_default();
            let start = pixels.len();
            pixels.resize(start + run.len(), color);
            let Some(owner) = cell.checked_sub(Tile::FIRST_OWNER).and_then(|n| tile.owners.get(n as usize))
            else {
                continue;
            };
            if owner.awaiting || owner.idle {
                let from = start - x * height;
                for (n, pixel) in pixels[start..].iter_mut().enumerate() {
                    if (x + from + n) % 6 < 2 {
                        *pixel = stripes[at];
                    }
                }
            }
            if run.len() >= LINED
                && let Some(last) = pixels.last_mut()
            {
                *last = edges[at];
            }
        }
    }
    pixels.resize(height * tile.shown.len(), Color32::TRANSPARENT);
    ColorImage::new([height, tile.shown.len()], pixels)
}
