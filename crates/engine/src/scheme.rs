//! Which colors lines and kinds of memory have: the usual ones, or those that all eyes tell apart.

use serde::{Deserialize, Serialize};

use crate::color::{Rgb, blend, oklch};
use crate::{Group, LineId};

/// A set of colors.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Scheme {
    /// A hue for every line, in even lightness.
    #[default]
    Standard,
    /// Few colors, which differ in lightness too, so that they are told apart without red, green or blue cones.
    Safe,
}

const BLACK: Rgb = [0; 3];

/// Kinds of memory: eight, and what is not known.
const STANDARD: [Rgb; 9] = [
    [0x56, 0xb4, 0xe9],
    [0xe6, 0x9f, 0x00],
    [0x00, 0x9e, 0x73],
    [0xcc, 0x79, 0xa7],
    [0xd5, 0x5e, 0x00],
    [0x3f, 0x7f, 0xc4],
    [0xd9, 0xcf, 0x3a],
    [0x9a, 0xa3, 0xae],
    [0x5b, 0x64, 0x70],
];

/// The same, found by a search for the largest least distance as seen with and without each kind of cone.
const SAFE: [Rgb; 9] = [
    [0x88, 0xfb, 0xfe],
    [0xe6, 0xa1, 0x00],
    [0x07, 0xa1, 0x83],
    [0xa9, 0x7e, 0xe0],
    [0xd2, 0x65, 0x00],
    [0x00, 0x68, 0xaa],
    [0xef, 0xe1, 0x59],
    [0xb7, 0xbb, 0xc2],
    [0x4a, 0x4e, 0x55],
];

/// The first of these are colors; the others are grays.
const COLORS: usize = 7;

impl Scheme {
    fn kinds(self) -> &'static [Rgb; 9] {
        match self {
            Self::Standard => &STANDARD,
            Self::Safe => &SAFE,
        }
    }

    /// The color of a line of the program, by its number.
    pub fn of_line(self, LineId(line): LineId, step: u32) -> Rgb {
        if line == 0 {
            return oklch(0.56 + 0.03 * (step % 3) as f32, 0.01, 250.0);
        }
        // The hash is spread once more, so that near texts get far hues.
        let hash = line.wrapping_mul(0x9e37_79b1);
        match self {
            Self::Standard => {
                let hue = (hash >> 16) as f32 / 65_536.0 * 360.0;
                let chroma = 0.10 + 0.04 * ((hash >> 8 & 0xff) as f32 / 255.0);
                oklch(0.63 + 0.045 * (step % 3) as f32, chroma, hue)
            }
            Self::Safe => {
                let color = SAFE[(hash >> 16) as usize % COLORS];
                blend(color, BLACK, 0.05 * (step % 3) as f32 + 0.10 * (hash >> 8 & 1) as f32)
            }
        }
    }

    /// The color of one of a few kinds; of all after the last one what is not known.
    pub fn of_kind(self, kind: u32, step: u32) -> Rgb {
        let kinds = self.kinds();
        let color = kinds.get(kind as usize).unwrap_or(&kinds[kinds.len() - 1]);
        blend(*color, BLACK, 0.05 * (step % 3) as f32)
    }

    /// The color of a group, where colors mean what its members have in common.
    pub fn of_group(self, group: &Group) -> Rgb {
        match group {
            Group::Stack(_) => self.of_line(LineId(0), 1),
            Group::Line(line) => self.of_line(*line, 1),
            Group::Category(category) => self.of_kind((*category).into(), 0),
            Group::Module(path) => self.of_line(LineId::of(path), 1),
            Group::Pool(pool) => self.of_kind(pool.0.saturating_sub(1), 0),
            Group::Stream(stream) => self.of_kind(stream.0, 0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What colors in linear light become without one kind of cone (Machado, Oliveira and Fernandes 2009, severity 1):
    /// as all cones see them, without red, green and blue ones.
    const EYES: [[[f64; 3]; 3]; 4] = [
        [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]],
        [
            [0.152_286, 1.052_583, -0.204_868],
            [0.114_503, 0.786_281, 0.099_216],
            [-0.003_882, -0.048_116, 1.051_998],
        ],
        [
            [0.367_322, 0.860_646, -0.227_968],
            [0.280_085, 0.672_501, 0.047_413],
            [-0.011_820, 0.042_940, 0.968_881],
        ],
        [
            [1.255_528, -0.076_749, -0.178_779],
            [-0.078_411, 0.930_809, 0.147_602],
            [0.004_733, 0.691_367, 0.303_900],
        ],
    ];

    fn times(matrix: &[[f64; 3]; 3], v: [f64; 3]) -> [f64; 3] {
        matrix.map(|row| row[0] * v[0] + row[1] * v[1] + row[2] * v[2])
    }

    /// OKLab, in which equal distances look alike.
    fn lab(eye: &[[f64; 3]; 3], color: Rgb) -> [f64; 3] {
        let linear = color.map(|channel| {
            let share = f64::from(channel) / 255.0;
            if share <= 0.040_45 { share / 12.92 } else { ((share + 0.055) / 1.055).powf(2.4) }
        });
        let seen = times(eye, linear).map(|channel| channel.clamp(0.0, 1.0));
        let lms = [
            [0.412_221_470_8, 0.536_332_536_3, 0.051_445_992_9],
            [0.211_903_498_2, 0.680_699_545_1, 0.107_396_956_6],
            [0.088_302_461_9, 0.281_718_837_6, 0.629_978_700_5],
        ];
        let lab = [
            [0.210_454_255_3, 0.793_617_785_0, -0.004_072_046_8],
            [1.977_998_495_1, -2.428_592_205_0, 0.450_593_709_9],
            [0.025_904_037_1, 0.782_771_766_2, -0.808_675_766_0],
        ];
        times(&lab, times(&lms, seen).map(f64::cbrt))
    }

    /// The least distance between two of some colors for any eye.
    fn least_distance(colors: &[Rgb]) -> f64 {
        let mut least = f64::INFINITY;
        for eye in &EYES {
            for (n, a) in colors.iter().enumerate() {
                for b in &colors[n + 1..] {
                    let squares = lab(eye, *a).into_iter().zip(lab(eye, *b)).map(|(a, b)| (a - b).powi(2));
                    least = least.min(squares.sum::<f64>().sqrt());
                }
            }
        }
        least
    }

    #[test]
    fn safe_colors_are_told_apart_without_any_kind_of_cone() {
        // 0.02 can be seen side by side; this is six times as much.
        assert!(least_distance(&SAFE) > 0.12, "{}", least_distance(&SAFE));
        assert!(least_distance(&STANDARD) < 0.06, "the usual colors would do: one scheme is enough");
    }

    #[test]
    fn lines_have_the_colors_that_are_told_apart() {
        let safe: Vec<Rgb> =
            SAFE[..COLORS].iter().flat_map(|color| [*color, blend(*color, BLACK, 0.10)]).collect();
        for line in 1..200 {
            assert!(safe.contains(&Scheme::Safe.of_line(LineId(line), 0)));
        }
    }
}
