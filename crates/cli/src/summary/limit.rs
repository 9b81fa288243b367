//! What a recording may not have: `--fail-on`.

use std::str::FromStr;

use vramscope_analysis::{Finding, Kind, Severity};
use vramscope_format::parse_bytes;

use super::report::{Device, File};
use crate::measure::Measure;
use crate::text;

/// A limit as it is typed: `peak>30GiB`, `peak:reserved>90%`, `oom`, `leak`, `high`, `fragmentation`.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Limit {
    text: String,
    what: What,
}

#[derive(Clone, Debug, PartialEq)]
enum What {
    Above(Measure, Most),
    /// An allocation that failed, also if the program went on.
    OutOfMemory,
    /// Memory that grows from step to step.
    Leak,
    /// A finding at least as bad.
    Severity(Severity),
    /// Findings of a kind.
    Kind(Kind),
    /// One finding, by its id.
    Finding(String),
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Most {
    Bytes(u64),
    /// Percent of what the device has.
    Percent(f64),
}

impl FromStr for Limit {
    type Err = String;

    fn from_str(typed: &str) -> Result<Self, String> {
        let kind = |name: &str| Kind::ALL.into_iter().find(|kind| kind.name() == name);
        let severity = [Severity::Low, Severity::Medium, Severity::High];
        let what = match typed {
            _ if typed.contains('>') => above(typed)?,
            "oom" => What::OutOfMemory,
            "leak" => What::Leak,
            _ => match (severity.into_iter().find(|known| known.name() == typed), kind(typed)) {
                (Some(severity), _) => What::Severity(severity),
                (None, Some(kind)) => What::Kind(kind),
                (None, None) => {
                    typed.split_once('/').and_then(|(name, _)| kind(name)).ok_or_else(|| wrong(typed))?;
                    What::Finding(typed.to_owned())
                }
            },
        };
        Ok(Self { text: typed.to_owned(), what })
    }
}

fn wrong(typed: &str) -> String {
    format!(
        "'{typed}' is not a limit (try 'peak>30GiB', 'peak:reserved>90%', oom, leak, high, or a kind or id of a finding)"
    )
}

fn above(typed: &str) -> Result<What, String> {
    let (measure, most) = typed.split_once('>').ok_or_else(|| wrong(typed))?;
    let measure = Measure::parse(measure.trim()).ok_or_else(|| wrong(typed))?;
    let most = match most.trim().strip_suffix('%') {
        Some(percent) => Most::Percent(percent.parse().map_err(|_| wrong(typed))?),
        None => Most::Bytes(parse_bytes(most.trim())?),
    };
    Ok(What::Above(measure, most))
}

impl Limit {
    /// What is wrong with a file, in a sentence for each device.
    pub(super) fn exceeded(&self, file: &File) -> anyhow::Result<Vec<String>> {
        let mut found = Vec::new();
        for device in &file.devices {
            if let Some(why) = self.on(device)? {
                let path = text::path(std::path::Path::new(&file.path));
                found.push(format!("{}: {path}: {}: {why}", self.text, text::printable(&device.name)));
            }
        }
        Ok(found)
    }

    fn on(&self, device: &Device) -> anyhow::Result<Option<String>> {
        let first = |wanted: &dyn Fn(&Finding) -> bool| {
            device.found.iter().find(|finding| wanted(finding)).map(|finding| finding.what.clone())
        };
        Ok(match &self.what {
            What::Above(measure, most) => return exceeds(*measure, *most, device),
            What::OutOfMemory => match device.failed() {
                0 => None,
                n => Some(text::plural(n, "failed allocation")),
            },
            What::Leak => first(&|finding| matches!(finding.kind, Kind::Growth | Kind::KeptGraph)),
            What::Severity(least) => first(&|finding| finding.severity >= *least),
            What::Kind(kind) => first(&|finding| finding.kind == *kind),
            What::Finding(id) => first(&|finding| finding.id() == *id),
        })
    }
}

fn exceeds(measure: Measure, most: Most, device: &Device) -> anyhow::Result<Option<String>> {
    let (peak, end) = device.totals();
    let Some(bytes) = measure.of(&peak, &end) else {
        anyhow::bail!("{}: the file does not say what is reserved", text::printable(&device.name));
    };
    let allowed = match most {
        Most::Bytes(bytes) => vramscope_format::signed(bytes),
        Most::Percent(percent) => {
            let Some(capacity) = device.capacity() else {
                anyhow::bail!(
                    "{}: how much the device has is not in this file, so there is no percentage; give a size",
                    text::printable(&device.name)
                );
            };
            (capacity as f64 * percent / 100.0) as i64
        }
    };
    Ok((bytes > allowed)
        .then(|| format!("{} is {}, {} allowed", measure.words(), text::bytes(bytes), text::bytes(allowed))))
}

#[cfg(test)]
mod tests {
    use super::*;
    use vramscope_analysis::Counter;

    #[test]
    fn limits_as_they_are_typed() {
        let what = |typed: &str| typed.parse::<Limit>().map(|limit| limit.what);
        let measure = |at_peak, counter| Measure { at_peak, counter };
        assert_eq!(
            what("peak>30GiB"),
            Ok(What::Above(measure(true, Counter::Requested), Most::Bytes(30 << 30)))
        );
        assert_eq!(
            what("end:reserved > 90%"),
            Ok(What::Above(measure(false, Counter::Reserved), Most::Percent(90.0)))
        );
        assert_eq!(what("high"), Ok(What::Severity(Severity::High)));
        assert_eq!(what("fragmentation"), Ok(What::Kind(Kind::Fragmentation)));
        assert_eq!(what("growth/0/train.py:3"), Ok(What::Finding("growth/0/train.py:3".into())));
        assert!(what("peak+5%").unwrap_err().contains("try 'peak>30GiB'"));
        assert!(what("weather").is_err());
    }
}
