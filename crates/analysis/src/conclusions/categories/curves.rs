//! Categories over time as they are shown most, and the recipe: what goes through the whole trace, whatever the moment of
//! the question.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::{Categories, Series};
use crate::conclusions::recipe::Recipe;
use crate::device::Device;
use crate::shelf::Small;

/// What the default categories of a device are over the whole trace.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Curves {
    /// What comes with each parameter, where that is a usual way to train.
    pub recipe: Option<Recipe>,
    /// In as many stretches as [`Curves::TEXT`] and [`Curves::JSON`] say.
    series: [Series; 2],
}

impl Curves {
    /// Stretches of the widest curve that is printed.
    pub const TEXT: usize = 60;
    /// Stretches of the series in JSON, where nobody asked for another number.
    pub const JSON: usize = 200;

    /// Works them out, in a few passes over the trace.
    pub fn new(device: &Device, categories: &Categories) -> Self {
        let (_snapshot, replay) = (device.snapshot(), device.replay());
        let series = [Self::TEXT, Self::JSON].map(|stretches| categories.series(replay, stretches));
        Self { recipe: Recipe::new(device, categories), series }
    }

    /// The series in a number of stretches, if it is one of the usual ones.
    pub fn series(&self, stretches: usize) -> Option<&Series> {
        let found = [Self::TEXT, Self::JSON].iter().position(|&usual| usual == stretches)?;
        self.series.get(found)
    }
}

impl Small for Curves {
    const NAME: &'static str = "curves";
}

impl Device {
    /// Categories over the whole trace.
    pub fn curves(&self) -> Arc<Curves> {
        self.once(|| Curves::new(self, &self.categories()))
    }
}
