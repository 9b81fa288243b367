//! What is live at a moment, added up by category, line, module, pool or stream.

use hashbrown::HashMap;
use serde::{Deserialize, Serialize};
use vramscope_analysis::{Counter, Moment, Sum};
use vramscope_snapshot::StackId;

use crate::answers::LineId;
use crate::device::{DeviceIndex, File};
use crate::protocol::{AskHere, Which};
use crate::sets::{self, Group};

/// What live bytes are added up by.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum By {
    /// What they are for.
    #[default]
    Category,
    /// The line of the program.
    Line,
    /// The module of the model.
    Module,
    /// The pool.
    Pool,
    /// The stream.
    Stream,
}

/// What is live at a moment, the largest first.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Here {
    /// Which moment.
    pub at: Moment,
    /// Everything.
    pub all: Sum,
    /// The largest groups.
    pub rows: Vec<HereRow>,
    /// What the other groups have.
    pub rest: Sum,
}

/// A group of what is live.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct HereRow {
    /// What its members have in common; `None` for what belongs to no module.
    pub group: Option<Group>,
    /// The same in words.
    pub name: String,
    /// Its members.
    pub sum: Sum,
}

/// Groups that are worth listing.
const MOST: usize = 60;

pub(crate) fn here(
    file: &File,
    device: &DeviceIndex,
    &AskHere { at, counter, by, ref only, .. }: &AskHere,
    go_on: &dyn Fn() -> bool,
) -> Option<Here> {
    let replay = &device.replay;
    let at = at.min(replay.end());
    let set = match *only == Which::default() {
        true => None,
        false => Some(sets::set(file, device, only, go_on)?),
    };
    let mut all = Sum::default();
    // With the stack of one member, which names a line.
    let mut sums: HashMap<Option<Group>, (Sum, StackId)> = HashMap::new();
    for index in replay.live(at) {
        if set.as_ref().is_some_and(|set| set.members.binary_search(&index).is_err()) {
            continue;
        }
        let a = replay.allocation(index);
        let bytes = match counter {
            Counter::Requested => a.requested,
            Counter::Allocated if a.released <= at => continue,
            Counter::Allocated | Counter::Active | Counter::Reserved => a.size,
        };
        let group = match by {
            By::Category => Some(Group::Category(device.categories().of(index) as u8)),
            By::Line => match file.stack_name(a.stack).line {
                LineId(0) => Some(Group::Stack(a.stack)),
                line => Some(Group::Line(line)),
            },
            By::Module => device.module(index).map(|module| Group::Module(module.to_owned())),
            By::Pool => Some(Group::Pool(a.pool)),
            By::Stream => Some(Group::Stream(a.stream)),
        };
        let (sum, _) = sums.entry(group).or_insert((Sum::default(), a.stack));
        for sum in [&mut all, sum] {
            sum.count += 1;
            sum.bytes = sum.bytes.saturating_add(bytes);
        }
    }
    let mut rows: Vec<_> = sums.into_iter().collect();
    rows.sort_by(|(a, (big, _)), (b, (small, _))| small.bytes.cmp(&big.bytes).then_with(|| a.cmp(b)));
    let mut rest = Sum::default();
    for (_, (sum, _)) in rows.iter().skip(MOST) {
        rest.count += sum.count;
        rest.bytes = rest.bytes.saturating_add(sum.bytes);
    }
    rows.truncate(MOST);
    let row = |(group, (sum, stack)): (Option<Group>, (Sum, StackId))| HereRow {
        name: name(file, device, group.as_ref(), stack),
        group,
        sum,
    };
    Some(Here { at, all, rows: rows.into_iter().map(row).collect(), rest })
}

fn name(file: &File, device: &DeviceIndex, group: Option<&Group>, stack: StackId) -> String {
    match group {
        None => "outside of modules".to_owned(),
        Some(Group::Category(category)) => {
            let names = device.categories().names();
            names.get(usize::from(*category)).cloned().unwrap_or_default()
        }
        Some(Group::Line(_) | Group::Stack(_)) => file.stack_name(stack).place.clone(),
        Some(Group::Module(path)) => path.clone(),
        Some(Group::Pool(pool)) => file.pool_name(*pool),
        Some(Group::Stream(stream)) => {
            format!("stream {}", vramscope_format::stream(file.snapshot.stream(*stream)))
        }
    }
}
