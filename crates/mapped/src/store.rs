//! A file of named columns.
//!
//! It begins with the header. Columns follow, each aligned, and then the index: the names and places of the columns, a
//! label that says what the file is about, and the checksum of every [`CHUNK`] of columns. The header has the checksum of the
//! index. So a file is opened by reading header and index, and every byte of it is covered by a checksum.
//!
//! Numbers are as this machine has them: such a file does not travel.
#![allow(unsafe_code, reason = "a mapping has no safe interface")]

use std::fmt;
use std::fs::File;
use std::io::{self, Seek, SeekFrom, Write};
use std::sync::{Arc, OnceLock};

use bytemuck::Pod;
use memmap2::Mmap;
use xxhash_rust::xxh3::xxh3_64;

use crate::buffer::Buffer;
use crate::chunks::{Bytes, CHUNK, Chunks, Damaged, FIRST, Replace};

const MAGIC: u64 = u64::from_ne_bytes(*b"vramcol2");

/// Every column begins at a multiple of this.
const ALIGN: usize = 64;

/// Makes a store anew that has the same columns as a damaged one.
pub type Mend = Box<dyn Fn() -> Store + Send + Sync>;

/// When the columns of a file are compared with their checksums.
pub enum Check {
    /// All of them when the file is opened, which fails if one is damaged.
    Now,
    /// Each piece before it is first handed out. Columns of which one is damaged come from another store.
    WhenTouched(Mend),
}

/// Why a file is not one that [`Writer`] finished.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// It cannot be read.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// It is cut, or something else was written over it.
    #[error("damaged")]
    Damaged,
    /// A column is missing, or its length is no multiple of that of its values.
    #[error("no column {0}")]
    Missing(String),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, bytemuck::Pod, bytemuck::Zeroable)]
#[repr(C)]
struct Header {
    magic: u64,
    /// Where columns end and the index begins.
    index_start: u64,
    index_bytes: u64,
    index_sum: u64,
    /// Checksum of the fields before.
    sum: u64,
}

impl Header {
    fn new(index_start: u64, index: &[u8]) -> Self {
        let index_bytes = index.len() as u64;
        let mut header = Self { magic: MAGIC, index_start, index_bytes, index_sum: xxh3_64(index), sum: 0 };
        header.sum = header.checksum();
        header
    }

    fn checksum(&self) -> u64 {
        xxh3_64(bytemuck::bytes_of(&Self { sum: 0, ..*self }))
    }
}

/// Where a column is, in bytes.
#[derive(Debug)]
struct Section {
    name: Arc<str>,
    start: usize,
    bytes: usize,
}

/// A file of columns that is being written.
#[derive(Debug)]
pub struct Writer<W> {
    out: W,
    /// The chunk that is not full yet.
    chunk: Vec<u8>,
    /// Bytes of all chunks before.
    written: u64,
    most_bytes: u64,
    sums: Vec<u64>,
    sections: Vec<Section>,
}

impl<W: Write + Seek> Writer<W> {
    /// An empty file. Writing fails when it gets longer than `most_bytes`.
    pub fn new(mut out: W, most_bytes: u64) -> io::Result<Self> {
        out.seek(SeekFrom::Start(FIRST as u64))?;
        let chunk = Vec::with_capacity(CHUNK);
        Ok(Self { out, chunk, written: FIRST as u64, most_bytes, sums: Vec::new(), sections: Vec::new() })
    }

    /// Adds a column.
    pub fn put<T: Pod>(&mut self, name: impl Into<Arc<str>>, values: &[T]) -> io::Result<()> {
        let here = self.written as usize + self.chunk.len();
        let start = here.next_multiple_of(ALIGN);
        self.write(&[0; ALIGN][..start - here])?;
        let bytes: &[u8] = bytemuck::cast_slice(values);
        self.write(bytes)?;
        self.sections.push(Section { name: name.into(), start, bytes: bytes.len() });
        Ok(())
    }

    fn write(&mut self, mut bytes: &[u8]) -> io::Result<()> {
        while !bytes.is_empty() {
            let (now, later) = bytes.split_at(bytes.len().min(CHUNK - self.chunk.len()));
            self.chunk.extend_from_slice(now);
            bytes = later;
            if self.chunk.len() == CHUNK {
                self.end_chunk()?;
            }
        }
        Ok(())
    }

    fn end_chunk(&mut self) -> io::Result<()> {
        if self.written + self.chunk.len() as u64 > self.most_bytes {
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        self.sums.push(xxh3_64(&self.chunk));
        self.out.write_all(&self.chunk)?;
        self.written += self.chunk.len() as u64;
        self.chunk.clear();
        Ok(())
    }

    /// Writes index and header; returns how many bytes the file has. Before that nobody can open it.
    pub fn finish(mut self, label: &[u8]) -> io::Result<u64> {
        if !self.chunk.is_empty() {
            self.end_chunk()?;
        }
        let mut index = Vec::new();
        index.extend((self.sections.len() as u64).to_ne_bytes());
        for section in &self.sections {
            put_bytes(&mut index, section.name.as_bytes());
            index.extend((section.start as u64).to_ne_bytes());
            index.extend((section.bytes as u64).to_ne_bytes());
        }
        put_bytes(&mut index, label);
        put_bytes(&mut index, bytemuck::cast_slice(&self.sums));
        self.out.write_all(&index)?;
        self.out.rewind()?;
        self.out.write_all(bytemuck::bytes_of(&Header::new(self.written, &index)))?;
        self.out.flush()?;
        Ok(self.written + index.len() as u64)
    }
}

fn put_bytes(index: &mut Vec<u8>, bytes: &[u8]) {
    index.extend((bytes.len() as u64).to_ne_bytes());
    index.extend(bytes);
}

/// Takes columns from a store that is made when the first of them is asked for.
fn columns_of(mend: Mend) -> Replace {
    let store = OnceLock::new();
    Box::new(move |name| {
        let column = store.get_or_init(&mend).get::<u8>(name);
        column.map(|bytes| bytes.to_vec()).unwrap_or_default()
    })
}

/// The index, being read.
struct Index<'a>(&'a [u8]);

