//! Names that are public: they reveal nothing of the program.
//!
//! `public.txt.gz` lists files and functions of PyTorch and of Python's standard library, PyTorch's operators, C++
//! headers and Python's C API, made by `public.py` from a release of each. A name that is not on a list is not public,
//! whatever folder or namespace it is in: a program can put its own anywhere.

use std::io::Read;
use std::sync::LazyLock;

use flate2::read::GzDecoder;
use hashbrown::HashSet;

/// The lists, unpacked when they are first asked.
static PUBLIC: LazyLock<Public> = LazyLock::new(|| Public::new(include_bytes!("public.txt.gz")));

#[derive(Default)]
struct Public {
    torch_files: HashSet<String>,
    python_files: HashSet<String>,
    functions: HashSet<String>,
    /// Operators and what else is a part of a C++ name.
    words: HashSet<String>,
    headers: HashSet<String>,
}

impl Public {
    fn new(packed: &[u8]) -> Self {
        let mut text = String::new();
        // It is part of the program, and a list that is cut keeps less.
        let _ = GzDecoder::new(packed).read_to_string(&mut text);
        let mut public = Self::default();
        public.words.extend(WORDS.iter().map(|word| (*word).to_owned()));
        let mut section = "";
        for line in text.lines() {
            if let Some(title) = line.strip_prefix("# ") {
                section = title;
                continue;
            }
            let list = match section {
                "torch files" => &mut public.torch_files,
                "python files" => &mut public.python_files,
                "functions" => &mut public.functions,
                "headers" => &mut public.headers,
                _ => &mut public.words,
            };
            list.insert(line.to_owned());
        }
        public
    }
}

/// Namespaces, classes and functions of PyTorch's C++ and of the runtime that stacks are full of.
const WORDS: &[&str] = &[
    "",
    "Allocator",
    "AutogradContext",
    "AutogradMeta",
    "BoxedKernelWrapper",
    "CUDACachingAllocator",
    "CUDAGraph",
    "CapturedTraceback",
    "CppFunction",
    "CppNode",
    "DeviceCachingAllocator",
    "Dispatcher",
    "Engine",
    "Function",
    "GraphTask",
    "InputBuffer",
    "InputMetadata",
    "Native",
    "NativeCachingAllocator",
    "Node",
    "OperatorHandle",
    "PyNode",
    "PythonEngine",
    "SavedVariable",
    "StorageImpl",
    "Tensor",
    "TensorBase",
    "TensorImpl",
    "TensorIterator",
    "TensorIteratorBase",
    "TypeError_to_NotImplemented_",
    "VariableType",
    "_M_invoke",
    "_S_run",
    "__clone",
    "__gnu_cxx",
    "__libc_init_first",
    "__libc_start_call_main",
    "__libc_start_main",
    "_call_impl",
    "_ops",
    "_start",
    "accumulate",
    "allocate",
    "allocate_or_resize_outputs",
    "apply",
    "arange_cuda_out",
    "at",
    "aten",
    "autograd",
    "autogradNotImplementedFallbackImpl",
    "backward",
    "blas",
    "build",
    "build_binary_op",
    "build_borrowing_binary_op",
    "build_borrowing_unary_op",
    "build_unary_op",
    "c10",
    "c10d",
    "call",
    "callBoxed",
    "cann",
    "clone",
    "clone3",
    "cublas",
    "cuda",
    "cudnn",
    "detail",
    "details",
    "dispatch_to",
    "empty_cuda",
    "empty_generic",
    "empty_memory_format",
    "empty_strided_cuda",
    "empty_strided_generic",
    "engine",
    "error_code",
    "evaluate_function",
    "execute",
    "fast_set_up",
    "forward",
    "free",
    "functorch",
    "gemm_and_bias",
    "gemm_internal_cublas",
    "generated",
    "getCUDABlasLtWorkspace",
    "getCurrentCUDABlasHandle",
    "gpu_reduce_kernel",
    "impl",
    "inductor",
    "intrusive_ptr",
    "invoke",
    "jit",
    "make_boxed_from_unboxed_functor",
    "malloc",
    "meta",
    "native",
    "npu",
    "operator",
    "prims",
    "profiler",
    "pybind11",
    "python",
    "redispatch",
    "release_variables",
    "reset_data",
    "resize_bytes_cuda",
    "resize_output",
    "run",
    "run_cudnn_SDP_bprop",
    "run_cudnn_SDP_fprop",
    "set_output_raw_strided",
    "setWorkspaceForHandle",
    "start_thread",
    "std",
    "structured",
    "thread_init",
    "thread_main",
    "torch",
    "torch_npu",
    "unwind",
    "validate_outputs_impl",
    "vector",
];

