//! Writes SQLite databases, sound ones and ones that cannot be: rows that are one row, tables that share pages.
//!
//! ```
//! use vramscope_testkit::sqlite::{Cell, Database};
//! let mut database = Database::new(512);
//! database.table("STRING_IDS", &["id", "value"], [vec![Cell::Int(1), Cell::text("aten::mul")]]);
//! assert_eq!(database.bytes().len() % 512, 0);
//! ```

/// A value of a row.
#[derive(Clone, Debug, PartialEq)]
pub enum Cell {
    /// NULL.
    Null,
    /// A whole number.
    Int(i64),
    /// A text.
    Text(Vec<u8>),
}

impl Cell {
    /// A text.
    pub fn text(text: &str) -> Self {
        Self::Text(text.as_bytes().to_vec())
    }
}

/// A database that is being written.
#[derive(Clone, Debug)]
pub struct Database {
    page_size: usize,
    /// All pages; the first is the schema's, which is written last.
    pages: Vec<Vec<u8>>,
    schema: Vec<Vec<u8>>,
    /// A tree that takes the place of the schema.
    schema_root: Option<u32>,
}

const LEAF: u8 = 13;
const INNER: u8 = 5;
const FILE_HEADER: usize = 100;

impl Database {
    /// An empty one with the given page size in bytes: a power of two from 512 to 65 536.
    pub fn new(page_size: usize) -> Self {
        Self { page_size, pages: vec![Vec::new()], schema: Vec::new(), schema_root: None }
    }

    /// Adds a table with its rows.
    pub fn table(&mut self, name: &str, columns: &[&str], rows: impl IntoIterator<Item = Vec<Cell>>) -> u32 {
        let cells: Vec<Vec<u8>> =
            rows.into_iter().zip(1..).map(|(row, id)| self.cell(id, &record(&row))).collect();
        let root = self.tree(&cells);
        self.name(name, columns, root);
        root
    }

    /// Adds a table that is one row in each of its pages, with as many references to it as the page has room for.
    pub fn aliased(&mut self, name: &str, columns: &[&str], row: &[Cell], pages: usize) {
        let root = self.aliases(row, pages);
        self.name(name, columns, root);
    }

    /// Makes the schema one table again and again, as in [`Database::aliased`].
    pub fn aliased_schema(&mut self, sql: &str, pages: usize) {
        let row = [Cell::text("table"), Cell::text("T"), Cell::text("T"), Cell::Int(1), Cell::text(sql)];
        self.schema_root = Some(self.aliases(&row, pages));
    }

    fn aliases(&mut self, row: &[Cell], pages: usize) -> u32 {
        let cell = self.cell(1, &record(row));
        let at = self.page_size - cell.len();
        let mut leaf = vec![0; self.page_size];
        leaf[at..].copy_from_slice(&cell);
        refer(&mut leaf, std::iter::repeat_n(at, at.saturating_sub(8) / 2));
        let leaves: Vec<u32> = (0..pages.max(1)).map(|_| self.page(leaf.clone())).collect();
        self.inner(&leaves)
    }

    /// Adds a table of a number and a text in which every text begins a few bytes after the one before, inside it.
    pub fn overlapping(&mut self, name: &str, columns: &[&str], pages: usize) {
        // The beginning of a row of NULL and a long text: its length, its number, its types.
        let text = self.page_size as i64 / 4;
        let kind = varint(2 * text + 13);
        let head = [varint(text + 2 + kind.len() as i64), vec![1, 2 + kind.len() as u8, 0], kind].concat();
        let mut leaf = vec![b'x'; self.page_size];
        let (first, last) = (self.page_size / 2, self.page_size - self.page_size / 4 - 16);
        let places: Vec<usize> = (first..last).step_by(head.len()).collect();
        for &place in &places {
            leaf[place..place + head.len()].copy_from_slice(&head);
        }
        refer(&mut leaf, places.into_iter());
        let leaves: Vec<u32> = (0..pages.max(1)).map(|_| self.page(leaf.clone())).collect();
        let root = self.inner(&leaves);
        self.name(name, columns, root);
    }

    /// Adds a name for a tree that is there, e.g. a second one.
    pub fn name(&mut self, name: &str, columns: &[&str], root: u32) {
        let sql = format!("CREATE TABLE {name}({})", columns.join(", "));
        let (kind, root) = (Cell::text("table"), Cell::Int(root.into()));
        self.schema.push(record(&[kind, Cell::text(name), Cell::text(name), root, Cell::text(&sql)]));
    }

