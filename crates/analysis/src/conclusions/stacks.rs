//! What a stack says about its allocations.
//!
//! Frames are looked at from the innermost out, and the first that says something decides: a recomputed
//! forward pass lies inside a backward pass, and an optimizer's closure runs a forward pass.

use hashbrown::HashMap;
use vramscope_replay::{Allocation, Moment, Replay};
use vramscope_snapshot::{DeviceId, Frame, FrameId, Snapshot, StackId};

use crate::conclusions::passes::Part;

/// The part of a program that a stack belongs to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Role {
    /// No stack was recorded.
    #[default]
    Unknown,
    /// A stack that says nothing.
    Other,
    /// The same, of C++ frames only.
    Native,
    /// A library's own buffer.
    Workspace,
    /// Where a model is made, moved or loaded.
    Parameters,
    /// The buckets in which DDP sends gradients.
    Buckets,
    Forward,
    /// A forward pass inside a backward pass: activation checkpointing.
    Recompute,
    Backward,
    Optimizer,
    Cache,
}

/// What every stack of a snapshot says, each frame looked at once.
#[derive(Clone, Debug, Default)]
pub(crate) struct Stacks {
    roles: Vec<Role>,
    parts: Vec<Option<Part>>,
    /// For each stack a number for its frames up to the outermost of a forward pass: who called the model is no part
    /// of it.
    within: Vec<u32>,
    /// Whether blocks older than the trace carry stacks.
    has_old: bool,
}

impl Stacks {
    /// The stacks of a snapshot, as the events of a device use them.
    pub(crate) fn new(snapshot: &Snapshot, replay: &Replay) -> Self {
        Self::of_events(snapshot, replay.device())
            .unwrap_or_else(|| {
                let is_recorded = has_old(snapshot, replay);
                Self::judged(snapshot, is_recorded)
            })
            .with_old(snapshot, replay)
    }

    /// What events alone say, where any has frames: all but what blocks older than the trace carry.
    pub(crate) fn of_events(snapshot: &Snapshot, device: DeviceId) -> Option<Self> {
        let is_recorded = snapshot.events(device).stacks().iter().any(|&stack| has_frames(snapshot, stack));
        is_recorded.then(|| Self::judged(snapshot, true))
    }

    /// Adds what is known once the trace was replayed.
    pub(crate) fn with_old(self, snapshot: &Snapshot, replay: &Replay) -> Self {
        Self { has_old: has_old(snapshot, replay), ..self }
    }

    /// `is_recorded` says whether Python stacks were recorded: then one without a Python frame is of a thread of the
    /// autograd engine.
    fn judged(snapshot: &Snapshot, is_recorded: bool) -> Self {
        let mut stacks = Self::default();
        let mut known: HashMap<FrameId, Role> = HashMap::new();
        let mut numbers: HashMap<&[FrameId], u32> = HashMap::new();
        for stack in snapshot.stacks.ids() {
            let frames = snapshot.stacks.get(stack);
            let mut of = |&id: &FrameId| {
                *known.entry(id).or_insert_with(|| of_frame(snapshot, snapshot.stacks.frame(id)))
            };
            let roles: Vec<Role> = frames.iter().map(&mut of).collect();
            // DDP fills its buckets anew before the second forward pass, in this function itself.
            let is_buckets = frames
                .first()
                .is_some_and(|&id| snapshot.text(snapshot.stacks.frame(id).name) == "_pre_forward");
            let (role, part) = match stack {
                StackId::ABSENT => (Role::Unknown, None),
                StackId::EMPTY if is_recorded => (Role::Backward, Some(Part::Backward)),
                StackId::EMPTY => (Role::Unknown, None),
                _ if is_buckets => (Role::Buckets, Some(Part::Forward)),
                _ => (role_of(&roles), part_of(&roles)),
            };
            let is_native = |&id: &FrameId| is_native(snapshot, snapshot.stacks.frame(id));
            let role = match role {
                Role::Other if frames.iter().all(is_native) => Role::Native,
                role => role,
            };
            stacks.roles.push(role);
            stacks.parts.push(part);
            let forward = roles.iter().rposition(|&role| role == Role::Forward);
            let inside = frames.get(..=forward.unwrap_or(usize::MAX - 1)).unwrap_or(frames);
            let next = numbers.len() as u32;
            stacks.within.push(*numbers.entry(inside).or_insert(next));
        }
        stacks
    }

    /// What the stack of an event says.
    pub(crate) fn role(&self, stack: StackId) -> Role {
        self.roles.get(stack.index()).copied().unwrap_or_default()
    }

    /// What the stack of an allocation says. One without frames that is older than the trace says nothing, unless
    /// others of its age have some.
    pub(crate) fn role_of(&self, allocation: &Allocation) -> Role {
        match allocation.recorded {
            StackId::EMPTY if allocation.opened == Moment::START && !self.has_old => Role::Unknown,
            stack => self.role(stack),
        }
    }

    /// The part of the program that a stack belongs to.
    pub(crate) fn part(&self, stack: StackId) -> Option<Part> {
        self.parts.get(stack.index()).copied().flatten()
    }

    /// Whether any stack belongs to a part.
    pub(crate) fn tell_parts(&self) -> bool {
        self.parts.iter().any(Option::is_some)
    }

    /// Stacks that differ only in who called the model have the same number.
    pub(crate) fn within_pass(&self, stack: StackId) -> u32 {
        self.within.get(stack.index()).copied().unwrap_or_default()
    }
}

