//! More than two files beside each other: a column for each, and how each row grows with what differs between them.

use std::collections::BTreeMap;
use std::io::Write;

use serde::Serialize;
use vramscope_analysis::{Capacity, Fit, Law, Line, Sum, largest_within};

use crate::args::DiffArgs;
use crate::output::FrameJson;
use crate::subject::Subject;
use crate::table::Table;
use crate::text;

/// Rows that are shown where nobody asked for a number.
const DEFAULT_ROWS: usize = 20;

/// One device of all files.
pub(super) struct Matrix<'a> {
    subjects: Vec<&'a Subject>,
    moments: Vec<vramscope_analysis::Moment>,
    /// What differs between the files, such as the batch.
    values: Option<Vec<f64>>,
    /// Most bytes first.
    rows: Vec<Row>,
}

struct Row {
    key: Vec<Line>,
    sums: Vec<Sum>,
    fit: Option<Fit>,
}

#[derive(Serialize)]
struct Report<'a> {
    schema: &'static str,
    by: &'static str,
    files: Vec<FileJson>,
    rows: Vec<RowJson<'a>>,
    /// The largest value that fits, with --capacity or where the file tells the limit.
    largest_value: Option<f64>,
    capacity: Option<i64>,
}

#[derive(Serialize)]
struct FileJson {
    path: String,
    device: i32,
    event: Option<u32>,
    requested: i64,
    value: Option<f64>,
}

#[derive(Serialize)]
struct RowJson<'a> {
    bytes: Vec<u64>,
    count: Vec<u64>,
    growth: Option<Law>,
    /// Bytes that do not grow, and bytes for each of the value or of its square.
    constant: Option<f64>,
    factor: Option<f64>,
    stack: Vec<FrameJson<'a>>,
}

impl<'a> Matrix<'a> {
    /// The devices that all files have.
    pub(super) fn all(args: &DiffArgs, files: &'a [Vec<Subject>]) -> anyhow::Result<Vec<Self>> {
        let values = values(args, files)?;
        let at = args.moment.spec();
        let mut found = Vec::new();
        let Some((first, others)) = files.split_first() else { return Ok(found) };
        let is_single = files.iter().all(|file| file.len() == 1);
        for subject in first {
            let device = subject.replay().device();
            let same =
                |file: &'a Vec<Subject>| file.iter().find(|own| is_single || own.replay().device() == device);
            let Some(rest) = others.iter().map(same).collect::<Option<Vec<_>>>() else { continue };
            let subjects: Vec<&Subject> = [subject].into_iter().chain(rest).collect();
            let moments =
                subjects.iter().map(|subject| subject.moment(&at)).collect::<Result<Vec<_>, _>>()?;
            let mut rows: BTreeMap<Vec<Line>, Vec<Sum>> = BTreeMap::new();
            for (column, (subject, moment)) in subjects.iter().zip(&moments).enumerate() {
                for (key, sum) in super::weigh(args.by, subject, *moment) {
                    let sums = rows.entry(key).or_insert_with(|| vec![Sum::default(); subjects.len()]);
                    sums[column] = sum;
                }
            }
            let fit = |sums: &[Sum]| {
                let points: Vec<_> =
                    values.as_ref()?.iter().copied().zip(sums.iter().map(|sum| sum.bytes)).collect();
                Some(Fit::of(&points))
            };
            let mut rows: Vec<Row> =
                rows.into_iter().map(|(key, sums)| Row { fit: fit(&sums), key, sums }).collect();
            let most = |row: &Row| row.sums.iter().map(|sum| sum.bytes).max().unwrap_or(0);
            rows.sort_by(|a, b| most(b).cmp(&most(a)).then_with(|| a.key.cmp(&b.key)));
            found.push(Self { subjects, moments, values: values.clone(), rows });
        }
        anyhow::ensure!(!found.is_empty(), "the files have no device in common");
        Ok(found)
    }

    fn capacity(&self, args: &DiffArgs) -> Option<i64> {
        let told = |subject: &&Subject| Capacity::of(subject.replay());
        let found = || self.subjects.iter().find_map(told).map(|capacity| capacity.bytes);
        args.capacity.map(vramscope_format::signed).or_else(found)
    }

    /// The largest value at which the peak would fit.
    fn largest(&self, capacity: Option<i64>) -> Option<f64> {
        let fits = self.rows.iter().map(|row| row.fit).collect::<Option<Vec<_>>>()?;
        largest_within(&fits, capacity? as f64)
    }

