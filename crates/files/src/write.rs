//! The one writer of files, for every surface.
//!
//! What is written goes into a temporary file in the same folder, is synced and then renamed, so whatever happens the
//! file is the old one or the whole new one. Rules:
//!
//! * A regular file is replaced only with [`Existing::Replace`], and keeps its permissions and, where allowed, its owner.
//! * A link to a regular file stays a link: the file that it leads to is replaced. A link to nothing is an error.
//! * Into a pipe or a character device (`/dev/null`, `>(gzip)`) is written directly; it is never replaced or removed.
//!   The same holds for descriptors that the shell has opened (`/dev/stdout`, `/dev/fd/3`).
//! * Folders, block devices and sockets are refused, and so is a file that was read to make the output.
//! * A signal that ends the program first removes the temporary file: see [`remove_unfinished_on_signals`].

use std::fs::{self, File, Metadata};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use tempfile::{NamedTempFile, TempPath};

use crate::find::{Input, find};

/// What to do about a file that is there already.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Existing {
    /// It stays, and writing fails.
    Keep,
    /// It is replaced.
    Replace,
}

/// Why nothing was written.
#[derive(Debug, thiserror::Error)]
pub enum WriteError {
    /// There is a file, and it may not be replaced.
    #[error("{}: already exists; pass --force to overwrite", path.display())]
    Exists {
        /// Which path.
        path: PathBuf,
    },
    /// The output would take the place of what was read.
    #[error("{}: is the input; choose another output file", path.display())]
    IsInput {
        /// Which path.
        path: PathBuf,
    },
    /// It is nothing that a file could take the place of.
    #[error("{}: is {what}, not a file", path.display())]
    NotAFile {
        /// Which path.
        path: PathBuf,
        /// What it is.
        what: &'static str,
    },
    /// The file system says no.
    #[error("{}: {error}", path.display())]
    Io {
        /// Which path.
        path: PathBuf,
        /// Why.
        error: io::Error,
    },
}

/// Writes a file. `inputs` are the paths that the output was made from, as the user named them; no file among or
/// below them that was read is overwritten.
pub fn write<E: From<WriteError>>(
    path: &Path,
    existing: Existing,
    inputs: &[PathBuf],
    write: impl FnOnce(&mut dyn Write) -> Result<(), E>,
) -> Result<(), E> {
    let failed = |error| WriteError::Io { path: path.to_owned(), error };
    let (file, place) = match destination(path, existing, inputs)? {
        Destination::Stream => (File::options().append(true).open(path).map_err(failed)?, None),
        Destination::File { place, old } => {
            let (file, temporary) = temporary(&place).map_err(failed)?;
            if let Some(old) = &old {
                keep_owner(&file, old).map_err(failed)?;
            }
            (file, Some((place, temporary)))
        }
    };
    let mut out = Out { file: BufWriter::with_capacity(1 << 16, file), error: None };
    let result = write(&mut out).and_then(|()| out.flush().map_err(|error| failed(error).into()));
    // The caller may wrap or lose an error: the file system's own error counts.
    if let Some(error) = out.error.take() {
        return Err(failed(error).into());
    }
    result?;
    if let Some((place, temporary)) = place {
        out.file.get_ref().sync_all().map_err(failed)?;
        temporary.persist(&place, existing).map_err(|error| match error.kind() {
            io::ErrorKind::AlreadyExists => WriteError::Exists { path: path.to_owned() },
            _ => failed(error),
        })?;
        sync_folder(&place);
    }
    Ok(())
}

/// Writes bytes to the first of some names that is free, and tells which.
pub fn write_new(names: impl IntoIterator<Item = String>, bytes: &[u8]) -> Result<String, WriteError> {
    let mut last = PathBuf::new();
    for name in names {
        last = PathBuf::from(&name);
        if last.symlink_metadata().is_ok() {
            continue;
        }
        let all = |out: &mut dyn Write| out.write_all(bytes).map_err(|error| io_error(&last, error));
        match write(&last, Existing::Keep, &[], all) {
            Err(WriteError::Exists { .. }) => {}
            result => return result.map(|()| name),
        }
    }
    Err(WriteError::Exists { path: last })
}

fn io_error(path: &Path, error: io::Error) -> WriteError {
    WriteError::Io { path: path.to_owned(), error }
}

/// Remembers the first error of the file system.
struct Out {
    file: BufWriter<File>,
    error: Option<io::Error>,
}

impl Out {
    fn noted<T>(&mut self, result: io::Result<T>) -> io::Result<T> {
        result.map_err(|error| {
            let again =
                error.raw_os_error().map_or_else(|| error.kind().into(), io::Error::from_raw_os_error);
            self.error.get_or_insert(error);
            again
        })
    }
}

