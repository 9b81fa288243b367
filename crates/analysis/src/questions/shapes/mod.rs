//! Byte counts as tensor shapes: 117 440 512 bytes are `[14336, 4096]` in bfloat16.
//!
//! From the dimensions of a model follow the tensors that it has. A byte count is explained by one of them if
//! it is its number of elements times the size of a dtype, exactly: what a program asks for is not rounded, so
//! *requested* bytes are to be given. Each explanation has a confidence from 0 to 1: how usual the tensor is
//! with that dtype, more if the stack agrees and less if it speaks against it. Explanations below [`SHOWN`]
//! are guesses; so are those of small numbers, which everything divides.

mod catalog;
mod dims;
mod recorded;

use vramscope_snapshot::{Snapshot, StackId};

pub use catalog::Kind;
use catalog::Tensor;
pub use dims::{Dims, DimsError};
pub use recorded::RecordedShapes;

/// From this confidence on a hint is worth showing. Of random sizes fewer than 3 % have one.
pub const SHOWN: f32 = 0.5;

/// What elements are. Those of the same size cannot be told apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Dtype {
    /// bfloat16 or float16.
    Half,
    /// float32.
    Float,
    /// float8, int8 or uint8.
    Byte,
    /// bool.
    Bool,
    /// int32.
    Int,
    /// int64.
    Long,
    /// float64.
    Double,
}

impl Dtype {
    const ALL: [Self; 7] =
        [Self::Half, Self::Float, Self::Byte, Self::Bool, Self::Int, Self::Long, Self::Double];

    /// Bytes of an element.
    pub const fn size(self) -> u64 {
        match self {
            Self::Byte | Self::Bool => 1,
            Self::Half => 2,
            Self::Float | Self::Int => 4,
            Self::Long | Self::Double => 8,
        }
    }

    /// What it is called.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Half => "bf16/fp16",
            Self::Float => "fp32",
            Self::Byte => "fp8/int8",
            Self::Bool => "bool",
            Self::Int => "int32",
            Self::Long => "int64",
            Self::Double => "fp64",
        }
    }

    /// How usual it is for a kind of tensor.
    fn usual(self, tensor: &Tensor) -> f32 {
        match (tensor.kind, self) {
            (Kind::Index, Self::Long) => 1.0,
            (Kind::Index, Self::Int | Self::Bool) => 0.8,
            (Kind::Index, _) => 0.0,
            _ if tensor.words == ["mask"] && self == Self::Bool => 1.0,
            (_, Self::Half) => 1.0,
            (_, Self::Float) => 0.9,
            (Kind::Weight | Kind::Cache, Self::Byte) => 0.75,
            (Kind::Activation, Self::Byte) => 0.55,
            (_, Self::Double) => 0.4,
            (_, Self::Bool | Self::Int | Self::Long) => 0.0,
        }
    }
}

/// One explanation of a byte count.
#[derive(Clone, Debug, PartialEq)]
pub struct Hint {
    /// The lengths of the sides.
    pub shape: Vec<u64>,
    /// Their names, e.g. `[batch·seq, hidden]`.
    pub names: String,
    /// Which tensor of the model, e.g. `q_proj or o_proj`.
    pub what: &'static str,
    /// What kind of tensor.
    pub kind: Kind,
    /// What the elements are.
    pub dtype: Dtype,
    /// From 0 to 1; see [`SHOWN`].
    pub confidence: f32,
}

/// What a stack says about the tensor that it allocates.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Clues(String);

impl Clues {
    /// The clues of a stack.
    pub fn of_stack(snapshot: &Snapshot, stack: StackId) -> Self {
        let mut text = String::new();
        for frame in snapshot.frames(stack) {
            let file = snapshot.text(frame.file);
            let file = file.rsplit(['/', '\\']).next().unwrap_or(file);
            text.push_str(&format!("{file} {}\n", snapshot.text(frame.name)));
        }
        Self::of_text(&text)
    }

    /// The clues of a text that names functions and files.
    pub fn of_text(text: &str) -> Self {
        Self(text.to_lowercase())
    }

    /// How much it speaks for a tensor: below 1 against it.
    fn factor(&self, tensor: &Tensor) -> f32 {
        if self.0.is_empty() {
            return 1.0;
        }
        let has = |words: &[&str]| words.iter().any(|word| self.0.contains(word));
        let named = if has(tensor.words) { 1.15 } else { 1.0 };
        let keeps_weights = has(&["optim", "_apply", "load_state_dict", "from_pretrained", "parameter"]);
        let kind = match tensor.kind {
            Kind::Weight if keeps_weights => 1.1,
            Kind::Weight if has(&["forward"]) => 0.75,
            Kind::Activation | Kind::Cache | Kind::Index if keeps_weights => 0.5,
            Kind::Cache if has(&["cache"]) => 1.1,
            _ => 1.0,
        };
        named * kind
    }
}