impl<'a> Index<'a> {
    fn bytes(&mut self, len: usize) -> Result<&'a [u8], StoreError> {
        let (now, later) = self.0.split_at_checked(len).ok_or(StoreError::Damaged)?;
        self.0 = later;
        Ok(now)
    }

    fn number(&mut self) -> Result<usize, StoreError> {
        let bytes = self.bytes(8)?.try_into().map_err(|_| StoreError::Damaged)?;
        usize::try_from(u64::from_ne_bytes(bytes)).map_err(|_| StoreError::Damaged)
    }

    fn list(&mut self) -> Result<&'a [u8], StoreError> {
        let len = self.number()?;
        self.bytes(len)
    }

    fn section(&mut self, end: usize) -> Result<Section, StoreError> {
        let name = str::from_utf8(self.list()?).map_err(|_| StoreError::Damaged)?.into();
        let (start, bytes) = (self.number()?, self.number()?);
        let is_inside = start.checked_add(bytes).is_some_and(|last| last <= end);
        if start < FIRST || start % ALIGN != 0 || !is_inside {
            return Err(StoreError::Damaged);
        }
        Ok(Section { name, start, bytes })
    }
}

/// A file of columns.
pub struct Store {
    label: Vec<u8>,
    sections: Vec<Section>,
    file: Arc<Chunks>,
}

impl fmt::Debug for Store {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Store").field("sections", &self.sections).finish_non_exhaustive()
    }
}

impl Store {
    /// Maps a file that a [`Writer`] finished. `is_wanted` looks at its label before any column is read: `None` if that says
    /// no.
    pub fn open(
        file: &File,
        check: Check,
        is_wanted: impl FnOnce(&[u8]) -> bool,
    ) -> Result<Option<Self>, StoreError> {
        // SAFETY: the file is the user's own, and nothing writes to it once it has its name. Whoever else changes it while it is
        // mapped could have changed this program.
        let map = unsafe { Mmap::map(file)? };
        Self::new(Bytes::Mapped(map), check, is_wanted)
    }

    /// A store in memory, from what a [`Writer`] finished.
    pub fn in_memory(bytes: &[u8]) -> Result<Self, StoreError> {
        let mut words = vec![0_u64; bytes.len().div_ceil(8)];
        let place = bytemuck::cast_slice_mut(&mut words).get_mut(..bytes.len());
        place.unwrap_or_default().copy_from_slice(bytes);
        let store = Self::new(Bytes::Owned { words, len: bytes.len() }, Check::Now, |_| true)?;
        store.ok_or(StoreError::Damaged)
    }

    fn new(
        bytes: Bytes,
        check: Check,
        is_wanted: impl FnOnce(&[u8]) -> bool,
    ) -> Result<Option<Self>, StoreError> {
        let whole = bytes.get();
        let header = whole.get(..size_of::<Header>()).ok_or(StoreError::Damaged)?;
        let header: Header = bytemuck::pod_read_unaligned(header);
        let is_whole = header.index_start.checked_add(header.index_bytes) == Some(whole.len() as u64);
        if header.magic != MAGIC || header.sum != header.checksum() || !is_whole {
            return Err(StoreError::Damaged);
        }
        let end = usize::try_from(header.index_start).map_err(|_| StoreError::Damaged)?;
        let index = whole.get(end..).filter(|_| end >= FIRST).ok_or(StoreError::Damaged)?;
        if xxh3_64(index) != header.index_sum {
            return Err(StoreError::Damaged);
        }
        let mut index = Index(index);
        let count = index.number()?;
        let sections = (0..count).map(|_| index.section(end)).collect::<Result<_, _>>()?;
        let label = index.list()?.to_owned();
        let sums: Vec<u64> = index.list()?.chunks_exact(8).map(bytemuck::pod_read_unaligned).collect();
        if sums.len() != (end - FIRST).div_ceil(CHUNK) {
            return Err(StoreError::Damaged);
        }
        if !is_wanted(&label) {
            return Ok(None);
        }
        let file = match check {
            Check::Now => {
                let file = Chunks::new(bytes, end, sums, None);
                file.check_all().map_err(|Damaged| StoreError::Damaged)?;
                file
            }
            Check::WhenTouched(mend) => Chunks::new(bytes, end, sums, Some(columns_of(mend))),
        };
        Ok(Some(Self { label, sections, file: Arc::new(file) }))
    }

    /// Text that says what the file is about.
    pub fn label(&self) -> &[u8] {
        &self.label
    }

    /// Number of bytes of columns.
    pub fn bytes(&self) -> usize {
        self.file.len()
    }

    /// A column.
    pub fn get<T: Pod>(&self, name: &str) -> Result<Buffer<T>, StoreError> {
        let missing = || StoreError::Missing(name.to_owned());
        let section = self.sections.iter().find(|section| &*section.name == name).ok_or_else(missing)?;
        if size_of::<T>() == 0 || align_of::<T>() > ALIGN || !section.bytes.is_multiple_of(size_of::<T>()) {
            return Err(missing());
        }
        let place = section.start..section.start + section.bytes;
        Ok(Buffer::in_file(Arc::clone(&self.file), Arc::clone(&section.name), place))
    }
}
