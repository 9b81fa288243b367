//! Memory that other rules serve than those of PyTorch's CUDA caching allocator.

use vramscope_snapshot::{Action, BlockState, DeviceId, Pool, PoolId, Snapshot};

use crate::settings::{SMALL_REQUEST, Settings};

/// Whose allocator served a device, if it was not that of CUDA (or ROCm).
pub(super) fn allocator(snapshot: &Snapshot, device: DeviceId) -> Option<&'static str> {
    if device == DeviceId::HOST {
        return Some("pinned host memory is");
    }
    let settings = &snapshot.settings;
    let has = |name: &str| settings.all.iter().any(|(option, _)| option == name);
    if settings.is_present() && !has("PYTORCH_CUDA_ALLOC_CONF") && !has("max_split_size") {
        return Some("the memory of an XPU is");
    }
    // torch_npu writes neither settings nor times, but pools, which CUDA's events have had since long after settings.
    let events = snapshot.events(device);
    let has_pools = || events.iter().any(|event| event.pool != PoolId::UNKNOWN);
    let is_npu = events.actions().any(|action| action == Action::WorkspaceSnapshot)
        || !settings.is_present() && events.time_us(0).is_none() && has_pools();
    is_npu.then_some("the memory of an NPU is")
}

/// A private pool at the end that a rule of its own served.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct OwnRules {
    /// Has whole segments although new ones are expandable, as only a pool with an allocator of its own has.
    pub(super) custom: Option<Pool>,
    /// Has a block that would have been split in any other pool.
    pub(super) unsplit: Option<Pool>,
}

impl OwnRules {
    pub(super) fn of(snapshot: &Snapshot, device: DeviceId, settings: &Settings) -> Self {
        let mut rules = Self::default();
        // Without the recorded settings nothing says what would have been split.
        if !snapshot.settings.is_present() {
            return rules;
        }
        for segment in snapshot.segments_of(device).iter().filter(|segment| !segment.expandable) {
            let Some(pool) = snapshot.pool(segment.pool).filter(|&pool| pool != (0, 0)) else { continue };
            if settings.expandable {
                rules.custom = Some(pool);
            }
            let mut blocks = snapshot.blocks.of(segment);
            let (Some(only), None) = (blocks.next(), blocks.next()) else { continue };
            if only.state == BlockState::Inactive || only.requested == 0 {
                continue;
            }
            let size = settings.round(only.requested);
            let rest = only.size.saturating_sub(size);
            if settings.splits(size, rest, size <= SMALL_REQUEST) {
                rules.unsplit = Some(pool);
            }
        }
        rules
    }
}
