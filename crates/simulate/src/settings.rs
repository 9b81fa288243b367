//! The allocator's settings: the syntax of `PYTORCH_CUDA_ALLOC_CONF`, and the rules that follow from it alone
//! (rounding, splitting, segment sizes).

use std::fmt;

use vramscope_snapshot as snapshot;

const MIB: u64 = 1 << 20;
/// Every block is a multiple of this.
pub(crate) const MIN_BLOCK: u64 = 512;
/// Requests up to this (after rounding) are served from small segments.
pub(crate) const SMALL_REQUEST: u64 = MIB;
/// Size of a small segment; larger segments are multiples of it.
pub(crate) const SMALL_SEGMENT: u64 = 2 * MIB;
/// From this size on a segment is as large as the request.
const OWN_SEGMENT: u64 = 10 * MIB;
/// Default size of a segment that serves requests of 1 to 10 MiB.
const LARGE_SEGMENT: u64 = 20 * MIB;

/// What decides where the allocator puts a request.
#[derive(Clone, Debug, PartialEq)]
pub struct Settings {
    /// `expandable_segments`
    pub expandable: bool,
    /// `max_split_size_mb`, in bytes: larger blocks are never split.
    pub max_split: Option<u64>,
    /// `max_non_split_rounding_mb`, in bytes: how much larger than the request an unsplit block may be.
    pub max_non_split_rounding: u64,
    /// `roundup_power2_divisions`: entry 0 for requests below 2 MiB, then one per doubling. 0 or 1 is off.
    pub divisions: [u64; 16],
    /// `garbage_collection_threshold`; 0 is off. Has an effect only with a limit.
    pub gc_threshold: f64,
    /// `large_segment_size_mb`, in bytes.
    pub large_segment: u64,
    /// What `set_per_process_memory_fraction` allows, in bytes.
    pub limit: Option<u64>,
    /// Memory of the device that the process can get, in bytes.
    pub device: Option<u64>,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            expandable: false,
            max_split: None,
            max_non_split_rounding: LARGE_SEGMENT,
            divisions: [0; 16],
            gc_threshold: 0.0,
            large_segment: LARGE_SEGMENT,
            limit: None,
            device: None,
        }
    }
}

/// Why a settings text was refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SettingsError {
    /// No option of PyTorch has this name.
    #[error(
        "'{0}' is not an allocator option (known: expandable_segments, max_split_size_mb, \
         max_non_split_rounding_mb, roundup_power2_divisions, garbage_collection_threshold, \
         large_segment_size_mb, per_process_memory_fraction)"
    )]
    Unknown(String),
    /// The option exists, and its value is not valid.
    #[error("'{value}' is not a valid value for {option}: {expected}")]
    Value {
        /// The option's name.
        option: String,
        /// What was given.
        value: String,
        /// What is allowed.
        expected: &'static str,
    },
    /// The option selects an allocator that has other rules.
    #[error("{0} cannot be simulated: only PyTorch's own caching allocator can")]
    Backend(String),
    /// A fraction of the device's memory needs the device's size.
    #[error("per_process_memory_fraction needs the size of the device (--device-memory)")]
    NoDevice,
}

/// Options that PyTorch accepts and that do not change where memory is placed on the device.
const NO_EFFECT: [&str; 12] = [
    "pinned_num_register_threads",
    "pinned_use_cuda_host_register",
    "pinned_use_hip_host_register",
    "pinned_use_host_register",
    "pinned_use_background_threads",
    "pinned_max_register_threads",
    "pinned_reserve_segment_size_mb",
    "pinned_max_cached_size_mb",
    "release_lock_on_cudamalloc",
    "release_lock_on_hipmalloc",
    "graph_capture_record_stream_reuse",
    "throw_on_cudamalloc_oom",
];

impl Settings {
    /// Parses the text of `PYTORCH_CUDA_ALLOC_CONF` or `PYTORCH_ALLOC_CONF`: `option:value`, separated by commas.
    /// The name of the variable and `=` may stand in front, so that a line can be pasted from a script.
    pub fn parse(text: &str) -> Result<Self, SettingsError> {
        Self::default().with(text)
    }

    /// These settings, changed by what a text sets.
    pub fn with(mut self, text: &str) -> Result<Self, SettingsError> {
        for (option, value) in options(text) {
            self.set(option, value)?;
        }
        Ok(self)
    }

