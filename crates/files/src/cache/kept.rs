//! Facts that follow from the whole trace of a file, so that a question about a part of it need not go through all.
//!
//! A fact is worked out when it is first asked for, since opening a file does not need it, and lies beside the entry: one
//! file for each fact and device. The command that reads the file keeps those that it needed, too.

use std::path::PathBuf;
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::SystemTime;

use vramscope_analysis::{Device, Put, Shelf};
use vramscope_mapped::{Check, Store};
use vramscope_snapshot::{DeviceId, Snapshot};

use super::{Cache, Fingerprint, Label, Written, is_of, open_private};

/// The ending of these files.
pub(super) const ENDING: &str = "kept";

/// Facts about a file in the cache.
#[derive(Debug)]
pub(crate) struct Facts {
    cache: Cache,
    source: Fingerprint,
    /// Thread that writes the entry, and then the facts that are sent to it.
    writer: Mutex<Option<(Sender<Written>, JoinHandle<()>)>>,
}

/// The entry of a file and its facts being written in the background; dropping it waits for the end.
#[derive(Debug)]
pub(crate) struct Storing(Arc<Facts>);

impl Facts {
    pub(crate) fn new(cache: Cache, source: Fingerprint) -> Self {
        Self { cache, source, writer: Mutex::new(None) }
    }

    /// A device of the file.
    pub(crate) fn of(self: &Arc<Self>, device: Device) -> Arc<Device> {
        Arc::new(device.on(Arc::<Self>::clone(self)))
    }

    /// Writes the entry of the file, in the background.
    pub(crate) fn store_entry(
        self: &Arc<Self>,
        snapshot: Arc<Snapshot>,
        devices: Vec<Arc<Device>>,
    ) -> Storing {
        let (facts, (sender, waiting)) = (Arc::clone(self), channel());
        let store = move || {
            let replays = devices.iter().map(|device| device.replay());
            if facts.cache.store(&facts.source, &snapshot, replays).is_err() {
                return;
            }
            drop((snapshot, devices));
            for written in waiting {
                let _ = facts.cache.keep(written);
            }
        };
        let thread = thread::Builder::new().spawn(store).ok();
        *self.writer.lock().unwrap_or_else(PoisonError::into_inner) = thread.map(|thread| (sender, thread));
        Storing(Arc::clone(self))
    }

    fn path(&self, device: DeviceId, name: &str) -> PathBuf {
        let entry = self.cache.entry(&self.source);
        let entry = entry.file_stem().unwrap_or_default().to_string_lossy();
        self.cache.folder.join(format!("{entry}-{}-{name}.{ENDING}", device.0))
    }
}

impl Shelf for Facts {
    fn load(&self, device: DeviceId, name: &str) -> Option<Store> {
        // Facts that lie there while the entry is written will be removed, and have to be kept anew.
        if self.writer.lock().unwrap_or_else(PoisonError::into_inner).is_some() {
            return None;
        }
        let file = open_private(&self.path(device, name)).ok()?;
        let store = Store::open(&file, Check::Now, |label| is_of(label, &self.source)).ok()??;
        let _ = file.set_modified(SystemTime::now());
        Some(store)
    }

    fn store(&self, device: DeviceId, name: &str, put: Put<'_>) {
        let path = self.path(device, name);
        let Ok(written) = self.cache.write_columns(path, &Label::new(&self.source), put) else { return };
        let _ = match &*self.writer.lock().unwrap_or_else(PoisonError::into_inner) {
            Some((sender, _)) => sender.send(written).is_ok(),
            None => self.cache.keep(written).is_ok(),
        };
    }
}

impl Storing {
    /// Waits until the entry is written, and all facts that are known are beside it.
    pub(crate) fn wait(&self) {
        let writer = self.0.writer.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some((sender, thread)) = writer {
            drop(sender);
            let _ = thread.join();
        }
    }
}

impl Drop for Storing {
    fn drop(&mut self) {
        self.wait();
    }
}
