//! The columns of a table, out of the SQL that made it.

/// A table: where it begins and what its columns are called.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::read) struct Table {
    pub(in crate::read) name: String,
    pub(super) root: u32,
    columns: Vec<String>,
    /// The column that is another name for the row id.
    pub(super) row_id: Option<usize>,
    pub(super) without_row_id: bool,
}

/// More columns are not looked at.
const MAX_COLUMNS: usize = 256;

impl Table {
    pub(super) fn new(name: &[u8], root: u32, sql: &[u8]) -> Self {
        let sql = String::from_utf8_lossy(sql);
        let name = String::from_utf8_lossy(name).into_owned();
        let inside = sql.find('(').and_then(|start| sql.get(start + 1..)).unwrap_or_default();
        let mut table = Self { name, root, columns: Vec::new(), row_id: None, without_row_id: false };
        let (definitions, rest) = definitions(inside);
        table.without_row_id = rest.to_ascii_uppercase().contains("WITHOUT ROWID");
        let mut types: Vec<String> = Vec::new();
        for definition in definitions.into_iter().take(MAX_COLUMNS) {
            let (column, rest) = first_word(definition);
            let upper = rest.to_ascii_uppercase();
            let is_quoted = definition.trim_start().starts_with(['"', '`', '[']);
            if !is_quoted
                && ["PRIMARY", "UNIQUE", "CHECK", "FOREIGN", "CONSTRAINT"]
                    .iter()
                    .any(|word| column.eq_ignore_ascii_case(word))
            {
                // PRIMARY KEY (id)
                if let Some(key) = definition.to_ascii_uppercase().find("PRIMARY KEY").and_then(|at| {
                    definition.get(at..)?.split_once('(')?.1.split_once(')').map(|(key, _)| first_word(key).0)
                }) {
                    table.row_id = table
                        .place(&key)
                        .filter(|&place| types.get(place).is_some_and(|kind| kind == "INTEGER"));
                }
                continue;
            }
            let kind = upper.split_whitespace().next().unwrap_or_default().to_owned();
            if kind == "INTEGER" && upper.contains("PRIMARY KEY") && !upper.contains("PRIMARY KEY DESC") {
                table.row_id = Some(table.columns.len());
            }
            types.push(kind);
            table.columns.push(column);
        }
        table
    }

    pub(super) fn place(&self, column: &str) -> Option<usize> {
        self.columns.iter().position(|name| name.eq_ignore_ascii_case(column))
    }
}

/// The parts between the commas, up to the closing bracket, and what follows that.
fn definitions(text: &str) -> (Vec<&str>, &str) {
    let mut parts = Vec::new();
    let (mut depth, mut start) = (0_usize, 0);
    let mut quote = None;
    for (at, c) in text.char_indices() {
        match (quote, c) {
            (Some(end), c) if c == end => quote = None,
            (Some(_), _) => {}
            (None, '"' | '`' | '\'') => quote = Some(c),
            (None, '[') => quote = Some(']'),
            (None, '(') => depth += 1,
            (None, ')') if depth == 0 => {
                parts.push(text.get(start..at).unwrap_or_default());
                return (parts, text.get(at + 1..).unwrap_or_default());
            }
            (None, ')') => depth -= 1,
            (None, ',') if depth == 0 => {
                parts.push(text.get(start..at).unwrap_or_default());
                start = at + 1;
            }
            _ => {}
        }
    }
    parts.push(text.get(start..).unwrap_or_default());
    (parts, "")
}

/// A name without its quotes, and what follows it.
fn first_word(text: &str) -> (String, &str) {
    let text = text.trim_start();
    let end = match text.chars().next() {
        Some(open @ ('"' | '`' | '[')) => {
            let close = if open == '[' { ']' } else { open };
            return match text.get(1..).and_then(|rest| rest.split_once(close)) {
                Some((name, rest)) => (name.to_owned(), rest),
                None => (text.to_owned(), ""),
            };
        }
        _ => text.find(|c: char| c.is_whitespace() || c == '(').unwrap_or(text.len()),
    };
    let (name, rest) = text.split_at(end);
    (name.to_owned(), rest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_by_name() {
        let table = Table::new(
            b"T",
            2,
            b"CREATE TABLE T(id INTEGER PRIMARY KEY, \"Event Type\" TEXT, n DECIMAL(10, 2) DEFAULT 'a,b')",
        );
        assert_eq!(table.columns, ["id", "Event Type", "n"]);
        assert_eq!((table.row_id, table.place("EVENT TYPE")), (Some(0), Some(1)));
        let table = Table::new(b"T", 2, b"CREATE TABLE T(value TEXT, id INTEGER, PRIMARY KEY(id))");
        assert_eq!((table.columns.len(), table.row_id), (2, Some(1)));
        let table = Table::new(b"T", 2, b"CREATE TABLE T(id INT PRIMARY KEY) WITHOUT ROWID");
        assert_eq!((table.row_id, table.without_row_id), (None, true), "INT is no INTEGER");
        for broken in ["", "CREATE", "CREATE TABLE T(", "CREATE TABLE T((((", "CREATE TABLE T(\"a"] {
            let _ = Table::new(b"T", 1, broken.as_bytes());
        }
    }
}
