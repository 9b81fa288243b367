//! A snapshot into tables, in the order in which they refer to each other.

use std::io::Write;

use arrow_schema::ArrowError;

use super::tables::Outgoing;
use crate::model::{FrameId, SegmentKind, Snapshot, Stage, StrId, Trace};

pub(super) fn write(snapshot: &Snapshot, mut out: impl Write) -> Result<(), ArrowError> {
    let out = &mut out;
    about(snapshot, out)?;
    let strings = &snapshot.strings;
    Outgoing::new("strings", strings.len())
        .text("text", |row| strings.get(StrId::from_index(row)))
        .write(out)?;

    let stacks = &snapshot.stacks;
    let frame = |row: usize| stacks.frame(FrameId::from_index(row));
    Outgoing::new("fx", stacks.fx.len())
        .u32("op", |row| stacks.fx[row].op.0)
        .u32("name", |row| stacks.fx[row].name.0)
        .u32("target", |row| stacks.fx[row].target.0)
        .u32("original_trace", |row| stacks.fx[row].original_trace.0)
        .write(out)?;
    Outgoing::new("frames", stacks.frames.len())
        .u32("name", move |row| frame(row).name.0)
        .u32("file", move |row| frame(row).file.0)
        .u32("line", move |row| frame(row).line)
        .u32("fx", move |row| frame(row).fx)
        .write(out)?;
    Outgoing::new("stacks", stacks.ends.len()).u64("end", |row| stacks.ends[row] as u64).write(out)?;
    Outgoing::new("stack_frames", stacks.lists.len()).u32("frame", |row| stacks.lists[row].0).write(out)?;

    Outgoing::new("streams", snapshot.streams.len()).u64("handle", |row| snapshot.streams[row]).write(out)?;
    Outgoing::new("pools", snapshot.pools.len())
        .i64("a", |row| snapshot.pools[row].0)
        .i64("b", |row| snapshot.pools[row].1)
        .write(out)?;
    let metas = &snapshot.metas;
    Outgoing::new("metas", metas.len())
        .u32("compile_context", |row| metas[row].compile_context.0)
        .u32("user_metadata", |row| metas[row].user_metadata.0)
        .u32("internal_metadata", |row| metas[row].internal_metadata.0)
        .u32("category", |row| metas[row].category.0)
        .u32("forward", |row| metas[row].forward.0)
        .u32("unknown_action", |row| metas[row].unknown_action.0)
        .write(out)?;

    let blocks = &snapshot.blocks;
    Outgoing::new("blocks", blocks.len())
        .u64("addr", |row| blocks.addr[row])
        .u64("size", |row| blocks.size[row])
        .u64("requested", |row| blocks.requested[row])
        .u8("state", |row| blocks.state[row] as u8)
        .u32("stack", |row| blocks.stack[row].0)
        .write(out)?;
    let segments = &snapshot.segments;
    Outgoing::new("segments", segments.len())
        .i32("device", |row| segments[row].device.0)
        .u64("addr", |row| segments[row].addr)
        .u64("total_size", |row| segments[row].total_size)
        .u64("allocated_size", |row| segments[row].allocated_size)
        .u64("active_size", |row| segments[row].active_size)
        .u64("requested_size", |row| segments[row].requested_size)
        .u32("stream", |row| segments[row].stream.0)
        .u32("pool", |row| segments[row].pool.0)
        .u8("small", |row| u8::from(segments[row].kind == SegmentKind::Small))
        .u8("expandable", |row| u8::from(segments[row].expandable))
        .u32("stack", |row| segments[row].stack.0)
        .u32("blocks_end", |row| segments[row].blocks.end)
        .write(out)?;
    let annotations = &snapshot.annotations;
    Outgoing::new("annotations", annotations.len())
        .u32("name", |row| annotations[row].name.0)
        .u8("end", |row| u8::from(annotations[row].stage == Stage::End))
        .i32("device", |row| annotations[row].device.0)
        .i64("time_us", |row| annotations[row].time_us)
        .write(out)?;
    let outside = &snapshot.outside;
    Outgoing::new("outside", outside.len())
        .i32("device", |row| outside[row].device.0)
        .u32("name", |row| outside[row].name.0)
        .i64("time_us", |row| outside[row].time_us)
        .u64("bytes", |row| outside[row].bytes)
        .u64("peak", |row| outside[row].peak)
        .write(out)?;
    let storages = snapshot.sidecar.as_deref().map(|sidecar| sidecar.storages.as_slice()).unwrap_or_default();
    Outgoing::new("storages", storages.len())
        .i32("device", |row| storages[row].device.0)
        .u64("addr", |row| storages[row].addr)
        .u64("bytes", |row| storages[row].bytes)
        .u8("role", |row| storages[row].role as u8)
        .u32("name", |row| storages[row].name.0)
        .write(out)?;
    snapshot.traces.iter().try_for_each(|trace| events(trace, out))
}