    fn set(&mut self, option: &str, value: &str) -> Result<(), SettingsError> {
        let wrong = |expected| SettingsError::Value { option: option.into(), value: value.into(), expected };
        let mib = |least: u64, expected| {
            let mib = value.parse::<u64>().ok().filter(|&mib| mib >= least);
            mib.and_then(|mib| mib.checked_mul(MIB)).ok_or_else(|| wrong(expected))
        };
        match option {
            "expandable_segments" => {
                self.expandable = match value {
                    "True" | "true" | "1" => true,
                    "False" | "false" | "0" => false,
                    _ => return Err(wrong("True or False")),
                }
            }
            "max_split_size_mb" => self.max_split = Some(mib(20, "a number of MiB, at least 20")?),
            "max_non_split_rounding_mb" => {
                self.max_non_split_rounding = mib(20, "a number of MiB, at least 20")?;
            }
            "large_segment_size_mb" => self.large_segment = mib(2, "a number of MiB, at least 2")?,
            "garbage_collection_threshold" => {
                let threshold = value.parse().ok().filter(|&t: &f64| t > 0.0 && t < 1.0);
                self.gc_threshold = threshold.ok_or_else(|| wrong("a number between 0 and 1"))?;
            }
            "per_process_memory_fraction" => {
                let fraction = value.parse().ok().filter(|&f: &f64| (0.0..=1.0).contains(&f));
                let fraction = fraction.ok_or_else(|| wrong("a number from 0 to 1"))?;
                let device = self.device.ok_or(SettingsError::NoDevice)?;
                self.limit = Some((fraction * device as f64) as u64);
            }
            "roundup_power2_divisions" => {
                self.divisions = divisions(value)
                    .ok_or_else(|| wrong("a power of two, or a list as in [256:1,512:2,>:4]"))?;
            }
            "backend" if value == "native" => {}
            "backend" => return Err(SettingsError::Backend(format!("backend:{value}"))),
            _ if NO_EFFECT.contains(&option) => {}
            _ => return Err(SettingsError::Unknown(option.into())),
        }
        Ok(())
    }

    /// The settings that a file was recorded under. The limit is not among them: files do not have it.
    pub fn recorded(recorded: &snapshot::Settings) -> Result<Self, SettingsError> {
        let text = |name: &str| {
            recorded.all.iter().find(|(option, _)| option == name).map(|(_, value)| value.as_str())
        };
        let mut settings = Self::default();
        // Options that have no entry of their own are only in the text.
        let conf = text("PYTORCH_CUDA_ALLOC_CONF").or_else(|| text("PYTORCH_ALLOC_CONF")).unwrap_or_default();
        for (option, value) in options(conf) {
            match settings.set(option, value) {
                // A version of PyTorch that is newer than this one; the limit is asked for separately.
                Ok(()) | Err(SettingsError::Unknown(_) | SettingsError::NoDevice) => {}
                Err(error) => return Err(error),
            }
        }
        if recorded.is_present() {
            settings.expandable = recorded.expandable_segments;
            settings.max_split = recorded.max_split_size;
            settings.gc_threshold =
                text("garbage_collection_threshold").and_then(|t| t.parse().ok()).unwrap_or_default();
            settings.divisions = [0; 16];
            for &(class, divisions) in &recorded.roundup_divisions {
                if let Some(entry) =
                    class.checked_ilog2().and_then(|i| settings.divisions.get_mut(i as usize))
                {
                    *entry = divisions;
                }
            }
        }
        Ok(settings)
    }

    /// The bytes that a request takes.
    pub(crate) fn round(&self, requested: u64) -> u64 {
        if requested < MIN_BLOCK {
            return MIN_BLOCK;
        }
        let entry = (requested.ilog2().saturating_sub(20) as usize).min(self.divisions.len() - 1);
        let divisions = self.divisions[entry];
        let multiple = if divisions > 1 && requested > MIN_BLOCK.saturating_mul(divisions) {
            (1 << requested.ilog2()) / divisions.next_power_of_two()
        } else {
            MIN_BLOCK
        };
        requested.checked_next_multiple_of(multiple.max(1)).unwrap_or(requested)
    }

