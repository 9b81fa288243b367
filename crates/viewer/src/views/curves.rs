//! A curve per rank on one scale, so that the one that is unlike the others is seen before anything is read: what a rank
//! has more or less than the median of all is shaded.

use std::sync::Arc;

use egui::{Color32, Mesh, Painter, Rect, Shape, Stroke, pos2};
use vramscope_analysis::{LEAST_RANKS, median};
use vramscope_engine::{AskCurve, Curve, Source, Stretch};

use crate::app::App;
use crate::requests::Slot;
use crate::theme::Palette;

/// Columns of a curve.
const COLUMNS: u32 = 96;
/// Differences of less than this many points are not shaded.
const LEAST_POINTS: f32 = 0.75;

/// The curves as they came last.
#[derive(Default)]
pub(crate) struct RankCurves {
    /// What they were made from: the version of each answer.
    versions: Vec<(Source, u64)>,
    levels: Vec<Vec<i64>>,
    /// Column by column; nothing where there are too few ranks, or files that are no ranks of one run.
    median: Vec<i64>,
}

impl RankCurves {
    /// The levels of a device, if they are known.
    pub(crate) fn of(&self, source: Source) -> Option<&[i64]> {
        let at = self.versions.iter().position(|(known, _)| *known == source)?;
        self.levels.get(at).map(Vec::as_slice)
    }

    /// What the median rank has, column by column.
    #[cfg(test)]
    pub(crate) fn median(&self) -> &[i64] {
        &self.median
    }
}

/// Asks for what is missing, and takes in what has come.
pub(crate) fn update(app: &mut App) {
    let axis = app.settings.axis;
    let devices = app.files.devices.iter();
    let devices = devices.filter_map(|device| Some((device.source, device.summary.clone()?)));
    let wanted: Vec<_> = devices
        .map(|(of, summary)| {
            // A rank without a clock is drawn over its events.
            let axis = if summary.time.is_some() { axis } else { Default::default() };
            (of, Stretch { axis, x: (0.0, summary.length(axis)), width: COLUMNS })
        })
        .collect();
    let answers: Vec<_> = wanted
        .into_iter()
        .filter_map(|(of, stretch)| {
            let answer = app.requests.want(Slot::RankCurve(of), AskCurve { of, stretch })?;
            Some((of, answer.version, answer.value))
        })
        .collect();
    let versions: Vec<_> = answers.iter().map(|(of, version, _)| (*of, *version)).collect();
    if versions == app.parts.rank_curves.versions {
        return;
    }
    let levels: Vec<Vec<i64>> = answers.iter().map(|(.., curve)| levels(curve)).collect();
    let median = match app.files.are_ranks() && levels.len() >= LEAST_RANKS {
        true => (0..COLUMNS as usize)
            .map(|column| median(levels.iter().filter_map(|levels| levels.get(column).copied()).collect()))
            .collect(),
        false => Vec::new(),
    };
    app.parts.rank_curves = RankCurves { versions, levels, median };
}

fn levels(curve: &Arc<Curve>) -> Vec<i64> {
    curve.most.iter().map(|numbers| numbers.as_ref().map_or(0, |numbers| numbers.requested)).collect()
}

/// Draws the curve of a device, up to `most` bytes.
pub(crate) fn draw(
    curves: &RankCurves,
    of: Source,
    most: i64,
    painter: &Painter,
    rect: Rect,
    palette: &Palette,
) {
    let Some(levels) = curves.of(of) else { return };
    let y = |bytes: i64| rect.bottom() - rect.height() * (bytes.max(0) as f32 / most.max(1) as f32).min(1.0);
    let x = |column: usize| rect.left() + rect.width() * column as f32 / levels.len().max(1) as f32;
    let (mut area, mut off) = (Mesh::default(), Mesh::default());
    let fill = palette.accent.gamma_multiply(if palette.dark { 0.30 } else { 0.24 });
    let mut line = Vec::with_capacity(levels.len() * 2);
    for (column, &bytes) in levels.iter().enumerate() {
        let (left, right, top) = (x(column), x(column + 1), y(bytes));
        area.add_colored_rect(Rect::from_x_y_ranges(left..=right, top..=rect.bottom()), fill);
        line.extend([pos2(left, top), pos2(right, top)]);
        if let Some(&median) = curves.median.get(column) {
            let middle = y(median);
            if (middle - top).abs() >= LEAST_POINTS {
                let part = Rect::from_x_y_ranges(left..=right, top.min(middle)..=top.max(middle));
                off.add_colored_rect(part, shade(palette));
            }
        }
    }
    painter.add(Shape::mesh(area));
    painter.add(Shape::mesh(off));
    painter.line(line, Stroke::new(1.0, palette.accent.gamma_multiply(0.9)));
    painter.hline(rect.x_range(), rect.bottom() - 0.5, palette.hairline());
}

/// What is between a rank and the median.
fn shade(palette: &Palette) -> Color32 {
    palette.select.gamma_multiply(if palette.dark { 0.50 } else { 0.42 })
}