/// How names of functions are made from those of operators.
const BEFORE: [&str; 8] = [
    "structured_",
    "THPVariable_",
    "wrap_kernel_functor_unboxed_",
    "wrapper_CUDA_",
    "wrapper_CPU_",
    "wrapper_CompositeExplicitAutograd_",
    "foreach_tensor_",
    "~",
];
const AFTER: [&str; 17] = [
    "_cuda",
    "_cpu",
    "_out",
    "_backward",
    "_forward",
    "_symint",
    "_impl",
    "_kernel",
    "_apply_functional",
    "_wrapper",
    "_Tensor",
    "_Scalar",
    "_dim",
    "_dtype",
    "_layout",
    "_self",
    "_",
];

/// Public packages whose name says nothing of the program. Their files are not listed, so those go: private models are
/// often put into an installed package.
const PACKAGES: [&str; 36] = [
    "accelerate",
    "apex",
    "bitsandbytes",
    "colossalai",
    "datasets",
    "deepspeed",
    "diffusers",
    "einops",
    "fairscale",
    "flash_attn",
    "flax",
    "huggingface_hub",
    "jax",
    "jaxlib",
    "lightning",
    "lightning_fabric",
    "mamba_ssm",
    "megatron",
    "numpy",
    "nvidia",
    "peft",
    "pytorch_lightning",
    "ray",
    "safetensors",
    "scipy",
    "sentence_transformers",
    "timm",
    "torch",
    "torch_npu",
    "torchaudio",
    "torchvision",
    "transformer_engine",
    "transformers",
    "triton",
    "trl",
    "vllm",
];

/// Endings that say only what kind of file it is.
const ENDINGS: [&str; 9] = [".py", ".cpp", ".cc", ".cu", ".cuh", ".h", ".hpp", ".so", ".c"];

/// The ending of a path, if it is a usual one.
pub(super) fn ending(path: &str) -> &'static str {
    ENDINGS.into_iter().find(|ending| path.ends_with(ending)).unwrap_or_default()
}

/// The parts of a path, written as on any system; `None` if it leads out of its own folders.
fn parts(path: &str) -> Option<Vec<&str>> {
    let parts: Vec<_> = path.split(['/', '\\']).collect();
    (!parts.iter().any(|part| *part == ".." || part.contains('\0'))).then_some(parts)
}

/// The parts of a path behind the folder of installed packages.
fn installed(path: &str) -> Option<Vec<&str>> {
    let parts = parts(path)?;
    let at = parts.iter().rposition(|part| ["site-packages", "dist-packages"].contains(part))?;
    parts
        .get(at + 1..)
        .filter(|rest| rest.len() > 1 || rest.first().is_some_and(|file| file.ends_with(".py")))
        .map(<[_]>::to_vec)
}

/// The path of an installed library, from the folder of packages on, whatever library it is.
pub(super) fn library(path: &str) -> Option<String> {
    installed(path).map(|rest| format!("site-packages/{}", rest.join("/")))
}

/// What may be said of a file of an installed package: the package, if that is a public one.
pub(super) fn package(path: &str) -> Option<&'static str> {
    let rest = installed(path)?;
    let package = rest.first().and_then(|first| PACKAGES.into_iter().find(|known| known == first));
    Some(package.filter(|_| rest.len() > 1).unwrap_or_default())
}

/// A path from where it is public on; `None` if it is not.
pub(super) fn file(path: &str) -> Option<String> {
    if path.is_empty() || path == "??" {
        return Some(path.to_owned());
    }
    if let Some(module) = path.strip_prefix("<frozen ").and_then(|rest| rest.strip_suffix('>')) {
        let (module, package) = (module.replace('.', "/"), module.replace('.', "/") + "/__init__");
        let is_public =
            [module, package].iter().any(|name| PUBLIC.python_files.contains(&format!("{name}.py")));
        return is_public.then(|| path.to_owned());
    }
    // Profilers write paths below the folder of packages.
    if PUBLIC.torch_files.contains(path) {
        return Some(path.to_owned());
    }
    if let Some(inside) = installed(path).map(|rest| rest.join("/")) {
        return PUBLIC.torch_files.contains(&inside).then(|| format!("site-packages/{inside}"));
    }
    let parts = parts(path)?;
    if let Some(at) = parts.iter().rposition(|part| is_python_folder(part))
        && at > 0
        && parts.get(at - 1) == Some(&"lib")
    {
        let (version, inside) = (parts.get(at)?, parts.get(at + 1..)?.join("/"));
        return PUBLIC.python_files.contains(&inside).then(|| format!("python/lib/{version}/{inside}"));
    }
    // C++ is known by the name of its file alone: the folder is the builder's.
    let name = *parts.last()?;
    let is_header = PUBLIC.headers.contains(name);
    let is_source = [".cpp", ".cu"].into_iter().filter_map(|ending| name.strip_suffix(ending)).any(|stem| {
        let stem = stem.trim_end_matches(|c: char| c.is_ascii_digit()).trim_end_matches('_');
        SOURCES.contains(&stem) || PUBLIC.headers.contains(&format!("{stem}.h"))
    });
    (is_header || is_source).then(|| name.to_owned())
}