    /// Whether a block is cut, with `rest` bytes left of it after a request of `size`.
    pub(crate) fn splits(&self, size: u64, rest: u64, small: bool) -> bool {
        if small || self.expandable {
            rest >= MIN_BLOCK
        } else {
            rest > SMALL_REQUEST && self.max_split.is_none_or(|max| size < max)
        }
    }

    /// Whether best fit turns down a block of `block` bytes for a request of `size`.
    pub(crate) fn refuses(&self, size: u64, block: u64) -> bool {
        self.max_split.is_some_and(|max| {
            if size < max { block >= max } else { block >= size.saturating_add(self.max_non_split_rounding) }
        })
    }

    /// Size of the segment that a request gets from the device.
    pub(crate) fn segment_size(&self, size: u64) -> u64 {
        match size {
            ..=SMALL_REQUEST => SMALL_SEGMENT,
            _ if size < OWN_SEGMENT => self.large_segment,
            _ => size.checked_next_multiple_of(SMALL_SEGMENT).unwrap_or(size),
        }
    }

    /// What an expandable segment grows by.
    pub(crate) fn grain(&self, small: bool) -> u64 {
        if small { SMALL_SEGMENT } else { self.large_segment }
    }

    /// Whether two settings place requests alike, whatever the limit.
    pub fn same_placement(&self, other: &Self) -> bool {
        Self { limit: None, device: None, ..self.clone() }
            == Self { limit: None, device: None, ..other.clone() }
    }
}

/// The settings as PyTorch reads them; the limit is not an option there. Empty for the defaults.
impl fmt::Display for Settings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let normal = Self::default();
        let mut options = Vec::new();
        if self.expandable {
            options.push("expandable_segments:True".to_owned());
        }
        if let Some(max) = self.max_split {
            options.push(format!("max_split_size_mb:{}", max / MIB));
        }
        if self.max_non_split_rounding != normal.max_non_split_rounding {
            options.push(format!("max_non_split_rounding_mb:{}", self.max_non_split_rounding / MIB));
        }
        if self.divisions.iter().any(|&n| n > 1) {
            options.push(format!("roundup_power2_divisions:{}", Divisions(&self.divisions)));
        }
        if self.gc_threshold > 0.0 {
            options.push(format!("garbage_collection_threshold:{}", self.gc_threshold));
        }
        if self.large_segment != normal.large_segment {
            options.push(format!("large_segment_size_mb:{}", self.large_segment / MIB));
        }
        f.write_str(&options.join(","))
    }
}

struct Divisions<'a>(&'a [u64; 16]);

impl fmt::Display for Divisions<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [first, .., last] = self.0;
        if self.0.iter().all(|n| n == first) {
            return write!(f, "{first}");
        }
        // The first entry of a list also stands for everything below it, `>` for everything from the last one on.
        let start = self.0.iter().take_while(|&n| n == first).count() - 1;
        let end = self.0.len() - self.0.iter().rev().take_while(|&n| n == last).count();
        f.write_str("[")?;
        for (i, n) in self.0.iter().enumerate().take(end).skip(start) {
            write!(f, "{}:{n},", 1_u64 << i)?;
        }
        // `>` overwrites the entry before it, too: the one at `end` is written first.
        write!(f, "{}:{last},>:{last}]", 1_u64 << end)
    }
}

/// The options of a text, each with its value; a list keeps its brackets.
fn options(text: &str) -> impl Iterator<Item = (&str, &str)> {
    let text = text.trim().trim_matches(['"', '\'']);
    let text = match text.split_once('=') {
        Some((name, rest)) if name.trim().trim_start_matches("export ").ends_with("ALLOC_CONF") => rest,
        _ => text,
    };
    let mut rest = text.trim().trim_matches(['"', '\'']);
    std::iter::from_fn(move || {
        rest = rest.trim_start_matches([',', ' ']);
        if rest.is_empty() {
            return None;
        }
        let mut depth = 0_i32;
        let end = rest.find(|c| {
            depth += i32::from(c == '[') - i32::from(c == ']');
            c == ',' && depth <= 0
        });
        let (option, after) = rest.split_at(end.unwrap_or(rest.len()));
        rest = after;
        let (name, value) = option.split_once(':').unwrap_or((option, ""));
        Some((name.trim(), value.trim()))
    })
}

