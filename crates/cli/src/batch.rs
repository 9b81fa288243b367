//! Many files at once: what the verbs that take folders share.

use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

use vramscope_files::{Cache, OpenError, Opened, find, open_each};
use vramscope_naming::RankKind;

use crate::args::{FilterArgs, Sources};
use crate::progress::Bar;
use crate::text;

/// What was made of each file, and what went wrong with others.
pub(crate) struct Read<T> {
    pub(crate) values: Vec<T>,
    errors: Vec<String>,
}

/// Opens all snapshots below the paths and makes something of each, in parallel.
pub(crate) fn open<T: Send>(
    sources: &Sources,
    make: impl Fn(Opened, &FilterArgs) -> anyhow::Result<T> + Sync,
) -> anyhow::Result<Read<T>> {
    open_paths(&sources.paths, &sources.filter, sources.output.cache.cache().as_ref(), make)
}

/// The same for a verb that prints neither text nor JSON.
pub(crate) fn open_paths<T: Send>(
    paths: &[PathBuf],
    filter: &FilterArgs,
    cache: Option<&Cache>,
    make: impl Fn(Opened, &FilterArgs) -> anyhow::Result<T> + Sync,
) -> anyhow::Result<Read<T>> {
    let (inputs, errors) = find(paths);
    let bar = Bar::new(&inputs);
    let results = open_each(&inputs, cache, &bar, |opened| {
        let path = text::path(&opened.path);
        make(opened, filter).map_err(|error| format!("{path}: {error:#}"))
    });
    drop(bar);
    let mut read = Read { values: Vec::new(), errors: errors.iter().map(OpenError::to_string).collect() };
    let mut others = 0;
    for (input, result) in inputs.iter().zip(results) {
        match result {
            Ok(Ok(value)) => read.values.push(value),
            Ok(Err(error)) => read.errors.push(error),
            // In a folder there may be other things than snapshots.
            Err(error) if !input.named && error.is_another_kind() => others += 1,
            Err(error) => read.errors.push(error.to_string()),
        }
    }
    if read.values.is_empty() {
        let errors = read.errors.join("\nvramscope: ");
        anyhow::ensure!(read.errors.is_empty(), "{errors}");
        anyhow::bail!("no memory snapshot among {} that look like one", text::plural(others, "file"));
    }
    Ok(read)
}

impl<T> Read<T> {
    /// Says what went wrong, after everything else was printed. `code` is what to end with if nothing did.
    pub(crate) fn finish(self, out: &mut dyn Write, code: u8) -> std::io::Result<ExitCode> {
        out.flush()?;
        for error in &self.errors {
            text::complain(error);
        }
        Ok(ExitCode::from(if self.errors.is_empty() { code } else { 2 }))
    }
}

/// Several errors as one.
pub(crate) fn joined(errors: &[OpenError]) -> anyhow::Error {
    anyhow::anyhow!("{}", errors.iter().map(OpenError::to_string).collect::<Vec<_>>().join("\nvramscope: "))
}

/// What ranks of one run have in common: group, step, and whether memory ran out.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Run(String, Option<u64>, bool);

impl Run {
    pub(crate) fn of(opened: &Opened) -> Self {
        Self(opened.name.group.clone(), opened.name.step, opened.name.oom)
    }
}

/// The values by run, in order.
pub(crate) fn runs<T>(values: &[T], run: impl Fn(&T) -> &Run) -> Vec<Vec<&T>> {
    let mut runs: std::collections::BTreeMap<&Run, Vec<&T>> = std::collections::BTreeMap::new();
    for value in values {
        runs.entry(run(value)).or_default().push(value);
    }
    runs.into_values().collect()
}

/// The rank that a path names; the number of a process is none.
pub(crate) fn rank(opened: &Opened) -> Option<u64> {
    opened.name.rank.filter(|(kind, _)| *kind != RankKind::Process).map(|(_, rank)| rank)
}
