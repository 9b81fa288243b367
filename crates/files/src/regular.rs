//! Files that are opened because of their name or place, not because the user named them.
//!
//! In a shared folder anybody can give such a name to a pipe, which would block for ever, or to a link to an endless
//! device. So what is opened is checked to be a regular file after opening, without waiting, and its size is bounded.

use std::fs::{File, OpenOptions};
use std::io::{self, Read};
use std::path::Path;

/// Whether a link in place of the file is followed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Links {
    /// A link leads to the file: people link files of a run together, and settings into their home.
    Follow,
    /// A link is not the file.
    Refuse,
}

/// Opens a regular file of at most `most_bytes`, and returns its size.
pub(crate) fn open_regular(path: &Path, links: Links, most_bytes: u64) -> io::Result<(File, u64)> {
    let mut options = OpenOptions::new();
    options.read(true);
    #[cfg(unix)]
    {
        use std::os::unix::fs::OpenOptionsExt;

        use rustix::fs::OFlags;
        // Without waiting for a pipe's writer or a device; it changes nothing for a regular file.
        let follow = if links == Links::Refuse { OFlags::NOFOLLOW } else { OFlags::empty() };
        options.custom_flags((OFlags::NONBLOCK | OFlags::NOCTTY | follow).bits().cast_signed());
    }
    #[cfg(not(unix))]
    {
        let metadata = if links == Links::Refuse { path.symlink_metadata()? } else { path.metadata()? };
        check(&metadata, most_bytes)?;
    }
    let file = options.open(path)?;
    let bytes = check(&file.metadata()?, most_bytes)?;
    Ok((file, bytes))
}

fn check(metadata: &std::fs::Metadata, most_bytes: u64) -> io::Result<u64> {
    if !metadata.is_file() {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "not a regular file"));
    }
    match metadata.len() {
        bytes if bytes <= most_bytes => Ok(bytes),
        _ => Err(io::ErrorKind::FileTooLarge.into()),
    }
}

/// All bytes of a regular file of at most `most_bytes`.
pub fn read_regular(path: &Path, links: Links, most_bytes: u64) -> io::Result<Vec<u8>> {
    let (file, bytes) = open_regular(path, links, most_bytes)?;
    let mut content = Vec::with_capacity(usize::try_from(bytes).unwrap_or_default());
    // It may grow meanwhile.
    file.take(most_bytes.saturating_add(1)).read_to_end(&mut content)?;
    match content.len() as u64 <= most_bytes {
        true => Ok(content),
        false => Err(io::ErrorKind::FileTooLarge.into()),
    }
}
