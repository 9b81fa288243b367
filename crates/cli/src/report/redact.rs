//! What may leave the house: the memory, not the names.
//!
//! Only text that is on a list of public names ([`public`]) is kept. Everything else is replaced by something that is the
//! same wherever the original was the same, so stacks and colors stay apart, or left out.

use std::path::PathBuf;
use std::sync::Arc;

use hashbrown::HashMap;
use vramscope_files::Opened;
use vramscope_snapshot::{Damage, DeviceMemory, Extras, Settings, Sidecar, Snapshot, StrId, StringTable};

use super::public::{self, Said};

/// What is written in place of a text that has to be something.
const REDACTED: &str = "(redacted)";

/// A file with the names left out; with `keep_libraries`, those of installed packages stay.
pub(super) fn redact(mut opened: Opened, keep_libraries: bool) -> Opened {
    opened.path = PathBuf::from(match opened.name.rank {
        Some((kind, number)) => format!("{}{number}", kind.label()),
        None => "snapshot".to_owned(),
    });
    opened.name.group.clear();
    opened.name.role = None;
    let old = &*opened.snapshot;
    // Every field is named here, so that a new one is thought about.
    let snapshot = Snapshot {
        format: format(&old.format),
        strings: strings(old, keep_libraries),
        device_names: old.device_names.iter().map(|(device, name)| (*device, device_name(name))).collect(),
        role: None,
        settings: settings(&old.settings),
        damage: old.damage.as_ref().map(|damage| Damage { offset: damage.offset, reason: REDACTED.into() }),
        // Both quote the file.
        warnings: Vec::new(),
        unknown_keys: Vec::new(),
        extras: Extras::default(),
        ignored_frames: std::sync::OnceLock::new(),
        // What has no text in it.
        stacks: old.stacks.clone(),
        streams: old.streams.clone(),
        pools: old.pools.clone(),
        metas: old.metas.clone(),
        traces: old.traces.clone(),
        segments: old.segments.clone(),
        blocks: old.blocks.clone(),
        annotations: old.annotations.clone(),
        has: old.has,
        capacities: old.capacities.clone(),
        outside: old.outside.clone(),
        rank: old.rank,
        sidecar: old.sidecar.clone().map(|sidecar| Box::new(recorded(*sidecar))),
    };
    opened.snapshot = Arc::new(snapshot);
    opened
}

/// The format is named by the reader, in a few words of its own.
fn format(format: &str) -> String {
    let is_own = format.chars().all(|c| c.is_ascii_alphanumeric() || " ,()+".contains(c));
    if is_own && format.len() < 100 { format.to_owned() } else { REDACTED.to_owned() }
}

/// `NPU 0` and the like say nothing.
fn device_name(name: &str) -> String {
    let (kind, number) = name.split_once(' ').unwrap_or((name, ""));
    let is_known = ["CPU", "GPU", "NPU", "XPU", "CUDA", "device"].contains(&kind);
    match is_known && number.bytes().all(|byte| byte.is_ascii_digit()) {
        true => name.to_owned(),
        false => REDACTED.to_owned(),
    }
}

/// Settings that PyTorch knows, and of those the values that are numbers, yes or no, or its own words.
fn settings(settings: &Settings) -> Settings {
    let known = settings.all.iter().filter(|(name, _)| public::is_setting(name));
    let value = |value: &str| if public::is_setting(value) { value.to_owned() } else { REDACTED.to_owned() };
    Settings {
        all: known.map(|(name, text)| (name.clone(), value(text))).collect(),
        roundup_divisions: settings.roundup_divisions.clone(),
        ..*settings
    }
}

/// Versions and sizes say nothing; settings may name paths, and a device may be named by its owner.
fn recorded(sidecar: Sidecar) -> Sidecar {
    let is_version = |text: &str| text.bytes().all(|c| c.is_ascii_alphanumeric() || b".+-_".contains(&c));
    let versions = sidecar.versions.into_iter().filter(|(_, version)| is_version(version)).collect();
    let devices = sidecar.devices.into_iter().map(|memory| DeviceMemory { model: None, ..memory }).collect();
    let reason = ["exit", "signal", "step", "oom", "call"].iter().find(|known| **known == sidecar.reason);
    Sidecar {
        reason: reason.map_or_else(String::new, |reason| (*reason).to_owned()),
        versions,
        backend: sidecar.backend.filter(|backend| public::is_setting(backend)),
        alloc_conf: None,
        devices,
        pinned: sidecar.pinned,
        storages: sidecar.storages,
    }
}

