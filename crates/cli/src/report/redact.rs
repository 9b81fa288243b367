//! What may leave the house: the memory, not the names.
//!
//! Only text that is known to come from PyTorch or from a library is kept; everything else is replaced by
//! something that is the same wherever the original was the same, so stacks and colors stay apart.

use std::path::PathBuf;
use std::sync::Arc;

use hashbrown::HashMap;
use vramscope_files::Opened;
use vramscope_snapshot::{Snapshot, StrId, StringTable};

/// Folders of libraries: what follows is the same on every machine.
const LIBRARIES: [&str; 3] = ["site-packages/", "dist-packages/", "/lib/python3"];

/// Folders in the sources of PyTorch, below wherever it was built.
const PYTORCH: [&str; 4] = ["/aten/src/", "/c10/", "/torch/csrc/", "/pytorch/third_party/"];

/// Folders of the system.
const SYSTEM: [&str; 4] = ["/usr/lib/", "/usr/include/", "/lib/", "/lib64/"];

/// How operators and functions of PyTorch, Python and the C++ runtime begin.
const PUBLIC_NAMES: [&str; 26] = [
    "aten::",
    "at::",
    "c10::",
    "c10d::",
    "cann::",
    "npu::",
    "prims::",
    "torch::",
    "autograd::",
    "std::",
    "__gnu_cxx::",
    "pybind11::",
    "_PyEval_",
    "_PyFunction_",
    "_PyObject_",
    "_PyRun_",
    "_PyVectorcall_",
    "_Py_",
    "PyCFunction_",
    "PyEval_",
    "PyObject_",
    "PyRun_",
    "PyVectorcall_",
    "Py_",
    "THPVariable_",
    "__libc_",
];

/// The same, as whole names.
const PUBLIC_WORDS: [&str; 4] = ["_start", "clone", "clone3", "start_thread"];

/// A file with the names left out.
pub(super) fn redact(mut opened: Opened) -> Opened {
    opened.path = PathBuf::from(match opened.name.rank {
        Some((kind, number)) => format!("{}{number}", kind.label()),
        None => "snapshot".to_owned(),
    });
    opened.name.group.clear();
    opened.name.role = None;
    let mut snapshot = Snapshot::clone(&opened.snapshot);
    snapshot.role = None;
    snapshot.strings = strings(&snapshot);
    // Names of keys that nobody knows may be anybody's.
    snapshot.unknown_keys.clear();
    opened.snapshot = Arc::new(snapshot);
    opened
}

/// A path from the library on; `None` for the program's own.
fn library(path: &str) -> Option<&str> {
    let from = |mark: &str| path.rfind(mark).map(|at| at + if mark.starts_with('/') { 1 } else { 0 });
    if let Some(at) = LIBRARIES.iter().find_map(|mark| from(mark)) {
        return path.get(at..);
    }
    // C++ of PyTorch and of the system: the folder is that of whoever built it. Extensions are the program's own.
    let whole = format!("/{path}");
    let is_pytorch = PYTORCH.iter().any(|folder| whole.contains(folder));
    let is_system = SYSTEM.iter().any(|folder| path.starts_with(folder));
    if (is_pytorch || is_system) && !path.ends_with(".py") {
        return path.rsplit('/').next();
    }
    None
}

/// What of a C++ function or an operator says nothing of the program: types that it was made for, arguments, and the
/// node that was run are left out.
fn public_part(function: &str) -> String {
    let head = function.split(['<', '(']).next().unwrap_or_default();
    let head = head.split(": ").next().unwrap_or_default();
    // Templates come with what they return.
    let name = head.split_whitespace().next_back().unwrap_or_default();
    if name == function { name.to_owned() } else { format!("{name}…") }
}

/// Whether a function without a file is an operator, or PyTorch's, Python's or the system's.
fn is_public(function: &str) -> bool {
    PUBLIC_NAMES.iter().any(|known| function.starts_with(known)) || PUBLIC_WORDS.contains(&function)
}

