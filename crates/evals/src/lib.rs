//! Does an agent find the cause? Cases with known answers, a scripted agent that follows `vramscope guide`, and a scorer
//! that needs no model. `evals/README.md` says how to add a case and how to score the transcript of a real agent.

pub mod case;
pub mod made;
pub mod score;
pub mod scripted;
#[cfg(feature = "tokenizer")]
pub mod tokens;