impl Write for Out {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let result = self.file.write(bytes);
        if matches!(&result, Err(error) if error.kind() == io::ErrorKind::Interrupted) {
            return result;
        }
        self.noted(result)
    }

    fn flush(&mut self) -> io::Result<()> {
        let result = self.file.flush();
        self.noted(result)
    }
}

enum Destination {
    /// Something that takes bytes as they come.
    Stream,
    /// A regular file: where it is behind all links, and what is there.
    File { place: PathBuf, old: Option<Metadata> },
}

fn destination(path: &Path, existing: Existing, inputs: &[PathBuf]) -> Result<Destination, WriteError> {
    let failed = |error| WriteError::Io { path: path.to_owned(), error };
    let not_a_file = |what| WriteError::NotAFile { path: path.to_owned(), what };
    let old = match path.metadata() {
        Ok(old) => old,
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(failed(error)),
        Err(_) if path.symlink_metadata().is_ok() => return Err(not_a_file("a link to nothing")),
        Err(_) => return Ok(Destination::File { place: path.to_owned(), old: None }),
    };
    if is_descriptor(path) {
        return Ok(Destination::Stream);
    }
    if old.is_dir() {
        return Err(not_a_file("a folder"));
    }
    if is_stream(&old) {
        return Ok(Destination::Stream);
    }
    if !old.is_file() {
        return Err(not_a_file("a device or a socket"));
    }
    if find(inputs).0.iter().flat_map(Input::files).any(|input| is_same(path, &old, &input)) {
        return Err(WriteError::IsInput { path: path.to_owned() });
    }
    match existing {
        Existing::Keep => Err(WriteError::Exists { path: path.to_owned() }),
        Existing::Replace => {
            Ok(Destination::File { place: path.canonicalize().map_err(failed)?, old: Some(old) })
        }
    }
}

/// Whether a path is a name for a descriptor that is open already, as `/dev/stdout` is.
pub fn is_descriptor(path: &Path) -> bool {
    let text = path.to_string_lossy();
    ["/dev/stdout", "/dev/stderr"].contains(&&*text)
        || ["/dev/fd/", "/proc/self/fd/"].iter().any(|folder| {
            text.strip_prefix(folder).is_some_and(|number| number.bytes().all(|byte| byte.is_ascii_digit()))
        })
}

#[cfg(unix)]
fn is_stream(metadata: &Metadata) -> bool {
    use std::os::unix::fs::FileTypeExt;
    metadata.file_type().is_fifo() || metadata.file_type().is_char_device()
}

#[cfg(not(unix))]
fn is_stream(_: &Metadata) -> bool {
    false
}

/// Whether two names are one file, by links of any kind.
#[cfg(unix)]
fn is_same(_: &Path, old: &Metadata, input: &Path) -> bool {
    use std::os::unix::fs::MetadataExt;
    input.metadata().is_ok_and(|input| (input.dev(), input.ino()) == (old.dev(), old.ino()))
}

#[cfg(not(unix))]
fn is_same(path: &Path, _: &Metadata, input: &Path) -> bool {
    path.canonicalize().is_ok_and(|path| input.canonicalize().is_ok_and(|input| input == path))
}

/// Temporary files that are not complete. The lock is held while one is created, renamed or removed, so that a
/// signal finds all of them.
static UNFINISHED: Mutex<Vec<PathBuf>> = Mutex::new(Vec::new());

fn unfinished() -> MutexGuard<'static, Vec<PathBuf>> {
    UNFINISHED.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A temporary file; dropping it removes it.
struct Temporary(Option<TempPath>);

impl Temporary {
    /// Gives it its name.
    fn persist(mut self, place: &Path, existing: Existing) -> io::Result<()> {
        let mut unfinished = unfinished();
        let Some(temporary) = self.0.take() else { return Ok(()) };
        unfinished.retain(|path| *path != *temporary);
        match existing {
            // A folder or a device may have come there since it was looked at.
            Existing::Replace if place.symlink_metadata().is_ok_and(|now| !now.is_file()) => {
                Err(io::Error::other("was replaced by something that is not a file"))
            }
            Existing::Replace => temporary.persist(place).map_err(|error| error.error),
            Existing::Keep => temporary.persist_noclobber(place).map_err(|error| error.error),
        }
    }
}

impl Drop for Temporary {
    fn drop(&mut self) {
        if let Some(temporary) = self.0.take() {
            let mut unfinished = unfinished();
            unfinished.retain(|path| *path != *temporary);
            drop(temporary);
        }
    }
}

/// How the names of temporary files begin and end.
const TEMPORARY: (&str, &str) = (".vramscope-", ".tmp");

