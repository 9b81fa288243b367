//! Tables of columns, to and from Arrow streams.

use std::collections::HashMap;
use std::io::{BufRead, Write};
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{ArrowPrimitiveType, Int32Type, Int64Type, UInt8Type, UInt32Type, UInt64Type};
use arrow_array::{Array, ArrayRef, LargeStringArray, PrimitiveArray, RecordBatch};
use arrow_buffer::ScalarBuffer;
use arrow_ipc::reader::StreamReader;
use arrow_ipc::writer::StreamWriter;
use arrow_schema::{ArrowError, DataType, Field, Schema, SchemaRef};

use super::IpcError;

/// The layout of the tables; changes whenever they do.
pub const VERSION: &str = "vramscope/snapshot/2";

pub(super) const NAME: &str = "table";

/// Rows are written in pieces, so that no second copy of a long table is ever in memory.
const ROWS_PER_BATCH: usize = 1 << 16;

/// So many rows are made room for because the stream says so; more only as they arrive.
const MAX_RESERVED: usize = 1 << 24;

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
    schema: SchemaRef,
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

    /// Adds the rows of an array; `None` if it is of another type or has rows without a value.
    fn extend(&mut self, array: &dyn Array) -> Option<()> {
        if array.null_count() > 0 {
            return None;
        }
        match self {
            Self::U8(all) => all.extend_from_slice(array.as_primitive_opt::<UInt8Type>()?.values()),
            Self::U32(all) => all.extend_from_slice(array.as_primitive_opt::<UInt32Type>()?.values()),
            Self::U64(all) => all.extend_from_slice(array.as_primitive_opt::<UInt64Type>()?.values()),
            Self::I32(all) => all.extend_from_slice(array.as_primitive_opt::<Int32Type>()?.values()),
            Self::I64(all) => all.extend_from_slice(array.as_primitive_opt::<Int64Type>()?.values()),
            Self::Text(all) => {
                let array = array.as_string_opt::<i64>()?;
                all.extend((0..array.len()).map(|row| array.value(row).to_owned()));
            }
        }
        Some(())
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
        let mut reader = StreamReader::try_new(source, None).map_err(arrow)?;
        let schema = reader.schema();
        if schema.metadata().get("version").map(String::as_str) != Some(VERSION) {
            return Err(IpcError::Version);
        }
        let rows = schema.metadata().get("rows").and_then(|rows| rows.parse().ok()).unwrap_or(0);
        let missing = |field: &Field| IpcError::Missing(field.name().clone());
        let mut columns = HashMap::new();
        for field in schema.fields() {
            let values =
                Values::new(field.data_type(), rows.min(MAX_RESERVED)).ok_or_else(|| missing(field))?;
            columns.insert(field.name().clone(), values);
        }
        for batch in &mut reader {
            let batch = batch.map_err(arrow)?;
            for (field, array) in schema.fields().iter().zip(batch.columns()) {
                let values = columns.get_mut(field.name()).ok_or_else(|| missing(field))?;
                values.extend(array).ok_or_else(|| missing(field))?;
            }
        }
        if !reader.is_finished() {
            return Err(IpcError::Arrow("a stream breaks off".into()));
        }
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
