//! Tables of columns, to and from Arrow streams.
//!
//! Arrow's own reader trusts the places of buffers that a message states, and panics where they lie outside it. So the
//! messages are taken apart here: their frames and schemas by Arrow, the few kinds of columns that there are by hand.

use std::collections::HashMap;
use std::io::{BufRead, Read, Write};
use std::sync::Arc;

use arrow_array::types::{ArrowPrimitiveType, Int32Type, Int64Type, UInt8Type, UInt32Type, UInt64Type};
use arrow_array::{ArrayRef, LargeStringArray, PrimitiveArray, RecordBatch};
use arrow_buffer::ScalarBuffer;
use arrow_ipc::convert::try_fb_to_schema;
use arrow_ipc::writer::StreamWriter;
use arrow_ipc::{MessageHeader, root_as_message};
use arrow_schema::{ArrowError, DataType, Field, Schema};

use super::IpcError;

/// The layout of the tables; changes whenever they do.
pub const VERSION: &str = "vramscope/snapshot/4";

pub(super) const NAME: &str = "table";

/// Rows are written in pieces, so that no second copy of a long table is ever in memory.
const ROWS_PER_BATCH: usize = 1 << 16;

/// Rows that room is reserved for on the stream's word; more only as they arrive.
const MAX_RESERVED: usize = 1 << 20;

/// One table on its way out: named columns, each a function from a range of rows to an array.
pub(super) struct Outgoing<'a> {
    metadata: HashMap<String, String>,
    rows: usize,
    fields: Vec<Field>,
    columns: Vec<Box<dyn Fn(std::ops::Range<usize>) -> ArrayRef + 'a>>,
}

impl<'a> Outgoing<'a> {
    pub(super) fn new(name: &str, rows: usize) -> Self {
        let metadata = HashMap::from([
            (NAME.to_owned(), name.to_owned()),
            ("version".into(), VERSION.into()),
            ("rows".into(), rows.to_string()),
        ]);
        Self { metadata, rows, fields: Vec::new(), columns: Vec::new() }
    }

    pub(super) fn with(mut self, key: &str, value: String) -> Self {
        self.metadata.insert(key.to_owned(), value);
        self
    }

    fn column(
        mut self,
        name: &str,
        kind: DataType,
        make: impl Fn(std::ops::Range<usize>) -> ArrayRef + 'a,
    ) -> Self {
        self.fields.push(Field::new(name, kind, false));
        self.columns.push(Box::new(make));
        self
    }

    fn numbers<T: ArrowPrimitiveType>(self, name: &str, get: impl Fn(usize) -> T::Native + 'a) -> Self {
        self.column(name, T::DATA_TYPE, move |rows| {
            Arc::new(PrimitiveArray::<T>::new(rows.map(&get).collect::<ScalarBuffer<_>>(), None))
        })
    }

    pub(super) fn u8(self, name: &str, get: impl Fn(usize) -> u8 + 'a) -> Self {
        self.numbers::<UInt8Type>(name, get)
    }

    pub(super) fn u32(self, name: &str, get: impl Fn(usize) -> u32 + 'a) -> Self {
        self.numbers::<UInt32Type>(name, get)
    }

    pub(super) fn u64(self, name: &str, get: impl Fn(usize) -> u64 + 'a) -> Self {
        self.numbers::<UInt64Type>(name, get)
    }

    pub(super) fn i32(self, name: &str, get: impl Fn(usize) -> i32 + 'a) -> Self {
        self.numbers::<Int32Type>(name, get)
    }

    pub(super) fn i64(self, name: &str, get: impl Fn(usize) -> i64 + 'a) -> Self {
        self.numbers::<Int64Type>(name, get)
    }

    pub(super) fn text(self, name: &str, get: impl Fn(usize) -> &'a str + 'a) -> Self {
        self.column(name, DataType::LargeUtf8, move |rows| {
            Arc::new(LargeStringArray::from_iter_values(rows.map(&get)))
        })
    }

