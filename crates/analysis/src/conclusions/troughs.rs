//! Troughs of the curve: the moments at which memory was lowest between two rises. Where nothing else tells steps apart,
//! they lie between them.

use vramscope_replay::{Counter, Moment, Replay};

/// Troughs are a guess at steps: fewer are none.
pub(crate) const LEAST_TROUGHS: usize = 6;

/// Pieces that the trace is cut into to see its shape.
const PIECES: u32 = 4096;
/// How far the curve has to rise and fall between troughs, as shares of its whole height. A leak that has gone on
/// for long makes the steps look small beside it, so smaller ones are tried too.
const SWINGS: [f64; 4] = [0.25, 0.1, 0.04, 0.02];

/// The moments at which requested memory was lowest between two rises.
pub(crate) fn troughs(replay: &Replay) -> Vec<Moment> {
    let end = replay.end().0;
    let width = end.div_ceil(PIECES).max(1);
    let piece = |first: u32| (Moment(first), Moment(first.saturating_add(width).min(end)));
    let pieces: Vec<_> = (0..end)
        .step_by(width as usize)
        .map(|first| {
            let (from, to) = piece(first);
            let (min, max) = replay.extremes(from, to);
            (first, min.requested, max.requested)
        })
        .collect();
    let lowest = pieces.iter().map(|&(_, min, _)| min).min().unwrap_or(0);
    let highest = pieces.iter().map(|&(_, _, max)| max).max().unwrap_or(0);
    for swing in SWINGS {
        let found = lows(&pieces, (highest.saturating_sub(lowest) as f64 * swing) as i64);
        if found.len() >= LEAST_TROUGHS {
            let lowest_in = |first| {
                let (from, to) = piece(first);
                replay.lowest(Counter::Requested, from, to)
            };
            return without_setting_up(replay, found.into_iter().map(lowest_in).collect());
        }
    }
    Vec::new()
}

/// Without the troughs before the model was there and after it was dropped, far below the others.
fn without_setting_up(replay: &Replay, mut troughs: Vec<Moment>) -> Vec<Moment> {
    let level = |at: &Moment| replay.counters(*at).requested;
    let mut levels: Vec<i64> = troughs.iter().map(level).collect();
    levels.sort_unstable();
    let usual = levels.get(levels.len() / 2).copied().unwrap_or(0);
    troughs.retain(|at| level(at) >= usual / 2);
    troughs
}

/// The pieces with the lowest point between two rises of at least `swing`.
fn lows(pieces: &[(u32, i64, i64)], swing: i64) -> Vec<u32> {
    let mut found = Vec::new();
    if swing <= 0 {
        return found;
    }
    let mut high = 0_i64;
    // Where it is lowest since it began to fall; `None` while it rises.
    let mut low: Option<(u32, i64)> = None;
    for &(first, min, max) in pieces {
        match low {
            // In a piece that rises the low comes before the high, so only what was before it counts.
            None if high.saturating_sub(min) >= swing => low = Some((first, min)),
            None => high = high.max(max),
            Some((_, lowest)) if min < lowest => low = Some((first, min)),
            Some((at, lowest)) if max.saturating_sub(lowest) >= swing => {
                found.push(at);
                low = None;
                high = max;
            }
            Some(_) => {}
        }
    }
    found.extend(low.map(|(at, _)| at));
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn troughs_lie_between_rises() {
        // Up to 10 and down to 2, 3, 4; then a dip of 1 that is no trough.
        let curve = [0, 5, 10, 6, 2, 8, 10, 3, 9, 10, 9, 10, 4, 8];
        let pieces: Vec<_> = curve.iter().enumerate().map(|(at, &y)| (at as u32, y, y)).collect();
        assert_eq!(lows(&pieces, 4), [4, 7, 12]);
        assert!(lows(&pieces, 0).is_empty());
        // A staircase, whose pieces reach from one step to the next, has none.
        let stairs: Vec<_> = (0..20).map(|at| (at as u32, at, at + 1)).collect();
        assert!(lows(&stairs, 1).is_empty());
    }
}
