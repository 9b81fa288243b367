//! Colors that mean the same on every surface.

use std::sync::LazyLock;

/// A calm color that is always the same for a name: even lightness and chroma, the hue from the name.
pub fn of(name: &str) -> [u8; 3] {
    let hash = number(name);
    oklch(0.66 + f64::from(hash >> 16 & 7) / 100.0, 0.11, f64::from(hash % 360))
}

/// A number that is always the same for a name: FNV-1a.
pub fn number(name: &str) -> u32 {
    name.bytes().fold(0x811c_9dc5, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193))
}

/// An OKLCH color as the red, green and blue that every program understands.
pub fn oklch(lightness: f64, chroma: f64, hue: f64) -> [u8; 3] {
    let (sin, cos) = hue.to_radians().sin_cos();
    let (a, b) = (chroma * cos, chroma * sin);
    let l = (lightness + 0.396_337_777_4 * a + 0.215_803_757_3 * b).powi(3);
    let m = (lightness - 0.105_561_345_8 * a - 0.063_854_172_8 * b).powi(3);
    let s = (lightness - 0.089_484_177_5 * a - 1.291_485_548 * b).powi(3);
    let linear = [
        4.076_741_662_1 * l - 3.307_711_591_3 * m + 0.230_969_929_2 * s,
        -1.268_438_004_6 * l + 2.609_757_401_1 * m - 0.341_319_396_5 * s,
        -0.004_196_086_3 * l - 0.703_418_614_7 * m + 1.707_614_701 * s,
    ];
    linear.map(|light| STEPS.partition_point(|&step| step <= light) as u8)
}

/// How much light makes each level of sRGB but the first. A picture has thousands of colors, and a power for each
/// of them is what would take longest.
static STEPS: LazyLock<[f64; 255]> = LazyLock::new(|| {
    std::array::from_fn(|level| {
        let encoded = (level as f64 + 0.5) / 255.0;
        if encoded <= 0.040_45 { encoded / 12.92 } else { ((encoded + 0.055) / 1.055).powf(2.4) }
    })
});

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn colors_as_css_computes_them() {
        // oklch(1 0 0) is white; oklch(0.62796 0.25768 29.23) is pure red.
        assert_eq!(oklch(1.0, 0.0, 0.0), [255, 255, 255]);
        assert_eq!(oklch(0.627_955, 0.257_683, 29.234), [255, 0, 0]);
        assert_eq!(of("f"), of("f"));
    }
}
