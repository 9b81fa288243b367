//! What a stack says about its allocations.
//!
//! Frames are looked at from the innermost out, and the first that says something decides: a recomputed
//! forward pass lies inside a backward pass, and an optimizer's closure runs a forward pass.

use hashbrown::HashMap;
use vramscope_snapshot::{Frame, FrameId, Snapshot, StackId};

/// The part of a program that a stack belongs to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Role {
    /// No stack was recorded.
    #[default]
    Unknown,
    /// A stack that says nothing.
    Other,
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

/// The role of every stack, each frame looked at once.
pub(crate) fn roles(snapshot: &Snapshot) -> Vec<Role> {
    let mut known: HashMap<FrameId, Role> = HashMap::new();
    let mut role = |stack: StackId| {
        if stack == StackId::ABSENT {
            return Role::Unknown;
        }
        // Python stacks were recorded and this one has no Python frame: a thread of the autograd engine.
        if stack == StackId::EMPTY {
            return Role::Backward;
        }
        let frames = snapshot.stacks.get(stack);
        // DDP fills its buckets anew before the second forward pass, in this function itself.
        if frames.first().is_some_and(|&id| snapshot.text(snapshot.stacks.frame(id).name) == "_pre_forward") {
            return Role::Buckets;
        }
        let mut found = Role::Other;
        for &id in frames {
            let role = *known.entry(id).or_insert_with(|| of_frame(snapshot, snapshot.stacks.frame(id)));
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
    };
    snapshot.stacks.ids().map(&mut role).collect()
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
    } else if name.contains("backward") {
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