/// Sources of PyTorch without a header of the same name, without their number.
const SOURCES: [&str; 14] = [
    "Blas",
    "Functions",
    "LinearAlgebra",
    "PyInterpreter",
    "RegisterBackendSelect",
    "RegisterCPU",
    "RegisterCUDA",
    "RegisterCompositeExplicitAutograd",
    "RegisterCompositeImplicitAutograd",
    "VariableType",
    "python_nn_functions",
    "python_torch_functions",
    "python_variable_methods",
    "memory_snapshot",
];

fn is_python_folder(part: &str) -> bool {
    part.strip_prefix("python3").is_some_and(|rest| {
        rest.is_empty()
            || rest
                .strip_prefix('.')
                .is_some_and(|minor| minor.len() < 4 && minor.bytes().all(|byte| byte.is_ascii_digit()))
    })
}

/// What may be said of a function.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Said {
    /// All of it, or all but types and arguments.
    Public(String),
    /// Only the namespaces that it is in, which may be none.
    Namespace(String),
}

/// What may be said of a function or an operator: templates, arguments and the node that is run go.
pub(super) fn function(name: &str) -> Said {
    if PUBLIC.functions.contains(name) {
        return Said::Public(name.to_owned());
    }
    let head = name.split(['<', '(']).next().unwrap_or_default();
    let head = head.split(": ").next().unwrap_or_default();
    // Templates come with what they return.
    let head = head.split_whitespace().next_back().unwrap_or_default();
    if head.is_empty() {
        return Said::Namespace(String::new());
    }
    let words: Vec<_> = head.split("::").collect();
    let known = words.iter().take_while(|word| is_word(word)).count();
    if known == words.len() {
        let cut = if head == name { "" } else { "…" };
        return Said::Public(format!("{head}{cut}"));
    }
    let namespace: String = words.iter().take(known).map(|word| format!("{word}::")).collect();
    Said::Namespace(namespace)
}

/// Whether a part of a C++ name is PyTorch's, Python's or the runtime's, or made from an operator's.
fn is_word(word: &str) -> bool {
    let is_listed = |word: &str| PUBLIC.words.contains(word);
    if is_listed(word) {
        return true;
    }
    let mut stem = word;
    loop {
        let before = BEFORE.iter().find_map(|mark| stem.strip_prefix(mark));
        let shorter = before.or_else(|| AFTER.iter().find_map(|mark| stem.strip_suffix(mark)));
        match shorter.filter(|shorter| !shorter.is_empty()) {
            Some(shorter) if is_listed(shorter) => return true,
            Some(shorter) => stem = shorter,
            None => break,
        }
    }
    // `AddmmBackward0` is the node of `addmm`.
    let node = stem.trim_end_matches(|c: char| c.is_ascii_digit()).strip_suffix("Backward");
    node.is_some_and(|node| !node.is_empty() && is_listed(&snake(node)))
}

fn snake(word: &str) -> String {
    let mut snake = String::new();
    for c in word.chars() {
        if c.is_ascii_uppercase() && !snake.is_empty() {
            snake.push('_');
        }
        snake.push(c.to_ascii_lowercase());
    }
    snake
}

/// Names of the allocator's settings, in the snapshot and in the environment variable.
const SETTINGS: [&str; 27] = [
    "PYTORCH_ALLOC_CONF",
    "PYTORCH_CUDA_ALLOC_CONF",
    "PYTORCH_HIP_ALLOC_CONF",
    "PYTORCH_NPU_ALLOC_CONF",
    "backend",
    "cudaMallocAsync",
    "expandable_segments",
    "garbage_collection_threshold",
    "graph_capture_record_stream_reuse",
    "last_allocator_settings",
    "max_non_split_rounding_mb",
    "max_non_split_rounding_size",
    "max_split_size",
    "max_split_size_mb",
    "native",
    "per_process_memory_fraction",
    "pinned_max_register_threads",
    "pinned_num_register_threads",
    "pinned_reserve_segment_size_mb",
    "pinned_use_background_threads",
    "pinned_use_cuda_host_register",
    "pinned_use_hip_host_register",
    "release_lock_on_cudamalloc",
    "release_lock_on_hipmalloc",
    "roundup_bypass_threshold_mb",
    "roundup_power2_divisions",
    "throw_on_cudamalloc_oom",
];

