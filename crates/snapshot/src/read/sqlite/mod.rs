//! A small reader of SQLite databases: enough to go through the rows of a table.
//!
//! Written here because it must build for the browser and be safe on any bytes: no page is read outside the
//! file, none more often than there are pages, and what is wrong is named with the number of its page. Only
//! tables with row ids are read, which are all that profilers write.
//!
//! In a sound database every row has bytes of its own, so all rows of all tables together are no longer than the
//! file. That is the budget which every row is paid from: rows that lie on top of each other, or tables that
//! share their pages, end the reading when it is spent.

mod record;
mod schema;

use std::cell::Cell;

pub(super) use record::Value;
use record::{Record, varint};
pub(super) use schema::Table;

/// Why a database cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum SqliteError {
    #[error("{0}")]
    Header(&'static str),
    #[error("page {page} of the database is damaged: {reason}")]
    Page { page: u32, reason: &'static str },
}

pub(super) const MAGIC: &[u8; 16] = b"SQLite format 3\0";

/// A database that is in memory.
pub(super) struct Database<'a> {
    bytes: &'a [u8],
    page_size: usize,
    /// Bytes of a page that are used; extensions may keep some for themselves.
    usable: usize,
    pages: u32,
    /// Bytes of rows that may still be read.
    left: Cell<u64>,
    tables: Vec<Table>,
}

/// Deeper trees than any database has.
const MAX_DEPTH: usize = 24;

/// A row longer than this is none.
const MAX_ROW: u64 = 16 << 20;

/// What a row takes beside its values, at the least: the reference to it, its length and its number.
const LEAST_ROW: u64 = 4;

/// More tables than any profiler writes; those after that are not looked at.
const MAX_TABLES: usize = 1024;

impl<'a> Database<'a> {
    pub(super) fn open(bytes: &'a [u8]) -> Result<Self, SqliteError> {
        let header = bytes.get(..100).ok_or(SqliteError::Header("it is shorter than its header"))?;
        if !header.starts_with(MAGIC) {
            return Err(SqliteError::Header("it does not begin as an SQLite database does"));
        }
        let page_size = match be16(header, 16) {
            1 => 1 << 16,
            size if size >= 512 && size.is_power_of_two() => usize::from(size),
            _ => return Err(SqliteError::Header("its page size is none that SQLite has")),
        };
        let usable = page_size - usize::from(header[20]);
        if usable < 480 {
            return Err(SqliteError::Header("its pages have no room for rows"));
        }
        if be32(header, 56) > 1 {
            return Err(SqliteError::Header("its text is UTF-16, which is not read; profilers write UTF-8"));
        }
        let pages = u32::try_from(bytes.len().div_ceil(page_size)).unwrap_or(u32::MAX);
        let left = Cell::new(bytes.len() as u64);
        let mut database = Self { bytes, page_size, usable, pages, left, tables: Vec::new() };
        let mut tables = Vec::new();
        // The schema is a table itself, at page 1: type, name, table, root page, SQL.
        database.scan(1, &mut |_, row| {
            if let (Value::Text(b"table"), Value::Text(name), Value::Int(root), Value::Text(sql)) =
                (row.get(0), row.get(1), row.get(3), row.get(4))
                && let Ok(root) = u32::try_from(root)
                && tables.len() < MAX_TABLES
            {
                tables.push(Table::new(name, root, sql));
            }
            Ok(())
        })?;
        database.tables = tables;
        Ok(database)
    }

    pub(super) fn table(&self, name: &str) -> Option<&Table> {
        self.tables.iter().find(|table| table.name.eq_ignore_ascii_case(name))
    }

