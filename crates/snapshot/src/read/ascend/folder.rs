//! The folder of a profile: which of its files are read, in which order, and what if one cannot be.

use std::collections::VecDeque;

use super::{AscendPart, AscendProfile};
use crate::model::Snapshot;
use crate::read::ReadError;

/// The rank of a profile, by the names of its files.
pub fn profile_rank<'a>(mut files: impl Iterator<Item = &'a str>) -> Option<u64> {
    files.find_map(|file| file.strip_prefix("profiler_info_")?.strip_suffix(".json")?.parse().ok())
}

/// Files that are read together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Round {
    /// The database, which has all tables.
    Database,
    /// The same with a trace, for call chains that the database does not have.
    DatabaseAndTrace,
    /// Everything else.
    Tables,
}

impl Round {
    fn reads(self, part: AscendPart) -> bool {
        match part {
            AscendPart::Database => self != Self::Tables,
            AscendPart::ModuleMemory | AscendPart::Info => true,
            AscendPart::TraceView => self != Self::Database,
            AscendPart::OperatorMemory | AscendPart::MemoryRecord => self == Self::Tables,
        }
    }
}

/// Reads the files of a folder, which the caller fetches, from a disk or in a browser: the database if there is
/// one that can be read, else the tables.
///
/// ```
/// use vramscope_snapshot::AscendFolder;
/// let table = b"Name,Size(KB),Allocation Time(us),Allocation Total Allocated(MB),Device Type\n\
///     aten::mul,8.5,1790000000000000.000\t,12000.00830078125,NPU:0\n";
/// let mut folder = AscendFolder::new(vec![("kernel_details.csv".into(), 9), ("operator_memory.csv".into(), 135)]);
/// assert_eq!(folder.next_file(), Some(1));
/// folder.feed(table);
/// assert_eq!(folder.next_file(), None);
/// let (snapshot, bytes) = folder.finish()?;
/// assert_eq!((snapshot.traces[0].events.sizes(), bytes), (&[8704][..], 135));
/// # Ok::<_, vramscope_snapshot::ReadError>(())
/// ```
pub struct AscendFolder {
    /// Names and sizes.
    files: Vec<(String, u64)>,
    round: Round,
    left: VecDeque<(AscendPart, usize)>,
    now: Option<(AscendPart, usize)>,
    profile: AscendProfile,
    /// What came of it.
    result: Option<Result<Snapshot, ReadError>>,
    warnings: Vec<String>,
}

impl AscendFolder {
    /// A folder with files of these names and sizes.
    pub fn new(files: Vec<(String, u64)>) -> Self {
        let mut folder = Self {
            files,
            round: Round::Tables,
            left: VecDeque::new(),
            now: None,
            profile: AscendProfile::new(),
            result: None,
            warnings: Vec::new(),
        };
        let database = folder.parts().find(|(part, _)| *part == AscendPart::Database);
        let unfinished = database.and_then(|(_, place)| folder.unfinished(place).map(|error| (place, error)));
        match unfinished {
            Some((place, error)) if folder.has_tables() => folder.warn(place, &error),
            Some((_, error)) => folder.result = Some(Err(error)),
            None => {}
        }
        let is_whole = folder.warnings.is_empty() && folder.result.is_none();
        folder.begin(if database.is_some() && is_whole { Round::Database } else { Round::Tables });
        folder
    }

    /// The place in the list of the file whose bytes come next; none after the last.
    pub fn next_file(&mut self) -> Option<usize> {
        while self.result.is_none() {
            self.now = self.left.pop_front();
            if let Some((_, place)) = self.now {
                return Some(place);
            }
            self.result = self.end_round();
        }
        None
    }

    /// The next bytes of the file that was asked for.
    pub fn feed(&mut self, chunk: &[u8]) {
        if let Some((part, _)) = self.now {
            self.profile.feed(part, chunk);
        }
    }

    /// Says that the rest of the file that was asked for cannot be had.
    pub fn lose(&mut self, reason: &dyn std::fmt::Display) {
        if let Some((_, place)) = self.now {
            self.warn(place, reason);
        }
    }

    /// The profile as a snapshot, and how many bytes its files have.
    pub fn finish(self) -> Result<(Snapshot, u64), ReadError> {
        let read = self.parts().filter(|(part, _)| self.round.reads(*part));
        let bytes = read.filter_map(|(_, place)| self.files.get(place)).map(|(_, bytes)| bytes).sum();
        Ok((self.result.unwrap_or(Err(ReadError::Empty))?, bytes))
    }

    fn parts(&self) -> impl Iterator<Item = (AscendPart, usize)> {
        let part = |(place, (name, _)): (usize, &(String, u64))| Some((AscendPart::of(name)?, place));
        self.files.iter().enumerate().filter_map(part)
    }

    fn has(&self, wanted: AscendPart) -> bool {
        self.parts().any(|(part, _)| part == wanted)
    }

    fn has_tables(&self) -> bool {
        self.has(AscendPart::OperatorMemory) || self.has(AscendPart::MemoryRecord)
    }

    fn begin(&mut self, round: Round) {
        self.round = round;
        self.left = self.parts().filter(|(part, _)| round.reads(*part)).collect();
    }

    /// What came of a round, unless another one follows.
    fn end_round(&mut self) -> Option<Result<Snapshot, ReadError>> {
        let rank = profile_rank(self.files.iter().map(|(name, _)| name.as_str()));
        let result = std::mem::take(&mut self.profile).with_rank(rank).finish();
        match result {
            Ok(snapshot)
                if self.round == Round::Database
                    && !snapshot.has.stacks
                    && self.has(AscendPart::TraceView) =>
            {
                self.begin(Round::DatabaseAndTrace);
                None
            }
            Err(error) if self.round != Round::Tables && self.has_tables() => {
                let database = self.parts().find(|(part, _)| *part == AscendPart::Database);
                self.warn(database.map_or(0, |(_, place)| place), &error);
                self.begin(Round::Tables);
                None
            }
            Ok(mut snapshot) => {
                let mut warnings = std::mem::take(&mut self.warnings);
                warnings.append(&mut snapshot.warnings);
                Some(Ok(Snapshot { warnings, ..snapshot }))
            }
            Err(error) => Some(Err(error)),
        }
    }

    /// Why a database is not to be read: what was written last lies beside it.
    fn unfinished(&self, database: usize) -> Option<ReadError> {
        let (name, _) = self.files.get(database)?;
        let beside = |ending: &str| {
            let log = format!("{name}{ending}");
            self.files.iter().any(|(other, bytes)| *other == log && *bytes > 0)
        };
        let ending = ["-wal", "-journal"].into_iter().find(|ending| beside(ending))?;
        Some(ReadError::OtherFormat(format!(
            "an SQLite database whose writer has not finished: {ending} beside it is not empty. Was the profiler \
             killed? sqlite3 FILE \"PRAGMA wal_checkpoint(TRUNCATE)\" completes it"
        )))
    }

    fn warn(&mut self, place: usize, reason: &dyn std::fmt::Display) {
        let name = self.files.get(place).map_or("", |(name, _)| name);
        self.warnings.push(format!("{name}: {reason}"));
    }
}
