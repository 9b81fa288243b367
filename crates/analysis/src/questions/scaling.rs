//! How bytes grow with a number that differs between files, such as the batch or the sequence.

use serde::Serialize;

/// How bytes follow a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Law {
    /// They do not depend on it.
    Constant,
    /// They grow with it, beside a part that does not.
    Linear,
    /// They grow with its square, beside a part that does not.
    Quadratic,
    /// None of these describes them.
    Irregular,
}

impl Law {
    /// The word for it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Constant => "constant",
            Self::Linear => "linear",
            Self::Quadratic => "quadratic",
            Self::Irregular => "irregular",
        }
    }
}

/// A law with its numbers: `constant + factor × x` or `constant + factor × x²`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Fit {
    /// Which law.
    pub law: Law,
    /// Bytes that do not depend on the number.
    pub constant: f64,
    /// Bytes for each of it, or of its square.
    pub factor: f64,
}

/// A law may miss values by this share of the largest.
const MISS: f64 = 0.03;

impl Fit {
    /// The simplest law that describes the bytes at some numbers. At least three points are needed.
    pub fn of(points: &[(f64, u64)]) -> Self {
        let most = points.iter().map(|(_, bytes)| *bytes).max().unwrap_or(0) as f64;
        let mean = points.iter().map(|(_, bytes)| *bytes as f64).sum::<f64>() / points.len().max(1) as f64;
        let irregular = Self { law: Law::Irregular, constant: most, factor: 0.0 };
        if points.len() < 3 {
            return irregular;
        }
        let constant = Self { law: Law::Constant, constant: mean, factor: 0.0 };
        let fits = [constant, line(points, Law::Linear), line(points, Law::Quadratic)];
        let is_close = |fit: &Self| fit.worst(points) <= most * MISS && fit.constant >= -most * MISS;
        // A constant comes before laws that describe its noise; of the others the closer one.
        if is_close(&constant) {
            return constant;
        }
        let close = fits.into_iter().filter(is_close);
        close.min_by(|a, b| a.worst(points).total_cmp(&b.worst(points))).unwrap_or(irregular)
    }

    /// Bytes at a number.
    pub fn at(&self, x: f64) -> f64 {
        self.constant + self.factor * power(self.law, x)
    }

    fn worst(&self, points: &[(f64, u64)]) -> f64 {
        points.iter().map(|&(x, bytes)| (self.at(x) - bytes as f64).abs()).fold(0.0, f64::max)
    }
}

fn power(law: Law, x: f64) -> f64 {
    if law == Law::Quadratic { x * x } else { x }
}

/// The straight line through the points with the least squares.
fn line(points: &[(f64, u64)], law: Law) -> Fit {
    let n = points.len() as f64;
    let sum = |of: &dyn Fn(f64, f64) -> f64| {
        points.iter().map(|&(x, bytes)| of(power(law, x), bytes as f64)).sum::<f64>()
    };
    let (x, y) = (sum(&|x, _| x) / n, sum(&|_, y| y) / n);
    let (spread, both) = (sum(&|own, _| (own - x) * (own - x)), sum(&|own, bytes| (own - x) * (bytes - y)));
    let factor = if spread > 0.0 { both / spread } else { 0.0 };
    Fit { law, constant: y - factor * x, factor }
}

/// The largest number at which the sum of some fits is at most `bytes`; `None` if it does not grow, or is above from
/// the start.
pub fn largest_within(fits: &[Fit], bytes: f64) -> Option<f64> {
    let total = |x: f64| fits.iter().map(|fit| fit.at(x)).sum::<f64>();
    if total(0.0) > bytes || fits.iter().all(|fit| fit.factor <= 0.0) {
        return None;
    }
    // Sums of such fits may fall at first; what is asked is where they leave the limit for good.
    let mut above = 1.0_f64;
    while total(above) <= bytes {
        above *= 2.0;
        if above > 1e18 {
            return None;
        }
    }
    let mut below = 0.0_f64;
    for _ in 0..100 {
        let middle = f64::midpoint(below, above);
        if total(middle) <= bytes { below = middle } else { above = middle }
    }
    Some(below)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn laws_are_told_apart() {
        let points = |of: fn(u64) -> u64| [128, 256, 512].map(|x: u64| (x as f64, of(x)));
        assert_eq!(Fit::of(&points(|_| 7_000)).law, Law::Constant);
        let linear = Fit::of(&points(|x| 1_000 + 40 * x));
        assert_eq!(linear.law, Law::Linear);
        assert!((linear.constant - 1_000.0).abs() < 1e-6 && (linear.factor - 40.0).abs() < 1e-9);
        let quadratic = Fit::of(&points(|x| 500 + 3 * x * x));
        assert_eq!(quadratic.law, Law::Quadratic);
        assert!((quadratic.at(1024.0) - (500.0 + 3.0 * 1024.0 * 1024.0)).abs() < 1.0);
        assert_eq!(Fit::of(&[(1.0, 5), (2.0, 900), (3.0, 7)]).law, Law::Irregular);
        assert_eq!(Fit::of(&[(1.0, 5), (2.0, 10)]).law, Law::Irregular, "two points prove nothing");
    }

    #[test]
    fn the_largest_that_fits() {
        let fits = [
            Fit { law: Law::Constant, constant: 100.0, factor: 0.0 },
            Fit { law: Law::Quadratic, constant: 0.0, factor: 1.0 },
        ];
        let found = largest_within(&fits, 200.0).unwrap();
        assert!((found - 10.0).abs() < 1e-6, "{found}");
        assert_eq!(largest_within(&fits, 50.0), None, "not even at 0");
        assert_eq!(largest_within(&fits[..1], 200.0), None, "it does not grow");
    }
}
