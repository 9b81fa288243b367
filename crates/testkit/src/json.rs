//! The same [`Value`] as JSON text, in the form of Python's `json.dumps(value)`: ASCII only, `", "` and `": "`
//! as separators, tuples as arrays. Sharing is lost, as it is in every JSON file.

use crate::value::Value;

/// The value as JSON text.
pub fn json(value: &Value) -> String {
    let mut out = String::new();
    write(value, &mut out);
    out
}

fn write(value: &Value, out: &mut String) {
    match value {
        Value::None => out.push_str("null"),
        Value::Bool(value) => out.push_str(if *value { "true" } else { "false" }),
        Value::Int(value) => out.push_str(&value.to_string()),
        Value::Float(value) if value.is_nan() => out.push_str("NaN"),
        Value::Float(value) if value.is_infinite() => {
            out.push_str(if *value > 0.0 { "Infinity" } else { "-Infinity" });
        }
        Value::Float(value) => out.push_str(&python_repr(*value)),
        Value::Str(text) => string(text, out),
        Value::Tuple(items) | Value::List(items) => {
            out.push('[');
            for (i, item) in items.iter().enumerate() {
                if i > 0 {
                    out.push_str(", ");
                }
                write(item, out);
            }
            out.push(']');
        }
        Value::Dict(items) => {
            out.push('{');
            for (i, (key, item)) in items.iter().enumerate() {
                if i > 0 {
                    out.push_str(", ");
                }
                match key {
                    Value::Str(key) => string(key, out),
                    key => string(&json(key), out),
                }
                out.push_str(": ");
                write(item, out);
            }
            out.push('}');
        }
    }
}

fn string(text: &str, out: &mut String) {
    out.push('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\u{8}' => out.push_str("\\b"),
            '\u{c}' => out.push_str("\\f"),
            ' '..='~' => out.push(c),
            c => {
                for unit in c.encode_utf16(&mut [0; 2]) {
                    out.push_str(&format!("\\u{unit:04x}"));
                }
            }
        }
    }
    out.push('"');
}

/// Python's `repr` of a float: the shortest digits that read back, an exponent below 1e-4 and from 1e16 on.
pub(crate) fn python_repr(value: f64) -> String {
    if value.is_nan() {
        return "nan".into();
    }
    if value.is_infinite() {
        return if value > 0.0 { "inf" } else { "-inf" }.into();
    }
    let scientific = format!("{value:e}");
    let (digits, exponent) = scientific.split_once('e').unwrap();
    let exponent: i32 = exponent.parse().unwrap();
    if (-4..16).contains(&exponent) {
        let plain = value.to_string();
        return if plain.contains('.') { plain } else { plain + ".0" };
    }
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{digits}e{sign}{:02}", exponent.abs())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn looks_like_python() {
        let value = Value::dict([
            ("a", Value::tuple([Value::from(1), Value::from(-0.5), Value::None])),
            ("é\n\"", Value::list([Value::from(true), Value::from("😀/\u{1}")])),
            ("big", Value::from(1i128 << 64)),
        ]);
        // CPython: json.dumps({"a": (1, -0.5, None), "é\n\"": [True, "😀/\x01"], "big": 1 << 64})
        let python = r#"{"a": [1, -0.5, null], "\u00e9\n\"": [true, "\ud83d\ude00/\u0001"], "big": 18446744073709551616}"#;
        assert_eq!(json(&value), python);
    }

    #[test]
    fn floats_look_like_python() {
        // CPython: repr(x)
        let known = [
            (0.0, "0.0"),
            (-0.0, "-0.0"),
            (1e15, "1000000000000000.0"),
            (1e16, "1e+16"),
            (0.0001, "0.0001"),
            (0.00001, "1e-05"),
            (1.5e300, "1.5e+300"),
            (123456.789, "123456.789"),
        ];
        for (value, text) in known {
            assert_eq!(python_repr(value), text);
        }
    }
}