/// The tensors of a model, ready to explain any number of sizes.
#[derive(Clone, Debug)]
pub struct Shapes {
    tensors: Vec<Tensor>,
}

impl Shapes {
    /// The tensors that follow from these dimensions.
    pub fn new(dims: &Dims) -> Self {
        Self { tensors: catalog::tensors(dims) }
    }

    /// What a request of that size may be, best first. Those below [`SHOWN`] are there too.
    pub fn hints(&self, bytes: u64, clues: &Clues) -> Vec<Hint> {
        let mut hints = Vec::new();
        for dtype in Dtype::ALL {
            if bytes == 0 || !bytes.is_multiple_of(dtype.size()) {
                continue;
            }
            let elements = u128::from(bytes / dtype.size());
            let first = self.tensors.partition_point(|tensor| tensor.elements < elements);
            for tensor in self.tensors[first..].iter().take_while(|tensor| tensor.elements == elements) {
                let usual = dtype.usual(tensor);
                let confidence = tensor.weight * usual * clues.factor(tensor) * telling(bytes);
                if usual > 0.0 {
                    hints.push(Hint {
                        shape: tensor.shape.clone(),
                        names: tensor.names.clone(),
                        what: tensor.what,
                        kind: tensor.kind,
                        dtype,
                        confidence: confidence.min(1.0),
                    });
                }
            }
        }
        hints.sort_by(|a, b| b.confidence.total_cmp(&a.confidence).then_with(|| a.names.cmp(&b.names)));
        hints
    }
}

