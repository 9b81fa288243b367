//! Draws what egui tessellates on the processor, so that a picture of the window needs no graphics driver and is
//! the same on every machine.

use std::collections::HashMap;

use egui::epaint::{ImageDelta, Primitive, Vertex};
use egui::{Color32, ColorImage, FullOutput, Pos2, Rect, TextureFilter, TextureId, TexturesDelta};
use egui_kittest::TestRenderer;
use image::RgbaImage;

#[derive(Default)]
pub(crate) struct Soft {
    textures: HashMap<TextureId, (ColorImage, TextureFilter)>,
}

impl Soft {
    fn set(&mut self, id: TextureId, delta: &ImageDelta) {
        let egui::ImageData::Color(image) = &delta.image;
        match (delta.pos, self.textures.get_mut(&id)) {
            (Some([x, y]), Some((whole, _))) => {
                for row in 0..image.height() {
                    for column in 0..image.width() {
                        whole[(x + column, y + row)] = image[(column, row)];
                    }
                }
            }
            _ => {
                self.textures.insert(id, ((**image).clone(), delta.options.magnification));
            }
        }
    }

    fn sample(&self, id: TextureId, uv: Pos2) -> [f32; 4] {
        let Some((image, filter)) = self.textures.get(&id) else { return [255.0; 4] };
        let [width, height] = image.size;
        let at = |x: isize, y: isize| {
            let (x, y) = (x.clamp(0, width as isize - 1) as usize, y.clamp(0, height as isize - 1) as usize);
            image[(x, y)].to_array().map(f32::from)
        };
        let (x, y) = (uv.x * width as f32, uv.y * height as f32);
        if *filter == TextureFilter::Nearest {
            return at(x.floor() as isize, y.floor() as isize);
        }
        let (x, y) = (x - 0.5, y - 0.5);
        let (left, top) = (x.floor(), y.floor());
        let (fx, fy) = (x - left, y - top);
        let (left, top) = (left as isize, top as isize);
        let corners = [at(left, top), at(left + 1, top), at(left, top + 1), at(left + 1, top + 1)];
        let weights = [(1.0 - fx) * (1.0 - fy), fx * (1.0 - fy), (1.0 - fx) * fy, fx * fy];
        std::array::from_fn(|c| corners.iter().zip(weights).map(|(corner, weight)| corner[c] * weight).sum())
    }

    fn triangle(&self, canvas: &mut Canvas, clip: Rect, id: TextureId, corners: [Vertex; 3]) {
        let [a, b, c] = corners.map(|corner| corner.pos);
        let area = (b.x - a.x) * (c.y - a.y) - (c.x - a.x) * (b.y - a.y);
        if area.abs() < 1e-6 {
            return;
        }
        let bounds = Rect::from_points(&[a, b, c]).intersect(clip);
        // Pixels whose centres lie inside, both edges included.
        let from = |low: f32| (low - 0.5).ceil().max(0.0) as usize;
        let upto = |high: f32| (high + 0.5).floor().max(0.0) as usize;
        for y in from(bounds.top())..upto(bounds.bottom()).min(canvas.height) {
            for x in from(bounds.left())..upto(bounds.right()).min(canvas.width) {
                let p = Pos2::new(x as f32 + 0.5, y as f32 + 0.5);
                // From the same end of an edge for both triangles that share it, so that their signs agree.
                let cross = |from: Pos2, to: Pos2| {
                    (to.x - from.x) * (p.y - from.y) - (p.x - from.x) * (to.y - from.y)
                };
                let edge = |from: Pos2, to: Pos2| {
                    let turned = (from.x, from.y) > (to.x, to.y);
                    (if turned { -cross(to, from) } else { cross(from, to) }) / area
                };
                let weights = [edge(b, c), edge(c, a), edge(a, b)];
                // A pixel on a shared edge belongs to one of the two triangles.
                let is_in = |n: usize, from: Pos2, to: Pos2| {
                    let first = (to.y - from.y, from.x - to.x) > (0.0, 0.0);
                    weights[n] > 0.0 || weights[n] == 0.0 && first == (area > 0.0)
                };
                if !(is_in(0, b, c) && is_in(1, c, a) && is_in(2, a, b)) {
                    continue;
                }
                let mix = |get: &dyn Fn(&Vertex) -> f32| {
                    corners.iter().zip(weights).map(|(v, w)| get(v) * w).sum::<f32>()
                };
                let texel = self.sample(id, Pos2::new(mix(&|v| v.uv.x), mix(&|v| v.uv.y)));
                let color: [f32; 4] =
                    std::array::from_fn(|n| texel[n] * mix(&|v| f32::from(v.color.to_array()[n])) / 255.0);
                canvas.blend(x, y, color);
            }
        }
    }
}

struct Canvas {
    width: usize,
    height: usize,
    pixels: Vec<[f32; 3]>,
}

impl Canvas {
    /// Premultiplied, and in gamma space, as egui's own renderers do it.
    fn blend(&mut self, x: usize, y: usize, color: [f32; 4]) {
        let pixel = &mut self.pixels[y * self.width + x];
        for (below, above) in pixel.iter_mut().zip(color) {
            *below = above + *below * (1.0 - color[3] / 255.0);
        }
    }
}

impl TestRenderer for Soft {
    fn handle_delta(&mut self, delta: &mut TexturesDelta) {
        for (id, images) in delta.set.drain() {
            for image in images {
                self.set(id, &image);
            }
        }
        for id in delta.free.drain() {
            self.textures.remove(&id);
        }
    }

    fn render(&mut self, ctx: &egui::Context, output: &FullOutput) -> Result<RgbaImage, String> {
        let scale = ctx.pixels_per_point();
        let size = ctx.content_rect().size() * scale;
        let (width, height) = (size.x.round() as usize, size.y.round() as usize);
        let mut canvas = Canvas { width, height, pixels: vec![[0.0; 3]; width * height] };
        for primitive in ctx.tessellate(output.shapes.clone(), scale) {
            let clip = Rect::from_min_max(
                (primitive.clip_rect.min.to_vec2() * scale).to_pos2(),
                (primitive.clip_rect.max.to_vec2() * scale).to_pos2(),
            );
            let Primitive::Mesh(mesh) = primitive.primitive else { continue };
            for corners in mesh.indices.chunks_exact(3) {
                let corner = |n: usize| {
                    let vertex = mesh.vertices[corners[n] as usize];
                    Vertex { pos: (vertex.pos.to_vec2() * scale).to_pos2(), ..vertex }
                };
                self.triangle(&mut canvas, clip, mesh.texture_id, [corner(0), corner(1), corner(2)]);
            }
        }
        let bytes = canvas.pixels.iter().flat_map(|p| {
            let [r, g, b] = p.map(|channel| channel.round().clamp(0.0, 255.0) as u8);
            [r, g, b, 255]
        });
        RgbaImage::from_raw(width as u32, height as u32, bytes.collect()).ok_or_else(|| "size".to_owned())
    }
}

/// A pixel of an image as egui's color.
pub(crate) fn pixel(image: &RgbaImage, at: Pos2) -> Color32 {
    let [r, g, b, _] = image.get_pixel(at.x as u32, at.y as u32).0;
    Color32::from_rgb(r, g, b)
}
