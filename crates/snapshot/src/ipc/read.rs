//! Tables into a snapshot, with every reference checked.

use std::io::BufRead;

use vramscope_mapped::Pod;

use super::IpcError;
use super::tables::Incoming;
use crate::model::{
    Action, Annotation, BlockState, BlockTable, Column, Damage, DeviceId, EventTable, Frame, FrameId, Fx,
    Kept, LoggedShape, Meta, MetaId, Outside, PoolId, Segment, SegmentKind, Settings, Snapshot, Source,
    StackId, StackTable, Stage, Storage, StrId, StreamId, StringTable, TensorRole, Totals, Trace,
};

pub(super) fn read(mut source: impl BufRead) -> Result<Snapshot, IpcError> {
    let mut table = |name: &str| match Incoming::read(&mut source)? {
        Some(table) if table.name() == name => Ok(table),
        _ => Err(IpcError::Missing(name.to_owned())),
    };
    let (mut snapshot, traces) = about(table("about")?)?;

    let mut texts = table("strings")?.text("text")?.into_iter();
    if texts.next().as_deref() != Some("") {
        return Err(IpcError::Dangling("strings"));
    }
    snapshot.strings = StringTable::default();
    for text in texts {
        snapshot.strings.push(&text);
    }
    let strings = Limit::new("strings", snapshot.strings.len());

    snapshot.stacks = stacks(&mut table, strings)?;
    let stacks = Limit::new("stacks", snapshot.stacks.ends.len());
    snapshot.streams = table("streams")?.u64("handle")?;
    let streams = Limit::new("streams", snapshot.streams.len());
    let mut pools = table("pools")?;
    snapshot.pools = pools.i64("a")?.into_iter().zip(pools.i64("b")?).collect();
    let pools = Limit::new("pools", snapshot.pools.len());
    snapshot.metas = metas(table("metas")?, strings)?;
    let metas = Limit::new("metas", snapshot.metas.len());

    snapshot.blocks = blocks(table("blocks")?, stacks)?;
    snapshot.segments = segments(table("segments")?, &snapshot.blocks, streams, pools, stacks)?;
    snapshot.annotations = annotations(table("annotations")?, strings)?;
    snapshot.outside = outside(table("outside")?, strings)?;
    let storages = storages(table("storages")?, strings)?;
    if let Some(sidecar) = &mut snapshot.sidecar {
        sidecar.storages = storages;
    }
    while let Some(table) = Incoming::read(&mut source)? {
        snapshot.traces.push(trace(table, stacks, streams, pools, metas)?);
    }
    if snapshot.traces.len() != traces || !snapshot.traces.is_sorted_by_key(|trace| trace.device) {
        return Err(IpcError::Dangling("events"));
    }
    Ok(snapshot)
}

/// The number of rows that ids of one kind may refer to.
#[derive(Clone, Copy)]
struct Limit {
    name: &'static str,
    rows: usize,
}

impl Limit {
    fn new(name: &'static str, rows: usize) -> Self {
        Self { name, rows }
    }

    fn check(self, ids: &[u32]) -> Result<(), IpcError> {
        let highest = ids.iter().copied().max().unwrap_or_default() as usize;
        if ids.is_empty() || highest < self.rows { Ok(()) } else { Err(IpcError::Dangling(self.name)) }
    }

    fn ids<T>(self, ids: Vec<u32>, id: fn(u32) -> T) -> Result<Vec<T>, IpcError> {
        self.check(&ids)?;
        Ok(ids.into_iter().map(id).collect())
    }
}

fn stacks(
    table: &mut impl FnMut(&str) -> Result<Incoming, IpcError>,
    strings: Limit,
) -> Result<StackTable, IpcError> {
    let mut fx = table("fx")?;
    let columns = [fx.u32("op")?, fx.u32("name")?, fx.u32("target")?, fx.u32("original_trace")?];
    for column in &columns {
        strings.check(column)?;
    }
    let [op, name, target, original] = columns;
    let mut stacks = StackTable::default();
    for (row, &op) in op.iter().enumerate() {
        stacks.fx.push(Fx {
            op: StrId(op),
            name: StrId(name[row]),
            target: StrId(target[row]),
            original_trace: StrId(original[row]),
        });
    }
    let mut frames = table("frames")?;
    let (name, file) = (frames.u32("name")?, frames.u32("file")?);
    let (line, fx) = (frames.u32("line")?, frames.u32("fx")?);
    strings.check(&name)?;
    strings.check(&file)?;
    Limit::new("fx", stacks.fx.len() + 1).check(&fx)?;
    for (row, &name) in name.iter().enumerate() {
        stacks.push_frame(Frame { name: StrId(name), file: StrId(file[row]), line: line[row], fx: fx[row] });
    }
    stacks.ends = table("stacks")?.u64("end")?.into_iter().map(|end| end as usize).collect();
    stacks.lists =
        Limit::new("frames", stacks.frames.len()).ids(table("stack_frames")?.u32("frame")?, FrameId)?.into();
    let in_order = stacks.ends.is_sorted() && stacks.ends.last() == Some(&stacks.lists.len());
    if stacks.ends.len() < 2 || !in_order || stacks.ends[1] != 0 {
        return Err(IpcError::Dangling("stacks"));
    }
    Ok(stacks)
}