fn has_frames(snapshot: &Snapshot, stack: StackId) -> bool {
    !snapshot.stacks.get(stack).is_empty()
}

/// Whether blocks older than the trace carry stacks.
fn has_old(snapshot: &Snapshot, replay: &Replay) -> bool {
    let allocations = replay.allocations();
    let mut old =
        allocations.opened.iter().zip(&allocations.stack).filter(|(opened, _)| **opened == Moment::START);
    old.any(|(_, stack)| has_frames(snapshot, *stack))
}

/// The role of a stack, from those of its frames, innermost first.
fn role_of(frames: &[Role]) -> Role {
    let mut found = Role::Other;
    for &role in frames {
        match (found, role) {
            (Role::Other, role) => found = role,
            (Role::Forward, Role::Backward) => return Role::Recompute,
            _ => {}
        }
        if !matches!(found, Role::Other | Role::Forward) {
            return found;
        }
    }
    found
}

/// The part of a stack: what a backward pass runs again belongs to it.
fn part_of(frames: &[Role]) -> Option<Part> {
    let decisive = |role: &&Role| matches!(role, Role::Forward | Role::Backward | Role::Optimizer);
    match frames.iter().find(decisive)? {
        Role::Optimizer => Some(Part::Optimizer),
        Role::Forward if !frames.contains(&Role::Backward) => Some(Part::Forward),
        _ => Some(Part::Backward),
    }
}

/// Whether a frame is of C or C++.
fn is_native(snapshot: &Snapshot, frame: Frame) -> bool {
    let file = snapshot.text(frame.file);
    !file.ends_with(".py") && !file.starts_with('<')
}

fn of_frame(snapshot: &Snapshot, frame: Frame) -> Role {
    of_names(&snapshot.text(frame.name).to_lowercase(), &snapshot.text(frame.file).to_lowercase())
}

/// Functions that make, move or load the weights of a model.
const MAKES_PARAMETERS: [&str; 14] = [
    "_apply",
    "__init__",
    "load_state_dict",
    "_load_from_state_dict",
    "from_pretrained",
    "to_empty",
    "reset_parameters",
    "_init_weights",
    "init_weights",
    "load_weights",
    "create_weights",
    "_load_pretrained_model",
    "_load_state_dict_into_meta_model",
    "init_parameters",
];

fn of_names(name: &str, path: &str) -> Role {
    let path = path.replace('\\', "/");
    let file = path.rsplit('/').next().unwrap_or_default();
    let is_cpp = name.contains("::");
    if is_cpp {
        return match name {
            _ if name.contains("cudablas") || name.contains("workspacesize") => Role::Workspace,
            _ if name.contains("c10d::reducer") => Role::Buckets,
            _ if name.contains("autograd::engine") || name.contains("autograd::node::operator()") => {
                Role::Backward
            }
            _ => Role::Other,
        };
    }
    if ["benchmark_gpu", "do_bench"].contains(&name) || name.contains("autotune") {
        return Role::Workspace;
    }
    let caches = ["kv_cache", "kvcache", "key_cache", "past_key_value"];
    if caches.iter().any(|word| name.contains(word) || file.contains(word))
        || file.starts_with("cache_utils")
        || file.starts_with("cache_engine")
        || path.contains("/mem_cache/")
    {
        Role::Cache
    } else if ["/optim/", "/optimizer/", "/optimizers/"].iter().any(|folder| path.contains(folder))
        || name == "_init_group"
        || name.contains("optimizer_state")
        || name == "step" && file.contains("optim")
    {
        Role::Optimizer
    } else if name == "_ddp_init_helper" {
        Role::Buckets
    } else if name.contains("forward") {
        Role::Forward
    // Activation checkpointing runs forward again where the backward pass asks for what was not kept.
    } else if name.contains("backward") || name == "unpack_hook" && file == "checkpoint.py" {
        Role::Backward
    } else if MAKES_PARAMETERS.contains(&name) || name.contains("unshard") {
        Role::Parameters
    } else {
        Role::Other
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_that_decide() {
        let cases = [
            ("update", "/site-packages/transformers/cache_utils.py", Role::Cache),
            ("_allocate_kv_cache_tensors", "/vllm/gpu_model_runner.py", Role::Cache),
            ("_multi_tensor_adam", "/torch/optim/adam.py", Role::Optimizer),
            ("step", "/apex/optimizers/fused_adam.py", Role::Optimizer),
            ("step", "/mine/my_optim.py", Role::Optimizer),
            ("step", "/mine/train.py", Role::Other),
            ("load_batch", "/mine/optimizer_study.py", Role::Other),
            ("_ddp_init_helper", "/torch/nn/parallel/distributed.py", Role::Buckets),
            ("_apply", "/torch/nn/modules/module.py", Role::Parameters),
            ("forward_backward_no_pipelining", "/megatron/schedules.py", Role::Forward),
            ("_post_backward_hook", "/torch/distributed/fsdp/_runtime_utils.py", Role::Backward),
            ("unpack_hook", "/torch/utils/checkpoint.py", Role::Backward),
            ("torch::autograd::engine::thread_main(x)", "??", Role::Backward),
            ("at::cuda::getcudablasltworkspace()", "??", Role::Workspace),
            ("at::native::forward_kernel", "??", Role::Other),
            ("benchmark_gpu", "/torch/_inductor/runtime/benchmarking.py", Role::Workspace),
            ("train", "/home/me/train.py", Role::Other),
        ];
        for (name, file, expected) in cases {
            assert_eq!(of_names(name, file), expected, "{name} {file}");
        }
    }
}