    /// Writes the table as one stream.
    pub(super) fn write(self, out: &mut impl Write) -> Result<(), ArrowError> {
        let schema = Arc::new(Schema::new_with_metadata(self.fields, self.metadata));
        let mut writer = StreamWriter::try_new(out, &schema)?;
        let mut start = 0;
        while start < self.rows {
            let end = self.rows.min(start + ROWS_PER_BATCH);
            let columns = self.columns.iter().map(|make| make(start..end)).collect();
            writer.write(&RecordBatch::try_new(schema.clone(), columns)?)?;
            start = end;
        }
        writer.finish()
    }
}

/// One table on its way in. Each batch is taken apart as it arrives, so that at no time there is more
/// than one beside the columns themselves.
pub(super) struct Incoming {
    schema: Schema,
    columns: HashMap<String, Values>,
}

enum Values {
    U8(Vec<u8>),
    U32(Vec<u32>),
    U64(Vec<u64>),
    I32(Vec<i32>),
    I64(Vec<i64>),
    Text(Vec<String>),
}

impl Values {
    fn new(kind: &DataType, rows: usize) -> Option<Self> {
        Some(match kind {
            DataType::UInt8 => Self::U8(Vec::with_capacity(rows)),
            DataType::UInt32 => Self::U32(Vec::with_capacity(rows)),
            DataType::UInt64 => Self::U64(Vec::with_capacity(rows)),
            DataType::Int32 => Self::I32(Vec::with_capacity(rows)),
            DataType::Int64 => Self::I64(Vec::with_capacity(rows)),
            DataType::LargeUtf8 => Self::Text(Vec::new()),
            _ => return None,
        })
    }

    /// Adds the rows of a batch; `None` if its buffers do not hold them.
    fn extend(
        &mut self,
        rows: usize,
        buffers: &mut impl Iterator<Item = Option<Slice>>,
        body: &[u8],
    ) -> Option<()> {
        let mut next = || body.get(buffers.next()??);
        // Which rows have a value: all, so it may be empty.
        next()?;
        match self {
            Self::U8(all) => all.extend_from_slice(next()?.get(..rows)?),
            Self::U32(all) => all.extend(numbers(next()?, rows)?.map(u32::from_le_bytes)),
            Self::U64(all) => all.extend(numbers(next()?, rows)?.map(u64::from_le_bytes)),
            Self::I32(all) => all.extend(numbers(next()?, rows)?.map(i32::from_le_bytes)),
            Self::I64(all) => all.extend(numbers(next()?, rows)?.map(i64::from_le_bytes)),
            Self::Text(all) => {
                let (ends, texts) = (next()?, next()?);
                // No rows may have no ends, not even that of the text before the first.
                let mut ends = numbers(ends, if rows == 0 { 0 } else { rows + 1 })?.map(i64::from_le_bytes);
                let place = |end: i64| usize::try_from(end).ok();
                let Some(mut start) = ends.next().and_then(place) else { return (rows == 0).then_some(()) };
                for end in ends {
                    let end = place(end)?;
                    all.push(std::str::from_utf8(texts.get(start..end)?).ok()?.to_owned());
                    start = end;
                }
            }
        }
        Some(())
    }
}

/// A place in the body of a message.
type Slice = std::ops::Range<usize>;

/// `rows` numbers of `N` bytes each, if there are as many.
fn numbers<const N: usize>(bytes: &[u8], rows: usize) -> Option<impl ExactSizeIterator<Item = [u8; N]>> {
    let (numbers, _) = bytes.get(..rows.checked_mul(N)?)?.as_chunks::<N>();
    Some(numbers.iter().copied())
}

/// One message of a stream.
struct Message {
    head: Vec<u8>,
    body: Vec<u8>,
}

/// What precedes the length of a message.
const CONTINUES: [u8; 4] = [0xff; 4];

impl Message {
    /// The next message of a stream; `None` at its end. Memory is taken as bytes arrive, whatever lengths say.
    fn read(source: &mut impl BufRead, reused: Vec<u8>) -> Result<Option<Self>, IpcError> {
        let broken = || IpcError::Arrow("a stream breaks off".into());
        let mut length = CONTINUES;
        while length == CONTINUES {
            source.read_exact(&mut length).map_err(|_| broken())?;
        }
        if length == [0; 4] {
            return Ok(None);
        }
        let mut message = Self { head: Vec::new(), body: reused };
        let mut take = |length: Option<u64>, into: &mut Vec<u8>| {
            let length = length.ok_or_else(broken)?;
            into.clear();
            let read = source.by_ref().take(length).read_to_end(into).map_err(|_| broken())?;
            if read as u64 == length { Ok(()) } else { Err(broken()) }
        };
        take(u64::try_from(i32::from_le_bytes(length)).ok(), &mut message.head)?;
        let body =
            root_as_message(&message.head).map_err(|error| IpcError::Arrow(error.to_string()))?.bodyLength();
        take(u64::try_from(body).ok(), &mut message.body)?;
        Ok(Some(message))
    }
}

