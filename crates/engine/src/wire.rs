//! Messages as bytes. Each begins with the version of the protocol, so that a page which is older or newer than
//! the program that answers it gets "reload" instead of answers that it would misread.

use serde::Serialize;
use serde::de::DeserializeOwned;

/// The version of the protocol: a number made from the sources of its messages and the version of the program, so
/// that nobody has to remember to count it up.
pub const PROTOCOL: u32 = {
    let sources = [
        env!("CARGO_PKG_VERSION"),
        include_str!("answers.rs"),
        include_str!("protocol.rs"),
        include_str!("details.rs"),
        include_str!("events.rs"),
        include_str!("here.rs"),
        include_str!("insights.rs"),
        include_str!("range.rs"),
        include_str!("report.rs"),
        include_str!("sets.rs"),
        include_str!("sql.rs"),
        include_str!("whatif.rs"),
    ];
    let (mut number, mut at) = (0x811c_9dc5, 0);
    while at < sources.len() {
        number = hash(number, sources[at]);
        at += 1;
    }
    number
};

/// FNV-1a of a text. Carriage returns do not count: some systems check sources out with them.
const fn hash(mut hash: u32, text: &str) -> u32 {
    let bytes = text.as_bytes();
    let mut at = 0;
    while at < bytes.len() {
        if bytes[at] != b'\r' {
            hash = (hash ^ bytes[at] as u32).wrapping_mul(0x0100_0193);
        }
        at += 1;
    }
    hash
}

/// Why bytes are not a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WireError {
    /// They are from another version of vramscope.
    #[error(
        "this page is from another version of vramscope than the program that answers it: reload the page"
    )]
    Version,
    /// They are cut or damaged.
    #[error("the message is damaged")]
    Damaged,
}

/// A message as bytes, for a worker or a socket.
pub fn encode<T: Serialize>(message: &T) -> Vec<u8> {
    // Writing to memory fails only for types without a known length, which no message has.
    postcard::to_extend(message, PROTOCOL.to_le_bytes().to_vec()).unwrap_or_default()
}

/// A message from bytes.
pub fn decode<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, WireError> {
    match bytes.split_first_chunk::<4>() {
        Some((version, message)) if *version == PROTOCOL.to_le_bytes() => {
            postcard::from_bytes(message).map_err(|_| WireError::Damaged)
        }
        _ => Err(WireError::Version),
    }
}
