//! gzip, zstd and xz around a snapshot.
//!
//! The packed bytes are collected and unpacked at the end, a piece at a time, into the reader of what
//! is inside: packed snapshots are a few percent of what they hold, so collecting them costs little,
//! and one plain `Read` loop serves all three. All decoders are Rust, so they build for the browser.

use std::cell::Cell;
use std::io::{BufRead, Read};

use ruzstd::decoding::errors::{FrameDecoderError, ReadFrameHeaderError};
use ruzstd::decoding::{FrameDecoder, StreamingDecoder};

use super::ReadError;

/// A compression that is recognized by its first bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Packing {
    Gzip,
    Zstd,
    Xz,
}

/// Real snapshots shrink 10 to 50 times. What claims far more is made to fill memory.
const MAX_RATIO: u64 = 200;
const RATIO_FREE_BYTES: u64 = 32 << 20;

/// How many bytes a packed file may unpack to, through all its layers.
pub(super) fn limit(packed: usize) -> u64 {
    RATIO_FREE_BYTES.saturating_add(MAX_RATIO.saturating_mul(packed as u64))
}

/// `xz -9` needs 64 MiB. A header may ask for 4 GiB.
const XZ_MEMORY_KIB: u32 = 512 << 10;

/// What `zstd -d` accepts without being asked for more: the window of `--long=27`.
const ZSTD_MEMORY: u64 = 128 << 20;

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

    /// Hands the unpacked bytes to `sink`, piece by piece and with how many packed bytes are taken so far, until it
    /// fails or says that it has enough. The result is `Some(why)` if unpacking stopped before the end.
    pub(super) fn unpack<E: From<ReadError>>(
        self,
        packed: &[u8],
        limit: u64,
        mut sink: impl FnMut(&[u8], u64) -> Result<bool, E>,
    ) -> Result<Option<String>, E> {
        let broken =
            |error: &dyn std::fmt::Display| Some(format!("the {} data breaks off: {error}", self.name()));
        let taken = Cell::new(0);
        let counted = Counted { rest: packed, taken: &taken };
        let mut source: Box<dyn Read + '_> = match self {
            Self::Gzip => Box::new(flate2::bufread::MultiGzDecoder::new(counted)),
            Self::Zstd => Box::new(ZstdFrames { packed: counted, frame: None }),
            Self::Xz => Box::new(lzma_rust2::XzReader::new_mem_limit(counted, true, XZ_MEMORY_KIB)),
        };
        let mut unpacked = 0;
        let mut piece = vec![0; PIECE];
        loop {
            let read = match source.read(&mut piece) {
                Ok(0) => return Ok(None),
                Ok(read) => read,
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => continue,
                // It is whole, but needs another tool: that is no damage.
                Err(error) if error.kind() == std::io::ErrorKind::OutOfMemory => {
                    return Err(ReadError::Unpackable(self.too_large()).into());
                }
                Err(error) => return Ok(broken(&error)),
            };
            unpacked += read as u64;
            if unpacked > limit {
                return Ok(Some(format!("it unpacks to more than {MAX_RATIO} times the file's size")));
            }
            if !sink(piece.get(..read).unwrap_or_default(), taken.get())? {
                return Ok(None);
            }
        }
    }

    /// What to do about a file whose dictionary is larger than is allowed.
    fn too_large(self) -> String {
        let (window, most, how) = match self {
            Self::Zstd => (
                "window",
                ZSTD_MEMORY >> 20,
                "Unpack it first with `zstd -d --long=31`, or pack it with `--long=27` or less",
            ),
            Self::Gzip | Self::Xz => (
                "dictionary",
                u64::from(XZ_MEMORY_KIB) >> 10,
                "Unpack it first with `xz -d`, or pack it with `xz -9` or less",
            ),
        };
        format!("its {} {window} is larger than {most} MiB. {how}", self.name())
    }
}

/// Packed bytes that count how many of them are taken.
#[derive(Clone, Copy)]
struct Counted<'a> {
    rest: &'a [u8],
    taken: &'a Cell<u64>,
}

