//! Where segments lie in a pane: one after the other, wrapped like text, so that all of them fill it to scale.

use egui::{Rect, pos2, vec2};
use vramscope_engine::MapRange;

/// Between segments.
const GAP: f32 = 4.0;
/// However small a segment is, it can be hit.
const LEAST: f32 = 4.0;
/// Between rows.
const BETWEEN: f32 = 5.0;

/// A part of a segment in one row.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Piece {
    /// Which segment.
    pub(crate) range: usize,
    /// Where, from the upper left corner of the map.
    pub(crate) rect: Rect,
    /// Bytes of the segment, from where to where.
    pub(crate) bytes: (f64, f64),
}

/// A map of segments.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Layout {
    pub(crate) pieces: Vec<Piece>,
    /// Height of all rows.
    pub(crate) height: f32,
    /// Points that a byte is wide.
    pub(crate) scale: f64,
}

impl Layout {
    /// Lays segments out in the order given, as large as they fit into a pane; `zoom` times as large if it is not 1.
    pub(crate) fn new(ranges: &[MapRange], order: &[usize], width: f32, height: f32, zoom: f64) -> Self {
        let row = (height / 9.0).clamp(16.0, 34.0);
        let rows = ((height + BETWEEN) / (row + BETWEEN)).floor().max(1.0);
        let total: f64 = ranges.iter().map(|range| range.size as f64).sum();
        let room = f64::from(width * rows);
        let needed = |scale: f64| -> f64 {
            let wide = |range: &MapRange| (range.size as f64 * scale).max(f64::from(LEAST));
            ranges.iter().map(|range| wide(range) + f64::from(GAP)).sum()
        };
        // The largest scale at which everything fits; if not even the smallest does, the map scrolls.
        let (mut low, mut high) = (0.0, room / total.max(1.0));
        for _ in 0..40 {
            let middle = (low + high) / 2.0;
            if needed(middle) <= room - f64::from(GAP) { low = middle } else { high = middle }
        }
        let scale = low.max(room / total.max(1.0) * 0.05) * zoom;
        let mut layout = Self { scale, ..Self::default() };
        let (mut x, mut y) = (0.0_f32, 0.0_f32);
        for &at in order {
            let Some(range) = ranges.get(at) else { continue };
            let wide = ((range.size as f64 * scale) as f32).max(LEAST);
            let mut done = 0.0;
            // A segment that would begin in the last few points of a row begins the next one.
            if x > 0.0 && width - x < LEAST.max(wide.min(24.0)) {
                (x, y) = (0.0, y + row + BETWEEN);
            }
            while done < wide {
                let part = (wide - done).min((width - x).max(1.0));
                let bytes = |at: f32| f64::from(at / wide) * range.size as f64;
                layout.pieces.push(Piece {
                    range: at,
                    rect: Rect::from_min_size(pos2(x, y), vec2(part, row)),
                    bytes: (bytes(done), bytes(done + part)),
                });
                done += part;
                x += part;
                if done < wide || x >= width {
                    (x, y) = (0.0, y + row + BETWEEN);
                }
            }
            x += if x > 0.0 { GAP } else { 0.0 };
        }
        layout.height = layout.pieces.last().map_or(0.0, |piece| piece.rect.bottom());
        layout
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn segment(addr: u64, size: u64) -> MapRange {
        MapRange {
            addr,
            size,
            stream: 0,
            pool: "default".into(),
            private: false,
            expandable: false,
            blocks: Vec::new(),
        }
    }

    #[test]
    fn segments_fill_the_pane_to_scale_and_overlap_nowhere() {
        let ranges: Vec<_> = [20, 2, 2, 512, 64, 2].iter().map(|mib| segment(mib << 32, mib << 20)).collect();
        let order: Vec<usize> = (0..ranges.len()).collect();
        let layout = Layout::new(&ranges, &order, 600.0, 300.0, 1.0);
        assert!(layout.height <= 300.0 && layout.height > 150.0, "{}", layout.height);
        for (n, piece) in layout.pieces.iter().enumerate() {
            assert!(piece.rect.right() <= 600.5 && piece.rect.left() >= 0.0);
            for other in &layout.pieces[n + 1..] {
                assert!(!piece.rect.shrink(0.1).intersects(other.rect.shrink(0.1)), "{piece:?} {other:?}");
            }
        }
        // Every byte of every segment is somewhere, in order.
        for (at, range) in ranges.iter().enumerate() {
            let pieces: Vec<_> = layout.pieces.iter().filter(|piece| piece.range == at).collect();
            assert_eq!(pieces[0].bytes.0, 0.0);
            assert!((pieces[pieces.len() - 1].bytes.1 - range.size as f64).abs() < 1.0);
            assert!(pieces.windows(2).all(|pair| pair[0].bytes.1 == pair[1].bytes.0));
        }
        let wide = |at: usize| -> f32 {
            layout.pieces.iter().filter(|piece| piece.range == at).map(|piece| piece.rect.width()).sum()
        };
        assert!((wide(3) / wide(4) - 8.0).abs() < 0.1, "512 MiB is eight times as wide as 64 MiB");
    }

    #[test]
    fn many_small_segments_scroll_rather_than_vanish() {
        let ranges: Vec<_> = (0..5000).map(|n| segment(n << 32, 2 << 20)).collect();
        let order: Vec<usize> = (0..ranges.len()).collect();
        let layout = Layout::new(&ranges, &order, 400.0, 200.0, 1.0);
        assert!(layout.height > 200.0);
        assert!(layout.pieces.iter().all(|piece| piece.rect.width() >= 1.0));
    }
}
