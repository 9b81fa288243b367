//! A file of named columns.
//!
//! The first [`CHUNK`] holds only the header. Columns follow, each aligned, and then the index: the names and places of
//! the columns, a label that says what the file is about, and the checksum of every chunk. The header has the checksum of
//! the index. So a file is opened by reading header and index, and every byte of it is covered by a checksum.
//!
//! Numbers are as this machine has them: such a file does not travel.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::sync::Arc;

use bytemuck::Pod;
use xxhash_rust::xxh3::xxh3_64;

use crate::buffer::Buffer;
use crate::chunks::{Bytes, CHUNK, Chunks};

const MAGIC: u64 = u64::from_ne_bytes(*b"vramcol1");

/// Every column begins at a multiple of this.
const ALIGN: usize = 64;

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

/// How the bytes of a file get into memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// As they are touched. Ask [`is_damaged`](crate::is_damaged) before an answer is used.
    Mapped,
    /// All at once, checked.
    Copied,
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
#[derive(Clone, Debug)]
struct Section {
    name: String,
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
        out.seek(SeekFrom::Start(CHUNK as u64))?;
        let chunk = Vec::with_capacity(CHUNK);
        Ok(Self { out, chunk, written: CHUNK as u64, most_bytes, sums: vec![0], sections: Vec::new() })
    }

    /// Adds a column.
    pub fn put<T: Pod>(&mut self, name: impl Into<String>, values: &[T]) -> io::Result<()> {
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
        let name = str::from_utf8(self.list()?).map_err(|_| StoreError::Damaged)?.to_owned();
        let (start, bytes) = (self.number()?, self.number()?);
        let is_inside = start.checked_add(bytes).is_some_and(|last| last <= end);
        if start < CHUNK || start % ALIGN != 0 || !is_inside {
            return Err(StoreError::Damaged);
        }
        Ok(Section { name, start, bytes })
    }
}

/// A file of columns.
#[derive(Debug)]
pub struct Store {
    label: Vec<u8>,
    sections: Vec<Section>,
    file: Arc<Chunks>,
}

impl Store {
    /// Opens a file that a [`Writer`] finished. `is_wanted` looks at its label before anything else is read: `None` if
    /// that says no.
    pub fn open(
        mut file: &File,
        access: Access,
        is_wanted: impl FnOnce(&[u8]) -> bool,
    ) -> Result<Option<Self>, StoreError> {
        let mut header = [0; size_of::<Header>()];
        file.rewind()?;
        file.read_exact(&mut header)?;
        let header: Header = bytemuck::pod_read_unaligned(&header);
        let bytes = file.metadata()?.len();
        let is_whole = header.index_start.checked_add(header.index_bytes) == Some(bytes);
        if header.magic != MAGIC || header.sum != header.checksum() || !is_whole {
            return Err(StoreError::Damaged);
        }
        let number = |bytes: u64| usize::try_from(bytes).map_err(|_| StoreError::Damaged);
        let (end, index_bytes) = (number(header.index_start)?, number(header.index_bytes)?);
        let mut index = vec![0; index_bytes];
        file.seek(SeekFrom::Start(header.index_start))?;
        file.read_exact(&mut index)?;
        if xxh3_64(&index) != header.index_sum {
            return Err(StoreError::Damaged);
        }
        let mut index = Index(&index);
        let count = index.number()?;
        let sections = (0..count).map(|_| index.section(end)).collect::<Result<_, _>>()?;
        let label = index.list()?;
        let sums: Vec<u64> = index.list()?.chunks_exact(8).map(bytemuck::pod_read_unaligned).collect();
        if sums.len() != end.div_ceil(CHUNK) {
            return Err(StoreError::Damaged);
        }
        if !is_wanted(label) {
            return Ok(None);
        }
        let file = match map(file, end, access) {
            Some(bytes) => Chunks::new(bytes, sums),
            None => {
                let file = Chunks::new(copy(file, end)?, sums);
                if !(1..end.div_ceil(CHUNK)).all(|chunk| file.is_intact(chunk)) {
                    return Err(StoreError::Damaged);
                }
                file
            }
        };
        Ok(Some(Self { label: label.to_owned(), sections, file: Arc::new(file) }))
    }

    /// What the file is about.
    pub fn label(&self) -> &[u8] {
        &self.label
    }

    /// Bytes of columns.
    pub fn bytes(&self) -> usize {
        self.file.len()
    }

    /// A column.
    pub fn get<T: Pod>(&self, name: &str) -> Result<Buffer<T>, StoreError> {
        let missing = || StoreError::Missing(name.to_owned());
        let section = self.sections.iter().find(|section| section.name == name).ok_or_else(missing)?;
        if size_of::<T>() == 0 || align_of::<T>() > ALIGN || !section.bytes.is_multiple_of(size_of::<T>()) {
            return Err(missing());
        }
        Ok(Buffer::in_file(Arc::clone(&self.file), section.start, section.bytes / size_of::<T>()))
    }
}

#[cfg(unix)]
fn map(file: &File, len: usize, access: Access) -> Option<Bytes> {
    let map = || crate::map::Map::new(file, len).ok();
    (access == Access::Mapped).then(map).flatten().map(Bytes::Mapped)
}

#[cfg(not(unix))]
fn map(_: &File, _: usize, _: Access) -> Option<Bytes> {
    None
}

fn copy(mut file: &File, len: usize) -> io::Result<Bytes> {
    let mut words = vec![0_u64; len.div_ceil(8)];
    file.rewind()?;
    file.read_exact(bytemuck::cast_slice_mut(&mut words).get_mut(..len).unwrap_or_default())?;
    Ok(Bytes::Copied { words, len })
}
