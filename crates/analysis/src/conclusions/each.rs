//! Everything that is concluded about each allocation: the columns of tables and of `at --json`.

use std::io::{self, Seek, Write};

use serde::{Deserialize, Serialize};
use vramscope_mapped::{Buffer, Store, StoreError, Writer};
use vramscope_snapshot::stored::{get_small, put_small};
use vramscope_snapshot::{Snapshot, StrId};

use crate::conclusions::backward::forward_line;
use crate::conclusions::categories::Categories;
use crate::conclusions::known::KnownBy;
use crate::conclusions::modules::Modules;
use crate::conclusions::passes::{Nearby, Part};
use crate::conclusions::run::Run;
use crate::conclusions::steps::{Steps, step_name};
use crate::questions::phases::phase_name;
use crate::questions::spans::{Span, is_internal_phase};
use crate::replay::Replay;
use crate::replay::allocations::{AllocIdx, Moment};

/// What is concluded about the allocations of a device.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Conclusions {
    /// What each is for.
    pub categories: Categories,
    /// Whose each is.
    pub modules: Modules,
    /// The steps of the run.
    pub steps: Steps,
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

impl Conclusions {
    /// The forward line that an allocation of a backward pass belongs to, `model.py:66 forward`, and how that is known.
    pub fn backward_of(
        &self,
        snapshot: &Snapshot,
        replay: &Replay,
        index: AllocIdx,
    ) -> Option<(String, KnownBy)> {
        forward_line(snapshot, replay, self.modules.answers(), index)
    }
}

impl Conclusions {
    /// Works everything out in a few passes over the trace.
    pub fn new(snapshot: &Snapshot, replay: &Replay) -> Self {
        let run = Run::of(snapshot, replay);
        let (categories, steps) = (run.categories().clone(), run.steps().clone());
        let modules = Modules::new(snapshot, replay);
        let phases = phases(snapshot, replay, run.spans()).into();
        let passes = Nearby::new(run.passes());
        let part = |&opened: &Moment| passes.inside(opened).map_or(0, |pass| pass.part as u8 + 1);
        let parts = replay.allocations().opened.iter().map(part).collect();
        Self { categories, modules, steps, parts, phases }
    }

    /// The pass that an allocation was made in.
    fn part(&self, index: AllocIdx) -> Option<Part> {
        let number = self.parts.get(index.index())?.checked_sub(1)?;
        Part::ALL.get(usize::from(number)).copied()
    }

    /// Adds everything to a file.
    pub fn put<W: Write + Seek>(&self, out: &mut Writer<W>) -> io::Result<()> {
        put_small("conclusions", self, out)?;
        out.put("category", &self.categories.of)?;
        out.put("known_by", &self.categories.known_by)?;
        out.put("module", &self.modules.of)?;
        out.put("answers_to", &self.modules.answers.0)?;
        out.put("part", &self.parts)?;
        out.put("phase", &self.phases)
    }

    /// What [`Conclusions::put`] added. Looking at an allocation touches what is about it.
    pub fn get(store: &Store) -> Result<Self, StoreError> {
        let mut found: Self = get_small("conclusions", store)?;
        found.categories.of = store.get("category")?;
        found.categories.known_by = store.get("known_by")?;
        found.modules.of = store.get("module")?;
        found.modules.answers.0 = store.get("answers_to")?;
        found.parts = store.get("part")?;
        found.phases = store.get("phase")?;
        Ok(found)
    }

    /// What is concluded about an allocation of this device.
    pub fn of<'a>(&'a self, snapshot: &'a Snapshot, replay: &Replay, index: AllocIdx) -> Conclusion<'a> {
        let opened = replay.allocations().opened[index.index()];
        let category = self.categories.names().get(self.categories.of(index)).map_or("", String::as_str);
        let annotated = self.phases.get(index.index()).copied().unwrap_or_default();
        let phase = match annotated {
            StrId::EMPTY => self.part(index).map(Part::name),
            name => Some(phase_name(snapshot.text(name))),
        };
        Conclusion {
            category,
            known_by: self.categories.known_by(index),
            phase,
            module: self.modules.of(index).or_else(|| self.modules.of_backward(index)),
            step: self.steps.at(opened).map(|step| step.number),
        }
    }
}

/// The innermost annotation of the program that each allocation was made in. Steps are no phases.
fn phases(snapshot: &Snapshot, replay: &Replay, spans: &[Span]) -> Vec<StrId> {
    let is_phase = |span: &&Span| {
        let name = snapshot.text(span.name);
        !is_internal_phase(name) && step_name(name).is_none() && span.from < span.to
    };
    let mut spans = spans.iter().filter(is_phase).peekable();
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
    replay.allocations().opened.iter().map(innermost).collect()
}
