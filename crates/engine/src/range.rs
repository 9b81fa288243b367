//! What happened between two moments: what was allocated and freed, and which lines grew.

use hashbrown::HashMap;
use serde::{Deserialize, Serialize};
use vramscope_analysis::{Counter, Moment, Peak, Sum};
use vramscope_snapshot::{EventIdx, StackId};

use crate::answers::LineId;
use crate::device::{DeviceIndex, File};
use crate::protocol::{AskRange, Stretch};
use crate::sets::Group;
use crate::tiles;

/// What happened between two moments.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct RangeChange {
    /// The moment before.
    pub from: Moment,
    /// The moment after.
    pub to: Moment,
    /// Allocations that began.
    pub allocated: Sum,
    /// Allocations that ended.
    pub freed: Sum,
    /// Requested bytes after, less those before.
    pub net: i64,
    /// The highest between them.
    pub peak: Peak,
    /// Lines whose live bytes changed most, growth first.
    pub lines: Vec<LineChange>,
}

/// How much the live bytes of a line changed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LineChange {
    /// Which line.
    pub group: Group,
    /// `train.py:88 forward`.
    pub place: String,
    /// Bytes after, less those before.
    pub net: i64,
}

/// Lines that are worth listing, of growth and of shrinkage.
const MOST: usize = 12;
/// Events between two checks whether to go on.
const STRIDE: u32 = 1 << 16;

pub(crate) fn range(
    file: &File,
    device: &DeviceIndex,
    ask: &AskRange,
    go_on: &dyn Fn() -> bool,
) -> Option<RangeChange> {
    let replay = &device.replay;
    let stretch = Stretch { axis: ask.axis, x: ask.x, width: 1 };
    let moments = tiles::columns(file, device, stretch).iter().next().flatten();
    let (from, to) = moments.unwrap_or((Moment::START, Moment::START));
    let (mut allocated, mut freed) = (Sum::default(), Sum::default());
    let mut lines: HashMap<LineId, (i64, StackId)> = HashMap::new();
    for event in from.0..to.0 {
        if event.is_multiple_of(STRIDE) && !go_on() {
            return None;
        }
        let Some(index) = replay.allocation_of(EventIdx(event)) else { continue };
        let (a, after) = (replay.allocation(index), Moment::after(EventIdx(event)));
        let signed = vramscope_format::signed(a.requested);
        for (happened, sum, change) in
            [(a.opened == after, &mut allocated, signed), (a.closed == after, &mut freed, -signed)]
        {
            if happened {
                sum.count += 1;
                sum.bytes = sum.bytes.saturating_add(a.requested);
                let (net, _) = lines.entry(file.stack_name(a.stack).line).or_insert((0, a.stack));
                *net = net.saturating_add(change);
            }
        }
    }
    let level = |at: Moment| replay.counters(at).requested;
    let at = replay.highest(Counter::Requested, from, to);
    let mut lines: Vec<LineChange> = lines
        .into_iter()
        .filter(|(_, (net, _))| *net != 0)
        .map(|(line, (net, stack))| LineChange {
            group: if line == LineId(0) { Group::Stack(stack) } else { Group::Line(line) },
            place: file.stack_name(stack).place.clone(),
            net,
        })
        .collect();
    lines.sort_by(|a, b| b.net.cmp(&a.net).then_with(|| a.place.cmp(&b.place)));
    if lines.len() > 2 * MOST {
        lines.drain(MOST..lines.len() - MOST);
    }
    let net = level(to).saturating_sub(level(from));
    Some(RangeChange { from, to, allocated, freed, net, peak: Peak { bytes: level(at), at }, lines })
}
