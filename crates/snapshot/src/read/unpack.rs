//! gzip, zstd and xz around a snapshot.
//!
//! The packed bytes are collected and unpacked at the end, a piece at a time, into the reader of what
//! is inside: packed snapshots are a few percent of what they hold, so collecting them costs little,
//! and one plain `Read` loop serves all three. All decoders are Rust, so they build for the browser.

use std::io::Read;

/// A compression that is recognised by its first bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Packing {
    Gzip,
    Zstd,
    Xz,
}

/// Real snapshots shrink 10 to 50 times. What claims far more is made to fill memory.
const MAX_RATIO: u64 = 1000;
const RATIO_FREE_BYTES: u64 = 256 << 20;

const PIECE: usize = 1 << 18;

impl Packing {
    pub(super) fn of(head: &[u8]) -> Option<Self> {
        match head {
            [0x1f, 0x8b, ..] => Some(Self::Gzip),
            [0x28, 0xb5, 0x2f, 0xfd, ..] => Some(Self::Zstd),
            [0xfd, b'7', b'z', b'X', b'Z', 0, ..] => Some(Self::Xz),
            _ => None,
        }
    }

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Gzip => "gzip",
            Self::Zstd => "zstd",
            Self::Xz => "xz",
        }
    }

    /// Hands the unpacked bytes to `sink` piece by piece until it fails or says that it has enough.
    /// The result is `Some(why)` if unpacking stopped before the end.
    pub(super) fn unpack<E>(
        self,
        packed: &[u8],
        mut sink: impl FnMut(&[u8]) -> Result<bool, E>,
    ) -> Result<Option<String>, E> {
        let broken = |error: &dyn std::fmt::Display| Some(format!("the {} data breaks off: {error}", self.name()));
        let mut source: Box<dyn Read + '_> = match self {
            Self::Gzip => Box::new(flate2::bufread::MultiGzDecoder::new(packed)),
            Self::Zstd => match ruzstd::decoding::StreamingDecoder::new(packed) {
                Ok(decoder) => Box::new(decoder),
                Err(error) => return Ok(broken(&error)),
            },
            Self::Xz => Box::new(lzma_rust2::XzReader::new(packed, true)),
        };
        let limit = RATIO_FREE_BYTES.saturating_add(MAX_RATIO.saturating_mul(packed.len() as u64));
        let mut unpacked = 0;
        let mut piece = vec![0; PIECE];
        loop {
            let read = match source.read(&mut piece) {
                Ok(0) => return Ok(None),
                Ok(read) => read,
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => continue,
                Err(error) => return Ok(broken(&error)),
            };
            unpacked += read as u64;
            if unpacked > limit {
                return Ok(Some(format!("it unpacks to more than {MAX_RATIO} times its size")));
            }
            if !sink(piece.get(..read).unwrap_or_default())? {
                return Ok(None);
            }
        }
    }
}