macro_rules! take {
    ($($name:ident: $kind:ident($type:ty),)*) => {$(
        pub(super) fn $name(&mut self, name: &str) -> Result<Vec<$type>, IpcError> {
            match self.columns.remove(name) {
                Some(Values::$kind(values)) => Ok(values),
                _ => Err(IpcError::Missing(format!("{}.{name}", self.name()))),
            }
        }
    )*};
}

impl Incoming {
    /// The next stream of a sequence; `None` at its end.
    pub(super) fn read(source: &mut impl BufRead) -> Result<Option<Self>, IpcError> {
        let arrow = |error: ArrowError| IpcError::Arrow(error.to_string());
        if source.fill_buf().map_err(|error| IpcError::Arrow(error.to_string()))?.is_empty() {
            return Ok(None);
        }
        let odd = || IpcError::Arrow("a message is not of this kind of stream".into());
        let first = Message::read(source, Vec::new())?.ok_or_else(odd)?;
        let head = root_as_message(&first.head).map_err(|error| IpcError::Arrow(error.to_string()))?;
        let schema = try_fb_to_schema(head.header_as_schema().ok_or_else(odd)?).map_err(arrow)?;
        if schema.metadata().get("version").map(String::as_str) != Some(VERSION) {
            return Err(IpcError::Version);
        }
        let rows = schema.metadata().get("rows").and_then(|rows| rows.parse().ok()).unwrap_or(0);
        let missing = |field: &Field| IpcError::Missing(field.name().clone());
        let mut columns: Vec<Values> = Vec::new();
        for field in schema.fields() {
            let values = Values::new(field.data_type(), rows.min(MAX_RESERVED));
            columns.push(values.ok_or_else(|| missing(field))?);
        }
        let mut reused = first.body;
        while let Some(message) = Message::read(source, reused)? {
            let head = root_as_message(&message.head).map_err(|error| IpcError::Arrow(error.to_string()))?;
            if head.header_type() != MessageHeader::RecordBatch {
                return Err(odd());
            }
            let batch = head.header_as_record_batch().ok_or_else(odd)?;
            let nodes = batch.nodes().ok_or_else(odd)?;
            let is_whole =
                |node: &arrow_ipc::FieldNode| node.length() == batch.length() && node.null_count() == 0;
            if batch.compression().is_some() || nodes.len() != columns.len() || !nodes.iter().all(is_whole) {
                return Err(odd());
            }
            let rows = usize::try_from(batch.length()).map_err(|_| odd())?;
            let mut buffers = batch.buffers().ok_or_else(odd)?.iter().map(|buffer| {
                let start = usize::try_from(buffer.offset()).ok()?;
                Some(start..start.checked_add(usize::try_from(buffer.length()).ok()?)?)
            });
            for (field, values) in schema.fields().iter().zip(&mut columns) {
                values.extend(rows, &mut buffers, &message.body).ok_or_else(|| missing(field))?;
            }
            reused = message.body;
        }
        let names = schema.fields().iter().map(|field| field.name().clone());
        let columns = names.zip(columns).collect();
        Ok(Some(Self { schema, columns }))
    }

    pub(super) fn name(&self) -> &str {
        self.metadata(NAME)
    }

    /// What was said with [`Outgoing::with`]; empty for nothing.
    pub(super) fn metadata(&self, key: &str) -> &str {
        self.schema.metadata().get(key).map(String::as_str).unwrap_or_default()
    }

    take! {
        u8: U8(u8),
        u32: U32(u32),
        u64: U64(u64),
        i32: I32(i32),
        i64: I64(i64),
        text: Text(String),
    }
}
