//! What a file is, by its first bytes, never by its name.

use super::ReadError;
use super::ascend::AscendPart;
use super::sqlite;
use super::unpack::Packing;
use crate::embedded;

/// Formats that can hold a snapshot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Pickle,
    Json,
    /// A profiler's trace in Chrome's format.
    Trace,
    /// What `export_memory_timeline` writes.
    Timeline,
    /// A table of an Ascend profile.
    Ascend(AscendPart),
    Html,
    /// The data of a report.
    Embedded,
    Packed(Packing),
}

pub(super) const HTML_WITHOUT_SNAPSHOT: &str = "an HTML page without a snapshot inside. Pages made by trace_plot and segment_plot have one; \
     a memory-timeline page holds only a picture: export_memory_timeline(\"timeline.raw.json.gz\") writes the data";

/// The kind of file that begins with `head`, which is all of it if it is shorter than a kilobyte.
pub(super) fn kind(head: &[u8]) -> Result<Kind, ReadError> {
    if head.is_empty() {
        return Err(ReadError::Empty);
    }
    if let Some(packing) = Packing::of(head) {
        return Ok(Kind::Packed(packing));
    }
    let text = head.strip_prefix(b"\xef\xbb\xbf").unwrap_or(head).trim_ascii_start();
    match (head, text) {
        // PROTO; or, before it existed, a container and its memo number.
        ([0x80, ..] | [b'(', b'd' | b'l', ..] | [b'}' | b']', b'q' | b'r' | b'(' | b'.' | b'p', ..], _) => {
            Ok(Kind::Pickle)
        }
        (_, [b'{' | b'[', ..]) => Ok(json_kind(text)),
        (_, [b'<', ..]) => Ok(Kind::Html),
        _ if embedded::is_embedded(head) => Ok(Kind::Embedded),
        _ if head.starts_with(sqlite::MAGIC) => Ok(Kind::Ascend(AscendPart::Database)),
        _ => match AscendPart::of_header(head) {
            Some(part) => Ok(Kind::Ascend(part)),
            None => Err(ReadError::OtherFormat(other_format(head))),
        },
    }
}

fn mentions(head: &[u8], words: &[&str]) -> bool {
    words.iter().any(|word| memchr::memmem::find(head, word.as_bytes()).is_some())
}

/// What JSON that begins with `text` holds.
fn json_kind(text: &[u8]) -> Kind {
    let snapshot = ["\"segments\"", "\"device_traces\"", "\"total_size\""];
    let trace = ["\"traceEvents\"", "\"schemaVersion\"", "\"deviceProperties\"", "\"baseTimeNanoseconds\""];
    let is_list = text.first() == Some(&b'[');
    if !mentions(text, &snapshot) && (mentions(text, &trace) || is_list && mentions(text, &["\"ph\""])) {
        return Kind::Trace;
    }
    if is_timeline(text) { Kind::Timeline } else { Kind::Json }
}

/// Whether it begins with a list in a list whose first number is a time, or -1 for what was there before.
fn is_timeline(text: &[u8]) -> bool {
    let inside = |text: &[u8]| text.strip_prefix(b"[").map(|rest| rest.trim_ascii_start().to_owned());
    let Some(number) = inside(text).and_then(|rest| inside(&rest)) else { return false };
    let digits = number.iter().take_while(|byte| byte.is_ascii_digit()).count();
    number.starts_with(b"-1,") || digits > 0
}

/// Enough of a file to tell with [`looks_like_snapshot`].
pub const PROBE_BYTES: usize = 1 << 16;

/// Whether a file that begins with `head` may hold a snapshot: for picking files out of a folder,
/// where gigabytes of other traces may lie beside them. What is inside a packing is looked at too.
pub fn looks_like_snapshot(head: &[u8]) -> bool {
    probe(head, 0)
}

