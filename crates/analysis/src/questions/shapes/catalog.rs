//! The tensors that a transformer of given dimensions has, by number of elements.

use super::dims::Dims;

/// What a tensor is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// A weight, its gradient or a state of the optimizer.
    Weight,
    /// What a layer computes.
    Activation,
    /// Keys and values kept for later tokens.
    Cache,
    /// Token ids, labels, positions.
    Index,
}

/// One tensor that the model has.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Tensor {
    pub(crate) elements: u128,
    pub(crate) shape: Vec<u64>,
    pub(crate) names: String,
    pub(crate) what: &'static str,
    pub(crate) kind: Kind,
    /// How likely such a tensor is at all, from 0 to 1.
    pub(crate) weight: f32,
    /// Words in a stack that speak for it.
    pub(crate) words: &'static [&'static str],
}

/// One side of a shape: its name and its length.
type Side = (&'static str, Option<u64>);

/// Numbers of tokens to try where batch and sequence are not given: one, three, five or seven times these
/// powers of two.
const GUESSED_TOKENS: std::ops::RangeInclusive<u32> = 8..=21;

struct Catalog(Vec<Tensor>);

impl Catalog {
    fn add(
        &mut self,
        what: &'static str,
        kind: Kind,
        weight: f32,
        words: &'static [&'static str],
        sides: &[Side],
    ) {
        let mut shape = Vec::with_capacity(sides.len());
        for side in sides {
            let Some(length) = side.1.filter(|&length| length > 0) else { return };
            shape.push(length);
        }
        let elements = shape.iter().fold(1_u128, |product, &side| product.saturating_mul(side.into()));
        let names: Vec<_> = sides.iter().map(|(name, _)| *name).collect();
        let names = format!("[{}]", names.join(", "));
        self.0.push(Tensor { elements, shape, names, what, kind, weight, words });
    }
}

/// All tensors, by number of elements.
pub(crate) fn tensors(dims: &Dims) -> Vec<Tensor> {
    let mut catalog = Catalog(Vec::new());
    weights(dims, 1, &mut catalog);
    if let Some(tp) = dims.tp.filter(|&tp| tp > 1) {
        weights(dims, tp, &mut catalog);
    }
    whole_layers(dims, &mut catalog);
    activations(dims, &mut catalog);
    let mut tensors = catalog.0;
    tensors.sort_by(|a, b| a.elements.cmp(&b.elements).then(b.weight.total_cmp(&a.weight)));
    tensors
}

const QKV: &[&str] = &["attn", "attention", "q_proj", "k_proj", "v_proj", "qkv"];
const MLP: &[&str] =
    &["mlp", "feed_forward", "ffn", "gate", "up_proj", "down_proj", "silu", "swiglu", "gelu"];
const NORM: &[&str] = &["norm"];
const HEAD: &[&str] = &["embed", "lm_head", "logits", "loss", "cross_entropy"];
const MOE: &[&str] = &["expert", "moe", "router"];

/// The weights, each rank's part of them where they are split over `tp`.
fn weights(dims: &Dims, tp: u64, catalog: &mut Catalog) {
    let part = |side: Option<u64>| side.filter(|side| side.is_multiple_of(tp)).map(|side| side / tp);
    let split = tp > 1;
    let name = |whole: &'static str, parts: &'static str| if split { parts } else { whole };
    let hidden = ("hidden", dims.hidden);
    let width = dims.head_width();
    let times = |a: Option<u64>, b: Option<u64>| a.zip(b).map(|(a, b)| a.saturating_mul(b));
    let q = times(part(dims.heads), width);
    let kv = times(part(dims.kv.or(dims.heads)), width);
    let qkv = q.zip(kv).map(|(q, kv)| q.saturating_add(kv.saturating_mul(2)));
    let inner = part(dims.intermediate);
    let weight = Kind::Weight;
    catalog.add(
        "embedding or lm_head",
        weight,
        0.9,
        HEAD,
        &[(name("vocab", "vocab/tp"), part(dims.vocab)), hidden],
    );
    catalog.add(
        "q_proj or o_proj",
        weight,
        0.9,
        QKV,
        &[(name("heads·head_dim", "heads/tp·head_dim"), q), hidden],
    );
    catalog.add("k_proj or v_proj", weight, 0.9, QKV, &[(name("kv·head_dim", "kv/tp·head_dim"), kv), hidden]);
    catalog.add(
        "fused qkv_proj",
        weight,
        0.8,
        QKV,
        &[(name("(heads+2·kv)·head_dim", "(heads+2·kv)/tp·head_dim"), qkv), hidden],
    );
    catalog.add(
        "gate_proj, up_proj or down_proj",
        weight,
        0.9,
        MLP,
        &[(name("intermediate", "intermediate/tp"), inner), hidden],
    );
    catalog.add(
        "fused gate_up_proj",
        weight,
        0.8,
        MLP,
        &[(name("2·intermediate", "2·intermediate/tp"), times(inner, Some(2))), hidden],
    );
    let experts = ("experts", dims.experts);
    let expert_inner =
        part(dims.expert_intermediate.or(dims.intermediate.filter(|_| dims.experts.is_some())));
    let inner_name = name("expert_intermediate", "expert_intermediate/tp");
    catalog.add("expert's projection", weight, 0.8, MOE, &[(inner_name, expert_inner), hidden]);
    catalog.add("all experts' projections", weight, 0.8, MOE, &[experts, (inner_name, expert_inner), hidden]);
    let both = ("2·expert_intermediate", times(expert_inner, Some(2)));
    catalog.add("all experts' gate_up", weight, 0.8, MOE, &[experts, both, hidden]);
    if !split {
        catalog.add("router", weight, 0.7, MOE, &[experts, hidden]);
        catalog.add("norm", weight, 0.7, NORM, &[hidden]);
        catalog.add("bias of qkv_proj", weight, 0.5, QKV, &[("(heads+2·kv)·head_dim", qkv)]);
        catalog.add("bias of an MLP projection", weight, 0.5, MLP, &[("intermediate", inner)]);
    }
}

