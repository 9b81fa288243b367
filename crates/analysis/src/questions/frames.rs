//! Which frames of a stack are the user's own.
//!
//! Internal are the frames of PyTorch itself, of CPython and its standard library, and of the C++
//! runtime. Other installed packages are not: someone who debugs a training run wants to see the line of
//! the model library.

use vramscope_snapshot::{Frame, FrameId, Snapshot, StackId};

/// Whether a frame is PyTorch's, CPython's or the C++ runtime's.
pub fn is_internal(name: &str, file: &str) -> bool {
    let file = file.replace('\\', "/");
    if file.is_empty() || file == "??" || file.starts_with("<frozen") {
        return true;
    }
    let ending = file.rsplit('.').next().unwrap_or_default();
    if matches!(ending, "c" | "cc" | "cpp" | "cxx" | "h" | "hpp" | "cuh" | "cu" | "S") {
        return true;
    }
    let own = ["/torch/", "/torch_npu/", "/torchgen/", "/triton/"];
    if let Some((_, package)) = file.rsplit_once("-packages") {
        return own.iter().any(|own| package.starts_with(own));
    }
    // Kineto writes paths below the folder of installed packages.
    if own.iter().any(|own| file.starts_with(own.trim_start_matches('/'))) {
        return true;
    }
    // CPython's own library: `lib/python3.12/threading.py`, unless something is installed below it.
    file.split_once("/lib/python3").is_some_and(|(_, rest)| rest.contains('/'))
        || name == "torch::unwind::unwind()"
}

/// Whether a frame is of the program itself: of no installed package.
pub fn is_of_program(name: &str, file: &str) -> bool {
    !is_internal(name, file) && !file.replace('\\', "/").contains("-packages/")
}

/// The innermost frame of a stack that is the user's own; else the innermost that there is.
pub fn user_frame(snapshot: &Snapshot, stack: StackId) -> Option<Frame> {
    let frames = snapshot.stacks.get(stack);
    let is_own = |id: &&FrameId| {
        let frame = snapshot.stacks.frame(**id);
        !is_internal(snapshot.text(frame.name), snapshot.text(frame.file)) && !snapshot.is_ignored(**id)
    };
    frames.iter().find(is_own).map(|&id| snapshot.stacks.frame(id)).or_else(|| innermost(snapshot, stack))
}

/// The innermost frame of a stack that is of the program itself; else of a library that it uses.
pub(crate) fn program_frame(snapshot: &Snapshot, stack: StackId) -> Option<Frame> {
    let own = |frame: &Frame| is_of_program(snapshot.text(frame.name), snapshot.text(frame.file));
    snapshot.frames(stack).find(own).or_else(|| user_frame(snapshot, stack))
}

/// The lines of the program that a stack comes through, from the inside out: the innermost, and the outermost few.
pub(crate) fn callers(snapshot: &Snapshot, stack: StackId) -> Vec<Frame> {
    let own = |frame: &Frame| {
        let name = snapshot.text(frame.name);
        is_of_program(name, snapshot.text(frame.file)) && name != "<module>"
    };
    let mut frames: Vec<Frame> = snapshot.frames(stack).filter(own).collect();
    let inner = frames.len().saturating_sub(OUTER_LINES).max(1);
    if frames.len() > inner {
        frames.drain(1..inner);
    }
    frames
}

/// Lines of callers that are named.
const OUTER_LINES: usize = 3;

/// The node of the autograd graph that a stack is in: `MmBackward0`, `AccumulateGrad`.
pub fn autograd_node(snapshot: &Snapshot, stack: StackId) -> Option<&str> {
    snapshot.frames(stack).find_map(|frame| vramscope_format::autograd_node(snapshot.text(frame.name)))
}

/// The innermost frame that is not the machinery which recorded the stack, a node of the autograd graph before others;
/// else the innermost of all.
pub(crate) fn innermost(snapshot: &Snapshot, stack: StackId) -> Option<Frame> {
    let is_node = |frame: &Frame| vramscope_format::autograd_node(snapshot.text(frame.name)).is_some();
    if let Some(node) = snapshot.frames(stack).find(is_node) {
        return Some(node);
    }
    let is_machinery = |frame: &Frame| {
        let name = snapshot.text(frame.name);
        ["unwind::", "CapturedTraceback", "CUDACachingAllocator", "gather_with_cpp"]
            .iter()
            .any(|word| name.contains(word))
    };
    let mut frames = snapshot.frames(stack);
    frames.find(|frame| !is_machinery(frame)).or_else(|| snapshot.frames(stack).next())
}

/// What people read instead of a line for a stack that has none: why there is none.
pub fn no_frame(snapshot: &Snapshot, stack: StackId) -> &'static str {
    if !snapshot.has.addresses {
        // What a profile's totals count and none of its rows names.
        return "(not named in this file)";
    }
    match stack {
        StackId::ABSENT if records_stacks(snapshot) => "(before recording began)",
        StackId::ABSENT => "(stack not recorded)",
        // Python stacks were recorded and this thread had none.
        _ => "(no Python frame, likely autograd)",
    }
}

/// What `torch.fx` knows of a frame of generated code, in lines: the node of the graph and what it calls, then the
/// lines of the model that it was traced from, as they were recorded.
pub fn fx_words(snapshot: &Snapshot, frame: Frame) -> Option<String> {
    let fx = snapshot.stacks.fx(frame)?;
    let [op, name, target] = [fx.op, fx.name, fx.target].map(|text| snapshot.text(text));
    let target = if target.is_empty() { String::new() } else { format!(" ({target})") };
    let node = format!("{op} {name}{target}");
    let lines = [node.trim(), snapshot.text(fx.original_trace).trim_end()];
    Some(lines.into_iter().filter(|line| !line.is_empty()).collect::<Vec<_>>().join("\n"))
}

/// Events that are looked at to tell whether stacks were recorded.
const LOOKED_AT: usize = 1000;

/// Whether events carry stacks. In such a recording a block without one is older than the recording.
fn records_stacks(snapshot: &Snapshot) -> bool {
    snapshot.traces.iter().any(|trace| {
        let events = &trace.events;
        (0..events.len().min(LOOKED_AT)).any(|row| events.get(row).stack != StackId::ABSENT)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_users_code_and_installed_libraries_are_not_internal() {
        for file in
            ["/home/me/train.py", "model.py", "/opt/venv/lib/python3.12/site-packages/transformers/llama.py"]
        {
            assert!(!is_internal("forward", file), "{file}");
        }
    }

    #[test]
    fn torch_cpython_and_cpp_are() {
        for file in [
            "/opt/venv/lib/python3.12/site-packages/torch/nn/modules/module.py",
            "/usr/lib/python3/dist-packages/torch/_tensor.py",
            "/usr/lib/python3.12/threading.py",
            "<frozen runpy>",
            "/pytorch/aten/src/ATen/EmptyTensor.cpp",
            "torch/nn/modules/module.py",
            "??",
            "",
        ] {
            assert!(is_internal("f", file), "{file}");
        }
    }
}
