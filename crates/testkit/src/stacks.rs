//! Made-up stack frames, and the call sites that are made of them.
//!
//! As in a real recording, all stacks end in the same few outer frames, neighbouring sites share more, half of
//! the frames are C++ (long names, often without a file), and the same file names occur again and again.

use crate::rng::Rng;

/// One stack frame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Frame {
    /// The function.
    pub name: String,
    /// The file, `??` if unknown.
    pub filename: String,
    /// The line, 0 if unknown.
    pub line: u32,
}

/// All frames and call sites of a program.
#[derive(Clone, Debug)]
pub struct StackTable {
    /// The frames, each a Python object of its own.
    pub frames: Vec<Frame>,
    /// The frames of each call site, innermost first, as indices into `frames`.
    pub sites: Vec<Vec<u32>>,
}

const PYTHON_FILES: [&str; 8] = [
    "/opt/venv/lib/python3.12/site-packages/torch/nn/modules/module.py",
    "/opt/venv/lib/python3.12/site-packages/torch/nn/modules/linear.py",
    "/opt/venv/lib/python3.12/site-packages/torch/autograd/graph.py",
    "/opt/venv/lib/python3.12/site-packages/torch/optim/adamw.py",
    "/home/user/project/model/attention.py",
    "/home/user/project/model/mlp.py",
    "/home/user/project/model/transformer.py",
    "/home/user/project/train.py",
];
const PYTHON_NAMES: [&str; 8] =
    ["forward", "_call_impl", "_wrapped_call_impl", "step", "backward", "wrapper", "train_step", "apply"];
const CPP_FILES: [&str; 4] = ["??", "??", "/pytorch/aten/src/ATen/EmptyTensor.cpp", "RegisterCUDA.cpp"];
const CPP_OPS: [&str; 6] = ["mm", "addmm", "empty_strided", "_to_copy", "native_layer_norm", "gelu"];

impl StackTable {
    /// `frames` different frames, and call sites with stacks of `depth.0` to `depth.1` of them.
    pub fn new(frames: u32, depth: (u32, u32), rng: &mut Rng) -> Self {
        let frames = frames.max(1);
        let outer: Vec<u32> = (0..frames.min(5)).collect();
        let mut sites: Vec<Vec<u32>> = Vec::new();
        for _ in 0..frames.clamp(50, 3000) {
            let depth = rng.range(depth.0.into(), depth.1.into()) as usize;
            let shared = if sites.is_empty() || rng.percent(20) { &outer } else { rng.pick(&sites) };
            let kept = shared.len().min(depth / 2);
            let mut site: Vec<u32> = (kept..depth).map(|_| rng.below(frames.into()) as u32).collect();
            site.extend(&shared[shared.len() - kept..]);
            sites.push(site);
        }
        Self { frames: (0..frames).map(|i| frame(i, rng)).collect(), sites }
    }
}

fn frame(i: u32, rng: &mut Rng) -> Frame {
    if rng.percent(50) {
        let arguments = "at::Tensor const&, ".repeat(rng.index(8));
        let name = format!("at::_ops::{}::call({arguments}c10::Scalar const&)_{i}", rng.pick(&CPP_OPS));
        let filename = rng.pick(&CPP_FILES).to_string();
        let line = if filename == "??" { 0 } else { rng.range(1, 9000) as u32 };
        return Frame { name, filename, line };
    }
    let name = format!("{}{}", rng.pick(&PYTHON_NAMES), i % 37);
    Frame { name, filename: rng.pick(&PYTHON_FILES).to_string(), line: rng.range(1, 3000) as u32 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn depths_and_frames_stay_in_range() {
        let stacks = StackTable::new(20, (3, 9), &mut Rng::new(1));
        assert_eq!(stacks.frames.len(), 20);
        assert!(stacks.sites.iter().all(|site| (3..=9).contains(&site.len())));
        assert!(stacks.sites.iter().flatten().all(|frame| *frame < 20));
    }
}