/// What FSDP, DDP and optimizers keep flat: everything of a layer, or of the model.
fn whole_layers(dims: &Dims, catalog: &mut Catalog) {
    let wide = |side: Option<u64>| side.map(u128::from);
    // Each side is below 2^31, so that no product of four of them overflows.
    let sizes = (|| {
        let (hidden, inner, heads) = (wide(dims.hidden)?, wide(dims.intermediate)?, wide(dims.heads)?);
        let (width, kv) = (wide(dims.head_width())?, wide(dims.kv).unwrap_or(heads));
        let layer = hidden * (2 * (heads + kv) * width + 3 * inner + 2);
        let model = layer.saturating_mul(wide(dims.layers)?) + hidden * (2 * wide(dims.vocab)? + 1);
        Some((u64::try_from(layer).ok()?, u64::try_from(model).ok()?))
    })()
    .filter(|_| dims.experts.is_none());
    let words: &[&str] = &["fsdp", "ddp", "flat", "optim", "bucket"];
    catalog.add("a whole layer, flat", Kind::Weight, 0.6, words, &[("layer", sizes.map(|sizes| sizes.0))]);
    catalog.add("the whole model, flat", Kind::Weight, 0.6, words, &[("model", sizes.map(|sizes| sizes.1))]);
}

fn activations(dims: &Dims, catalog: &mut Catalog) {
    let width = dims.head_width();
    let kv_heads = dims.kv.or(dims.heads);
    let times = |a: Option<u64>, b: Option<u64>| a.zip(b).map(|(a, b)| a.saturating_mul(b));
    let (batch, seq) = (("batch", dims.batch), ("seq", dims.seq));
    let tokens = times(dims.batch, dims.seq);
    let (heads, kv, head_dim) = (("heads", dims.heads), ("kv", kv_heads), ("head_dim", width));
    let per_token = |catalog: &mut Catalog, weight: f32, tokens: Side| {
        let act = Kind::Activation;
        catalog.add("hidden states", act, weight, NORM, &[tokens, ("hidden", dims.hidden)]);
        catalog.add("inside the MLP", act, weight, MLP, &[tokens, ("intermediate", dims.intermediate)]);
        let both = ("2·intermediate", times(dims.intermediate, Some(2)));
        catalog.add("inside the MLP, fused", act, weight * 0.9, MLP, &[tokens, both]);
        catalog.add("logits", act, weight, HEAD, &[tokens, ("vocab", dims.vocab)]);
        catalog.add(
            "keys or values",
            act,
            weight * 0.9,
            QKV,
            &[tokens, ("kv·head_dim", times(kv_heads, width))],
        );
        let inside = ("expert_intermediate", dims.expert_intermediate);
        catalog.add("inside an expert", act, weight * 0.9, MOE, &[tokens, inside]);
    };
    if tokens.is_none() {
        // Anything is a multiple of something: without the number of tokens only round ones are tried.
        for power in GUESSED_TOKENS {
            for odd in [1, 3, 5, 7] {
                per_token(catalog, 0.6, ("tokens", Some(odd << power)));
            }
        }
        return;
    }
    per_token(catalog, 0.9, ("batch·seq", tokens));
    per_token(catalog, 0.7, ("batch", dims.batch));
    let act = Kind::Activation;
    let shifted = ("batch·(seq-1)", times(dims.batch, dims.seq.map(|seq| seq - 1)));
    catalog.add("logits without the last token", act, 0.7, HEAD, &[shifted, ("vocab", dims.vocab)]);
    catalog.add("queries or attention output", act, 0.9, QKV, &[batch, heads, seq, head_dim]);
    let qkv = dims.heads.zip(kv_heads).map(|(heads, kv)| heads + 2 * kv);
    catalog.add("queries, keys and values", act, 0.8, QKV, &[batch, seq, ("heads+2·kv", qkv), head_dim]);
    catalog.add("attention scores", act, 0.9, QKV, &[batch, heads, seq, seq]);
    catalog.add("attention mask", act, 0.7, &["mask"], &[batch, ("1", Some(1)), seq, seq]);
    catalog.add("log-sum-exp of attention", act, 0.6, QKV, &[batch, heads, seq]);
    catalog.add("cosines or sines of positions", act, 0.7, &["rope", "rotary"], &[batch, seq, head_dim]);
    catalog.add("cosines or sines of positions", act, 0.6, &["rope", "rotary"], &[seq, head_dim]);
    catalog.add("one number per token", act, 0.5, NORM, &[batch, seq, ("1", Some(1))]);
    catalog.add("router logits", act, 0.7, MOE, &[("batch·seq", tokens), ("experts", dims.experts)]);
    catalog.add("token ids or labels", Kind::Index, 0.7, &["embed", "loss", "generate"], &[batch, seq]);
    let cache: &[&str] = &["cache"];
    let (two, layers) = (("2", Some(2)), ("layers", dims.layers));
    catalog.add("KV cache of a layer: keys or values", Kind::Cache, 0.8, cache, &[batch, kv, seq, head_dim]);
    catalog.add("KV cache of a layer", Kind::Cache, 0.7, cache, &[two, batch, kv, seq, head_dim]);
    catalog.add("KV cache", Kind::Cache, 0.7, cache, &[layers, two, batch, kv, seq, head_dim]);
}