fn metas(mut table: Incoming, strings: Limit) -> Result<Vec<Meta>, IpcError> {
    let mut text = |name: &str| strings.ids(table.u32(name)?, StrId);
    let compile_context = text("compile_context")?;
    let (user_metadata, internal_metadata) = (text("user_metadata")?, text("internal_metadata")?);
    let (category, forward, unknown_action) = (text("category")?, text("forward")?, text("unknown_action")?);
    let row = |row: usize| Meta {
        compile_context: compile_context[row],
        user_metadata: user_metadata[row],
        internal_metadata: internal_metadata[row],
        category: category[row],
        forward: forward[row],
        unknown_action: unknown_action[row],
    };
    Ok((0..compile_context.len()).map(row).collect())
}

fn blocks(mut table: Incoming, stacks: Limit) -> Result<BlockTable, IpcError> {
    let state = |state: u8| match state {
        1 => BlockState::Allocated,
        2 => BlockState::PendingFree,
        _ => BlockState::Inactive,
    };
    Ok(BlockTable {
        addr: table.u64("addr")?,
        size: table.u64("size")?,
        requested: table.u64("requested")?,
        state: table.u8("state")?.into_iter().map(state).collect(),
        stack: stacks.ids(table.u32("stack")?, StackId)?,
    })
}

fn segments(
    mut table: Incoming,
    blocks: &BlockTable,
    streams: Limit,
    pools: Limit,
    stacks: Limit,
) -> Result<Vec<Segment>, IpcError> {
    let (device, addr) = (table.i32("device")?, table.u64("addr")?);
    let (total, allocated) = (table.u64("total_size")?, table.u64("allocated_size")?);
    let (active, requested) = (table.u64("active_size")?, table.u64("requested_size")?);
    let (small, expandable) = (table.u8("small")?, table.u8("expandable")?);
    let stream = streams.ids(table.u32("stream")?, StreamId)?;
    let pool = pools.ids(table.u32("pool")?, PoolId)?;
    let stack = stacks.ids(table.u32("stack")?, StackId)?;
    let ends = table.u32("blocks_end")?;
    if !ends.is_sorted() || ends.last().is_some_and(|&end| end as usize > blocks.len()) {
        return Err(IpcError::Dangling("segments"));
    }
    let row = |row: usize| Segment {
        device: DeviceId(device[row]),
        addr: addr[row],
        total_size: total[row],
        allocated_size: allocated[row],
        active_size: active[row],
        requested_size: requested[row],
        stream: stream[row],
        pool: pool[row],
        kind: if small[row] == 0 { SegmentKind::Large } else { SegmentKind::Small },
        expandable: expandable[row] != 0,
        stack: stack[row],
        blocks: row.checked_sub(1).map_or(0, |before| ends[before])..ends[row],
    };
    Ok((0..device.len()).map(row).collect())
}

fn annotations(mut table: Incoming, strings: Limit) -> Result<Vec<Annotation>, IpcError> {
    let name = strings.ids(table.u32("name")?, StrId)?;
    let (end, device, time_us) = (table.u8("end")?, table.i32("device")?, table.i64("time_us")?);
    let row = |row: usize| Annotation {
        name: name[row],
        stage: if end[row] == 0 { Stage::Start } else { Stage::End },
        device: DeviceId(device[row]),
        time_us: time_us[row],
    };
    Ok((0..name.len()).map(row).collect())
}

fn outside(mut table: Incoming, strings: Limit) -> Result<Vec<Outside>, IpcError> {
    let name = strings.ids(table.u32("name")?, StrId)?;
    let (device, time_us) = (table.i32("device")?, table.i64("time_us")?);
    let (bytes, peak) = (table.u64("bytes")?, table.u64("peak")?);
    let row = |row: usize| Outside {
        device: DeviceId(device[row]),
        name: name[row],
        time_us: time_us[row],
        bytes: bytes[row],
        peak: peak[row],
    };
    Ok((0..name.len()).map(row).collect())
}

fn storages(mut table: Incoming, strings: Limit) -> Result<Vec<Storage>, IpcError> {
    let name = strings.ids(table.u32("name")?, StrId)?;
    let (device, addr) = (table.i32("device")?, table.u64("addr")?);
    let (bytes, role) = (table.u64("bytes")?, table.u8("role")?);
    let row = |row: usize| {
        Some(Storage {
            device: DeviceId(device[row]),
            addr: addr[row],
            bytes: bytes[row],
            role: *TensorRole::ALL.get(usize::from(role[row]))?,
            name: name[row],
        })
    };
    (0..name.len()).map(row).collect::<Option<_>>().ok_or(IpcError::Dangling("roles"))
}

