//! The engine's colors as egui takes them.

use egui::Color32;
use vramscope_engine::color::{self, Rgb};

pub(crate) const fn rgb([r, g, b]: Rgb) -> Color32 {
    Color32::from_rgb(r, g, b)
}

/// An OKLCH color.
pub(crate) fn oklch(lightness: f32, chroma: f32, hue: f32) -> Color32 {
    rgb(color::oklch(lightness, chroma, hue))
}
