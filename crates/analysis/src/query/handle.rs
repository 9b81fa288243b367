//! Handles: short names for single things of a file, which answers print and commands take back.
//!
//! A handle means the same thing whenever the same file is opened: `e:1832` is an event, `a:307` an allocation, `s:44` a
//! stack, `g:7f686c000000` the segment around an address, `f:growth-1` a finding, `train.py:88` a line. Events,
//! allocations, segments and findings belong to a device: where a file has several, `@1` at the end names it.

use std::fmt;
use std::str::FromStr;

use vramscope_replay::AllocIdx;
use vramscope_snapshot::{DeviceId, EventIdx, StackId};

/// What a handle names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Thing {
    /// An event of the trace.
    Event(EventIdx),
    /// The life of a block.
    Allocation(AllocIdx),
    /// A call stack.
    Stack(StackId),
    /// The memory held from the driver around an address.
    Segment(u64),
    /// A finding, by its name or its id.
    Finding(String),
    /// A line of the program.
    Line {
        /// The end of the file's path.
        file: String,
        /// The line number.
        line: u32,
    },
}

/// A thing, and the device that it belongs to where that is not clear.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Handle {
    /// What it names.
    pub thing: Thing,
    /// On which device; `None` for any.
    pub device: Option<DeviceId>,
}

/// What can be typed as a handle, for help texts and errors.
pub const HANDLE_GRAMMAR: &str = "e:1832 (an event), a:307 (an allocation), s:44 (a stack), g:7f686c000000 (the segment \
     around an address), f:growth-1 (a finding), train.py:88 (a line); @1 at the end names a device";

impl fmt::Display for Handle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.thing {
            Thing::Event(event) => write!(f, "e:{}", event.0)?,
            Thing::Allocation(index) => write!(f, "a:{}", index.0)?,
            Thing::Stack(stack) => return write!(f, "s:{}", stack.0),
            Thing::Segment(addr) => write!(f, "g:{addr:x}")?,
            Thing::Finding(name) => write!(f, "f:{name}")?,
            Thing::Line { file, line } => return write!(f, "{file}:{line}"),
        }
        match self.device {
            Some(device) => write!(f, "@{}", device.0),
            None => Ok(()),
        }
    }
}

impl FromStr for Handle {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let text = text.trim();
        let wrong = || format!("'{text}' is not a handle. Handles are: {HANDLE_GRAMMAR}");
        let (name, device) = match text.rsplit_once('@') {
            Some((name, device)) => match device.parse() {
                Ok(number) => (name, Some(DeviceId(number))),
                Err(_) => (text, None),
            },
            None => (text, None),
        };
        let thing = match name.split_once(':') {
            Some(("e", number)) => Thing::Event(EventIdx(parse_number(number).ok_or_else(wrong)?)),
            Some(("a", number)) => Thing::Allocation(AllocIdx(parse_number(number).ok_or_else(wrong)?)),
            Some(("s", number)) => Thing::Stack(StackId(parse_number(number).ok_or_else(wrong)?)),
            Some(("g", addr)) => Thing::Segment(parse_hex(addr).ok_or_else(wrong)?),
            Some(("f", "")) => return Err(wrong()),
            Some(("f", name)) => Thing::Finding(name.to_owned()),
            _ if name.starts_with("0x") => Thing::Segment(parse_hex(name).ok_or_else(wrong)?),
            _ => {
                // `train.py:88 forward` is how lines are printed.
                let place = name.split_whitespace().next().unwrap_or_default();
                let (file, line) = place.rsplit_once(':').ok_or_else(wrong)?;
                let line = line.parse().map_err(|_| wrong())?;
                Thing::Line { file: file.to_owned(), line }
            }
        };
        Ok(Self { thing, device })
    }
}

/// The number of a handle. Numbers are printed in groups of three digits elsewhere, and may be pasted.
fn parse_number(text: &str) -> Option<u32> {
    let digits: String = text.chars().filter(|c| !matches!(c, ' ' | '_' | ',')).collect();
    digits.parse().ok()
}

fn parse_hex(text: &str) -> Option<u64> {
    u64::from_str_radix(text.trim_start_matches("0x"), 16).ok()
}

/// Whether a path ends with what was typed: `train.py`, `src/train.py` or the whole path.
pub fn ends_with_path(path: &str, typed: &str) -> bool {
    path.strip_suffix(typed).is_some_and(|rest| rest.is_empty() || rest.ends_with(['/', '\\']))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_printed_is_what_is_read() {
        for text in
            ["e:1832", "e:1832@1", "a:307@-1", "s:44", "g:7f686c000000", "f:growth-1@2", "src/train.py:88"]
        {
            assert_eq!(text.parse::<Handle>().unwrap().to_string(), text);
        }
        let line = Thing::Line { file: "train.py".into(), line: 88 };
        assert_eq!("train.py:88 forward".parse::<Handle>().unwrap().thing, line);
        assert_eq!("0x10".parse::<Handle>().unwrap().thing, Thing::Segment(16));
        assert_eq!("e:1 832".parse::<Handle>().unwrap().thing, Thing::Event(EventIdx(1832)));
    }

    #[test]
    fn what_is_no_handle_is_told_what_is() {
        for text in ["", "e:", "a:x", "g:xyz", "f:", "train.py", "train.py:"] {
            assert!(text.parse::<Handle>().is_err_and(|error| error.contains("Handles are")), "{text}");
        }
    }

    #[test]
    fn a_path_is_matched_from_its_end_by_whole_names() {
        assert!(ends_with_path("/home/me/train.py", "train.py"));
        assert!(ends_with_path("train.py", "train.py"));
        assert!(!ends_with_path("/home/me/pretrain.py", "train.py"));
    }
}