/// What becomes of each text.
#[derive(Default)]
struct Texts {
    /// Is public by itself, wherever it is used.
    public: HashMap<StrId, String>,
    /// Is the program's own.
    own: HashMap<StrId, String>,
    /// Is a library's, unless it is also the program's own.
    library: HashMap<StrId, String>,
    numbers: usize,
}

impl Texts {
    fn replace(&mut self, id: StrId, word: &str, end: &str) {
        if id != StrId::EMPTY && !self.own.contains_key(&id) {
            self.numbers += 1;
            self.own.insert(id, format!("{word}{}{end}", self.numbers));
        }
    }

    fn file(&mut self, id: StrId, path: &str) {
        match (public::file(path), public::package(path)) {
            (Some(public), _) => drop(self.public.insert(id, public)),
            // That it is installed is kept: it tells the program from what it uses.
            (None, Some("")) => self.replace(id, "site-packages/file", public::ending(path)),
            (None, Some(package)) => {
                self.replace(id, &format!("site-packages/{package}/file"), public::ending(path));
            }
            (None, None) => self.replace(id, "file", public::ending(path)),
        }
    }

    fn function(&mut self, id: StrId, name: &str) {
        match public::function(name) {
            Said::Public(public) => drop(self.public.insert(id, public)),
            Said::Namespace(namespace) => self.replace(id, &format!("{namespace}function"), ""),
        }
    }

    fn get(&self, id: StrId) -> &str {
        let text = self.public.get(&id).or_else(|| self.own.get(&id)).or_else(|| self.library.get(&id));
        text.map_or("", String::as_str)
    }
}

/// The table of texts with the same ids. What is used for nothing that is shown, such as notes, is empty.
fn strings(snapshot: &Snapshot, keep_libraries: bool) -> StringTable {
    let mut texts = Texts::default();
    for stack in snapshot.stacks.ids() {
        for frame in snapshot.frames(stack) {
            let (file, name) = (snapshot.text(frame.file), snapshot.text(frame.name));
            if keep_libraries && let Some(library) = public::library(file) {
                texts.library.insert(frame.file, library);
                texts.library.insert(frame.name, name.to_owned());
                continue;
            }
            texts.file(frame.file, file);
            texts.function(frame.name, name);
        }
    }
    for annotation in &snapshot.annotations {
        texts.replace(annotation.name, "phase", "");
    }
    for outside in &snapshot.outside {
        let name = snapshot.text(outside.name);
        let is_process = name.strip_prefix("process ").is_some_and(|pid| pid.parse::<u64>().is_ok());
        match is_process || COMPONENTS.contains(&name) {
            true => drop(texts.public.insert(outside.name, name.to_owned())),
            false => texts.replace(outside.name, "component", ""),
        }
    }
    for storage in snapshot.sidecar.iter().flat_map(|sidecar| &sidecar.storages) {
        texts.replace(storage.name, storage.role.name(), "");
    }
    let mut strings = StringTable::default();
    for row in 1..snapshot.strings.len() {
        strings.push(texts.get(StrId::from_index(row)));
    }
    strings
}

/// What holds memory of a device besides PyTorch: as an NPU's driver calls it, and as a sidecar's reader does.
const COMPONENTS: [&str; 17] = [
    "APP",
    "FE",
    "GE",
    "HCCL",
    "HCOM",
    "IDEDD",
    "PTA",
    "PTA+GE",
    "RUNTIME",
    "SLOG",
    "TDT",
    "WORKSPACE",
    "NCCL",
    "CUDA context and libraries",
    "other processes",
    "other processes, CUDA context and libraries",
    "driver and unlisted processes",
];

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test")]
mod tests {
    use std::path::Path;

    use vramscope_snapshot::embedded;

    use super::redact;

    #[test]
    fn a_profile_says_no_role() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/inputs/ascend");
        let (inputs, _) = vramscope_files::find(&[folder]);
        let opened = vramscope_files::open(&inputs[0], None, &()).unwrap();
        assert_eq!(opened.snapshot.role.as_deref().or(opened.name.role.as_deref()), Some("actor_update"));
        let mut bytes = Vec::new();
        embedded::encode(&redact(opened, false).snapshot, &mut bytes).unwrap();
        assert!(!bytes.windows(12).any(|part| part == b"actor_update"));
    }
}