    /// The file.
    pub fn bytes(mut self) -> Vec<u8> {
        let schema: Vec<Vec<u8>> =
            std::mem::take(&mut self.schema).iter().zip(1..).map(|(row, id)| self.cell(id, row)).collect();
        let room = self.page_size - FILE_HEADER - 8;
        let fits = schema.iter().map(|cell| cell.len() + 2).sum::<usize>() <= room;
        let first = if let Some(root) = self.schema_root {
            self.first_page(root)
        } else if fits {
            page(self.page_size, FILE_HEADER, &schema)
        } else {
            let root = self.tree(&schema);
            self.first_page(root)
        };
        self.pages[0] = first;
        let pages = self.pages.len() as u32;
        let header = &mut self.pages[0];
        header[..16].copy_from_slice(b"SQLite format 3\0");
        let size = if self.page_size == 1 << 16 { 1 } else { self.page_size as u16 };
        header[16..18].copy_from_slice(&size.to_be_bytes());
        header[18..24].copy_from_slice(&[1, 1, 0, 64, 32, 32]);
        header[28..32].copy_from_slice(&pages.to_be_bytes());
        header[44..48].copy_from_slice(&4_u32.to_be_bytes());
        header[56..60].copy_from_slice(&1_u32.to_be_bytes());
        self.pages.concat()
    }

    /// A first page that refers to a tree elsewhere.
    fn first_page(&self, root: u32) -> Vec<u8> {
        let mut first = vec![0; self.page_size];
        first[FILE_HEADER] = INNER;
        first[FILE_HEADER + 8..FILE_HEADER + 12].copy_from_slice(&root.to_be_bytes());
        first
    }

    fn page(&mut self, bytes: Vec<u8>) -> u32 {
        self.pages.push(bytes);
        self.pages.len() as u32
    }

    /// A row as it stands in a leaf; what is too long goes on in pages of its own.
    fn cell(&mut self, id: i64, payload: &[u8]) -> Vec<u8> {
        let mut cell = varint(payload.len() as i64);
        cell.extend(varint(id));
        let usable = self.page_size;
        if payload.len() <= usable - 35 {
            cell.extend_from_slice(payload);
            return cell;
        }
        let least = (usable - 12) * 32 / 255 - 23;
        let here = least + (payload.len() - least) % (usable - 4);
        let here = if here <= usable - 35 { here } else { least };
        let (start, rest) = payload.split_at(here);
        cell.extend_from_slice(start);
        let first = self.pages.len() as u32 + 1;
        cell.extend(first.to_be_bytes());
        let parts: Vec<&[u8]> = rest.chunks(usable - 4).collect();
        for (number, part) in parts.iter().enumerate() {
            let next = if number + 1 < parts.len() { first + number as u32 + 1 } else { 0 };
            let mut bytes = next.to_be_bytes().to_vec();
            bytes.extend_from_slice(part);
            bytes.resize(usable, 0);
            self.page(bytes);
        }
        cell
    }

    /// A tree of leaves over these cells; returns its root.
    fn tree(&mut self, cells: &[Vec<u8>]) -> u32 {
        let mut leaves = Vec::new();
        let mut rest = cells;
        loop {
            let mut room = self.page_size - 8;
            let count = rest
                .iter()
                .take_while(|cell| {
                    let fits = cell.len() + 2 <= room;
                    room = room.saturating_sub(cell.len() + 2);
                    fits
                })
                .count();
            let (now, later) = rest.split_at(count);
            let leaf = page(self.page_size, 0, now);
            leaves.push(self.page(leaf));
            if later.is_empty() {
                break;
            }
            rest = later;
        }
        self.inner(&leaves)
    }

    fn inner(&mut self, children: &[u32]) -> u32 {
        if let [only] = children {
            return *only;
        }
        let most = (self.page_size - 12) / 8;
        let parents: Vec<u32> = children
            .chunks(most)
            .map(|group| {
                let mut bytes = vec![0; self.page_size];
                bytes[0] = INNER;
                let (last, cells) = group.split_last().expect("a chunk is not empty");
                bytes[3..5].copy_from_slice(&(cells.len() as u16).to_be_bytes());
                bytes[8..12].copy_from_slice(&last.to_be_bytes());
                for (number, child) in cells.iter().enumerate() {
                    let at = self.page_size - 6 * (number + 1);
                    bytes[12 + 2 * number..14 + 2 * number].copy_from_slice(&(at as u16).to_be_bytes());
                    bytes[at..at + 4].copy_from_slice(&child.to_be_bytes());
                    // Row ids are looked up by nobody: rows are gone through from left to right.
                    bytes[at + 4] = 1;
                }
                self.page(bytes)
            })
            .collect();
        self.inner(&parents)
    }
}