/// One number for all sizes, or a list with size classes in MiB: the first entry fills all lower classes, `>`
/// everything from the last class that was named on.
fn divisions(text: &str) -> Option<[u64; 16]> {
    let number = |text: &str| text.trim().parse::<u64>().ok().filter(|&n| n == 0 || n.is_power_of_two());
    let mut all = [0; 16];
    let Some(list) = text.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) else {
        all.fill(number(text).filter(|&n| n > 0)?);
        return Some(all);
    };
    let mut last = None;
    for entry in list.split(',') {
        let (class, value) = entry.split_once(':')?;
        let value = number(value)?;
        if class.trim() == ">" {
            all[last.unwrap_or(0)..].fill(value);
            continue;
        }
        let class = number(class).filter(|&n| n > 0)?;
        let index = (class.ilog2() as usize).min(all.len() - 1);
        if last.is_none() {
            all[..index].fill(value);
        }
        all[index] = value;
        last = Some(index);
    }
    Some(all)
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test")]
mod tests {
    use super::*;

    #[test]
    fn text_of_the_environment_variable() {
        let settings = Settings::parse(
            "expandable_segments:True, max_split_size_mb:64,garbage_collection_threshold:0.8",
        )
        .unwrap();
        assert!(settings.expandable);
        assert_eq!((settings.max_split, settings.gc_threshold), (Some(64 << 20), 0.8));
        assert_eq!(Settings::parse("").unwrap(), Settings::default());
        let pasted = Settings::parse("export PYTORCH_CUDA_ALLOC_CONF=\"max_split_size_mb:64\"").unwrap();
        assert_eq!(pasted.max_split, Some(64 << 20));
        assert_eq!(Settings::parse("pinned_use_cuda_host_register:True").unwrap(), Settings::default());
    }

    #[test]
    fn what_is_wrong_is_named() {
        let error = |text| Settings::parse(text).unwrap_err().to_string();
        assert!(
            error("expandable_segment:True").starts_with("'expandable_segment' is not an allocator option")
        );
        assert!(error("max_split_size_mb:5").contains("max_split_size_mb: a number of MiB, at least 20"));
        assert!(error("backend:cudaMallocAsync").contains("backend:cudaMallocAsync cannot be simulated"));
        assert!(error("roundup_power2_divisions:3").contains("a power of two"));
        assert!(error("roundup_power2_divisions:[64:8,256]").contains("roundup_power2_divisions"));
    }

    #[test]
    fn lists_of_divisions() {
        let list = Settings::parse("roundup_power2_divisions:[64:8,256:4,1024:4,>:1]").unwrap().divisions;
        // Classes: 1 2 4 8 16 32 64 (8 up to here), 128 is not named, 256, 512 is not named, then `>` from 1024.
        assert_eq!(list, [8, 8, 8, 8, 8, 8, 8, 0, 4, 0, 1, 1, 1, 1, 1, 1]);
        assert_eq!(Settings::parse("roundup_power2_divisions:4").unwrap().divisions, [4; 16]);
    }

    #[test]
    fn rounding() {
        let off = Settings::default();
        assert_eq!([1, 512, 513, 1_000_000].map(|n| off.round(n)), [512, 512, 1024, 1_000_448]);
        // 1200 lies between 1024 and 2048; it is below 512 · 4, so that divisions do not apply.
        let four = Settings::parse("roundup_power2_divisions:4").unwrap();
        assert_eq!(four.round(1200), 1536);
        // From 1 MiB to 2 MiB in steps of 256 KiB; powers of two stay.
        assert_eq!(four.round((1 << 20) + 1), (1 << 20) + (256 << 10));
        assert_eq!(four.round(1 << 20), 1 << 20);
    }

    #[test]
    fn display_can_be_parsed() {
        for text in [
            "",
            "expandable_segments:True,max_split_size_mb:64",
            "roundup_power2_divisions:[64:8,256:4,1024:4,>:1]",
            "roundup_power2_divisions:[1:2,>:4]",
            "roundup_power2_divisions:8,garbage_collection_threshold:0.6",
            "large_segment_size_mb:40,max_non_split_rounding_mb:100",
        ] {
            let settings = Settings::parse(text).unwrap();
            assert_eq!(Settings::parse(&settings.to_string()).unwrap(), settings, "{text}: {settings}");
        }
    }
}
