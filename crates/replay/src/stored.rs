//! A replay as columns of a file, so that a second command need not replay.

use std::io::{self, Seek, Write};

use vramscope_mapped::{Buffer, Pod, Store, StoreError, Writer};
use vramscope_snapshot::stored::{get_small, put_small};
use vramscope_snapshot::{Column, DeviceId};

use crate::begun::BegunBefore;
use crate::live::LiveSets;
use crate::made::MadeOverTime;
use crate::replay::Replay;

/// The names of columns of a device.
fn named(device: DeviceId, name: &str) -> String {
    format!("replay{}.{name}", device.0)
}

impl Replay {
    /// Adds replays to the file that their snapshot is in.
    pub fn put_all<'a, W: Write + Seek>(
        replays: impl IntoIterator<Item = &'a Self>,
        out: &mut Writer<W>,
    ) -> io::Result<()> {
        let mut devices = Vec::new();
        for replay in replays {
            replay.put(out)?;
            devices.push(replay.device);
        }
        put_small("replays", &devices, out)
    }

    /// All replays of a file.
    pub fn get_all(store: &Store) -> Result<Vec<Self>, StoreError> {
        let devices: Vec<DeviceId> = get_small("replays", store)?;
        devices.into_iter().map(|device| Self::get(device, store)).collect()
    }

    fn put<W: Write + Seek>(&self, out: &mut Writer<W>) -> io::Result<()> {
        let name = |name| named(self.device, name);
        put_small(&name("small"), self, out)?;
        let table = &self.allocations;
        out.put(name("addr"), &table.addr)?;
        out.put(name("requested"), &table.requested)?;
        out.put(name("size"), &table.size)?;
        out.put(name("opened"), &table.opened)?;
        out.put(name("released"), &table.released)?;
        out.put(name("closed"), &table.closed)?;
        out.put(name("stack"), &table.stack)?;
        out.put(name("attributed"), &table.attributed)?;
        out.put(name("stream"), table.stream.stored())?;
        out.put(name("pool"), table.pool.stored())?;
        out.put(name("estimated"), table.estimated.stored())?;
        out.put(name("links"), &self.links)?;
        out.put(name("reserved"), &self.reserved)?;
        out.put(name("stretches"), &self.timeline.stretches)?;
        let (ends, rows) = self.timeline.live.to_rows(&self.allocations);
        put_small(&name("live_ends"), &ends, out)?;
        out.put(name("live"), &rows)?;
        let (changes, kept) = self.ranges.columns();
        out.put(name("changes"), changes)?;
        out.put(name("held"), kept)?;
        out.put(name("made"), &self.made())?;
        let MadeOverTime { ends, rows } = MadeOverTime::new(&self.source());
        put_small(&name("made_ends"), &ends, out)?;
        out.put(name("made_over_time"), &rows)?;
        out.put(name("begun_before"), &BegunBefore::new(&self.allocations, self.links.len()).0)
    }

    fn get(device: DeviceId, store: &Store) -> Result<Self, StoreError> {
        fn column<T: Pod>(device: DeviceId, name: &str, store: &Store) -> Result<Buffer<T>, StoreError> {
            store.get(&named(device, name))
        }
        let mut replay: Self = get_small(&named(device, "small"), store)?;
        let table = &mut replay.allocations;
        table.addr = column(device, "addr", store)?;
        table.requested = column(device, "requested", store)?;
        table.size = column(device, "size", store)?;
        table.opened = column(device, "opened", store)?;
        table.released = column(device, "released", store)?;
        table.closed = column(device, "closed", store)?;
        table.stack = column(device, "stack", store)?;
        table.attributed = column(device, "attributed", store)?;
        table.stream = Column::from_buffer(column(device, "stream", store)?);
        table.pool = Column::from_buffer(column(device, "pool", store)?);
        table.estimated = Column::from_buffer(column(device, "estimated", store)?);
        let rows = table.addr.len();
        let lengths = [
            table.requested.len(),
            table.size.len(),
            table.opened.len(),
            table.released.len(),
            table.closed.len(),
            table.stack.len(),
        ];
        if lengths.iter().any(|&len| len != rows) {
            return Err(StoreError::Damaged);
        }
        replay.links = column(device, "links", store)?;
        replay.reserved = column(device, "reserved", store)?;
        replay.timeline.stretches = column(device, "stretches", store)?;
        let ends = get_small(&named(device, "live_ends"), store)?;
        replay.timeline.live = LiveSets::stored(ends, column(device, "live", store)?);
        replay.made = column(device, "made", store)?;
        let ends = get_small(&named(device, "made_ends"), store)?;
        replay.made_over_time = MadeOverTime { ends, rows: column(device, "made_over_time", store)? };
        replay.begun_before = BegunBefore(column(device, "begun_before", store)?);
        replay.ranges.set_columns(column(device, "changes", store)?, column(device, "held", store)?);
        Ok(replay)
    }
}
