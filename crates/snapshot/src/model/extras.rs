//! What other recorders add to a snapshot, and what this version does not understand.

use super::DeviceId;
use serde::{Deserialize, Serialize};

/// Keys of a snapshot that are not PyTorch's own.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Extras {
    /// Source files of the program, by name: `source_code` of torch-snapkit.
    pub sources: Vec<Source>,
    /// Results of operators by device and address, each address in the order of time: `shape_data` of torch-snapkit.
    pub shapes: Vec<LoggedShape>,
    /// Top-level keys that this version does not know, with the beginning of their values as JSON.
    pub raw: Vec<(String, String)>,
}

/// A source file.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Source {
    /// As frames name it.
    pub file: String,
    text: String,
    /// Where each line ends.
    ends: Vec<usize>,
    /// The number of each line; empty if they count from 1.
    numbers: Vec<u32>,
}

/// The shape that an operator gave its result.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LoggedShape {
    /// Which device.
    pub device: DeviceId,
    /// Address of the first element.
    pub addr: u64,
    /// The operator: `aten.mm.default`.
    pub operator: String,
    /// Without `torch.`: `float32`.
    pub dtype: String,
    /// Sizes of its dimensions.
    pub shape: Vec<u64>,
}

impl Source {
    /// A file with its text.
    pub fn new(file: String, text: String) -> Self {
        let ends = line_ends(&text).collect();
        Self { file, text, ends, numbers: Vec::new() }
    }

    /// Lines of a file, each with its number.
    pub fn of_lines(file: String, mut lines: Vec<(u32, String)>) -> Self {
        lines.sort_by_key(|(number, _)| *number);
        lines.dedup_by_key(|(number, _)| *number);
        let (numbers, texts): (Vec<u32>, Vec<String>) =
            lines.into_iter().map(|(number, text)| (number, text.replace('\n', " "))).unzip();
        Self { numbers, ..Self::new(file, texts.join("\n")) }
    }

    /// Whether the lines end where they do in the text, and have rising numbers, if any.
    pub(crate) fn is_sound(&self) -> bool {
        let is_numbered = self.numbers.len() == self.ends.len() && self.numbers.is_sorted_by(|a, b| a < b);
        self.ends.iter().copied().eq(line_ends(&self.text)) && (self.numbers.is_empty() || is_numbered)
    }

    /// The lines that are known, joined.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The numbers of the lines of [`Source::text`]; empty if they count from 1.
    pub fn numbers(&self) -> &[u32] {
        &self.numbers
    }

    /// A line, from 1, without the spaces around it.
    pub fn line(&self, number: u32) -> Option<&str> {
        let row = match self.numbers.as_slice() {
            [] => (number as usize).checked_sub(1)?,
            numbers => numbers.binary_search(&number).ok()?,
        };
        let start = row.checked_sub(1).and_then(|row| self.ends.get(row)).map_or(0, |end| end + 1);
        self.text.get(start..*self.ends.get(row)?).map(str::trim)
    }
}

fn line_ends(text: &str) -> impl Iterator<Item = usize> {
    text.match_indices('\n').map(|(at, _)| at).chain([text.len()])
}

impl Extras {
    /// The text of a line of the program.
    pub fn source_line(&self, file: &str, line: u32) -> Option<&str> {
        let row = self.sources.binary_search_by(|source| source.file.as_str().cmp(file)).ok()?;
        self.sources.get(row)?.line(line)
    }
}

impl LoggedShape {
    /// Bytes of its elements; `None` where the type is not known.
    pub fn bytes(&self) -> Option<u64> {
        let width = match self.dtype.as_str() {
            "float64" | "int64" | "complex64" | "uint64" => 8,
            "float32" | "int32" | "uint32" => 4,
            "float16" | "bfloat16" | "int16" | "uint16" => 2,
            "int8" | "uint8" | "bool" => 1,
            "complex128" => 16,
            name if name.starts_with("float8") => 1,
            _ => return None,
        };
        self.shape.iter().try_fold(width, |bytes: u64, side| bytes.checked_mul(*side))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_count_from_one() {
        let source = Source::new("a.py".into(), "import torch\n  y = model(x)\nlast".into());
        let lines: Vec<_> = (0..5).map(|number| source.line(number)).collect();
        assert_eq!(lines, [None, Some("import torch"), Some("y = model(x)"), Some("last"), None]);
    }

    #[test]
    fn some_lines_of_a_file() {
        let source = Source::of_lines("a.py".into(), vec![(40, "  y = 2".into()), (7, "x = 1".into())]);
        let lines = [1, 7, 8, 40, 41].map(|number| source.line(number));
        assert_eq!(lines, [None, Some("x = 1"), None, Some("y = 2"), None]);
    }
}
