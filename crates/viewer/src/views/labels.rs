//! Names written into bands that have room for them.

use egui::{Align2, Color32, Painter, Pos2, Rect, Vec2, pos2, vec2};
use vramscope_engine::color::{ColorBy, Coloring};
use vramscope_engine::{Owner, Tile, paint};
use vramscope_format::{elide_place, size};

use crate::color::rgb;
use crate::theme::{self, Palette};
use crate::view::View;
use crate::views::timeline::Shown;

/// A band must be so large for a name, in points.
const ROOM: Vec2 = vec2(90.0, 15.0);
/// Columns that are looked at.
const STEP: usize = 24;
/// More names are noise.
const MOST: usize = 60;

/// A place with room for a name, in pixels of the tile.
struct Place {
    owner: u32,
    rect: Rect,
    /// It lies above the lowest moment of its columns.
    pale: bool,
}

/// Where names go, worked out once for a picture.
#[derive(Default)]
pub(crate) struct Labels {
    version: u64,
    places: Vec<Place>,
}

impl Labels {
    /// Draws them where none of `taken` is.
    pub(crate) fn draw(
        &mut self,
        painter: &Painter,
        shown: &Shown,
        (view, plot): (&View, Rect),
        taken: &[Rect],
        coloring: &Coloring<'_>,
    ) {
        let (tile, version) = (&*shown.tile, shown.version);
        // Names are for bands that have their final place.
        if tile.stretch.x != view.x
            || tile.y != view.y
            || !matches!(coloring.by, ColorBy::Stack | ColorBy::Category)
        {
            return;
        }
        let scale = painter.pixels_per_point();
        if self.version != version {
            self.version = version;
            self.places = places(tile, ROOM * scale);
        }
        for Place { owner, rect, pale } in &self.places {
            let Some(owner) = tile.owners.get(*owner as usize) else { continue };
            let at = |p: Pos2| pos2(plot.left() + p.x / scale, plot.bottom() - p.y / scale);
            let rect = Rect::from_two_pos(at(rect.min), at(rect.max));
            let color = coloring.of(owner);
            let behind = if *pale { paint::paled(color, coloring.ground) } else { color };
            write(painter, rect, taken, (owner, tile.line(owner.line)), rgb(behind));
        }
    }
}

fn write(painter: &Painter, rect: Rect, taken: &[Rect], (owner, line): (&Owner, &str), behind: Color32) {
    let color = Palette::on(behind).gamma_multiply(0.85);
    let size = size(owner.requested);
    let inner = painter.with_clip_rect(rect.intersect(painter.clip_rect()).shrink2(vec2(4.0, 0.0)));
    let middle = pos2(rect.left() + 6.0, rect.center().y);
    let put = |down: f32, text: String, color: Color32| {
        let galley = inner.layout_no_wrap(text, theme::tick(), color);
        let place = Align2::LEFT_CENTER.anchor_size(middle + vec2(0.0, down), galley.size());
        if !taken.iter().any(|taken| taken.intersects(place)) {
            inner.galley(place.min, galley, color);
        }
    };
    let two = rect.height() > 34.0;
    let room = theme::columns(painter, &theme::tick(), rect.width() - 12.0);
    let line = elide_place(line, if two { room } else { room.saturating_sub(size.len() + 2) });
    if two {
        put(-7.0, line, color);
        put(7.0, size, color.gamma_multiply(0.8));
    } else {
        put(0.0, format!("{size}  {line}"), color);
    }
}

/// The widest room of each owner among the columns looked at.
fn places(tile: &Tile, room: Vec2) -> Vec<Place> {
    let height = tile.height.max(1) as usize;
    let columns: Vec<&[u32]> = tile.cells.chunks(height).collect();
    let mut best: std::collections::HashMap<u32, Rect> = std::collections::HashMap::new();
    let high = room.y as usize;
    for x in (0..columns.len()).step_by(STEP) {
        let mut row = 0;
        for run in columns[x].chunk_by(|a, b| a == b) {
            let (start, cell) = (row, run[0]);
            row += run.len();
            let Some(owner) = cell.checked_sub(Tile::FIRST_OWNER) else { continue };
            if run.len() < high {
                continue;
            }
            if best.get(&owner).is_some_and(|rect| rect.contains(pos2(x as f32, rect.center().y))) {
                continue;
            }
            // As far to the right as the whole height stays in the band.
            let (mut low, mut top, mut right) = (start, row, x);
            while let Some(column) = columns.get(right + 1) {
                let inside = |at: usize| column.get(at) == Some(&cell);
                let (mut a, mut b) = (low, top);
                while a < b && !inside(a) {
                    a += 1;
                }
                while b > a && !inside(b - 1) {
                    b -= 1;
                }
                if b - a < high {
                    break;
                }
                (low, top) = (a, b);
                right += 1;
            }
            let rect = Rect::from_min_max(pos2(x as f32, low as f32), pos2(right as f32 + 1.0, top as f32));
            if rect.width() >= room.x && best.get(&owner).is_none_or(|known| known.width() < rect.width()) {
                best.insert(owner, rect);
            }
        }
    }
    let place = |(owner, rect): (u32, Rect)| {
        let middle = rect.center();
        Place { owner, rect, pale: middle.y as usize >= tile.solid(rect.left() as usize + 3) }
    };
    let mut places: Vec<Place> = best.into_iter().map(place).collect();
    places.sort_by(|a, b| b.rect.area().total_cmp(&a.rect.area()).then(a.owner.cmp(&b.owner)));
    places.truncate(MOST);
    places
}
