//! Keys that other recorders add: source files, shapes, and whatever this version does not know.

use super::objects::{List, Objects};
use super::rows::Tables;
use super::value::Value;
use crate::model::{DeviceId, LoggedShape, Source};

/// Of a value that is not understood this much is kept.
const MAX_RAW: usize = 4096;
/// And this deep.
const MAX_DEPTH: usize = 8;

/// `source_code` of torch-snapkit: a dictionary of file names and texts.
pub(super) fn sources(objects: &Objects, tables: &mut Tables, value: Value) -> Vec<Source> {
    let mut sources = Vec::new();
    for pair in items(objects, value).chunks_exact(2) {
        let (file, text) = (text_of(tables, pair[0]), text_of(tables, pair[1]));
        // A short name can stand for a long text again and again.
        let work = (file.len() + text.len()) as u64;
        let source = Source::new(file.to_owned(), text.to_owned());
        if !tables.afford(work) {
            break;
        }
        sources.push(source);
    }
    sources.sort_by(|a, b| a.file.cmp(&b.file));
    sources.dedup_by(|a, b| a.file == b.file);
    sources
}

/// `shape_data` of torch-snapkit: for each device a dictionary of addresses (`0x7f…`), each with a list of
/// `[operator, shape, dtype]` in the order of time.
pub(super) fn shapes(objects: &Objects, tables: &mut Tables, value: Value) -> Vec<LoggedShape> {
    let mut shapes = Vec::new();
    let devices = values(objects, value);
    for (device, logs) in (0..).zip(devices) {
        for pair in items(objects, *logs).chunks_exact(2) {
            let addr = text_of(tables, pair[0]).strip_prefix("0x");
            let Some(addr) = addr.and_then(|digits| u64::from_str_radix(digits, 16).ok()) else { continue };
            for entry in values(objects, pair[1]) {
                let [operator, shape, dtype] = values(objects, *entry) else {
                    continue;
                };
                let shape = numbers(objects, tables, *shape);
                if !tables.afford(shape.len() as u64 + 1) {
                    break;
                }
                let dtype = text_of(tables, *dtype);
                shapes.push(LoggedShape {
                    device: DeviceId(device),
                    addr,
                    operator: text_of(tables, *operator).to_owned(),
                    dtype: dtype.strip_prefix("torch.").unwrap_or(dtype).to_owned(),
                    shape,
                });
            }
        }
    }
    shapes.sort_by_key(|logged| (logged.device, logged.addr));
    shapes
}

/// The beginning of any value as JSON.
pub(super) fn raw(objects: &Objects, tables: &Tables, value: Value) -> String {
    let mut text = String::new();
    write(objects, tables, value, 0, &mut text);
    text
}

fn write(objects: &Objects, tables: &Tables, value: Value, depth: usize, out: &mut String) {
    let list = |values: &[Value], out: &mut String| {
        out.push('[');
        for (row, value) in values.iter().enumerate() {
            if row > 0 {
                out.push_str(", ");
            }
            if out.len() > MAX_RAW {
                out.push_str("\"…\"");
                break;
            }
            write(objects, tables, *value, depth + 1, out);
        }
        out.push(']');
    };
    match value {
        _ if depth > MAX_DEPTH || out.len() > MAX_RAW => out.push_str("\"…\""),
        Value::None => out.push_str("null"),
        Value::Bool(flag) => out.push_str(if flag { "true" } else { "false" }),
        Value::Int(number) => out.push_str(&number.to_string()),
        Value::UInt(number) => out.push_str(&number.to_string()),
        Value::Float(number) if number.is_finite() => out.push_str(&number.to_string()),
        Value::Str(_) => quote(text_of(tables, value), out),
        Value::Pair(_) | Value::Tuple(_) if !numbers(objects, tables, value).is_empty() => {
            let numbers: Vec<_> = numbers(objects, tables, value).iter().map(u64::to_string).collect();
            out.push_str(&format!("[{}]", numbers.join(", ")));
        }
        Value::EmptyDict { .. } => out.push_str("{}"),
        Value::EmptyList { .. } => out.push_str("[]"),
        Value::List(_) => list(values(objects, value), out),
        Value::Tuple(slot) => list(objects.tuples.get(slot as usize).map_or(&[], Vec::as_slice), out),
        Value::Dict(_) => {
            out.push('{');
            for (row, pair) in items(objects, value).chunks_exact(2).enumerate() {
                if out.len() > MAX_RAW {
                    break;
                }
                out.push_str(if row > 0 { ", " } else { "" });
                match pair[0] {
                    Value::Str(_) => quote(text_of(tables, pair[0]), out),
                    Value::Int(number) => quote(&number.to_string(), out),
                    _ => quote("?", out),
                }
                out.push_str(": ");
                write(objects, tables, pair[1], depth + 1, out);
            }
            out.push('}');
        }
        _ => out.push_str("\"…\""),
    }
}

fn quote(text: &str, out: &mut String) {
    out.push('"');
    for c in text.chars().take(MAX_RAW) {
        match c {
            '"' | '\\' => out.extend(['\\', c]),
            c if c.is_control() => out.push_str(&format!("\\u{:04x}", u32::from(c))),
            c => out.push(c),
        }
    }
    out.push('"');
}

fn items(objects: &Objects, value: Value) -> &[Value] {
    objects.dict(value).map(|dict| dict.items.as_slice()).unwrap_or_default()
}

fn values(objects: &Objects, value: Value) -> &[Value] {
    objects.list(value).map(List::values).unwrap_or_default()
}

fn text_of(tables: &Tables, value: Value) -> &str {
    match value {
        Value::Str(text) => tables.strings.table.get(text),
        _ => "",
    }
}

/// The numbers of a tuple or list of them; none if it holds anything else.
fn numbers(objects: &Objects, tables: &Tables, value: Value) -> Vec<u64> {
    let number = |value: &Value| match *value {
        Value::Int(number) => u64::try_from(number).ok(),
        _ => None,
    };
    let values = match value {
        Value::Pair(pair) => {
            let sides = tables.pools.rows.get(pair.index()).copied().unwrap_or_default();
            return [sides.0, sides.1].map(|side| u64::try_from(side).unwrap_or_default()).to_vec();
        }
        Value::Tuple(slot) => objects.tuples.get(slot as usize).map_or(&[][..], Vec::as_slice),
        value => values(objects, value),
    };
    values.iter().map(number).collect::<Option<Vec<u64>>>().unwrap_or_default()
}
