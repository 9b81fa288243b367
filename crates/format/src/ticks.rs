//! Ticks of axes: round numbers in the unit that is shown.

use crate::amount::count;

/// A tick: where, and what it says.
#[derive(Clone, Debug, PartialEq)]
pub struct Tick {
    /// Where.
    pub at: f64,
    /// What it says.
    pub text: String,
}

/// Ticks of bytes, round in the unit that is shown: that of the upper end, or a smaller one for small steps.
pub fn byte_ticks(range: (f64, f64), most: usize) -> Vec<Tick> {
    const UNITS: [&str; 5] = ["B", "KiB", "MiB", "GiB", "TiB"];
    let least = (range.1 - range.0) / most.max(1) as f64;
    let top = (0..5).rev().find(|&unit| range.1 >= 1024_f64.powi(unit)).unwrap_or(0);
    // A step of less than a hundredth is better told in the next smaller unit.
    let unit = (0..=top).rev().find(|&unit| least >= 0.005 * 1024_f64.powi(unit)).unwrap_or(0);
    let size = 1024_f64.powi(unit);
    let mut step = 0.01;
    while step * size < least {
        step = next_round(step);
    }
    if unit == 0 {
        step = step.max(1.0);
    }
    let decimals = (0..3).find(|&n| is_whole(step * 10_f64.powi(n))).unwrap_or(2) as usize;
    let text = |at: f64| format!("{:.decimals$} {}", at / size, UNITS[unit as usize]);
    ticks(range, step * size)
        .map(|at| Tick { at, text: if at == 0.0 { "0".into() } else { text(at) } })
        .collect()
}

/// 1, 2, 5, 10, 20, …
fn next_round(step: f64) -> f64 {
    let leading = (step / 10_f64.powf(step.log10().floor() + 1e-9)).round();
    if leading == 2.0 { step * 2.5 } else { step * 2.0 }
}

fn is_whole(x: f64) -> bool {
    (x - x.round()).abs() < 1e-6
}

/// Ticks of event numbers, where each takes effect: the moment *m* lies from *m* to *m* + 1 and follows event *m* - 1.
pub fn event_ticks(range: (f64, f64), most: usize) -> Vec<Tick> {
    let step = round_step((range.1 - range.0) / most.max(1) as f64, 10.0, &[1.0, 2.0, 5.0]).max(1.0);
    let events = (range.0.max(1.0) - 1.0, range.1 - 1.0);
    ticks(events, step).map(|event| Tick { at: event + 1.0, text: count(event as u64) }).collect()
}

/// Ticks of time since the first event.
pub fn time_ticks(range: (f64, f64), most: usize) -> Vec<Tick> {
    let step = round_step((range.1 - range.0) / most.max(1) as f64, 10.0, &[1.0, 2.0, 5.0]).max(1.0);
    ticks(range, step).map(|at| Tick { at, text: micros(at, step) }).collect()
}

/// Microseconds in the unit of a step, with as many digits as it needs.
fn micros(micros: f64, step: f64) -> String {
    let (unit, name) = match micros.abs().max(step) {
        x if x >= 1e6 => (1e6, "s"),
        x if x >= 1e3 => (1e3, "ms"),
        _ => (1.0, "µs"),
    };
    let decimals = (0..6).find(|&n| is_whole(step / unit * 10_f64.powi(n))).unwrap_or(3) as usize;
    format!("{:.decimals$} {name}", micros / unit)
}

/// The least round step that is not below `least`.
fn round_step(least: f64, base: f64, steps: &[f64]) -> f64 {
    let least = least.max(f64::MIN_POSITIVE);
    let mut unit = base.powf(least.log(base).floor().max(0.0));
    loop {
        if let Some(step) = steps.iter().map(|step| step * unit).find(|&step| step >= least) {
            return step;
        }
        unit *= base;
    }
}

fn ticks(range: (f64, f64), step: f64) -> impl Iterator<Item = f64> {
    let first = (range.0 / step).ceil();
    let count = ((range.1 / step).floor() - first + 1.0).clamp(0.0, 100.0) as usize;
    (0..count).map(move |n| (first + n as f64) * step)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_round_in_the_unit_that_is_shown() {
        let texts = |ticks: Vec<Tick>| ticks.into_iter().map(|tick| tick.text).collect::<Vec<_>>();
        let gib = f64::from(1 << 30);
        assert_eq!(texts(byte_ticks((0.0, 4.1 * gib), 6)), ["0", "1 GiB", "2 GiB", "3 GiB", "4 GiB"]);
        assert_eq!(
            texts(byte_ticks((0.0, 1.21 * gib), 7)),
            ["0", "0.2 GiB", "0.4 GiB", "0.6 GiB", "0.8 GiB", "1.0 GiB", "1.2 GiB"]
        );
        assert_eq!(texts(byte_ticks((0.0, 700.0 * 1024.0), 5)), ["0", "200 KiB", "400 KiB", "600 KiB"]);
        assert_eq!(texts(time_ticks((0.0, 0.9e6), 5)), ["0 ms", "200 ms", "400 ms", "600 ms", "800 ms"]);
        assert_eq!(texts(event_ticks((9.5, 31_000.0), 4)), ["10 000", "20 000", "30 000"]);
        // Event 3 makes the moment 4.
        assert_eq!(event_ticks((2.0, 5.0), 3)[2], Tick { at: 4.0, text: "3".into() });
    }
}
