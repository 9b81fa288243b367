//! The snapshot inside a report: sections, each with a name and bytes, in the order in which [`stored`] puts them.
//!
//! Reports come from anywhere, so all that is decoded is checked: lengths against the bytes that are there, ids against the
//! tables that they refer to, text as UTF-8. Memory is a multiple of the input. Numbers are little-endian, as those of every
//! machine that PyTorch runs on; the first bytes differ on others.

mod check;

use std::io::{self, Write};

use bytemuck::Pod;
use vramscope_mapped::{Buffer, StoreError};

use crate::model::Snapshot;
use crate::stored::{self, ColumnSink, ColumnSource};

/// First bytes, as the machine has them. The last letter is the version: it changes with the sections and with what is in
/// them.
const MAGIC: u64 = u64::from_le_bytes(*b"vramsnp1");

/// First bytes in all versions.
const MAGICS: [&[u8]; 2] = [b"vramsnp", ARROW];

/// First bytes of reports that vramscope 0.1 made: a stream of Arrow.
const ARROW: &[u8] = &[0xff; 4];

/// Error of bytes that are no snapshot of a report.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EmbeddedError {
    /// Another version made the report.
    #[error(
        "a report that another version of vramscope made. Make it again from its recording, or open it in a browser"
    )]
    Version,
    /// The bytes are cut or changed; the name is that of a section or table.
    #[error("the data of a report, which is damaged ({0})")]
    Damaged(String),
}

/// Whether bytes begin as a snapshot of a report does, of this version or another.
pub(crate) fn is_embedded(head: &[u8]) -> bool {
    MAGICS.iter().any(|magic| head.starts_with(magic))
}

/// Writes a snapshot, without what replays have added to it.
pub fn encode(snapshot: &Snapshot, mut out: impl Write) -> io::Result<()> {
    out.write_all(&MAGIC.to_ne_bytes())?;
    stored::put_recorded(snapshot, &mut Outgoing(out))
}

/// Reads what [`encode`] wrote, all of it checked.
pub fn decode(bytes: &[u8]) -> Result<Snapshot, EmbeddedError> {
    let sections = bytes.strip_prefix(&MAGIC.to_ne_bytes()).ok_or(EmbeddedError::Version)?;
    let mut incoming = Incoming(sections);
    let snapshot =
        stored::get_recorded(&mut incoming).map_err(|error| EmbeddedError::Damaged(error.to_string()))?;
    if !incoming.0.is_empty() {
        return Err(EmbeddedError::Damaged("bytes after the end".into()));
    }
    check::check(&snapshot).map_err(|table| EmbeddedError::Damaged(table.into()))?;
    Ok(snapshot)
}

/// Sections on their way out: name and values, each after its length in bytes.
struct Outgoing<W>(W);

impl<W: Write> ColumnSink for Outgoing<W> {
    fn put<T: Pod>(&mut self, name: &str, values: &[T]) -> io::Result<()> {
        for part in [name.as_bytes(), bytemuck::cast_slice(values)] {
            self.0.write_all(&(part.len() as u64).to_le_bytes())?;
            self.0.write_all(part)?;
        }
        Ok(())
    }
}

/// Sections that are still to be read.
struct Incoming<'a>(&'a [u8]);

impl<'a> Incoming<'a> {
    fn part(&mut self) -> Option<&'a [u8]> {
        let (length, rest) = self.0.split_first_chunk()?;
        let (part, rest) = rest.split_at_checked(usize::try_from(u64::from_le_bytes(*length)).ok()?)?;
        self.0 = rest;
        Some(part)
    }
}

impl ColumnSource for Incoming<'_> {
    /// Returns the next section, which must have the name.
    fn get<T: Pod>(&mut self, name: &str) -> Result<Buffer<T>, StoreError> {
        let missing = || StoreError::Missing(name.to_owned());
        let found = self.part().ok_or_else(missing)?;
        let bytes = self.part().filter(|bytes| found == name.as_bytes() && bytes.len() % size_of::<T>() == 0);
        let bytes = bytes.ok_or_else(missing)?;
        // Bytes lie anywhere; the values of a column are aligned.
        let mut values = vec![T::zeroed(); bytes.len() / size_of::<T>()];
        bytemuck::cast_slice_mut(&mut values).copy_from_slice(bytes);
        Ok(values.into())
    }
}
