//! Any [`Value`] as a pickle, byte for byte as CPython's C pickler or PyTorch's C++ pickler writes it.
//!
//! The two differ in what "the same object" means. CPython memoises every string and container by identity
//! (`""`, one-character Latin-1 strings and the empty tuple exist only once). C++ memoises strings by value,
//! and containers only if something else refers to them. A snapshot's C++ code keeps references of its own:
//! to the dicts that get their `frames` later, to the frames lists, to the settings, and to the top of the
//! tree (seen in a real file); those are memoised too.

use std::collections::HashMap;
use std::sync::Arc;

pub use crate::encode::Dialect;
use crate::encode::{Encoder, Kind};
use crate::value::Value;

/// The value as a pickle of this dialect.
pub fn pickle(value: &Value, dialect: Dialect) -> Vec<u8> {
    let encoder = Encoder::new(Vec::new(), dialect).unwrap();
    let mut pickler = Pickler { encoder, memo: HashMap::new(), references: HashMap::new() };
    if pickler.encoder.is_cpp() {
        pickler.count_references(value);
    }
    pickler.save(value, Place::Root);
    pickler.encoder.finish().unwrap()
}

/// What makes two values the same object.
#[derive(PartialEq, Eq, Hash)]
enum Identity {
    Pointer(usize),
    Text(Arc<str>),
}

/// Where a value sits, as far as it decides whether C++ holds a second reference to it.
#[derive(Clone, Copy, PartialEq)]
enum Place {
    Root,
    /// A value of the root dict, such as the list of segments.
    Top,
    /// The value of a `frames` key.
    Frames,
    /// Inside `allocator_settings`.
    Settings,
    Other,
}

impl Place {
    fn below(self, key: &str) -> Self {
        match (self, key) {
            (Self::Root, "allocator_settings") | (Self::Settings, _) => Self::Settings,
            (Self::Root, _) => Self::Top,
            (_, "frames") => Self::Frames,
            _ => Self::Other,
        }
    }
}

struct Pickler {
    encoder: Encoder<Vec<u8>>,
    memo: HashMap<Identity, u32>,
    references: HashMap<usize, usize>,
}

impl Pickler {
    fn count_references(&mut self, value: &Value) {
        let Some(pointer) = pointer(value) else { return };
        let count = self.references.entry(pointer).or_default();
        *count += 1;
        if *count == 1 {
            match value {
                Value::Dict(items) => items.iter().for_each(|(_, value)| self.count_references(value)),
                value => value.items().iter().for_each(|value| self.count_references(value)),
            }
        }
    }

    fn save(&mut self, value: &Value, place: Place) {
        let identity = self.identity(value);
        if let Some(memo) = identity.as_ref().and_then(|identity| self.memo.get(identity)) {
            return self.encoder.get(*memo).unwrap();
        }
        let held = self.encoder.is_cpp() && self.held(value, place);
        let memo = match value {
            Value::None => return self.encoder.none().unwrap(),
            Value::Bool(value) => return self.encoder.bool(*value).unwrap(),
            Value::Int(value) => return self.encoder.int(*value).unwrap(),
            Value::Float(value) => return self.encoder.float(*value).unwrap(),
            Value::Str(text) => Some(self.encoder.string(text).unwrap()),
            Value::Tuple(items) if items.is_empty() => return self.encoder.empty_tuple().unwrap(),
            Value::Tuple(items) => {
                self.encoder.open_tuple(items.len()).unwrap();
                items.iter().for_each(|item| self.save(item, Place::Other));
                self.encoder.close_tuple(items.len(), held)
            }
            Value::List(items) => {
                let mut open = self.encoder.open(Kind::List, items.len()).unwrap();
                for item in items.iter() {
                    self.encoder.item(&mut open);
                    self.save(item, place.below(""));
                }
                self.encoder.close(&open, held).unwrap()
            }
            Value::Dict(items) => {
                let mut open = self.encoder.open(Kind::Dict, items.len()).unwrap();
                for (key, item) in items.iter() {
                    self.encoder.item(&mut open);
                    self.save(key, Place::Other);
                    self.save(item, place.below(if let Value::Str(key) = key { key } else { "" }));
                }
                self.encoder.close(&open, held).unwrap()
            }
        };
        if let (Some(identity), Some(memo)) = (identity, memo) {
            self.memo.insert(identity, memo);
        }
    }
}

impl Pickler {
    fn identity(&self, value: &Value) -> Option<Identity> {
        match value {
            Value::Str(text) if self.encoder.is_cpp() || is_singleton(text) => {
                Some(Identity::Text(text.clone()))
            }
            value => pointer(value).map(Identity::Pointer),
        }
    }