fn strings(snapshot: &Snapshot) -> StringTable {
    let mut kept: HashMap<StrId, String> = HashMap::new();
    let mut own: HashMap<StrId, String> = HashMap::new();
    let mut numbers = 0;
    let mut next = |word: &str, end: &str| {
        numbers += 1;
        format!("{word}{numbers}{end}")
    };
    for stack in snapshot.stacks.ids() {
        for frame in snapshot.frames(stack) {
            let (file, name) = (snapshot.text(frame.file), snapshot.text(frame.name));
            let without_file = file.is_empty() || file == "??";
            let rest = if without_file { Some(file) } else { library(file) };
            match rest {
                Some(rest) => kept.insert(frame.file, rest.to_owned()),
                None => Some(own.entry(frame.file).or_insert_with(|| next("file", ".py")).clone()),
            };
            let public = if file.ends_with(".py") { name.to_owned() } else { public_part(name) };
            if rest.is_some() && (!without_file || is_public(public.trim_end_matches('…'))) {
                kept.insert(frame.name, public);
            } else {
                own.entry(frame.name).or_insert_with(|| next("function", ""));
            }
        }
    }
    for annotation in &snapshot.annotations {
        own.entry(annotation.name).or_insert_with(|| next("phase", ""));
    }
    for meta in &snapshot.metas {
        for word in [meta.compile_context, meta.internal_metadata, meta.category, meta.unknown_action] {
            kept.insert(word, snapshot.text(word).to_owned());
        }
    }
    let mut strings = StringTable::default();
    for row in 1..snapshot.strings.len() {
        let id = StrId::from_index(row);
        // What is the program's own anywhere is nowhere kept.
        let text = own.get(&id).or_else(|| kept.get(&id));
        strings.push(text.map_or("", String::as_str));
    }
    strings
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test")]
mod tests {
    use std::path::Path;

    use vramscope_snapshot::ipc;

    use super::{is_public, library, public_part, redact};

    #[test]
    fn paths_of_libraries_begin_at_the_library() {
        let torch = "/home/ann/venv/lib/python3.12/site-packages/torch/nn/modules/linear.py";
        assert_eq!(library(torch), Some("site-packages/torch/nn/modules/linear.py"));
        assert_eq!(library("/usr/lib/python3.12/threading.py"), Some("lib/python3.12/threading.py"));
        assert_eq!(
            library("/build/ann/pytorch/c10/cuda/CUDACachingAllocator.cpp"),
            Some("CUDACachingAllocator.cpp")
        );
        assert_eq!(library("/home/ann/secret/train.py"), None);
        // Kernels of the program's own say as much as its Python.
        assert_eq!(library("/home/ann/secret/fused_kernel.cu"), None);
        assert_eq!(library("/home/ann/secret/build/secret_ext.cpython-312.so"), None);
        // Only the folder itself counts.
        assert_eq!(library("/home/ann/acme_torch/csrc/secret_kernel.cu"), None);
        assert_eq!(library("aten/src/ATen/Context.cpp"), Some("Context.cpp"));
    }

    #[test]
    fn operators_stay_and_modules_go() {
        assert!(is_public("aten::matmul") && is_public("c10::cuda::CUDACachingAllocator::malloc"));
        assert!(!is_public("nn.Module: SecretModel_0") && !is_public("secret::launch()") && !is_public(""));
        assert!(
            is_public("PyEval_EvalCode") && !is_public("PyramidSecretBackward") && !is_public("cloneSecret")
        );
    }

    #[test]
    fn what_a_function_was_made_for_goes() {
        let cases = [
            ("aten::matmul", "aten::matmul"),
            ("autograd::engine::evaluate_function: SecretBackward0", "autograd::engine::evaluate_function…"),
            (
                "torch::autograd::CppNode<SecretFn>::apply(std::vector<at::Tensor>&&)",
                "torch::autograd::CppNode…",
            ),
            ("void c10::impl::call<at::Tensor (at::Tensor), &secret::op>()", "c10::impl::call…"),
            ("secret::Thing std::invoke<secret::F>(secret::F&&)", "std::invoke…"),
        ];
        for (function, public) in cases {
            assert_eq!(public_part(function), public);
        }
    }

    #[test]
    fn a_profile_says_no_role() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/inputs/ascend");
        let (inputs, _) = vramscope_files::find(&[folder]);
        let opened = vramscope_files::open(&inputs[0], None, &()).unwrap();
        assert_eq!(opened.snapshot.role.as_deref().or(opened.name.role.as_deref()), Some("actor_update"));
        let mut bytes = Vec::new();
        ipc::encode(&redact(opened).snapshot, &mut bytes).unwrap();
        assert!(!bytes.windows(12).any(|part| part == b"actor_update"));
    }
}