    pub(super) fn json(&self, args: &DiffArgs, out: &mut dyn Write) -> anyhow::Result<()> {
        let value = |column: usize| self.values.as_ref().and_then(|values| values.get(column).copied());
        let files =
            self.subjects.iter().zip(&self.moments).enumerate().map(|(column, (subject, at))| FileJson {
                path: subject.opened.path.display().to_string(),
                device: subject.replay().device().0,
                event: at.event().map(|event| event.0),
                requested: subject.replay().counters(*at).requested,
                value: value(column),
            });
        let capacity = self.capacity(args);
        let rows = self.rows.iter().take(args.limit.unwrap_or(usize::MAX)).map(|row| RowJson {
            bytes: row.sums.iter().map(|sum| sum.bytes).collect(),
            count: row.sums.iter().map(|sum| sum.count).collect(),
            growth: row.fit.map(|fit| fit.law),
            constant: row.fit.map(|fit| fit.constant),
            factor: row.fit.map(|fit| fit.factor),
            stack: row.key.iter().map(super::frame).collect(),
        });
        let report = Report {
            schema: "vramscope/matrix/1",
            by: args.by.name(),
            files: files.collect(),
            rows: rows.collect(),
            largest_value: self.largest(capacity),
            capacity,
        };
        Ok(vramscope_files::json(out, &report)?)
    }

    pub(super) fn print(&self, args: &DiffArgs, out: &mut dyn Write) -> std::io::Result<()> {
        let mut table = Table::new(args.by.heading());
        for name in NAMES.iter().take(self.subjects.len()) {
            table = table.column(name);
        }
        if self.values.is_some() {
            table = table.left("growth", 1);
        }
        let shown = args.limit.unwrap_or(DEFAULT_ROWS).min(self.rows.len());
        let total: Vec<i64> = self
            .subjects
            .iter()
            .zip(&self.moments)
            .map(|(subject, at)| subject.replay().counters(*at).requested)
            .collect();
        let cells = |sizes: Vec<String>, growth: &str| {
            let mut cells = sizes;
            if self.values.is_some() {
                cells.push(growth.to_owned());
            }
            cells
        };
        table.row(cells(total.into_iter().map(text::bytes).collect(), ""), "requested in all");
        for row in &self.rows[..shown] {
            let growth = row.fit.map_or("", |fit| fit.law.name());
            let sizes = row.sums.iter().map(|sum| text::size(sum.bytes)).collect();
            table.row(cells(sizes, growth), super::label(&row.key));
        }
        table.print(out)?;
        let hidden = self.rows.len() - shown;
        if hidden > 0 {
            writeln!(out, "  {} more; --limit shows them", text::count(hidden as u64))?;
        }
        match (&self.values, self.capacity(args)) {
            (None, _) => writeln!(
                out,
                "\n  --values 128,256,512 says how rows grow with what differs between the files"
            ),
            (Some(_), None) => Ok(()),
            (Some(_), capacity @ Some(bytes)) => match self.largest(capacity) {
                Some(value) => writeln!(
                    out,
                    "\n  up to about {} fit into {}, by requested bytes",
                    text::count(value.max(0.0) as u64),
                    text::bytes(bytes)
                ),
                None => Ok(()),
            },
        }
    }
}

/// Names of the columns.
pub(super) const NAMES: [&str; 16] =
    ["A", "B", "C", "D", "E", "F", "G", "H", "I", "J", "K", "L", "M", "N", "O", "P"];

/// What differs between the files: as it is given, or the one number in their names that does.
fn values(args: &DiffArgs, files: &[Vec<Subject>]) -> anyhow::Result<Option<Vec<f64>>> {
    if !args.values.is_empty() {
        let (given, files) = (args.values.len(), files.len());
        anyhow::ensure!(given == files, "--values has {given} values for {files} files");
        return Ok(Some(args.values.clone()));
    }
    let name = |subject: &Subject| {
        subject.opened.path.file_name().unwrap_or_default().to_string_lossy().into_owned()
    };
    let numbers: Option<Vec<Vec<f64>>> =
        files.iter().map(|file| Some(numbers(&name(file.first()?)))).collect();
    Ok(numbers.and_then(|numbers| differing(&numbers)))
}

/// The numbers in a name.
fn numbers(name: &str) -> Vec<f64> {
    name.split(|c: char| !c.is_ascii_digit()).filter_map(|digits| digits.parse().ok()).collect()
}

/// The one position at which names differ in a number, if there is one and it is another number in each.
fn differing(names: &[Vec<f64>]) -> Option<Vec<f64>> {
    let length = names.first()?.len();
    let column = |at: usize| names.iter().map(|name| name.get(at).copied()).collect::<Option<Vec<f64>>>();
    let columns: Vec<_> = (0..length).map(column).collect::<Option<_>>()?;
    let mut found = columns.into_iter().filter(|column| column.windows(2).any(|pair| pair[0] != pair[1]));
    let only = found.next().filter(|_| found.next().is_none())?;
    let mut sorted = only.clone();
    sorted.sort_by(f64::total_cmp);
    sorted.windows(2).all(|pair| pair[0] < pair[1]).then_some(only)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_from_names() {
        let of = |names: [&str; 3]| differing(&names.map(numbers));
        assert_eq!(
            of(["llama2_seq128.pickle", "llama2_seq256.pickle", "llama2_seq512.pickle"]),
            Some(vec![128.0, 256.0, 512.0])
        );
        assert_eq!(of(["b8_s128", "b16_s256", "b16_s512"]), None, "two numbers differ");
        assert_eq!(of(["a", "b", "c"]), None);
        assert_eq!(of(["x1", "x1", "x2"]), None, "two are the same");
    }
}