    /// Goes through the rows of a table. The values are in the order of the columns asked for; a column that
    /// the table does not have is NULL. What is intact before a damaged page has been seen when that is
    /// reported.
    pub(super) fn rows<const N: usize>(
        &self,
        table: &Table,
        columns: [&str; N],
        each: &mut dyn FnMut([Value<'_>; N]),
    ) -> Result<(), SqliteError> {
        if table.without_row_id {
            return Err(SqliteError::Page {
                page: table.root,
                reason: "its table has no row ids, which is not read",
            });
        }
        let places = columns.map(|name| table.place(name));
        self.scan(table.root, &mut |row_id, record| {
            each(places.map(|place| match place {
                None => Value::Null,
                // The column that is another name for the row id is stored as NULL.
                Some(place) if table.row_id == Some(place) && record.get(place) == Value::Null => {
                    Value::Int(row_id)
                }
                Some(place) => record.get(place),
            }));
            Ok(())
        })
    }

    /// Where in the file something is wrong.
    pub(super) fn offset(&self, error: &SqliteError) -> u64 {
        match error {
            SqliteError::Header(_) => 0,
            SqliteError::Page { page, .. } => u64::from(page.saturating_sub(1)) * self.page_size as u64,
        }
    }

    fn page(&self, number: u32) -> Result<&'a [u8], SqliteError> {
        let outside = SqliteError::Page { page: number, reason: "it lies outside the file" };
        let start = (number as usize).checked_sub(1).and_then(|before| before.checked_mul(self.page_size));
        let start = start.ok_or_else(|| outside.clone())?;
        let page = self.bytes.get(start..start.saturating_add(self.page_size)).ok_or(outside)?;
        Ok(page.get(..self.usable).unwrap_or_default())
    }

    /// Goes through the leaves of a tree from left to right.
    fn scan(
        &self,
        root: u32,
        each: &mut dyn FnMut(i64, &Record<'_>) -> Result<(), SqliteError>,
    ) -> Result<(), SqliteError> {
        // Pages are visited once: a tree that refers to itself ends here.
        let mut left = self.pages;
        // Inner pages on the way down, with the next child to visit.
        let mut path: Vec<(u32, usize)> = vec![(root, 0)];
        let mut whole = Vec::new();
        while let Some((number, child)) = path.pop() {
            let damaged = |reason| SqliteError::Page { page: number, reason };
            let page = self.page(number)?;
            // The first page begins with the header of the file.
            let start = if number == 1 { 100 } else { 0 };
            let head = page.get(start..start + 8).ok_or_else(|| damaged("it is too short"))?;
            let cells = usize::from(be16(head, 3));
            let cell = |at: usize, header: usize| {
                let pointer = page
                    .get(start + header + 2 * at..)
                    .filter(|rest| rest.len() >= 2)
                    .map(|rest| be16(rest, 0));
                pointer
                    .and_then(|pointer| page.get(usize::from(pointer)..))
                    .ok_or_else(|| damaged("a row lies outside it"))
            };
            if child == 0 {
                left = left.checked_sub(1).ok_or_else(|| damaged("the tree visits it twice"))?;
            }
            match head[0] {
                INNER => {
                    let next = if child < cells {
                        let cell = cell(child, 12)?;
                        be32(cell.get(..4).ok_or_else(|| damaged("a reference lies outside it"))?, 0)
                    } else {
                        be32(page.get(start + 8..start + 12).ok_or_else(|| damaged("it is too short"))?, 0)
                    };
                    if child < cells {
                        path.push((number, child + 1));
                    }
                    if path.len() >= MAX_DEPTH {
                        return Err(damaged("the tree is deeper than any"));
                    }
                    path.push((next, 0));
                }
                LEAF => {
                    for at in 0..cells {
                        let cell = cell(at, 8)?;
                        let (row_id, payload) = self.payload(number, cell, &mut whole, &mut left)?;
                        let record =
                            Record::new(payload).ok_or_else(|| damaged("a row is longer than it says"))?;
                        each(row_id, &record)?;
                    }
                }
                _ => return Err(damaged("it is no part of a table")),
            }
        }
        Ok(())
    }

    /// The row of a cell: where it lies, or put together from the pages that it goes on in.
    fn payload<'b>(
        &self,
        number: u32,
        cell: &'b [u8],
        whole: &'b mut Vec<u8>,
        left: &mut u32,
    ) -> Result<(i64, &'b [u8]), SqliteError>
    where
        'a: 'b,
    {
        let damaged = |page: u32, reason| SqliteError::Page { page, reason };
        let short = || damaged(number, "a row begins outside it");
        let (length, used) = varint(cell).ok_or_else(short)?;
        let (row_id, more) = varint(cell.get(used..).unwrap_or_default()).ok_or_else(short)?;
        let body = cell.get(used + more..).unwrap_or_default();
        let length = u64::try_from(length).ok().filter(|length| *length <= MAX_ROW);
        let length = length.ok_or_else(|| damaged(number, "a row is longer than any"))?;
        let unpaid = self.left.get().checked_sub(length + LEAST_ROW);
        self.left.set(unpaid.ok_or_else(|| damaged(number, "its rows lie on top of others"))?);
        let length = length as usize;
        let most = self.usable - 35;
        if length <= most {
            return Ok((row_id, body.get(..length).ok_or_else(short)?));
        }
        // As much as fills whole pages goes on elsewhere.
        let least = (self.usable - 12) * 32 / 255 - 23;
        let here = least + (length - least) % (self.usable - 4);
        let here = if here <= most { here } else { least };
        whole.clear();
        whole.extend_from_slice(body.get(..here).ok_or_else(short)?);
        let mut next = body.get(here..here + 4).map(|next| be32(next, 0)).ok_or_else(short)?;
        while whole.len() < length {
            *left = left.checked_sub(1).ok_or_else(|| damaged(next, "a row goes on in it for ever"))?;
            let page = self.page(next)?;
            let part = (length - whole.len()).min(self.usable - 4);
            whole.extend_from_slice(page.get(4..4 + part).ok_or_else(|| damaged(next, "it is too short"))?);
            next = be32(page, 0);
        }
        Ok((row_id, whole))
    }
}

const INNER: u8 = 5;
const LEAF: u8 = 13;

fn be16(bytes: &[u8], at: usize) -> u16 {
    bytes.get(at..at + 2).map_or(0, |bytes| u16::from_be_bytes([bytes[0], bytes[1]]))
}

fn be32(bytes: &[u8], at: usize) -> u32 {
    bytes.get(at..at + 4).map_or(0, |bytes| u32::from_be_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A database of one page: a schema whose rows all are the one at the end of the page.
    fn aliased(rows: u16) -> Vec<u8> {
        let mut bytes = vec![0; 4096];
        bytes[..16].copy_from_slice(MAGIC);
        bytes[16..18].copy_from_slice(&4096_u16.to_be_bytes());
        // A row of five values: "table", "T", "", page 1, "T(a)"; its types, then the values.
        let row = *b"\x06\x17\x0f\x0d\x09\x15tableTT(a)";
        let cell = [&[row.len() as u8, 1][..], &row].concat();
        let at = 4096 - cell.len();
        bytes[at..].copy_from_slice(&cell);
        bytes[100] = LEAF;
        bytes[103..105].copy_from_slice(&rows.to_be_bytes());
        for row in 0..usize::from(rows) {
            bytes[108 + 2 * row..110 + 2 * row].copy_from_slice(&(at as u16).to_be_bytes());
        }
        bytes
    }

    #[test]
    fn rows_on_top_of_each_other_end_the_reading() {
        // Each costs 16 bytes and the least: 4096 bytes are enough for 204 of them.
        let names = |rows| Database::open(&aliased(rows)).map(|database| database.tables.len());
        assert_eq!(names(1), Ok(1));
        assert_eq!(names(204), Ok(204));
        assert_eq!(names(205), Err(SqliteError::Page { page: 1, reason: "its rows lie on top of others" }));
    }
}
