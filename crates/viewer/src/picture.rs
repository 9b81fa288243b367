//! An id buffer on the screen: colored once, drawn as one textured rectangle.
//!
//! The buffer lies column by column, so the texture is the picture on its side: the rows of the texture are
//! columns of the picture, and the corners of the rectangle put it upright.

use egui::{Color32, ColorImage, Mesh, Painter, Pos2, Rect, TextureHandle, TextureOptions, pos2};
use vramscope_engine::{Tile, paint};

use vramscope_engine::color::Coloring;

use crate::color::rgb;

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
        let pixels = paint::pixels(tile, coloring, |color| color.map_or(Color32::TRANSPARENT, rgb));
        let image = ColorImage::new([tile.height as usize, tile.shown.len()], pixels);
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
