//! Fields of CSV files.

/// What to do about text that a spreadsheet would take for a formula: names come from files, and a formula can fetch
/// addresses or start programs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Formulas {
    /// It is written as it is: programs read exactly what was recorded.
    Keep,
    /// An apostrophe before it makes it text.
    Escape,
}

/// A field of a row: in quotes if it needs them.
pub fn csv_field(text: &str, formulas: Formulas) -> String {
    let acts = text.starts_with(['=', '+', '-', '@', '\t', '\r']) && text.parse::<f64>().is_err();
    let mark = if acts && formulas == Formulas::Escape { "'" } else { "" };
    if text.contains([',', '"', '\n', '\r']) {
        format!("\"{mark}{}\"", text.replace('"', "\"\""))
    } else {
        format!("{mark}{text}")
    }
}

#[cfg(test)]
mod tests {
    use super::{Formulas, csv_field};

    #[test]
    fn fields_are_quoted_where_they_have_to_be_and_formulas_are_text() {
        let (keep, escape) = (Formulas::Keep, Formulas::Escape);
        assert_eq!(csv_field("plain", escape), "plain");
        assert_eq!(csv_field("a,\"b\"", keep), "\"a,\"\"b\"\"\"");
        assert_eq!(csv_field("=1+1", keep), "=1+1");
        assert_eq!(csv_field("=1+1", escape), "'=1+1");
        assert_eq!(csv_field("@SUM(A1,A2)", escape), "\"'@SUM(A1,A2)\"");
        assert_eq!(csv_field("-5", escape), "-5", "a number is no formula");
        assert_eq!(csv_field("-5+cmd", escape), "'-5+cmd");
    }
}