/// Makes a page a leaf whose rows lie at these places.
fn refer(page: &mut [u8], places: impl ExactSizeIterator<Item = usize>) {
    page[..8].copy_from_slice(&[LEAF, 0, 0, 0, 0, 0, 0, 0]);
    page[3..5].copy_from_slice(&(places.len() as u16).to_be_bytes());
    for (number, place) in places.enumerate() {
        page[8 + 2 * number..10 + 2 * number].copy_from_slice(&(place as u16).to_be_bytes());
    }
}

/// A leaf with these cells, which fit.
fn page(size: usize, start: usize, cells: &[Vec<u8>]) -> Vec<u8> {
    let mut bytes = vec![0; size];
    bytes[start] = LEAF;
    bytes[start + 3..start + 5].copy_from_slice(&(cells.len() as u16).to_be_bytes());
    let mut at = size;
    for (number, cell) in cells.iter().enumerate() {
        at -= cell.len();
        bytes[at..at + cell.len()].copy_from_slice(cell);
        let place = start + 8 + 2 * number;
        bytes[place..place + 2].copy_from_slice(&(at as u16).to_be_bytes());
    }
    bytes
}

/// The values of a row: their types, then they themselves.
pub fn record(row: &[Cell]) -> Vec<u8> {
    let (mut types, mut values) = (Vec::new(), Vec::new());
    for cell in row {
        match cell {
            Cell::Null => types.push(0),
            Cell::Int(0) => types.push(8),
            Cell::Int(1) => types.push(9),
            Cell::Int(n) => {
                let (kind, len) = match n {
                    -0x80..=0x7f => (1, 1),
                    -0x8000..=0x7fff => (2, 2),
                    -0x8000_0000..=0x7fff_ffff => (4, 4),
                    _ => (6, 8),
                };
                types.push(kind);
                values.extend_from_slice(&n.to_be_bytes()[8 - len..]);
            }
            Cell::Text(text) => {
                types.extend(varint(2 * text.len() as i64 + 13));
                values.extend_from_slice(text);
            }
        }
    }
    let mut length = types.len() + 1;
    if length > 127 {
        length += 1;
    }
    [varint(length as i64), types, values].concat()
}

/// A number of one to nine bytes.
fn varint(n: i64) -> Vec<u8> {
    let n = n as u64;
    if n >> 56 > 0 {
        let mut bytes: Vec<u8> = (0..8).map(|i| (n >> (57 - 7 * i)) as u8 | 0x80).collect();
        bytes.push(n as u8);
        return bytes;
    }
    let groups = (64 - n.max(1).leading_zeros()).div_ceil(7);
    (0..groups)
        .rev()
        .map(|group| (n >> (7 * group)) as u8 & 0x7f | if group > 0 { 0x80 } else { 0 })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_as_sqlite_writes_them() {
        assert_eq!(varint(0), [0]);
        assert_eq!(varint(127), [127]);
        assert_eq!(varint(128), [0x81, 0]);
        assert_eq!(varint(-1), [0xff; 9]);
        let row = [Cell::Null, Cell::Int(1), Cell::Int(-2), Cell::text("hi")];
        assert_eq!(record(&row), [5, 0, 9, 1, 17, 0xfe, b'h', b'i']);
    }

    /// The program that everybody has is the judge; where it is not there, nothing is compared.
    #[test]
    fn sqlite_itself_reads_what_is_written() {
        let mut database = Database::new(512);
        let rows =
            (0..2000).map(|i| vec![Cell::Int(i), Cell::text(&"x".repeat(if i == 7 { 5000 } else { 3 }))]);
        database.table("T", &["a", "b"], rows);
        let path = std::env::temp_dir().join(format!("vramscope-testkit-{}.db", std::process::id()));
        std::fs::write(&path, database.bytes()).unwrap();
        let script = "import sqlite3, sys; print(*sqlite3.connect(sys.argv[1]).execute(\
                      'select count(*), sum(a), sum(length(b)) from T').fetchone())";
        let output = std::process::Command::new("python3").args(["-c", script]).arg(&path).output();
        std::fs::remove_file(&path).unwrap();
        let Ok(output) = output else { return };
        assert_eq!(String::from_utf8_lossy(&output.stdout).trim(), "2000 1999000 10997");
    }
}