    fn held(&self, value: &Value, place: Place) -> bool {
        let shared = pointer(value).is_some_and(|pointer| self.references.get(&pointer) > Some(&1));
        let filled_later = value.get("frames").is_some_and(|frames| !frames.items().is_empty());
        shared || filled_later || place != Place::Other
    }
}

fn pointer(value: &Value) -> Option<usize> {
    match value {
        Value::None | Value::Bool(_) | Value::Int(_) | Value::Float(_) => None,
        Value::Str(text) => Some(Arc::as_ptr(text).addr()),
        Value::Tuple(items) | Value::List(items) => Some(Arc::as_ptr(items).addr()),
        Value::Dict(items) => Some(Arc::as_ptr(items).addr()),
    }
}

/// CPython has one object for the empty string and one for each Latin-1 character.
fn is_singleton(text: &str) -> bool {
    let mut chars = text.chars();
    chars.next().is_none_or(|c| u32::from(c) < 0x100) && chars.next().is_none()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::value::*;

    fn check(value: &Value, expected: [&[u8]; 5]) {
        for (protocol, expected) in [0, 1, 2, 3, 4].into_iter().zip(expected) {
            assert_eq!(pickle(value, Dialect::Protocol(protocol)), expected, "protocol {protocol}");
        }
    }

    #[test]
    fn one_of_everything_as_cpython_writes_it() {
        let value = Value::list([
            Value::from(1),
            Value::from(2.5),
            Value::from(true),
            Value::None,
            Value::from("a"),
            Value::from("ab\n\\é€😀"),
            Value::tuple([1, 2]),
            Value::tuple::<Value>([]),
            Value::tuple([1, 2, 3, 4]),
        ]);
        // CPython 3.11: pickle.dumps([1, 2.5, True, None, "a", "ab\n\\é€😀", (1, 2), (), (1, 2, 3, 4)], protocol)
        check(&value, [
b"(lp0\nI1\naF2.5\naI01\naNaVa\np1\naVab\\u000a\\u005c\xe9\\u20ac\\U0001f600\np2\na(I1\nI2\ntp3\na(ta(I1\nI2\nI3\nI4\ntp4\na.",
b"]q\x00(K\x01G@\x04\x00\x00\x00\x00\x00\x00I01\nNX\x01\x00\x00\x00aq\x01X\x0d\x00\x00\x00ab\n\\\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80q\x02(K\x01K\x02tq\x03)(K\x01K\x02K\x03K\x04tq\x04e.",
b"\x80\x02]q\x00(K\x01G@\x04\x00\x00\x00\x00\x00\x00\x88NX\x01\x00\x00\x00aq\x01X\x0d\x00\x00\x00ab\n\\\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80q\x02K\x01K\x02\x86q\x03)(K\x01K\x02K\x03K\x04tq\x04e.",
b"\x80\x03]q\x00(K\x01G@\x04\x00\x00\x00\x00\x00\x00\x88NX\x01\x00\x00\x00aq\x01X\x0d\x00\x00\x00ab\n\\\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80q\x02K\x01K\x02\x86q\x03)(K\x01K\x02K\x03K\x04tq\x04e.",
b"\x80\x04\x958\x00\x00\x00\x00\x00\x00\x00]\x94(K\x01G@\x04\x00\x00\x00\x00\x00\x00\x88N\x8c\x01a\x94\x8c\x0dab\n\\\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80\x94K\x01K\x02\x86\x94)(K\x01K\x02K\x03K\x04t\x94e."
        ]);
    }

    #[test]
    fn integers_as_cpython_writes_them() {
        let numbers =
            [-1, 255, 256, 65535, 65536, 2147483647, 2147483648, -2147483648, -2147483649, -129, 1i128 << 63];
        // CPython 3.11: pickle.dumps(numbers, protocol)
        check(&Value::list(numbers), [
b"(lp0\nI-1\naI255\naI256\naI65535\naI65536\naI2147483647\naL2147483648L\naI-2147483648\naL-2147483649L\naI-129\naL9223372036854775808L\na.",
b"]q\x00(J\xff\xff\xff\xffK\xffM\x00\x01M\xff\xffJ\x00\x00\x01\x00J\xff\xff\xff\x7fL2147483648L\nJ\x00\x00\x00\x80L-2147483649L\nJ\x7f\xff\xff\xffL9223372036854775808L\ne.",
b"\x80\x02]q\x00(J\xff\xff\xff\xffK\xffM\x00\x01M\xff\xffJ\x00\x00\x01\x00J\xff\xff\xff\x7f\x8a\x05\x00\x00\x00\x80\x00J\x00\x00\x00\x80\x8a\x05\xff\xff\xff\x7f\xffJ\x7f\xff\xff\xff\x8a\x09\x00\x00\x00\x00\x00\x00\x00\x80\x00e.",
b"\x80\x03]q\x00(J\xff\xff\xff\xffK\xffM\x00\x01M\xff\xffJ\x00\x00\x01\x00J\xff\xff\xff\x7f\x8a\x05\x00\x00\x00\x80\x00J\x00\x00\x00\x80\x8a\x05\xff\xff\xff\x7f\xffJ\x7f\xff\xff\xff\x8a\x09\x00\x00\x00\x00\x00\x00\x00\x80\x00e.",
b"\x80\x04\x95?\x00\x00\x00\x00\x00\x00\x00]\x94(J\xff\xff\xff\xffK\xffM\x00\x01M\xff\xffJ\x00\x00\x01\x00J\xff\xff\xff\x7f\x8a\x05\x00\x00\x00\x80\x00J\x00\x00\x00\x80\x8a\x05\xff\xff\xff\x7f\xffJ\x7f\xff\xff\xff\x8a\x09\x00\x00\x00\x00\x00\x00\x00\x80\x00e."
        ]);
    }

    #[test]
    fn a_shared_object_is_written_once() {
        let shared = Value::list([7]);
        let value = Value::dict([("k", shared.clone()), ("l", shared)]);
        // CPython 3.11: s = [7]; pickle.dumps({"k": s, "l": s}, 4)
        assert_eq!(
            pickle(&value, Dialect::Protocol(4)),
            b"\x80\x04\x95\x14\0\0\0\0\0\0\0}\x94(\x8c\x01k\x94]\x94K\x07a\x8c\x01l\x94h\x02u."
        );
    }

    #[test]
    fn batches_end_as_those_of_cpython() {
        // CPython 3.11: the ends of pickle.dumps([0] * 1001, 2) and of a dict with 1000 items
        assert!(pickle(&Value::list([0; 1001]), Dialect::Protocol(2)).ends_with(b"K\0K\0e(K\0e."));
        assert!(pickle(&Value::list([0; 1000]), Dialect::Protocol(2)).ends_with(b"K\0K\0e."));
        let keys: Vec<String> = (0..1000).map(|i| i.to_string()).collect();
        let dict = Value::dict(keys.iter().map(|key| (key.as_str(), 0)));
        assert!(pickle(&dict, Dialect::Protocol(2)).ends_with(b"K\0u(u."));
    }

    #[test]
    fn frames_are_cut_at_64_kib_and_long_strings_stand_outside() {
        let value = Value::list([Value::from("x".repeat(70_000).as_str()), Value::list([0; 40_000])]);
        let bytes = pickle(&value, Dialect::Protocol(5));
        // What comes before the string is too short for a frame.
        assert_eq!(&bytes[2..11], b"]\x94(X\x70\x11\x01\0x");
        let mut at = 2 + 3 + 5 + 70_000;
        let mut lengths = Vec::new();
        while bytes.get(at) == Some(&0x95) {
            let len = u64::from_le_bytes(bytes[at + 1..at + 9].try_into().unwrap());
            lengths.push(len);
            at += 9 + len as usize;
        }
        // CPython 3.11: the frames that pickletools.genops finds in pickle.dumps(["x" * 70000, [0] * 40000], 5)
        assert_eq!(lengths, [65536, 14549]);
        assert_eq!(at, bytes.len());
    }

    #[test]
    fn cpp_writes_single_batches_and_memoises_late() {
        let stack = frames(&[frame("f", "f.py", 70000)]);
        let value = Value::from(Record::new().set("e", Value::list::<Value>([])).frames(&stack));
        let value = Value::list([value.clone(), Value::list([Value::from(1i64 << 40), Value::from("f")])]);
        let mut expected = b"\x80\x02](}(X\x01\0\0\0eq\0](eX\x06\0\0\0framesq\x01]".to_vec();
        expected.extend(b"(}(X\x04\0\0\0nameq\x02X\x01\0\0\0fq\x03X\x08\0\0\0filenameq\x04");
        expected.extend(b"X\x04\0\0\0f.pyq\x05X\x04\0\0\0lineq\x06J\x70\x11\x01\0ueq\x07uq\x08");
        expected.extend(b"](\x8a\x08\0\0\0\0\0\x01\0\0h\x03eq\x09eq\x0a.");
        assert_eq!(pickle(&value, Dialect::Cpp), expected);
    }

    #[test]
    fn tagged_cpp_wraps_every_container() {
        let bytes = pickle(&Value::list([Value::list::<Value>([])]), Dialect::CppTagged);
        let mut expected = b"\x80\x02ctorch.jit._pickle\nrestore_type_tag\nq\0](h\0](e".to_vec();
        expected.extend(b"X\x09\0\0\0List[Any]q\x01\x86Rq\x02eh\x01\x86Rq\x03.");
        assert_eq!(bytes, expected);
    }
}
