//! What comes with each parameter: bytes of its weight, its gradient and the optimizer's state.

use serde::{Deserialize, Serialize};
use vramscope_format::count;
use vramscope_replay::Moment;

use crate::conclusions::categories::{Categories, GRADIENTS, OPTIMIZER, PARAMETERS};
use crate::conclusions::insight::ShowBytes;
use crate::conclusions::passes::Part;
use crate::device::Device;

/// Times the weights that all state together takes, what that means, and bytes of a weight.
const RECIPES: [(f64, &str, u64); 4] = [
    (3.0, "weights, gradients and one moment", 4),
    (4.0, "weights, gradients and two moments", 4),
    (6.0, "weights and gradients in 16 bits, two moments in 32", 2),
    (8.0, "weights and gradients in 16 bits, two moments and a copy of the weights in 32", 2),
];
/// How far from a usual recipe state may be.
const ALIKE: f64 = 0.03;

/// How a model is trained, as far as bytes tell: when the last backward pass has ended and gradients are complete.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Recipe {
    /// The moment.
    pub at: Moment,
    /// Parameters of the model.
    pub parameters: u64,
    /// Bytes of weights.
    pub weights: u64,
    /// Bytes of gradients.
    pub gradients: u64,
    /// Bytes of the optimizer's state.
    pub optimizer: u64,
    /// Which of [`RECIPES`] it is.
    usual: u8,
}

impl Recipe {
    /// The recipe of a device, if it is a usual one.
    pub fn new(device: &Device, categories: &Categories) -> Option<Self> {
        let (_snapshot, replay) = (device.snapshot(), device.replay());
        let at = device.passes().of(Part::Backward).last()?.to;
        let (mut weights, mut gradients, mut optimizer) = (0_u64, 0_u64, 0_u64);
        for index in replay.live(at) {
            let sum = match u8::try_from(categories.of(index)) {
                Ok(PARAMETERS) => &mut weights,
                Ok(GRADIENTS) => &mut gradients,
                Ok(OPTIMIZER) => &mut optimizer,
                _ => continue,
            };
            *sum = sum.saturating_add(replay.allocation(index).requested);
        }
        let mut recipe = Self { at, parameters: 0, weights, gradients, optimizer, usual: 0 };
        if weights == 0 || optimizer == 0 {
            return None;
        }
        let times = recipe.all() as f64 / weights as f64;
        let usual = RECIPES.iter().position(|(usual, ..)| (times / usual - 1.0).abs() < ALIKE)?;
        recipe.usual = u8::try_from(usual).ok()?;
        recipe.parameters = weights / RECIPES.get(usual)?.2;
        (recipe.parameters > 0).then_some(recipe)
    }

    /// What a parameter consists of, in words.
    pub fn parts(&self) -> &'static str {
        RECIPES.get(usize::from(self.usual)).map_or("", |(_, parts, _)| parts)
    }

    /// Bytes of weights, gradients and optimizer state.
    pub fn all(&self) -> u64 {
        self.weights.saturating_add(self.gradients).saturating_add(self.optimizer)
    }

    /// Bytes that each parameter takes.
    pub fn bytes_each(&self) -> u64 {
        (self.all() as f64 / self.parameters.max(1) as f64).round() as u64
    }

    /// In words: `12 897 568 parameters take 16 bytes each, 197 MiB in all: weights, gradients and two moments`.
    pub fn words(&self, bytes: ShowBytes<'_>) -> String {
        format!(
            "{} parameters take {} bytes each, {} in all: {}",
            count(self.parameters),
            self.bytes_each(),
            bytes(self.all()),
            self.parts()
        )
    }
}
