//! Draws what egui tessellates on the processor, so that a picture of the window needs no graphics driver and is
//! the same on every machine. A crate of its own, so that tests of the window, which are not optimized, have one that
//! is.

use std::collections::HashMap;

use egui::epaint::{ImageDelta, Primitive, Vertex};
use egui::{Color32, ColorImage, FullOutput, Pos2, Rect, TextureFilter, TextureId, TexturesDelta};
use egui_kittest::TestRenderer;
use image::RgbaImage;

/// A renderer without a graphics driver.
#[derive(Default)]
pub struct Soft {
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
        let edges = [Edge::new(b, c, area), Edge::new(c, a, area), Edge::new(a, b, area)];
        let bounds = Rect::from_points(&[a, b, c]).intersect(clip);
        // Pixels whose centres lie inside, both edges included.
        let from = |low: f32| (low - 0.5).ceil().max(0.0) as usize;
        let upto = |high: f32| (high + 0.5).floor().max(0.0) as usize;
        let plain = corners[1..].iter().all(|v| v.uv == corners[0].uv && v.color == corners[0].color);
        let color = |weights: [f32; 3]| -> [f32; 4] {
            let mix = |get: &dyn Fn(&Vertex) -> f32| {
                corners.iter().zip(weights).map(|(v, w)| get(v) * w).sum::<f32>()
            };
            let texel = self.sample(id, Pos2::new(mix(&|v| v.uv.x), mix(&|v| v.uv.y)));
            std::array::from_fn(|n| texel[n] * mix(&|v| f32::from(v.color.to_array()[n])) / 255.0)
        };
        let of_all = color([1.0, 0.0, 0.0]);
        for y in from(bounds.top())..upto(bounds.bottom()).min(canvas.height) {
            let (mut x, mut end) = (from(bounds.left()), upto(bounds.right()).min(canvas.width));
            let centre = |x: usize| Pos2::new(x as f32 + 0.5, y as f32 + 0.5);
            let is_in = |x: usize| edges.iter().all(|edge| edge.has(centre(x)));
            // The pixels of a row that are inside lie together.
            for edge in &edges {
                let (low, high) = edge.row(y as f32 + 0.5);
                x = x.max((low - 1.5).max(0.0) as usize);
                end = end.min((high + 1.5).max(0.0) as usize);
            }
            while x < end && !is_in(x) {
                x += 1;
            }
            while end > x && !is_in(end - 1) {
                end -= 1;
            }
            for x in x..end {
                let color =
                    if plain { of_all } else { color(std::array::from_fn(|n| edges[n].weight(centre(x)))) };
                canvas.blend(x, y, color);
            }
        }
    }
}

/// A side of a triangle.
struct Edge {
    from: Pos2,
    to: Pos2,
    area: f32,
}

impl Edge {
    fn new(from: Pos2, to: Pos2, area: f32) -> Self {
        Self { from, to, area }
    }

    /// How far inside a point is: the share of the corner on the other side.
    fn weight(&self, p: Pos2) -> f32 {
        let Self { from, to, area } = *self;
        // From the same end of an edge for both triangles that share it, so that their signs agree.
        let cross =
            |from: Pos2, to: Pos2| (to.x - from.x) * (p.y - from.y) - (p.x - from.x) * (to.y - from.y);
        let turned = (from.x, from.y) > (to.x, to.y);
        (if turned { -cross(to, from) } else { cross(from, to) }) / area
    }

    /// Whether a point is on the inner side. A point on a shared edge belongs to one of the two triangles.
    fn has(&self, p: Pos2) -> bool {
        let weight = self.weight(p);
        let first = (self.to.y - self.from.y, self.from.x - self.to.x) > (0.0, 0.0);
        weight > 0.0 || weight == 0.0 && first == (self.area > 0.0)
    }

    /// About where a row of pixels is on the inner side.
    fn row(&self, y: f32) -> (f32, f32) {
        let (dx, dy) = (self.to.x - self.from.x, self.to.y - self.from.y);
        if dy.abs() < 1e-6 {
            return (0.0, f32::MAX);
        }
        let x = self.from.x + (y - self.from.y) / dy * dx;
        // The weight falls with x where dy and the area have the same sign.
        if (dy > 0.0) == (self.area > 0.0) { (0.0, x) } else { (x, f32::MAX) }
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
        if color[3] >= 254.9 {
            *pixel = [color[0], color[1], color[2]];
            return;
        }
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
pub fn pixel(image: &RgbaImage, at: Pos2) -> Color32 {
    let [r, g, b, _] = image.get_pixel(at.x as u32, at.y as u32).0;
    Color32::from_rgb(r, g, b)
}
