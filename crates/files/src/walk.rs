//! A walk below a folder that the user named. It stays inside that folder, on one device, and has an end.

use std::collections::HashSet;
use std::fmt;
use std::fs::Metadata;
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Folders below the one that was named: a run has a few levels.
const DEEPEST: usize = 32;

/// Entries that are looked at: 16 files for each of 16 384 ranks.
const MOST_ENTRIES: usize = 1 << 18;

/// Time that a walk may take, with a look into every file: at 1 ms for each, as on a network disk, 30 000 ranks.
const LONGEST: Duration = Duration::from_secs(30);

/// Paths that a message names.
const EXAMPLES: usize = 3;

/// Something below the folder.
pub(crate) enum Entry<'a> {
    Folder(&'a Path),
    File(&'a Path),
}

/// Part of a folder that was not looked at.
#[derive(Debug)]
pub struct LeftOut {
    folder: PathBuf,
    reason: Reason,
    count: usize,
    /// The first paths in order, each with what is known about it.
    examples: Vec<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Reason {
    Links,
    OtherDevices,
    TooDeep,
    Unreadable,
    Special,
    TooMany,
    TooLong,
}

impl fmt::Display for LeftOut {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (folder, count) = (self.folder.display(), self.count);
        let several =
            |one: &str, many: &str| if count == 1 { format!("1 {one}") } else { format!("{count} {many}") };
        let folders = || several("folder", "folders");
        let (what, hint) = match self.reason {
            Reason::Links => (
                format!(
                    "{} out of {folder} and {} not followed",
                    several("link leads", "links lead"),
                    if count == 1 { "was" } else { "were" },
                ),
                "name their targets to read them",
            ),
            Reason::OtherDevices => (
                format!("{} below {folder} on other devices, not entered", folders()),
                "name them to read them",
            ),
            Reason::TooDeep => (
                format!("{} more than {DEEPEST} levels below {folder}, not entered", folders()),
                "name them to read them",
            ),
            Reason::Unreadable => (format!("{} below {folder} cannot be read", folders()), ""),
            Reason::Special => {
                return write!(f, "{folder}: a file system of the kernel, which holds no recordings");
            }
            Reason::TooMany => (
                format!("{folder}: the search stopped after {MOST_ENTRIES} files and folders, at"),
                "name a folder of one run",
            ),
            Reason::TooLong => (
                format!("{folder}: the search stopped after {} s, at", LONGEST.as_secs()),
                "name a folder of one run",
            ),
        };
        write!(f, "{what}: {}", self.examples.join(", "))?;
        if count > self.examples.len() {
            write!(f, ", …")?;
        }
        if hint.is_empty() { Ok(()) } else { write!(f, "; {hint}") }
    }
}

/// Visits every file below a folder whose name does not begin with a dot, and every folder, which is entered if `visit`
/// returns true. Links are followed as long as they stay in the folder; each folder is entered once, by its own path if that
/// is visible. Ends early if `is_cancelled`. Returns what was left out.
pub(crate) fn walk(
    folder: &Path,
    is_cancelled: &dyn Fn() -> bool,
    visit: &mut dyn FnMut(Entry<'_>) -> bool,
) -> Vec<LeftOut> {
    let mut walk = Walk { folder, is_cancelled, left_out: Vec::new() };
    if let Err(error) = walk.run(visit) {
        walk.leave(Reason::Unreadable, format!("{}: {error}", folder.display()));
    }
    for left_out in &mut walk.left_out {
        left_out.examples.sort();
        left_out.count = left_out.examples.len();
        left_out.examples.truncate(EXAMPLES);
    }
    walk.left_out
}

struct Walk<'a> {
    folder: &'a Path,
    is_cancelled: &'a dyn Fn() -> bool,
    left_out: Vec<LeftOut>,
}

impl Walk<'_> {
    fn run(&mut self, visit: &mut dyn FnMut(Entry<'_>) -> bool) -> io::Result<()> {
        let root = self.folder.canonicalize()?;
        if is_special(&root) {
            self.leave(Reason::Special, String::new());
            return Ok(());
        }
        let device = device(&root.metadata()?);
        let began = Instant::now();
        let (mut entries, mut entered) = (0, HashSet::new());
        let mut waiting = vec![(self.folder.to_owned(), 0)];
        // Folders that links lead to: most of them are found by their own paths before.
        let mut linked: Vec<(PathBuf, usize)> = Vec::new();
        loop {
            let next = waiting.pop().or_else(|| {
                linked.sort_by(|a, b| b.cmp(a));
                linked.pop()
            });
            let Some((path, depth)) = next else { return Ok(()) };
            let Ok(metadata) = path.metadata() else { continue };
            if !entered.insert(identity(&path, &metadata)) {
                continue;
            }
            if self::device(&metadata) != device {
                self.leave(Reason::OtherDevices, path.display().to_string());
                continue;
            }
            if depth > DEEPEST {
                self.leave(Reason::TooDeep, path.display().to_string());
                continue;
            }
            if !visit(Entry::Folder(&path)) {
                continue;
            }
            let listed = match path.read_dir() {
                Ok(listed) => listed,
                Err(error) => {
                    self.leave(Reason::Unreadable, format!("{}: {error}", path.display()));
                    continue;
                }
            };
            for entry in listed.flatten() {
                if (self.is_cancelled)() {
                    return Ok(());
                }
                entries += 1;
                if entries > MOST_ENTRIES || began.elapsed() > LONGEST {
                    let reason = if entries > MOST_ENTRIES { Reason::TooMany } else { Reason::TooLong };
                    self.leave(reason, entry.path().display().to_string());
                    return Ok(());
                }
                if entry.file_name().as_encoded_bytes().starts_with(b".") {
                    continue;
                }
                let (path, Ok(kind)) = (entry.path(), entry.file_type()) else { continue };
                if !kind.is_symlink() {
                    match kind.is_dir() {
                        true => waiting.push((path, depth + 1)),
                        false if kind.is_file() => _ = visit(Entry::File(&path)),
                        // Pipes, sockets and devices are no recordings.
                        false => {}
                    }
                    continue;
                }
                // A link to nothing hides nothing.
                let Ok(target) = path.canonicalize() else { continue };
                if !target.starts_with(&root) {
                    self.leave(Reason::Links, format!("{} -> {}", path.display(), target.display()));
                    continue;
                }
                match target.metadata() {
                    Ok(metadata) if metadata.is_dir() => linked.push((path, depth + 1)),
                    Ok(metadata) if metadata.is_file() => _ = visit(Entry::File(&path)),
                    _ => {}
                }
            }
        }
    }

    fn leave(&mut self, reason: Reason, example: String) {
        match self.left_out.iter_mut().find(|known| known.reason == reason) {
            Some(known) => known.examples.push(example),
            None => {
                let folder = self.folder.to_owned();
                self.left_out.push(LeftOut { folder, reason, count: 0, examples: vec![example] });
            }
        }
    }
}

/// Device and number of a folder, by whatever path.
#[cfg(unix)]
fn identity(_: &Path, metadata: &Metadata) -> (u64, u64) {
    use std::os::unix::fs::MetadataExt;
    (metadata.dev(), metadata.ino())
}

#[cfg(not(unix))]
fn identity(path: &Path, _: &Metadata) -> Option<PathBuf> {
    path.canonicalize().ok()
}

#[cfg(unix)]
fn device(metadata: &Metadata) -> u64 {
    std::os::unix::fs::MetadataExt::dev(metadata)
}

/// Elsewhere what is mounted in a folder is a link.
#[cfg(not(unix))]
fn device(_: &Metadata) {}

/// Whether a folder is in a file system that the kernel makes up, such as `/proc`: reading its files may block, or act.
#[cfg(target_os = "linux")]
fn is_special(folder: &Path) -> bool {
    use rustix::fs::{FsWord, PROC_SUPER_MAGIC, statfs};
    // From linux/magic.h: sysfs, devpts, cgroup, cgroup2, debugfs, tracefs, securityfs, configfs.
    const OTHERS: [FsWord; 8] =
        [0x6265_6572, 0x1cd1, 0x0027_e0eb, 0x6367_7270, 0x6462_6720, 0x7472_6163, 0x7363_6673, 0x6265_6570];
    statfs(folder).is_ok_and(|found| found.f_type == PROC_SUPER_MAGIC || OTHERS.contains(&found.f_type))
}

#[cfg(not(target_os = "linux"))]
fn is_special(_: &Path) -> bool {
    false
}
