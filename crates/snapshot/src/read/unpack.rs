//! gzip, zstd and xz around a snapshot.
//!
//! The packed bytes are collected and unpacked at the end, a piece at a time, into the reader of what
//! is inside: packed snapshots are a few percent of what they hold, so collecting them costs little,
//! and one plain `Read` loop serves all three. All decoders are Rust, so they build for the browser.

use std::io::Read;

use ruzstd::decoding::errors::{FrameDecoderError, ReadFrameHeaderError};
use ruzstd::decoding::{FrameDecoder, StreamingDecoder};

/// A compression that is recognised by its first bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Packing {
    Gzip,
    Zstd,
    Xz,
}

/// Real snapshots shrink 10 to 50 times. What claims far more is made to fill memory.
const MAX_RATIO: u64 = 200;
const RATIO_FREE_BYTES: u64 = 32 << 20;

/// What a packed file of so many bytes may unpack to, through all its layers.
pub(super) fn limit(packed: usize) -> u64 {
    RATIO_FREE_BYTES.saturating_add(MAX_RATIO.saturating_mul(packed as u64))
}

/// `xz -9` needs 64 MiB. A header may ask for 4 GiB.
const XZ_MEMORY_KIB: u32 = 512 << 10;

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
        limit: u64,
        mut sink: impl FnMut(&[u8]) -> Result<bool, E>,
    ) -> Result<Option<String>, E> {
        let broken =
            |error: &dyn std::fmt::Display| Some(format!("the {} data breaks off: {error}", self.name()));
        let mut source: Box<dyn Read + '_> = match self {
            Self::Gzip => Box::new(flate2::bufread::MultiGzDecoder::new(packed)),
            Self::Zstd => Box::new(ZstdFrames { packed, frame: None }),
            Self::Xz => Box::new(lzma_rust2::XzReader::new_mem_limit(packed, true, XZ_MEMORY_KIB)),
        };
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
                return Ok(Some(format!("it unpacks to more than {MAX_RATIO} times the file's size")));
            }
            if !sink(piece.get(..read).unwrap_or_default())? {
                return Ok(None);
            }
        }
    }
}

/// zstd files may be several frames in a row, and frames to be skipped in between.
struct ZstdFrames<'a> {
    packed: &'a [u8],
    frame: Option<StreamingDecoder<&'a [u8], FrameDecoder>>,
}

impl Read for ZstdFrames<'_> {
    fn read(&mut self, out: &mut [u8]) -> std::io::Result<usize> {
        loop {
            if let Some(frame) = &mut self.frame {
                match frame.read(out)? {
                    0 => self.packed = self.frame.take().map_or(&[], StreamingDecoder::into_inner),
                    read => return Ok(read),
                }
            }
            if self.packed.is_empty() {
                return Ok(0);
            }
            match StreamingDecoder::new(self.packed) {
                Ok(frame) => self.frame = Some(frame),
                Err(FrameDecoderError::ReadFrameHeaderError(ReadFrameHeaderError::SkipFrame {
                    length,
                    ..
                })) => {
                    // Eight bytes of header come before what is skipped.
                    self.packed = self.packed.get((length as usize).saturating_add(8)..).unwrap_or_default();
                }
                Err(error) => return Err(std::io::Error::other(error)),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn unpacked(packed: &[u8]) -> (Vec<u8>, Option<String>) {
        let mut out = Vec::new();
        let packing = Packing::of(packed).unwrap();
        let broken = packing.unpack(packed, limit(packed.len()), |piece| {
            out.extend_from_slice(piece);
            Ok::<_, ()>(true)
        });
        (out, broken.unwrap())
    }

    /// `printf hello` through each of the three tools.
    const GZIP: &[u8] = b"\x1f\x8b\x08\0\0\0\0\0\0\x03\xcb\x48\xcd\xc9\xc9\x07\0\x86\xa6\x10\x36\x05\0\0\0";
    const ZSTD: &[u8] = b"\x28\xb5\x2f\xfd\x04\x58\x29\0\0hello\xa3\x6d\x9f\x88";

    #[test]
    fn members_and_frames_in_a_row() {
        assert_eq!(unpacked(GZIP), (b"hello".to_vec(), None));
        assert_eq!(unpacked(&[GZIP, GZIP].concat()), (b"hellohello".to_vec(), None));
        let skipped = b"\x50\x2a\x4d\x18\x03\0\0\0abc";
        let (out, _) = unpacked(&[ZSTD, skipped, ZSTD].concat());
        assert_eq!(out, b"hellohello");
    }

    #[test]
    fn a_cut_gives_what_is_intact_and_says_so() {
        let (out, broken) = unpacked(&GZIP[..14]);
        assert!(b"hello".starts_with(&out));
        assert!(broken.unwrap().contains("gzip data breaks off"));
    }
}