fn events(trace: &Trace, out: &mut impl Write) -> Result<(), ArrowError> {
    let events = &trace.events;
    let mut table = Outgoing::new("events", events.len())
        .with("device", trace.device.0.to_string())
        .with("reordered", events.reordered.to_string())
        .u8("action", |row| events.action[row])
        .u64("addr", |row| events.addr[row])
        .u64("size", |row| events.size[row])
        .i64("time_us", |row| events.time_us[row])
        .u32("stack", |row| events.stack[row].0);
    if !events.stream.is_default() {
        table = table.u32("stream", |row| events.stream.get(row).0);
    }
    if !events.pool.is_default() {
        table = table.u32("pool", |row| events.pool.get(row).0);
    }
    if !events.meta.is_default() {
        table = table.u32("meta", |row| events.meta.get(row).0);
    }
    if !events.nanos.is_empty() {
        table = table.u32("nanos", |row| events.nanos[row].into());
    }
    let totals = &trace.totals;
    table = table.with("resolution", totals.resolution.to_string());
    for (name, column) in
        [("allocated", &totals.allocated), ("active", &totals.active), ("reserved", &totals.reserved)]
    {
        if !column.is_empty() {
            table = table.u64(name, |row| column[row]);
        }
    }
    table.write(out)
}

/// What is said once about the whole snapshot: kinds of facts, each with a name and a value.
fn about(snapshot: &Snapshot, out: &mut impl Write) -> Result<(), ArrowError> {
    let mut facts: Vec<(&str, String, String)> = vec![
        ("format", String::new(), snapshot.format.clone()),
        ("traces", String::new(), snapshot.traces.len().to_string()),
    ];
    if let Some(damage) = &snapshot.damage {
        facts.push(("damage", damage.offset.to_string(), damage.reason.clone()));
    }
    let settings = &snapshot.settings;
    if let Some(max) = settings.max_split_size {
        facts.push(("max_split_size", String::new(), max.to_string()));
    }
    facts.push(("expandable_segments", String::new(), settings.expandable_segments.to_string()));
    facts.extend(
        settings.roundup_divisions.iter().map(|(class, n)| ("roundup", class.to_string(), n.to_string())),
    );
    facts.extend(settings.all.iter().map(|(name, value)| ("setting", name.clone(), value.clone())));
    let has = snapshot.has;
    facts.extend(
        [("addresses", has.addresses), ("requested", has.requested), ("stacks", has.stacks)]
            .map(|(what, is_there)| ("has", what.to_owned(), is_there.to_string())),
    );
    facts.extend(snapshot.rank.map(|rank| ("rank", String::new(), rank.to_string())));
    facts.extend(snapshot.role.iter().map(|role| ("role", String::new(), role.clone())));
    facts.extend(
        snapshot.device_names.iter().map(|(device, name)| ("device", device.0.to_string(), name.clone())),
    );
    facts.extend(
        snapshot.capacities.iter().map(|(device, n)| ("capacity", device.0.to_string(), n.to_string())),
    );
    facts.extend(snapshot.warnings.iter().map(|text| ("warning", String::new(), text.clone())));
    let extras = &snapshot.extras;
    for source in &extras.sources {
        facts.push(("source", source.file.clone(), source.text().to_owned()));
        if !source.numbers().is_empty() {
            let numbers: Vec<_> = source.numbers().iter().map(u32::to_string).collect();
            facts.push(("source_lines", source.file.clone(), numbers.join(",")));
        }
    }
    let sidecar = snapshot.sidecar.as_ref().and_then(|sidecar| serde_json::to_string(sidecar).ok());
    facts.extend(sidecar.map(|sidecar| ("sidecar", String::new(), sidecar)));
    facts.extend(extras.shapes.iter().map(|logged| {
        let sides: Vec<_> = logged.shape.iter().map(u64::to_string).collect();
        let name = format!("{} {}", logged.device.0, logged.addr);
        ("shape", name, format!("{}\t{}\t{}", logged.operator, logged.dtype, sides.join(",")))
    }));
    facts.extend(extras.raw.iter().map(|(key, text)| ("raw", key.clone(), text.clone())));
    facts.extend(snapshot.unknown_keys.iter().map(|text| ("unknown_key", String::new(), text.clone())));
    let facts = &facts;
    Outgoing::new("about", facts.len())
        .text("fact", |row| facts[row].0)
        .text("name", |row| &facts[row].1)
        .text("value", |row| &facts[row].2)
        .write(out)
}
