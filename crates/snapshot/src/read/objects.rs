//! Lists, dictionaries and tuples that are not rows of the model.
//!
//! A container is *frozen* when its parent takes it: writers finish an object before they refer to
//! it. A frozen list of frames is a stack, a frozen dictionary with the keys of a block is a block;
//! what it became is remembered, so that every reference to it means the same.

use super::value::{RowKind, Value};

/// Consecutive rows of one table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Run {
    pub(super) start: u32,
    pub(super) len: u32,
}

impl Run {
    pub(super) fn rows(self) -> std::ops::Range<u32> {
        self.start..self.start.saturating_add(self.len)
    }
}

/// What a list holds. A trace of a million events is one run.
#[derive(Debug)]
pub(super) enum Items {
    Rows { kind: RowKind, runs: Vec<Run> },
    Values(Vec<Value>),
}

#[derive(Debug)]
pub(super) struct List {
    pub(super) items: Items,
    pub(super) memo: u32,
    pub(super) frozen: Option<Value>,
}

impl List {
    pub(super) fn new(memo: u32) -> Self {
        Self { items: Items::Values(Vec::new()), memo, frozen: None }
    }

    pub(super) fn push(&mut self, value: Value) {
        match (&mut self.items, value) {
            (Items::Rows { kind, runs }, Value::Row(row_kind, row)) if *kind == row_kind => {
                match runs.last_mut() {
                    Some(run) if run.start.checked_add(run.len) == Some(row) => run.len += 1,
                    _ => runs.push(Run { start: row, len: 1 }),
                }
            }
            (Items::Values(values), Value::Row(kind, row)) if values.is_empty() => {
                self.items = Items::Rows { kind, runs: vec![Run { start: row, len: 1 }] };
            }
            (Items::Values(values), value) => values.push(value),
            (&mut Items::Rows { kind, ref runs }, value) => {
                let rows = runs.iter().flat_map(|run| run.rows()).map(|row| Value::Row(kind, row));
                self.items = Items::Values(rows.chain([value]).collect());
            }
        }
    }

    /// Adds a batch: nearly always the rows that follow those that are in it.
    pub(super) fn extend(&mut self, values: &[Value]) {
        let mut values = values.iter();
        if let Items::Rows { kind, runs } = &mut self.items
            && let Some(run) = runs.last_mut()
        {
            let follows = |value: &&Value| {
                let next = run.start.checked_add(run.len).map(|row| Value::Row(*kind, row));
                let follows = next == Some(**value);
                run.len += u32::from(follows);
                follows
            };
            let rest = values.as_slice();
            values = rest.get(rest.iter().take_while(follows).count()..).unwrap_or_default().iter();
        }
        values.for_each(|&value| self.push(value));
    }

    /// The values of a list that is not all rows.
    pub(super) fn values(&self) -> &[Value] {
        match &self.items {
            Items::Values(values) => values,
            Items::Rows { .. } => &[],
        }
    }

    /// The runs of a list that is all rows of `kind`.
    pub(super) fn runs(&self, kind: RowKind) -> Option<&[Run]> {
        match &self.items {
            Items::Rows { kind: found, runs } if *found == kind => Some(runs),
            Items::Values(values) if values.is_empty() => Some(&[]),
            _ => None,
        }
    }
}

#[derive(Debug)]
pub(super) struct Dict {
    /// Key, value, key, value …
    pub(super) items: Vec<Value>,
    pub(super) memo: u32,
    pub(super) frozen: Option<Value>,
}

/// All generic containers of a file.
#[derive(Debug, Default)]
pub(super) struct Objects {
    pub(super) lists: Vec<List>,
    pub(super) dicts: Vec<Dict>,
    pub(super) tuples: Vec<Vec<Value>>,
}

impl Objects {
    pub(super) fn list(&self, value: Value) -> Option<&List> {
        match value {
            Value::List(slot) => self.lists.get(slot as usize),
            _ => None,
        }
    }

    pub(super) fn dict(&self, value: Value) -> Option<&Dict> {
        match value {
            Value::Dict(slot) => self.dicts.get(slot as usize),
            _ => None,
        }
    }

    pub(super) fn new_list(&mut self, list: List) -> Value {
        self.lists.push(list);
        Value::List(self.lists.len() as u32 - 1)
    }

    pub(super) fn new_dict(&mut self, items: &[Value], memo: u32) -> Value {
        self.dicts.push(Dict { items: items.to_vec(), memo, frozen: None });
        Value::Dict(self.dicts.len() as u32 - 1)
    }
}