/// Whether a text is made of settings of PyTorch's allocator, numbers, and yes and no.
pub(super) fn is_setting(text: &str) -> bool {
    let is_word = |word: &str| {
        word.is_empty()
            || SETTINGS.contains(&word)
            || ["True", "False", "true", "false", "None", "null"].contains(&word)
            || (word.len() < 24 && word.bytes().all(|byte| byte.is_ascii_digit() || b".-".contains(&byte)))
    };
    text.split([':', ',', ';', '[', ']', '{', '}', '"', '\'', ' ', '>', '=']).all(is_word)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_of_pytorch_and_python_begin_where_they_are_public() {
        let cases = [
            (
                "/home/ann/venv/lib/python3.12/site-packages/torch/nn/modules/linear.py",
                "site-packages/torch/nn/modules/linear.py",
            ),
            (
                r"C:\Users\ann\venv\Lib\site-packages\torch\nn\functional.py",
                "site-packages/torch/nn/functional.py",
            ),
            ("torch/nn/modules/linear.py", "torch/nn/modules/linear.py"),
            ("/usr/lib/python3.12/threading.py", "python/lib/python3.12/threading.py"),
            ("/build/ann/pytorch/c10/cuda/CUDACachingAllocator.cpp", "CUDACachingAllocator.cpp"),
            ("/pytorch/torch/csrc/autograd/generated/VariableType_2.cpp", "VariableType_2.cpp"),
            ("<frozen runpy>", "<frozen runpy>"),
            ("??", "??"),
        ];
        for (path, public) in cases {
            assert_eq!(file(path).as_deref(), Some(public), "{path}");
        }
    }

    #[test]
    fn other_files_are_not_public_wherever_they_are() {
        for path in [
            "/home/ann/secret/train.py",
            "/home/ann/site-packages/torch/nn/secret.py",
            "/home/ann/site-packages/torch/../secret.py",
            "/home/ann/site-packages/torch/nn/../nn/functional.py",
            "/home/ann/site-packages/acme/model.py",
            "/home/ann/c10/secret.cpp",
            "/home/ann/lib/python3.12/secret.py",
            "/home/ann/lib/python3.secret/threading.py",
            "/home/ann/threading.py",
            "/usr/lib/secret.so",
            "<frozen secret>",
            "<string>",
        ] {
            assert_eq!(file(path), None, "{path}");
        }
    }

    #[test]
    fn of_a_function_what_is_listed_stays() {
        let public = |text: &str| Said::Public(text.into());
        let namespace = |text: &str| Said::Namespace(text.into());
        let cases = [
            ("_call_impl", public("_call_impl")),
            ("aten::matmul", public("aten::matmul")),
            ("_PyEval_EvalFrameDefault", public("_PyEval_EvalFrameDefault")),
            ("at::native::structured_addmm_out_cuda", public("at::native::structured_addmm_out_cuda")),
            (
                "torch::autograd::generated::AddmmBackward0::apply(c10::X)",
                public("torch::autograd::generated::AddmmBackward0::apply…"),
            ),
            ("torch::autograd::CppNode<SecretFn>::apply(int)", public("torch::autograd::CppNode…")),
            (
                "autograd::engine::evaluate_function: SecretBackward0",
                public("autograd::engine::evaluate_function…"),
            ),
            ("secret::Thing std::invoke<secret::F>(secret::F&&)", public("std::invoke…")),
            ("aten::secret", namespace("aten::")),
            ("at::native::secret_cuda(at::Tensor)", namespace("at::native::")),
            ("_Py_Secret", namespace("")),
            ("nn.Module: SecretModel_0", namespace("")),
            ("secret::launch()", namespace("")),
            ("SecretBackward0", namespace("")),
            ("", namespace("")),
        ];
        for (name, said) in cases {
            assert_eq!(function(name), said, "{name}");
        }
    }

    #[test]
    fn settings_are_known_words_and_numbers() {
        assert!(is_setting("expandable_segments:True,roundup_power2_divisions:[256:1,>:8]"));
        assert!(is_setting("0.8") && is_setting("max_split_size") && is_setting(""));
        assert!(!is_setting("backend:secret") && !is_setting("/home/ann"));
    }
}