/// Whether a file is one that is being written, or that a killed program has left behind.
pub fn is_temporary(path: &Path) -> bool {
    let name = path.file_name().and_then(|name| name.to_str());
    name.is_some_and(|name| name.starts_with(TEMPORARY.0) && name.ends_with(TEMPORARY.1))
}

/// Removes what killed programs have left in a folder. Only for folders that no other program writes into.
pub fn remove_abandoned(folder: &Path) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        if is_temporary(&entry.path()) {
            let _ = fs::remove_file(entry.path());
        }
    }
}

/// A new file beside the place, with the permissions that any new file has.
fn temporary(place: &Path) -> io::Result<(File, Temporary)> {
    let folder = place.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let mut builder = tempfile::Builder::new();
    builder.prefix(TEMPORARY.0).suffix(TEMPORARY.1);
    #[cfg(unix)]
    let permissions = std::os::unix::fs::PermissionsExt::from_mode(0o666);
    #[cfg(unix)]
    builder.permissions(permissions);
    let mut unfinished = unfinished();
    let (file, path) = builder.tempfile_in(folder).map(NamedTempFile::into_parts).map_err(without_path)?;
    unfinished.push(path.to_path_buf());
    Ok((file, Temporary(Some(path))))
}

/// The error itself: its path is that of the temporary file, which nobody asked about.
fn without_path(error: io::Error) -> io::Error {
    let inner = error.get_ref().and_then(std::error::Error::source);
    match inner.and_then(|inner| inner.downcast_ref::<io::Error>()).and_then(io::Error::raw_os_error) {
        Some(code) => io::Error::from_raw_os_error(code),
        None => error,
    }
}

/// Gives a file the owner and the permissions of the one that it replaces.
#[cfg(unix)]
fn keep_owner(file: &File, old: &Metadata) -> io::Result<()> {
    use std::os::unix::fs::{MetadataExt, PermissionsExt};

    use rustix::fs::{Gid, Uid, fchown};
    let new = file.metadata()?;
    let mut mode = old.mode() & 0o777;
    let changed = |now: u32, then: u32| now != then;
    if changed(new.uid(), old.uid()) {
        // Only root may, and it is no loss otherwise: the folder decides who may replace a file.
        let _ = fchown(file, Some(Uid::from_raw(old.uid())), None);
    }
    if changed(new.gid(), old.gid()) && fchown(file, None, Some(Gid::from_raw(old.gid()))).is_err() {
        // What the old group was allowed is not for another one.
        mode &= 0o707;
    }
    file.set_permissions(fs::Permissions::from_mode(mode))
}

#[cfg(not(unix))]
fn keep_owner(file: &File, old: &Metadata) -> io::Result<()> {
    file.set_permissions(old.permissions())
}

/// Makes the rename last. Some file systems cannot, and the file is whole in any case.
fn sync_folder(place: &Path) {
    if let Some(folder) = place.parent().filter(|folder| !folder.as_os_str().is_empty())
        && let Ok(folder) = File::open(folder)
    {
        let _ = folder.sync_all();
    }
}

/// Removes temporary files; for signal handling. No more are made afterwards: the program must exit.
pub fn remove_unfinished() {
    let mut unfinished = unfinished();
    for path in unfinished.drain(..) {
        let _ = fs::remove_file(path);
    }
    std::mem::forget(unfinished);
}

/// Lets signals that end the program remove temporary files first, and turns the signal of a file size limit into an
/// error. For programs that handle no signals themselves; those call [`remove_unfinished`].
#[cfg(unix)]
pub fn remove_unfinished_on_signals() {
    use std::sync::{Arc, Once};

    use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGXFSZ};
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let _ = signal_hook::flag::register(SIGXFSZ, Arc::default());
        // A signal that is ignored, as by nohup, stays ignored.
        let ending = [SIGHUP, SIGINT, SIGQUIT, SIGTERM].into_iter().filter(|signal| !is_ignored(*signal));
        let Ok(mut signals) = signal_hook::iterator::Signals::new(ending) else { return };
        let _ = std::thread::Builder::new().name("signals".into()).spawn(move || {
            if let Some(signal) = signals.forever().next() {
                remove_unfinished();
                let _ = signal_hook::low_level::emulate_default_handler(signal);
            }
        });
    });
}

/// The same where there are no such signals.
#[cfg(not(unix))]
pub fn remove_unfinished_on_signals() {}

/// Whether the program was started with a signal ignored; unknown outside Linux.
#[cfg(unix)]
fn is_ignored(signal: i32) -> bool {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let mask = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0);
    mask >> (signal - 1) & 1 == 1
}
