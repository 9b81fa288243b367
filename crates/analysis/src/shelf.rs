//! Answers that outlive the process: kept beside a file's cache entry, one file for each answer and device.

use std::fmt::Debug;
use std::fs::File;
use std::io;

use serde::Serialize;
use serde::de::DeserializeOwned;
use vramscope_mapped::{Store, StoreError, Writer};
use vramscope_snapshot::DeviceId;
use vramscope_snapshot::stored::{get_small, put_small};

/// Storage for what was worked out about a file.
pub trait Shelf: Debug + Send + Sync {
    /// Opens what is kept about a device under a name.
    fn load(&self, device: DeviceId, name: &str) -> Option<Store>;

    /// Keeps what `put` writes about a device under a name. Nothing is lost where that fails but time.
    fn store(&self, device: DeviceId, name: &str, put: Put<'_>);
}

/// Writes an answer.
pub type Put<'a> = &'a dyn Fn(&mut Writer<&File>) -> io::Result<()>;

/// An answer that can be put on a shelf.
pub(crate) trait Shelved: Sized {
    /// The word for it in names of files.
    const NAME: &'static str;

    /// Adds it to a file.
    fn put(&self, out: &mut Writer<&File>) -> io::Result<()>;

    /// Takes it from a file.
    fn get(store: &Store) -> Result<Self, StoreError>;
}

/// An answer that is decoded as a whole.
pub(crate) trait Small: Serialize + DeserializeOwned {
    /// The word for it in names of files.
    const NAME: &'static str;
}

impl<T: Small> Shelved for T {
    const NAME: &'static str = T::NAME;

    fn put(&self, out: &mut Writer<&File>) -> io::Result<()> {
        put_small(T::NAME, self, out)
    }

    fn get(store: &Store) -> Result<Self, StoreError> {
        get_small(T::NAME, store)
    }
}