/// How much an exact match says. Small sizes are met by chance.
fn telling(bytes: u64) -> f32 {
    match bytes {
        0..4096 => 0.3,
        4096..8192 => 0.6,
        8192..65_536 => 0.85,
        _ => 1.0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Llama 3 8B, four sequences of 2048 tokens.
    const LLAMA: &str =
        "hidden=4096,intermediate=14336,vocab=128256,heads=32,kv=8,layers=32,batch=4,seq=2048";

    fn shapes(flags: &str) -> Shapes {
        Shapes::new(&Dims::from_flags(flags).unwrap())
    }

    fn explained(bytes: u64, clues: &str) -> Vec<String> {
        let hints = shapes(LLAMA).hints(bytes, &Clues::of_text(clues));
        let shown = hints.into_iter().filter(|hint| hint.confidence >= SHOWN);
        shown.map(|hint| format!("{} {} {}", hint.what, hint.names, hint.dtype.name())).collect()
    }

    /// Byte counts worked out by hand, and what has to be among the explanations.
    #[test]
    fn the_tensors_of_llama_3_8b() {
        let cases: [(u64, &str); 22] = [
            (8192, "norm [hidden] bf16/fp16"), // 4096 · 2
            (33_554_432, "q_proj or o_proj [heads·head_dim, hidden] bf16/fp16"), // 4096 · 4096 · 2
            (67_108_864, "q_proj or o_proj [heads·head_dim, hidden] fp32"), // an optimizer state
            (8_388_608, "k_proj or v_proj [kv·head_dim, hidden] bf16/fp16"), // 1024 · 4096 · 2
            (50_331_648, "fused qkv_proj [(heads+2·kv)·head_dim, hidden] bf16/fp16"), // 6144 · 4096 · 2
            (117_440_512, "gate_proj, up_proj or down_proj [intermediate, hidden] bf16/fp16"),
            (234_881_024, "gate_proj, up_proj or down_proj [intermediate, hidden] fp32"),
            (58_720_256, "gate_proj, up_proj or down_proj [intermediate, hidden] fp8/int8"),
            (469_762_048, "fused gate_up_proj [2·intermediate, hidden] fp32"), // 28672 · 4096 · 4
            (1_050_673_152, "embedding or lm_head [vocab, hidden] bf16/fp16"), // 128256 · 4096 · 2
            (2_101_346_304, "embedding or lm_head [vocab, hidden] fp32"),
            (67_108_864, "hidden states [batch·seq, hidden] bf16/fp16"), // 8192 · 4096 · 2
            (134_217_728, "hidden states [batch·seq, hidden] fp32"),
            (234_881_024, "inside the MLP [batch·seq, intermediate] bf16/fp16"), // 8192 · 14336 · 2
            (2_101_346_304, "logits [batch·seq, vocab] bf16/fp16"),              // 8192 · 128256 · 2
            (4_202_692_608, "logits [batch·seq, vocab] fp32"),
            (4_200_640_512, "logits without the last token [batch·(seq-1), vocab] fp32"), // 8188 · 128256 · 4
            (1_073_741_824, "attention scores [batch, heads, seq, seq] bf16/fp16"), // 4 · 32 · 2048 · 2048 · 2
            (16_777_216, "KV cache of a layer: keys or values [batch, kv, seq, head_dim] bf16/fp16"),
            (1_073_741_824, "KV cache [layers, 2, batch, kv, seq, head_dim] bf16/fp16"), // 32 · 2 · 16 MiB
            (65_536, "token ids or labels [batch, seq] int64"),                          // 8192 · 8
            // 32 · (2·(4096 + 1024) + 3·14336 + 2)·4096 + (2·128256 + 1)·4096 = 8 030 261 248 parameters
            (16_060_522_496, "the whole model, flat [model] bf16/fp16"),
        ];
        for (bytes, expected) in cases {
            let found = explained(bytes, "");
            assert!(found.iter().any(|hint| hint == expected), "{bytes}: {expected} is not in {found:#?}");
        }
    }

    #[test]
    fn the_stack_decides_between_equal_sizes() {
        // 64 MiB: a q_proj in fp32, or hidden states in bf16.
        let best = |clues| explained(67_108_864, clues).swap_remove(0);
        assert!(best("adam.py _init_group\nadam.py step\noptimizer.py wrapper").starts_with("q_proj"));
        assert!(best("modeling_llama.py forward\nlayer_norm.py forward").starts_with("hidden states"));
        let cache = explained(16_777_216, "cache_utils.py update\nmodeling_llama.py forward").swap_remove(0);
        assert!(cache.starts_with("KV cache"), "{cache}");
    }

    #[test]
    fn parts_of_a_split_layer_and_experts() {
        let names = |flags: &str, bytes| {
            let hints = shapes(flags).hints(bytes, &Clues::default());
            hints.into_iter().map(|hint| hint.names).collect::<Vec<_>>()
        };
        // 14336 / 8 · 4096 · 2
        let found = names(&format!("{LLAMA},tp=8"), 14_680_064);
        assert!(found.iter().any(|name| name == "[intermediate/tp, hidden]"), "{found:?}");
        // Mixtral 8x7B: 8 · 14336 · 4096 · 2
        let found = names("hidden=4096,intermediate=14336,experts=8,heads=32,kv=8", 939_524_096);
        assert!(found.iter().any(|name| name == "[experts, expert_intermediate, hidden]"), "{found:?}");
    }

    #[test]
    fn without_batch_and_sequence_round_numbers_of_tokens_are_tried() {
        let shapes = shapes("hidden=4096,intermediate=14336,vocab=128256,heads=32,kv=8");
        // 16384 tokens · 14336 · 2
        let hints = shapes.hints(469_762_048, &Clues::of_text("mlp.py forward"));
        let best = hints.iter().find(|hint| hint.kind == Kind::Activation).unwrap();
        assert_eq!(
            (best.names.as_str(), best.shape.as_slice()),
            ("[tokens, intermediate]", &[16384, 14336][..])
        );
        assert!(best.confidence >= SHOWN);
    }

    /// Numbers of one sequence, as a generator by multiplication gives them.
    fn random(seed: u64) -> impl FnMut() -> f64 {
        let mut state = seed;
        move || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 11) as f64 / (1_u64 << 53) as f64
        }
    }

    #[test]
    fn random_sizes_are_left_unexplained() {
        const DRAWS: u32 = 200_000;
        let cut = LLAMA.split(",batch").next().unwrap();
        for flags in [LLAMA, cut, &format!("{LLAMA},tp=8"), &format!("{cut},experts=8")] {
            let shapes = shapes(flags);
            type Draw = fn(f64) -> u64;
            let draws: [(&str, Draw); 3] = [
                ("uniform multiples of 512", |x| 512 * (1 + (x * 4_194_303.0) as u64)),
                ("log-uniform multiples of 512", |x| (512.0 * (x * 22.0).exp2()) as u64 / 512 * 512),
                ("log-uniform bytes", |x| (512.0 * (x * 22.0).exp2()) as u64),
            ];
            for (name, draw) in draws {
                let mut next = random(7);
                let hit = |_: &u32| {
                    let bytes = draw(next());
                    shapes.hints(bytes, &Clues::default()).iter().any(|hint| hint.confidence >= SHOWN)
                };
                let share = f64::from((0..DRAWS).filter(hit).count() as u32) / f64::from(DRAWS);
                println!("{name}: {:.3} % ({flags})", share * 100.0);
                assert!(share < 0.03, "{name}: {share}");
            }
        }
    }
}