fn trace(
    mut table: Incoming,
    stacks: Limit,
    streams: Limit,
    pools: Limit,
    metas: Limit,
) -> Result<Trace, IpcError> {
    let device = table.metadata("device").parse().map_err(|_| IpcError::Missing("events.device".into()))?;
    let actions = table.u8("action")?;
    if actions.iter().any(|&action| usize::from(action) >= Action::ALL.len()) {
        return Err(IpcError::Dangling("actions"));
    }
    // These columns are left out where every row has the default.
    fn sparse<T: Pod + Default + PartialEq>(
        table: &mut Incoming,
        name: &str,
        limit: Limit,
        id: fn(u32) -> T,
    ) -> Result<Column<T>, IpcError> {
        match table.u32(name) {
            Ok(ids) => Ok(Column::from_stored(limit.ids(ids, id)?)),
            Err(_) => Ok(Column::default()),
        }
    }
    let events = EventTable {
        action: actions.into(),
        addr: table.u64("addr")?.into(),
        size: table.u64("size")?.into(),
        time_us: table.i64("time_us")?.into(),
        stack: stacks.ids(table.u32("stack")?, StackId)?.into(),
        stream: sparse(&mut table, "stream", streams, StreamId)?,
        pool: sparse(&mut table, "pool", pools, PoolId)?,
        meta: sparse(&mut table, "meta", metas, MetaId)?,
        nanos: table.u32("nanos").unwrap_or_default().into_iter().map(|nanos| nanos as u16).collect(),
        time_bounds: Kept::default(),
        kinds: Kept::default(),
        distinct_stacks: Kept::default(),
        reordered: table.metadata("reordered") == "true",
    };
    let totals = Totals {
        allocated: table.u64("allocated").unwrap_or_default().into(),
        active: table.u64("active").unwrap_or_default().into(),
        reserved: table.u64("reserved").unwrap_or_default().into(),
        resolution: table.metadata("resolution").parse().unwrap_or_default(),
    };
    Ok(Trace { device: DeviceId(device), events, totals })
}

/// What is said once, and the number of traces that follow.
fn about(mut table: Incoming) -> Result<(Snapshot, usize), IpcError> {
    let mut snapshot = Snapshot::default();
    let mut traces = 0;
    let mut settings = Settings::default();
    let (facts, names, values) = (table.text("fact")?, table.text("name")?, table.text("value")?);
    for ((fact, name), value) in facts.into_iter().zip(names).zip(values) {
        match fact.as_str() {
            "format" => snapshot.format = value,
            "traces" => traces = value.parse().map_err(|_| IpcError::Missing("about.traces".into()))?,
            "damage" => {
                let offset = name.parse().unwrap_or_default();
                snapshot.damage = Some(Damage { offset, reason: value });
            }
            "max_split_size" => settings.max_split_size = value.parse().ok(),
            "expandable_segments" => settings.expandable_segments = value == "true",
            "roundup" => {
                if let (Ok(class), Ok(n)) = (name.parse(), value.parse()) {
                    settings.roundup_divisions.push((class, n));
                }
            }
            "has" => match name.as_str() {
                "addresses" => snapshot.has.addresses = value == "true",
                "requested" => snapshot.has.requested = value == "true",
                _ => snapshot.has.stacks = value == "true",
            },
            "rank" => snapshot.rank = value.parse().ok(),
            "role" => snapshot.role = Some(value),
            "device" => {
                let device = name.parse().map_err(|_| IpcError::Missing("about.device".into()))?;
                snapshot.device_names.push((DeviceId(device), value));
            }
            "capacity" => {
                if let (Ok(device), Ok(bytes)) = (name.parse(), value.parse()) {
                    snapshot.capacities.push((DeviceId(device), bytes));
                }
            }
            "setting" => settings.all.push((name, value)),
            "warning" => snapshot.warnings.push(value),
            "source" => snapshot.extras.sources.push(Source::new(name, value)),
            "source_lines" => {
                if let Some(source) = snapshot.extras.sources.pop() {
                    let numbers = value.split(',').filter_map(|number| number.parse().ok());
                    let lines = source.text().split('\n').map(str::to_owned);
                    snapshot.extras.sources.push(Source::of_lines(name, numbers.zip(lines).collect()));
                }
            }
            "sidecar" => {
                let sidecar = serde_json::from_str(&value);
                snapshot.sidecar = Some(sidecar.map_err(|_| IpcError::Missing("about.sidecar".into()))?);
            }
            "shape" => snapshot.extras.shapes.extend(logged_shape(&name, &value)),
            "raw" => snapshot.extras.raw.push((name, value)),
            "unknown_key" => snapshot.unknown_keys.push(value),
            _ => {}
        }
    }
    snapshot.settings = settings;
    Ok((snapshot, traces))
}

/// A shape as [`write`](super::write) puts it in words.
fn logged_shape(name: &str, value: &str) -> Option<LoggedShape> {
    let (device, addr) = name.split_once(' ')?;
    let mut parts = value.split('\t');
    let (operator, dtype, sides) = (parts.next()?, parts.next()?, parts.next()?);
    let shape = sides.split(',').filter(|side| !side.is_empty()).map(str::parse).collect::<Result<_, _>>();
    Some(LoggedShape {
        device: DeviceId(device.parse().ok()?),
        addr: addr.parse().ok()?,
        operator: operator.to_owned(),
        dtype: dtype.to_owned(),
        shape: shape.ok()?,
    })
}
