//! The two escaped spellings of text that protocol 0 has.

/// The text of a `UNICODE` operand: raw-unicode-escape, where `\uXXXX` and `\UXXXXXXXX` are
/// characters and every other byte is a Latin-1 character.
pub fn unescape_raw_unicode(line: &[u8]) -> String {
    let mut text = String::with_capacity(line.len());
    let mut rest = line;
    while let Some((&byte, tail)) = rest.split_first() {
        rest = tail;
        if byte == b'\\'
            && let Some((&kind @ (b'u' | b'U'), tail)) = rest.split_first()
            && let Some((c, tail)) = hex(tail, if kind == b'u' { 4 } else { 8 })
        {
            text.push(c);
            rest = tail;
        } else {
            text.push(byte.into());
        }
    }
    text
}

/// The text of a `STRING` operand: a Python string literal with its quotes and backslash escapes.
pub fn unquote(literal: &[u8]) -> Vec<u8> {
    let inner = match literal {
        [b'\'', inner @ .., b'\''] | [b'"', inner @ .., b'"'] => inner,
        other => other,
    };
    let mut text = Vec::with_capacity(inner.len());
    let mut rest = inner;
    while let Some((&byte, tail)) = rest.split_first() {
        rest = tail;
        if byte != b'\\' {
            text.push(byte);
            continue;
        }
        let Some((&escape, tail)) = rest.split_first() else { break };
        rest = tail;
        match escape {
            b'n' => text.push(b'\n'),
            b'r' => text.push(b'\r'),
            b't' => text.push(b'\t'),
            b'x' => {
                if let Some((c, tail)) = hex(rest, 2) {
                    text.push(c as u8);
                    rest = tail;
                }
            }
            other => text.push(other),
        }
    }
    text
}

/// A character from `digits` hexadecimal digits. Half of a surrogate pair has no character of its
/// own and becomes U+FFFD.
fn hex(bytes: &[u8], digits: usize) -> Option<(char, &[u8])> {
    let (code, rest) = bytes.split_at_checked(digits)?;
    if !code.iter().all(u8::is_ascii_hexdigit) {
        return None;
    }
    let code = u32::from_str_radix(std::str::from_utf8(code).ok()?, 16).ok()?;
    Some((char::from_u32(code).unwrap_or(char::REPLACEMENT_CHARACTER), rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn raw_unicode_as_cpython_writes_it() {
        // pickle.dumps("a\\b\n€é", 0) holds the line below.
        assert_eq!(unescape_raw_unicode(b"a\\u005cb\\u000a\\u20ac\xe9"), "a\\b\n€é");
        assert_eq!(unescape_raw_unicode(b"\\U0001f600 \\q \\u12"), "😀 \\q \\u12");
        assert_eq!(unescape_raw_unicode(b"\\ud800"), "\u{fffd}");
    }

    #[test]
    fn quoted_as_python_2_writes_it() {
        assert_eq!(unquote(br"'it\'s\n\x41'"), b"it's\nA");
        assert_eq!(unquote(b"\"x\""), b"x");
        assert_eq!(unquote(b"'"), b"'");
    }
}
