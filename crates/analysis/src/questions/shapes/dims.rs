//! The dimensions of a model: from a Hugging Face `config.json`, or as they are typed.

use serde_json::Value;

/// What is known of a model and of how it is run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Dims {
    /// Width of the residual stream.
    pub hidden: Option<u64>,
    /// Width inside the MLP.
    pub intermediate: Option<u64>,
    /// Tokens that the model knows.
    pub vocab: Option<u64>,
    /// Query heads.
    pub heads: Option<u64>,
    /// Key and value heads; as many as query heads if not given.
    pub kv: Option<u64>,
    /// Width of a head; hidden / heads if not given.
    pub head_dim: Option<u64>,
    /// Decoder layers.
    pub layers: Option<u64>,
    /// Experts of a layer.
    pub experts: Option<u64>,
    /// Width inside an expert; that of the MLP if not given.
    pub expert_intermediate: Option<u64>,
    /// Sequences that are run at once.
    pub batch: Option<u64>,
    /// Tokens of a sequence.
    pub seq: Option<u64>,
    /// GPUs that a layer is split over.
    pub tp: Option<u64>,
}

/// Why text says nothing about dimensions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DimsError(String);

impl std::fmt::Display for DimsError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for DimsError {}

/// Nothing real is larger, and products of a few of these stay far below 2^128.
const MOST: u64 = 1 << 31;

/// The name that is typed, and the names that configurations use, newer ones first.
const NAMES: [(&str, &[&str]); 12] = [
    ("hidden", &["hidden_size", "n_embd", "d_model", "dim", "n_embed", "model_dim"]),
    (
        "intermediate",
        &[
            "intermediate_size",
            "n_inner",
            "ffn_dim",
            "d_ff",
            "ffn_hidden_size",
            "encoder_ffn_dim",
            "inner_dim",
        ],
    ),
    ("vocab", &["vocab_size", "padded_vocab_size", "n_vocab"]),
    ("heads", &["num_attention_heads", "n_head", "num_heads", "n_heads", "encoder_attention_heads"]),
    ("kv", &["num_key_value_heads", "num_kv_heads", "n_kv_heads", "n_head_kv", "multi_query_group_num"]),
    ("head_dim", &["head_dim", "d_kv", "attention_head_dim", "kv_channels"]),
    ("layers", &["num_hidden_layers", "n_layer", "num_layers", "n_layers", "encoder_layers"]),
    ("experts", &["num_local_experts", "num_experts", "n_routed_experts", "moe_num_experts"]),
    ("expert_intermediate", &["moe_intermediate_size", "expert_ffn_hidden_size", "ffn_hidden_size_moe"]),
    ("batch", &[]),
    ("seq", &[]),
    ("tp", &[]),
];

/// Where a configuration of several models keeps the language model's.
const NESTED: [&str; 5] = ["text_config", "llm_config", "language_config", "thinker_config", "decoder"];

impl Dims {
    fn field(&mut self, name: &str) -> Option<&mut Option<u64>> {
        Some(match name {
            "hidden" => &mut self.hidden,
            "intermediate" => &mut self.intermediate,
            "vocab" => &mut self.vocab,
            "heads" => &mut self.heads,
            "kv" => &mut self.kv,
            "head_dim" => &mut self.head_dim,
            "layers" => &mut self.layers,
            "experts" => &mut self.experts,
            "expert_intermediate" => &mut self.expert_intermediate,
            "batch" => &mut self.batch,
            "seq" => &mut self.seq,
            "tp" => &mut self.tp,
            _ => return None,
        })
    }

    /// From `hidden=4096,vocab=128256,…`.
    pub fn from_flags(text: &str) -> Result<Self, DimsError> {
        let mut dims = Self::default();
        dims.set_flags(text)?;
        Ok(dims)
    }

