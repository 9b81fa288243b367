//! How the peaks of steps develop, and what the next step will need.
//!
//! Peaks that stay level, that grow by about the same each time (a leak, a cache), or by more each time (a batch or a
//! sequence that doubles) say what comes next. Anything else says nothing, and has no trend.

use serde::{Deserialize, Serialize};

use super::insight::ShowBytes;

/// How the peaks of steps develop.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Shape {
    /// They stay level.
    Steady,
    /// Each is higher than the one before by about the same.
    Linear,
    /// What each adds grows, by about the same factor.
    Geometric,
}

/// The peaks of steps, and what follows from them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Trend {
    /// How they develop.
    pub shape: Shape,
    /// What the next step needs.
    pub next: u64,
    /// What each step adds to the one before; the last one, if that grows.
    pub added: u64,
    /// By which factor that grows; 1 if it does not.
    pub factor: f64,
}

/// Fewer steps show no trend.
const LEAST_STEPS: usize = 3;
/// In the first step optimizer state and caches are made; with enough steps it is left out.
const ENOUGH_STEPS: usize = 5;
/// Peaks within this share of each other are level.
const LEVEL: f64 = 0.01;
/// What is added may differ by this factor and still be about the same.
const ALIKE: f64 = 1.5;
/// Peaks that grow by less than this in all, as a share, wander.
const LEAST_GROWTH: f64 = 0.05;

impl Trend {
    /// The trend of peaks in order, if they have one.
    pub fn of(peaks: &[u64]) -> Option<Self> {
        let peaks = if peaks.len() >= ENOUGH_STEPS { peaks.get(1..)? } else { peaks };
        let (first, last) = (*peaks.first()?, *peaks.last()?);
        let (least, most) = (*peaks.iter().min()?, *peaks.iter().max()?);
        if peaks.len() < LEAST_STEPS || most == 0 {
            return None;
        }
        if (most - least) as f64 <= most as f64 * LEVEL {
            return Some(Self { shape: Shape::Steady, next: most, added: 0, factor: 1.0 });
        }
        let added: Vec<f64> = peaks.windows(2).map(|pair| pair[1] as f64 - pair[0] as f64).collect();
        let is_growth = (last as f64 - first as f64) >= first as f64 * LEAST_GROWTH;
        if added.iter().any(|added| *added <= 0.0) || !is_growth {
            return None;
        }
        let factors: Vec<f64> = added.windows(2).map(|pair| pair[1] / pair[0]).collect();
        let latest = added.last().copied().unwrap_or_default();
        let mean = added.iter().sum::<f64>() / added.len() as f64;
        let factor = *factors.last()?;
        if added.iter().all(|added| *added <= mean * ALIKE && *added * ALIKE >= mean) {
            return Some(Self {
                shape: Shape::Linear,
                next: last.saturating_add(mean as u64),
                added: mean as u64,
                factor: 1.0,
            });
        }
        // One factor alone is no rule.
        let is_geometric = factors.len() >= 2
            && factors.iter().all(|own| *own >= ALIKE && *own <= factor * ALIKE && *own * ALIKE >= factor);
        is_geometric.then(|| Self {
            shape: Shape::Geometric,
            next: last.saturating_add((latest * factor) as u64),
            added: latest as u64,
            factor,
        })
    }

    /// Whether each step needs more than the one before.
    pub fn grows(&self) -> bool {
        self.shape != Shape::Steady
    }

    /// The trend in words: `peaks double with each step`.
    pub fn words(&self, bytes: ShowBytes<'_>) -> String {
        match self.shape {
            Shape::Steady => "peaks stay level".to_owned(),
            Shape::Linear => format!("peaks grow by {} with each step", bytes(self.added)),
            Shape::Geometric if (1.8..2.2).contains(&self.factor) => "peaks double with each step".to_owned(),
            Shape::Geometric => {
                format!("peaks grow with each step, {:.1} times as much each time", self.factor)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn peaks_that_double_are_continued() {
        // A base of 50 and a batch that doubles: 50 + 493, 50 + 986, and so on.
        let found = Trend::of(&[543, 1036, 2022, 3994]).unwrap();
        assert_eq!((found.shape, found.next), (Shape::Geometric, 3994 + 2 * 1972));
        assert_eq!(found.words(&|n| n.to_string()), "peaks double with each step");
    }

    #[test]
    fn peaks_that_grow_evenly_are_continued() {
        let found = Trend::of(&[100, 110, 121, 130]).unwrap();
        assert_eq!((found.shape, found.next, found.added), (Shape::Linear, 140, 10));
    }

    #[test]
    fn level_peaks_stay_and_others_have_no_trend() {
        // The first of many steps makes the optimizer's state and does not count.
        let level = Trend::of(&[600, 1000, 1001, 1000, 1002]).unwrap();
        assert_eq!((level.shape, level.next), (Shape::Steady, 1002));
        assert_eq!(Trend::of(&[1000, 700, 900, 1200]), None);
        assert_eq!(Trend::of(&[1000, 2000]), None, "two steps show nothing");
        assert_eq!(Trend::of(&[]), None);
    }
}
