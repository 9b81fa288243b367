//! What was odd in a file, counted instead of listed: a damaged file of a million events makes one
//! warning, not a million.

macro_rules! oddities {
    ($($name:ident => $text:literal,)*) => {
        /// Something that was read in spite of being wrong.
        #[derive(Clone, Copy, Debug)]
        pub(super) enum Oddity { $($name,)* }

        const TEXTS: &[&str] = &[$($text,)*];
    };
}

oddities! {
    Size => "sizes are negative, absurdly large or no integers; read as 0 bytes",
    Addr => "addresses are no 64-bit integers; read as 0",
    Time => "times are no numbers; read as absent",
    Frames => "stacks are no lists of frames; read as absent",
    BlockState => "blocks are in a state that PyTorch does not write; read as inactive",
    UnknownAction => "events have an action that this version does not know; kept, without effect on memory",
    ChangedAfterUse => "objects change after something else refers to them; the change is ignored",
    NotAnEvent => "entries of a trace are no events; left out",
    NotABlock => "entries of `blocks` or `segments` are of another kind; left out",
    Repeated => "entries are references to what stands elsewhere already; left out",
    TooManyDevices => "traces or segments are of devices beyond the number that any machine has; left out",
    TimeMissing => "events of a trace have no time; left out",
    DeviceOdd => "memory events name no device that a machine has; left out",
    TimelineRow => "rows of the timeline do not fit the ones before; left out",
    DeepStack => "stacks are deeper or more various than the file is long; only the operator is kept",
    BlockSum => "segments are not filled exactly by their blocks",
}

/// Counts of what was odd.
#[derive(Debug, Default)]
pub(super) struct Oddities([u64; TEXTS.len()]);

impl Oddities {
    #[cold]
    pub(super) fn note(&mut self, oddity: Oddity) {
        self.add(oddity, 1);
    }

    pub(super) fn add(&mut self, oddity: Oddity, count: u64) {
        self.0[oddity as usize] += count;
    }

    /// One line for each kind that occurred.
    pub(super) fn into_warnings(self) -> Vec<String> {
        let seen = self.0.iter().zip(TEXTS).filter(|(count, _)| **count > 0);
        seen.map(|(count, text)| format!("{count} {text}")).collect()
    }
}
