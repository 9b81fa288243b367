//! Everything that is concluded about each allocation: the columns of tables and of `at --json`.

use std::fs::File;
use std::io;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use vramscope_mapped::{Buffer, Store, StoreError, Writer};
use vramscope_replay::{AllocIdx, Moment};
use vramscope_snapshot::StrId;
use vramscope_snapshot::stored::{get_small, put_small};

use crate::conclusions::backward::forward_line;
use crate::conclusions::categories::Categories;
use crate::conclusions::known::KnownBy;
use crate::conclusions::modules::Modules;
use crate::conclusions::passes::{Nearby, Part};
use crate::conclusions::steps::step_name;
use crate::device::Device;
use crate::questions::spans::phase_name;
use crate::questions::spans::{Span, is_internal_phase};
use crate::shelf::Shelved;

/// What is concluded about the allocations of a device. A handle: copies share the columns.
#[derive(Clone, Debug)]
pub struct Conclusions {
    /// The category of each.
    pub categories: Arc<Categories>,
    columns: Arc<Columns>,
}

/// Module, pass and phase of each allocation.
#[derive(Debug, Serialize, Deserialize)]
struct Columns {
    modules: Modules,
    /// For each allocation the pass that it was made in: a [`Part`] plus one, 0 for none.
    #[serde(skip)]
    parts: Buffer<u8>,
    /// For each allocation the innermost annotation that it was made in.
    #[serde(skip)]
    phases: Buffer<StrId>,
}

/// What is concluded about one allocation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Conclusion<'a> {
    /// What it is for.
    pub category: &'a str,
    /// How that is known.
    pub known_by: KnownBy,
    /// The annotation of the program that it was made in, else `forward`, `backward` or `optimizer`.
    pub phase: Option<&'a str>,
    /// The module of the model that made it, or that the backward pass made it for.
    pub module: Option<&'a str>,
    /// The step that it was made in.
    pub step: Option<u64>,
}

impl Device {
    /// What is concluded about every allocation.
    pub fn conclusions(&self) -> Conclusions {
        Conclusions { categories: self.categories(), columns: self.once(|| Columns::new(self)) }
    }
}

impl Columns {
    fn new(device: &Device) -> Self {
        let passes = Nearby::new(device.passes());
        let part = |&opened: &Moment| passes.inside(opened).map_or(0, |pass| pass.part as u8 + 1);
        Self {
            modules: Modules::new(device),
            parts: device.allocations().opened.iter().map(part).collect(),
            phases: phases(device).into(),
        }
    }

    /// The pass that an allocation was made in.
    fn part(&self, index: AllocIdx) -> Option<Part> {
        let number = self.parts.get(index.index())?.checked_sub(1)?;
        Part::ALL.get(usize::from(number)).copied()
    }
}

impl Conclusions {
    /// The module of each allocation.
    pub fn modules(&self) -> &Modules {
        &self.columns.modules
    }

    /// The forward line that an allocation of a backward pass belongs to, `model.py:66 forward`, and how that is known.
    pub fn backward_of(&self, device: &Device, index: AllocIdx) -> Option<(String, KnownBy)> {
        forward_line(device.snapshot(), device, self.modules().answers(), index)
    }

    /// What is concluded about an allocation of this device.
    pub fn of<'a>(&'a self, device: &'a Device, index: AllocIdx) -> Conclusion<'a> {
        let Self { categories, columns } = self;
        let annotated = columns.phases.get(index.index()).copied().unwrap_or_default();
        let phase = match annotated {
            StrId::EMPTY => columns.part(index).map(Part::name),
            name => Some(phase_name(device.snapshot().text(name))),
        };
        let modules = &columns.modules;
        let opened = device.allocations().opened[index.index()];
        Conclusion {
            category: categories.names().get(categories.of(index)).map_or("", String::as_str),
            known_by: categories.known_by(index),
            phase,
            module: modules.of(index).or_else(|| modules.of_backward(index)),
            step: device.steps().at(opened).map(|step| step.number),
        }
    }
}

impl Shelved for Columns {
    const NAME: &'static str = "conclusions";

    fn put(&self, out: &mut Writer<&File>) -> io::Result<()> {
        put_small("conclusions", self, out)?;
        out.put("module", &self.modules.of)?;
        out.put("answers_to", &self.modules.answers.0)?;
        out.put("part", &self.parts)?;
        out.put("phase", &self.phases)
    }

    /// Looking at an allocation touches what is about it.
    fn get(store: &Store) -> Result<Self, StoreError> {
        let mut found: Self = get_small("conclusions", store)?;
        found.modules.of = store.get("module")?;
        found.modules.answers.0 = store.get("answers_to")?;
        found.parts = store.get("part")?;
        found.phases = store.get("phase")?;
        Ok(found)
    }
}

/// The innermost annotation of the program that each allocation was made in. Steps are no phases.
fn phases(device: &Device) -> Vec<StrId> {
    let snapshot = device.snapshot();
    let is_phase = |span: &&Span| {
        let name = snapshot.text(span.name);
        !is_internal_phase(name) && step_name(name).is_none() && span.from < span.to
    };
    let mut spans = device.spans().iter().filter(is_phase).peekable();
    if spans.peek().is_none() {
        return Vec::new();
    }
    let mut open: Vec<&Span> = Vec::new();
    let innermost = |&opened: &Moment| {
        if opened == Moment::START {
            return StrId::EMPTY;
        }
        while let Some(span) = spans.next_if(|span| span.from < opened) {
            open.push(span);
        }
        while open.pop_if(|span| span.to < opened).is_some() {}
        open.last().map(|span| span.name).unwrap_or_default()
    };
    device.allocations().opened.iter().map(innermost).collect()
}
