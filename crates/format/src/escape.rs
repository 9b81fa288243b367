//! Text from a file where a terminal, a page or a spreadsheet would act on it.

/// Whether a character acts instead of being seen: controls, marks that turn the direction of writing or take no
/// room, and code points that are no characters.
pub fn is_hidden(c: char) -> bool {
    c.is_control()
        || matches!(
            c,
            '\u{061c}' | '\u{180e}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}'
                | '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e007f}'
        )
        || u32::from(c) & 0xfffe == 0xfffe
}

/// The text without what a terminal would act on.
pub fn printable(text: &str) -> String {
    text.chars().map(|c| if is_hidden(c) { '\u{fffd}' } else { c }).collect()
}

/// The text inside HTML, SVG or XML, as content or in a quoted attribute.
pub fn html(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&#39;"),
            '\n' | '\t' => escaped.push(c),
            c if is_hidden(c) => escaped.push('\u{fffd}'),
            c => escaped.push(c),
        }
    }
    escaped
}

/// What to do about text that a spreadsheet would take for a formula: names come from files, and a formula can fetch
/// addresses or start programs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Formulas {
    /// It is written as it is: programs read exactly what was recorded.
    Keep,
    /// An apostrophe before it makes it text.
    Escape,
}

/// The text as a field of a CSV row (RFC 4180).
pub fn csv(text: &str, formulas: Formulas) -> String {
    let mut field = String::new();
    push_csv(&mut field, text, formulas);
    field
}

/// Adds the text to a line as a field of a CSV row.
pub(crate) fn push_csv(line: &mut String, text: &str, formulas: Formulas) {
    let acts = text.starts_with(['=', '+', '-', '@', '\t', '\r']) && text.parse::<f64>().is_err();
    let mark = if acts && formulas == Formulas::Escape { "'" } else { "" };
    let is_quoted = text.bytes().any(|byte| matches!(byte, b',' | b'"' | b'\n' | b'\r'));
    if is_quoted {
        line.extend(["\"", mark, &text.replace('"', "\"\""), "\""]);
    } else {
        line.extend([mark, text]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn terminals_do_not_act() {
        assert_eq!(printable("a\x1b[2Jb"), "a\u{fffd}[2Jb");
        for acts in ['\u{202e}', '\u{061c}', '\u{9b}', '\u{fffe}', '\u{1ffff}', '\u{feff}'] {
            assert_eq!(printable(&format!("a{acts}b")), "a\u{fffd}b", "{:04x}", u32::from(acts));
        }
        assert_eq!(printable("größe 日本 π"), "größe 日本 π");
    }

    #[test]
    fn pages_do_not_act() {
        assert_eq!(html("<b a=\"x\">&'"), "&lt;b a=&quot;x&quot;&gt;&amp;&#39;");
        assert_eq!(html("a\u{0}b"), "a\u{fffd}b");
    }

    #[test]
    fn fields_are_quoted_where_they_have_to_be_and_formulas_are_text() {
        let (keep, escape) = (Formulas::Keep, Formulas::Escape);
        assert_eq!(csv("plain", escape), "plain");
        assert_eq!(csv("a,\"b\"", keep), "\"a,\"\"b\"\"\"");
        assert_eq!(csv("=1+1", keep), "=1+1");
        assert_eq!(csv("=1+1", escape), "'=1+1");
        assert_eq!(csv("@SUM(A1,A2)", escape), "\"'@SUM(A1,A2)\"");
        assert_eq!(csv("-5", escape), "-5", "a number is not a formula");
        assert_eq!(csv("-5+cmd", escape), "'-5+cmd");
    }
}