    /// Sets what `hidden=4096,batch=8,…` names and leaves the rest.
    pub fn set_flags(&mut self, text: &str) -> Result<(), DimsError> {
        for part in text.split(',').map(str::trim).filter(|part| !part.is_empty()) {
            let Some((name, number)) = part.split_once('=') else {
                return Err(DimsError(format!("{part:?} is no dimension: try hidden=4096")));
            };
            let Some(field) = self.field(name.trim()) else {
                let known: Vec<_> = NAMES.iter().map(|(name, _)| *name).collect();
                return Err(DimsError(format!(
                    "no dimension is called {name:?}; known: {}",
                    known.join(", ")
                )));
            };
            *field = match number.trim().replace('_', "").parse() {
                Ok(number) if (1..=MOST).contains(&number) => Some(number),
                _ => return Err(DimsError(format!("{number:?} is not a valid size for {name}"))),
            };
        }
        Ok(())
    }

    /// From the text of a Hugging Face `config.json`.
    pub fn from_config(text: &str) -> Result<Self, DimsError> {
        let config: Value =
            serde_json::from_str(text).map_err(|error| DimsError(format!("not a config.json: {error}")))?;
        let mut dims = Self::default();
        let nested = NESTED.iter().filter_map(|key| config.get(*key));
        for config in nested.chain([&config]) {
            for (name, keys) in NAMES {
                let found = keys.iter().find_map(|key| number(config.get(*key)?));
                if let Some(field) = dims.field(name) {
                    *field = field.or(found);
                }
            }
        }
        if dims.hidden.is_none() {
            return Err(DimsError("not a config.json of a language model: it has no hidden_size".into()));
        }
        // GPT-2 leaves it out.
        dims.intermediate = dims.intermediate.or(dims.hidden.map(|hidden| hidden * 4));
        Ok(dims)
    }

    /// Width of a head.
    pub fn head_width(&self) -> Option<u64> {
        self.head_dim.or_else(|| Some(self.hidden? / self.heads?.max(1)).filter(|&width| width > 0))
    }
}

fn number(value: &Value) -> Option<u64> {
    // Some models have a list with an entry for each layer.
    let value = value.as_array().map_or(Some(value), |list| list.first())?;
    value.as_u64().filter(|number| (1..=MOST).contains(number))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_name_dimensions() {
        let dims = Dims::from_flags("hidden=4096, vocab=128_256,kv=8").unwrap();
        assert_eq!(
            (dims.hidden, dims.vocab, dims.kv, dims.batch),
            (Some(4096), Some(128_256), Some(8), None)
        );
        let error = |text| Dims::from_flags(text).unwrap_err().to_string();
        assert!(error("hiden=4096").starts_with("no dimension is called \"hiden\"; known: hidden, "));
        assert_eq!(error("hidden"), "\"hidden\" is no dimension: try hidden=4096");
        assert_eq!(error("hidden=0"), "\"0\" is not a valid size for hidden");
    }

    #[test]
    fn configurations_old_and_new() {
        let llama = r#"{"hidden_size": 4096, "intermediate_size": 14336, "num_attention_heads": 32,
            "num_key_value_heads": 8, "num_hidden_layers": 32, "vocab_size": 128256, "torch_dtype": "bfloat16"}"#;
        let dims = Dims::from_config(llama).unwrap();
        let expected =
            Dims::from_flags("hidden=4096,intermediate=14336,heads=32,kv=8,layers=32,vocab=128256").unwrap();
        assert_eq!((dims, dims.head_width()), (expected, Some(128)));
        let gpt2 = r#"{"n_embd": 768, "n_head": 12, "n_inner": null, "n_layer": 12, "vocab_size": 50257}"#;
        let dims = Dims::from_config(gpt2).unwrap();
        assert_eq!((dims.hidden, dims.intermediate, dims.head_width()), (Some(768), Some(3072), Some(64)));
        let nested = r#"{"vision_config": {"hidden_size": 1024}, "text_config": {"hidden_size": 5120,
            "num_local_experts": 16, "moe_intermediate_size": 1408}}"#;
        let dims = Dims::from_config(nested).unwrap();
        assert_eq!((dims.hidden, dims.experts, dims.expert_intermediate), (Some(5120), Some(16), Some(1408)));
        assert!(Dims::from_config("[1]").unwrap_err().to_string().contains("no hidden_size"));
        assert!(Dims::from_config("{").unwrap_err().to_string().starts_with("not a config.json: EOF"));
    }
}
