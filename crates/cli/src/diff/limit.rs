//! How much more B may have than A: `--fail-on`.

use std::str::FromStr;

use vramscope_format::parse_bytes;

use super::Totals;
use crate::measure::Measure;
use crate::text;

/// A limit as it is typed: `peak+5%`, `end:reserved+100MiB`.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Limit {
    text: String,
    measure: Measure,
    more: More,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum More {
    Bytes(u64),
    Percent(f64),
}

impl FromStr for Limit {
    type Err = String;

    fn from_str(typed: &str) -> Result<Self, String> {
        let wrong = || format!("'{typed}' is not a limit (try peak+5%, end:reserved+100MiB)");
        let (what, more) = typed.split_once('+').ok_or_else(wrong)?;
        let measure = Measure::parse(what).ok_or_else(wrong)?;
        let more = match more.strip_suffix('%') {
            Some(percent) => More::Percent(percent.parse().map_err(|_| wrong())?),
            None => More::Bytes(parse_bytes(more)?),
        };
        Ok(Self { text: typed.to_owned(), measure, more })
    }
}

impl Limit {
    /// What is wrong with these values, if anything.
    pub(super) fn exceeded(&self, before: &Totals, after: &Totals) -> Option<String> {
        let get = |totals: &Totals| self.measure.of(&totals.peak, &totals.end);
        let (before, after) = (get(before), get(after));
        let allowed = match self.more {
            More::Bytes(bytes) => vramscope_format::signed(bytes),
            More::Percent(percent) => (before.max(0) as f64 * percent / 100.0) as i64,
        };
        let grown = after.saturating_sub(before);
        (grown > allowed).then(|| {
            format!(
                "{}: {} is {}, was {} ({}, {} allowed)",
                self.text,
                self.measure.words(),
                text::bytes(after),
                text::bytes(before),
                text::signed(grown),
                text::signed(allowed)
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use vramscope_analysis::Counter;

    #[test]
    fn limits_as_they_are_typed() {
        let limit: Limit = "end:reserved+1KiB".parse().unwrap();
        let reserved = Measure { at_peak: false, counter: Counter::Reserved };
        assert_eq!((limit.measure, limit.more), (reserved, More::Bytes(1024)));
        let totals = |bytes| Totals { peak: [bytes; 4], end: [bytes; 4] };
        let limit: Limit = "peak+5%".parse().unwrap();
        assert_eq!(limit.exceeded(&totals(1000), &totals(1050)), None);
        let message = limit.exceeded(&totals(1000), &totals(1051)).unwrap();
        assert_eq!(message, "peak+5%: peak requested is 1.03 KiB, was 1000 B (+51 B, +50 B allowed)");
        assert!("peak-5%".parse::<Limit>().unwrap_err().contains("try peak+5%"));
    }
}
