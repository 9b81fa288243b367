//! CSV that arrives in pieces, with its columns found by name.

use csv_core::ReadRecordResult;

use crate::model::Damage;

/// A row longer than this is none.
const MAX_ROW: usize = 1 << 20;
const MAX_CELLS: usize = 1 << 10;

/// The last row may need more room a few times, doubled each time.
const MAX_STEPS_AT_END: usize = 32;

/// One table: the columns that are wanted, and where they stand.
pub(super) struct CsvTable {
    file: &'static str,
    wanted: &'static [&'static str],
    core: csv_core::Reader,
    out: Vec<u8>,
    ends: Vec<usize>,
    used: (usize, usize),
    /// For each column that is wanted its place, once the header has been read.
    places: Option<Vec<Option<usize>>>,
    cells: usize,
    row: u64,
    offset: u64,
    ends_with_newline: bool,
    /// Rows that cannot be read, and the first of them with what is wrong.
    bad: u64,
    first_bad: Option<(u64, &'static str)>,
    damage: Option<Damage>,
}

/// One row; the cells are those of the columns that are wanted.
pub(super) struct Row<'a> {
    table: &'a [Option<usize>],
    out: &'a [u8],
    ends: &'a [usize],
}

impl<'a> Row<'a> {
    /// A cell without blanks around it: the writer puts a TAB behind times. Empty where there is none.
    pub(super) fn cell(&self, column: usize) -> &'a [u8] {
        let Some(place) = self.table.get(column).copied().flatten() else { return b"" };
        let start =
            place.checked_sub(1).and_then(|before| self.ends.get(before)).copied().unwrap_or_default();
        let end = self.ends.get(place).copied().unwrap_or_default();
        self.out.get(start..end).unwrap_or_default().trim_ascii()
    }
}

/// Takes a row, or says what is wrong with it.
pub(super) type Each<'a> = dyn FnMut(&Row<'_>) -> Result<(), &'static str> + 'a;

impl CsvTable {
    pub(super) fn new(file: &'static str, wanted: &'static [&'static str]) -> Self {
        Self {
            file,
            wanted,
            core: csv_core::Reader::new(),
            out: vec![0; 1 << 12],
            ends: vec![0; 32],
            used: (0, 0),
            places: None,
            cells: 0,
            row: 0,
            offset: 0,
            ends_with_newline: true,
            bad: 0,
            first_bad: None,
            damage: None,
        }
    }

    pub(super) fn feed(&mut self, mut chunk: &[u8], each: &mut Each<'_>) {
        if self.offset == 0 {
            chunk = chunk.strip_prefix(b"\xef\xbb\xbf").unwrap_or(chunk);
        }
        if let Some(last) = chunk.last() {
            self.ends_with_newline = *last == b'\n';
        }
        while !chunk.is_empty() && self.damage.is_none() {
            let used = self.step(chunk, each);
            chunk = chunk.get(used..).unwrap_or_default();
        }
    }

    /// The file ends here.
    pub(super) fn finish(&mut self, each: &mut Each<'_>) {
        if self.damage.is_some() || self.offset == 0 {
            return;
        }
        if !self.ends_with_newline && self.used.1 + 1 < self.cells {
            let reason = format!("{} ends inside row {}", self.file, self.row + 1);
            self.damage = Some(Damage { offset: self.offset, reason });
            return;
        }
        // An empty input is the end.
        let rows = self.row;
        for _ in 0..MAX_STEPS_AT_END {
            self.step(&[], each);
            if self.row > rows || self.damage.is_some() || self.used == (0, 0) {
                break;
            }
        }
    }

    fn step(&mut self, chunk: &[u8], each: &mut Each<'_>) -> usize {
        let (out, ends) = (
            self.out.get_mut(self.used.0..).unwrap_or_default(),
            self.ends.get_mut(self.used.1..).unwrap_or_default(),
        );
        let (result, read, written, cells) = self.core.read_record(chunk, out, ends);
        self.offset += read as u64;
        self.used = (self.used.0 + written, self.used.1 + cells);
        let too_long = match result {
            ReadRecordResult::InputEmpty | ReadRecordResult::End => false,
            ReadRecordResult::OutputFull => {
                self.out.resize(2 * self.out.len(), 0);
                self.out.len() > MAX_ROW
            }
            ReadRecordResult::OutputEndsFull => {
                self.ends.resize(2 * self.ends.len(), 0);
                self.ends.len() > MAX_CELLS
            }
            ReadRecordResult::Record => {
                self.row += 1;
                self.record(each);
                self.used = (0, 0);
                false
            }
        };
        if too_long {
            let reason = format!("row {} of {} is longer than any", self.row + 1, self.file);
            self.damage = Some(Damage { offset: self.offset, reason });
        }
        read
    }

    fn record(&mut self, each: &mut Each<'_>) {
        let ends = self.ends.get(..self.used.1).unwrap_or_default();
        let Some(places) = &self.places else {
            self.cells = ends.len();
            let all: Vec<Option<usize>> = (0..ends.len()).map(Some).collect();
            let header = Row { table: &all, out: &self.out, ends };
            let place = |name: &&str| (0..all.len()).find(|&column| header.cell(column) == name.as_bytes());
            self.places = Some(self.wanted.iter().map(place).collect());
            return;
        };
        let row = Row { table: places, out: &self.out, ends };
        if let Err(reason) = each(&row) {
            self.bad += 1;
            self.first_bad.get_or_insert((self.row, reason));
        }
    }

    pub(super) fn damage(&self) -> Option<Damage> {
        self.damage.clone()
    }

    /// What was odd, in words.
    pub(super) fn warnings(&self) -> impl Iterator<Item = String> {
        let Self { file, bad, .. } = self;
        let bad_rows = self.first_bad.map(|(row, reason)| {
            format!("{file}: {bad} rows are left out, the first is row {row}: {reason}")
        });
        bad_rows.into_iter()
    }
}