fn probe(head: &[u8], layers: usize) -> bool {
    match kind(head) {
        Ok(Kind::Pickle) => true,
        Ok(Kind::Json) => mentions(head, &["\"segments\"", "\"device_traces\"", "\"total_size\""]),
        // Gigabytes may lie between the beginning and the first memory event.
        Ok(Kind::Trace) => mentions(head, &["\"profile_memory\": 1", "\"profile_memory\":1", "\"[memory]\""]),
        Ok(Kind::Timeline | Kind::Ascend(AscendPart::OperatorMemory)) => true,
        Ok(Kind::Ascend(AscendPart::Database)) => mentions(head, &["OP_MEMORY", "MEMORY_RECORD"]),
        // Curves without blocks are of use beside the blocks, and for somebody who names them.
        Ok(Kind::Ascend(_)) => false,
        Ok(Kind::Html) => mentions(head, &["local_files"]),
        Ok(Kind::Packed(packing)) if layers < super::MAX_LAYERS => {
            let mut inside = Vec::new();
            // A head that ends in the middle of the packed data is no fault here.
            let unpacked = packing.unpack(head, u64::MAX, |piece, _| {
                inside.extend_from_slice(piece);
                Ok::<_, ReadError>(inside.len() < PROBE_BYTES)
            });
            // What cannot be looked into may be one: opening it says what to do.
            matches!(unpacked, Err(ReadError::Unpackable(_))) || probe(&inside, layers + 1)
        }
        // A report holds copies of recordings that may lie beside it: it is for somebody who names it.
        Ok(Kind::Embedded | Kind::Packed(_)) | Err(_) => false,
    }
}

/// A format that is recognized but holds no snapshot, with what to do about it.
fn other_format(head: &[u8]) -> String {
    let known = match head {
        [b'P', b'K', ..] => {
            "it begins with \"PK\" (a zip file). A torch.save() checkpoint? Record memory with \
             torch.cuda.memory._record_memory_history() and torch.cuda.memory._dump_snapshot(\"snapshot.pickle\")"
        }
        _ if head.starts_with(b"\x7fELF") => "an ELF program",
        _ if head.starts_with(b"\x89HDF") => "an HDF5 file",
        _ if head.starts_with(b"\x93NUMPY") => "a NumPy array",
        _ if head.starts_with(b"ARROW1") => "an Arrow file",
        _ if head.starts_with(b"PAR1") => "a Parquet file",
        _ if head.starts_with(b"BZh") => "a bzip2 file. Unpack it first",
        _ if head.starts_with(b"\x89PNG") => "a picture",
        _ if head.iter().all(|&byte| byte == 0) => {
            "all zero bytes. Was the disk full, or the copy interrupted, when it was written?"
        }
        _ => "",
    };
    if !known.is_empty() {
        return known.to_owned();
    }
    let line: Vec<u8> =
        head.iter().copied().take_while(|byte| !matches!(byte, b'\n' | b'\r')).take(32).collect();
    match std::str::from_utf8(&line) {
        Ok(line) if line.chars().all(|c| !c.is_control() || c == '\t') => {
            format!("a text file that begins with \"{}\"", line.trim())
        }
        _ => {
            let bytes: Vec<_> = head.iter().take(8).map(|byte| format!("{byte:02x}")).collect();
            format!("unknown data that begins with the bytes {}", bytes.join(" "))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_packing_and_dialect_by_its_first_bytes() {
        for (head, expected) in [
            (&b"\x80\x04\x95"[..], Kind::Pickle),
            (b"(dp0\n", Kind::Pickle),
            (b"}q\x00(X", Kind::Pickle),
            (b"](.", Kind::Pickle),
            (b"  {\"segments\"", Kind::Json),
            (b"\n<!DOCTYPE html>", Kind::Html),
            (b"\x1f\x8b\x08", Kind::Packed(Packing::Gzip)),
            (b"\x28\xb5\x2f\xfd", Kind::Packed(Packing::Zstd)),
            (b"\xfd7zXZ\0", Kind::Packed(Packing::Xz)),
        ] {
            assert_eq!(kind(head), Ok(expected), "{head:?}");
        }
    }

    #[test]
    fn what_is_something_else_is_named() {
        let why = |head: &[u8]| kind(head).unwrap_err().to_string();
        assert!(why(b"PK\x03\x04").contains("torch.save() checkpoint?"));
        assert!(why(b"epoch 1, loss 3.2\n").contains("a text file that begins with \"epoch 1, loss 3.2\""));
        assert!(why(b"\x01\x02\xff").contains("01 02 ff"));
        assert_eq!(kind(b""), Err(ReadError::Empty));
    }
}