impl Read for Counted<'_> {
    fn read(&mut self, out: &mut [u8]) -> std::io::Result<usize> {
        let read = self.rest.read(out)?;
        self.taken.set(self.taken.get() + read as u64);
        Ok(read)
    }
}

impl BufRead for Counted<'_> {
    fn fill_buf(&mut self) -> std::io::Result<&[u8]> {
        Ok(self.rest)
    }

    fn consume(&mut self, bytes: usize) {
        self.rest = self.rest.get(bytes..).unwrap_or_default();
        self.taken.set(self.taken.get() + bytes as u64);
    }
}

/// zstd files may be several frames in a row, and frames to be skipped in between.
struct ZstdFrames<'a> {
    packed: Counted<'a>,
    frame: Option<StreamingDecoder<Counted<'a>, FrameDecoder>>,
}

impl Read for ZstdFrames<'_> {
    fn read(&mut self, out: &mut [u8]) -> std::io::Result<usize> {
        loop {
            if let Some(frame) = &mut self.frame {
                let read = frame.read(out)?;
                if read > 0 {
                    return Ok(read);
                }
                if let Some(frame) = self.frame.take() {
                    self.packed = frame.into_inner();
                }
            }
            if self.packed.rest.is_empty() {
                return Ok(0);
            }
            match StreamingDecoder::new_with_max_window_size(self.packed, ZSTD_MEMORY) {
                Ok(frame) => self.frame = Some(frame),
                Err(FrameDecoderError::ReadFrameHeaderError(ReadFrameHeaderError::SkipFrame {
                    length,
                    ..
                })) => {
                    // Eight bytes of header come before what is skipped.
                    self.packed.consume((length as usize).saturating_add(8));
                }
                Err(FrameDecoderError::WindowSizeTooBig { .. }) => {
                    return Err(std::io::ErrorKind::OutOfMemory.into());
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
        let broken = packing.unpack(packed, limit(packed.len()), |piece, _| {
            out.extend_from_slice(piece);
            Ok::<_, ReadError>(true)
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

    /// `printf hello | xz`.
    const XZ: &[u8] =
        b"\xfd7zXZ\0\0\x04\xe6\xd6\xb4\x46\x02\0\x21\x01\x16\0\0\0\x74\x2f\xe5\xa3\x01\0\x04hello\0\0\0\0\
        \xb1\x37\xb9\xdb\xe5\xda\x1e\x9b\0\x01\x1d\x05\xb8\x2d\x80\xaf\x1f\xb6\xf3\x7d\x01\0\0\0\0\x04YZ";

    #[test]
    fn what_needs_too_much_memory_is_an_error_that_says_what_to_do() {
        let error = |packed: &[u8]| {
            let mut reader = crate::Reader::new();
            reader.feed(packed).unwrap();
            reader.finish().unwrap_err().to_string()
        };
        assert_eq!(unpacked(XZ), (b"hello".to_vec(), None));
        // A dictionary of 1.5 GiB; the header of the block has a checksum.
        let mut xz = XZ.to_vec();
        xz[16] = 37;
        let mut sum = flate2::Crc::new();
        sum.update(&xz[12..20]);
        xz[20..24].copy_from_slice(&sum.sum().to_le_bytes());
        assert!(
            error(&xz).contains("its xz dictionary is larger than 512 MiB. Unpack it first with `xz -d`")
        );
        // A frame of one raw block with a window of 2 GiB, as of `zstd --long=31`.
        let mut zstd = b"\x28\xb5\x2f\xfd\x00\xa8\x29\0\0hello".to_vec();
        assert!(
            error(&zstd)
                .contains("its zstd window is larger than 128 MiB. Unpack it first with `zstd -d --long=31`")
        );
        // `--long=27` is read.
        zstd[5] = 0x88;
        assert_eq!(unpacked(&zstd), (b"hello".to_vec(), None));
    }
}
