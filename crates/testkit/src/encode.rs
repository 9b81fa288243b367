//! The opcode layer under [`crate::pickle`] and [`crate::write`]: what each dialect writes for one integer,
//! one string, the opening and closing of one container.
//!
//! CPython's C pickler is followed to the byte, including what its documentation leaves out: a list of
//! 1001 items ends with a batch of one in MARK/APPENDS (only a list of exactly one item uses APPEND), a dict
//! of exactly 1000 items ends with an empty MARK/SETITEMS, and a FRAME is closed at the first *object* that
//! starts after 64 KiB. The TorchScript pickler never batches, and memoises a container after it is complete.

use std::io::{self, Write};

/// Which program's pickles to write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dialect {
    /// CPython's `pickle.dumps(value, protocol)`, protocols 0 to 5.
    Protocol(u8),
    /// PyTorch's C++ (TorchScript) pickler, as `torch::cuda::_memory_snapshot_pickled` uses it.
    Cpp,
    /// The same with a type tag around every list and dict, as `torch_npu` writes it.
    CppTagged,
}

/// The two kinds of container that are filled item by item.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    List,
    Dict,
}

/// A container between [`Encoder::open`] and [`Encoder::close`].
#[derive(Debug)]
pub(crate) struct Open {
    kind: Kind,
    len: usize,
    done: usize,
    memo: Option<u32>,
}

const BATCH: usize = 1000;
pub(crate) const FRAME_TARGET: usize = 64 * 1024;
const FRAME_MIN: usize = 4;

/// Writes opcodes, numbers the memo, and cuts frames.
pub(crate) struct Encoder<W> {
    out: W,
    /// What is not yet written out: the open frame, if the protocol has frames.
    pub(crate) buffer: Vec<u8>,
    dialect: Dialect,
    protocol: u8,
    next_memo: u32,
    type_tag: Option<u32>,
    tag_names: [Option<u32>; 2],
}

impl<W: Write> Encoder<W> {
    pub(crate) fn new(out: W, dialect: Dialect) -> io::Result<Self> {
        let protocol = match dialect {
            Dialect::Protocol(protocol) => {
                assert!(protocol <= 5, "there is no pickle protocol {protocol}");
                protocol
            }
            Dialect::Cpp | Dialect::CppTagged => 2,
        };
        let buffer = Vec::with_capacity(2 * FRAME_TARGET);
        let mut this =
            Self { out, buffer, dialect, protocol, next_memo: 0, type_tag: None, tag_names: [None; 2] };
        if protocol >= 2 {
            this.out.write_all(&[0x80, protocol])?;
        }
        Ok(this)
    }

    pub(crate) fn is_cpp(&self) -> bool {
        matches!(self.dialect, Dialect::Cpp | Dialect::CppTagged)
    }

    /// STOP, and everything written out.
    pub(crate) fn finish(mut self) -> io::Result<W> {
        self.buffer.push(b'.');
        self.flush_frame()?;
        self.out.flush()?;
        Ok(self.out)
    }

    /// Between two objects: the only place where a frame may end.
    #[inline]
    pub(crate) fn boundary(&mut self) -> io::Result<()> {
        if self.buffer.len() >= FRAME_TARGET { self.flush_frame() } else { Ok(()) }
    }

    fn flush_frame(&mut self) -> io::Result<()> {
        if self.protocol >= 4 && self.buffer.len() >= FRAME_MIN {
            self.out.write_all(&[0x95])?;
            self.out.write_all(&(self.buffer.len() as u64).to_le_bytes())?;
        }
        self.out.write_all(&self.buffer)?;
        self.buffer.clear();
        Ok(())
    }

    pub(crate) fn none(&mut self) -> io::Result<()> {
        self.boundary()?;
        self.buffer.push(b'N');
        Ok(())
    }

    /// The empty tuple, which is never memoised.
    pub(crate) fn empty_tuple(&mut self) -> io::Result<()> {
        self.boundary()?;
        self.buffer.extend(if self.protocol == 0 { b"(t".as_slice() } else { b")" });
        Ok(())
    }

    pub(crate) fn bool(&mut self, value: bool) -> io::Result<()> {
        self.boundary()?;
        if self.protocol >= 2 {
            self.buffer.push(if value { 0x88 } else { 0x89 });
        } else {
            self.buffer.extend(if value { b"I01\n" } else { b"I00\n" });
        }
        Ok(())
    }

    #[inline]
    pub(crate) fn int(&mut self, value: i128) -> io::Result<()> {
        self.boundary()?;
        let is_cpp = self.is_cpp();
        let out = &mut self.buffer;
        if let Ok(small) = i32::try_from(value) {
            let [a, b, c, d] = small.to_le_bytes();
            match small {
                _ if self.protocol == 0 => writeln!(out, "I{small}")?,
                0..=0xff => out.extend([b'K', a]),
                0x100..=0xffff => out.extend([b'M', a, b]),
                _ => out.extend([b'J', a, b, c, d]),
            }
        } else if is_cpp {
            out.extend([0x8a, 8]);
            out.extend((value as i64).to_le_bytes());
        } else if self.protocol < 2 {
            writeln!(out, "L{value}L")?;
        } else {
            let bits = 129 - if value < 0 { value.leading_ones() } else { value.leading_zeros() };
            let len = bits.div_ceil(8) as usize;
            out.extend([0x8a, len as u8]);
            out.extend(&value.to_le_bytes()[..len]);
        }
        Ok(())
    }

    pub(crate) fn float(&mut self, value: f64) -> io::Result<()> {
        self.boundary()?;
        if self.protocol == 0 {
            self.buffer.extend(format!("F{}\n", crate::json::python_repr(value)).bytes());
        } else {
            self.buffer.push(b'G');
            self.buffer.extend(value.to_be_bytes());
        }
        Ok(())
    }

    /// A string that was not written before, and its place in the memo.
    pub(crate) fn string(&mut self, text: &str) -> io::Result<u32> {
        self.boundary()?;
        if self.protocol == 0 {
            self.buffer.push(b'V');
            raw_unicode_escape(text, &mut self.buffer);
            self.buffer.push(b'\n');
            return Ok(self.put());
        }
        // CPython writes a long string outside any frame.
        let alone = self.protocol >= 4 && text.len() >= FRAME_TARGET;
        if alone {
            self.flush_frame()?;
        }
        match u32::try_from(text.len()) {
            Ok(len) if self.protocol >= 4 && len <= 0xff => self.buffer.extend([0x8c, len as u8]),
            Ok(len) => {
                self.buffer.push(b'X');
                self.buffer.extend(len.to_le_bytes());
            }
            Err(_) => {
                self.buffer.push(0x8d);
                self.buffer.extend((text.len() as u64).to_le_bytes());
            }
        }
        if alone {
            self.out.write_all(&self.buffer)?;
            self.buffer.clear();
            self.out.write_all(text.as_bytes())?;
        } else {
            self.buffer.extend(text.as_bytes());
        }
        Ok(self.put())
    }

    /// An object that is in the memo.
    #[inline]
    pub(crate) fn get(&mut self, memo: u32) -> io::Result<()> {
        self.boundary()?;
        reference(&mut self.buffer, self.protocol, b"ghj", memo);
        Ok(())
    }

    /// Memoises the object that was just written.
    #[inline]
    pub(crate) fn put(&mut self) -> u32 {
        let memo = self.next_memo;
        self.next_memo += 1;
        if self.protocol >= 4 {
            self.buffer.push(0x94);
        } else {
            reference(&mut self.buffer, self.protocol, b"pqr", memo);
        }
        memo
    }

    /// Starts a container that will have `len` items (or pairs).
    #[inline]
    pub(crate) fn open(&mut self, kind: Kind, len: usize) -> io::Result<Open> {
        self.boundary()?;
        if self.dialect == Dialect::CppTagged {
            match self.type_tag {
                Some(memo) => self.get(memo)?,
                None => {
                    self.buffer.extend(b"ctorch.jit._pickle\nrestore_type_tag\n");
                    self.type_tag = Some(self.put());
                }
            }
        }
        match kind {
            _ if self.protocol == 0 => self.buffer.extend(if kind == Kind::List { b"(l" } else { b"(d" }),
            Kind::List => self.buffer.push(b']'),
            Kind::Dict => self.buffer.push(b'}'),
        }
        let mut memo = None;
        if self.is_cpp() {
            self.buffer.push(b'(');
        } else {
            memo = Some(self.put());
        }
        Ok(Open { kind, len, done: 0, memo })
    }

    /// Before each item (or pair).
    #[inline]
    pub(crate) fn item(&mut self, open: &mut Open) {
        if !self.is_cpp() {
            if self.protocol == 0 {
                if open.done > 0 {
                    self.buffer.push(if open.kind == Kind::List { b'a' } else { b's' });
                }
            } else if open.len > 1 && open.done.is_multiple_of(BATCH) {
                if open.done > 0 {
                    self.buffer.push(if open.kind == Kind::List { b'e' } else { b'u' });
                }
                self.buffer.push(b'(');
            }
        }
        open.done += 1;
    }

    /// All items of a list of at most [`BATCH`], already encoded by [`Encoder::gets`].
    #[inline]
    pub(crate) fn items(&mut self, open: &mut Open, count: usize, encoded: &[u8]) {
        if count > 0 {
            self.item(open);
            open.done = count;
            self.buffer.extend_from_slice(encoded);
        }
    }

    /// What [`Encoder::get`] writes for these; not in protocol 0, where every item needs an APPEND.
    pub(crate) fn gets(&self, memos: impl Iterator<Item = u32>) -> Option<Box<[u8]>> {
        let mut out = Vec::new();
        memos.for_each(|memo| reference(&mut out, self.protocol, b"ghj", memo));
        (self.protocol > 0).then(|| out.into())
    }

    /// After the last item. `held` says whether C++ keeps a second reference to the container, and so memoises
    /// it. Returns its place in the memo, if it has one.
    #[inline]
    pub(crate) fn close(&mut self, open: &Open, held: bool) -> io::Result<Option<u32>> {
        assert_eq!(open.done, open.len, "a container got another number of items than announced");
        let list = open.kind == Kind::List;
        let (one, many) = if list { (b'a', b'e') } else { (b's', b'u') };
        if self.is_cpp() {
            self.buffer.push(many);
            if self.dialect == Dialect::CppTagged {
                let name = usize::from(list);
                match self.tag_names[name] {
                    Some(memo) => self.get(memo)?,
                    None => self.tag_names[name] = Some(self.string(["Dict[Any, Any]", "List[Any]"][name])?),
                }
                self.buffer.extend(b"\x86R");
            }
            return Ok(held.then(|| self.put()));
        }
        match open.len {
            0 => {}
            1 => self.buffer.push(one),
            _ if self.protocol == 0 => self.buffer.push(one),
            _ => {
                self.buffer.push(many);
                if !list && open.len.is_multiple_of(BATCH) {
                    self.buffer.extend([b'(', many]);
                }
            }
        }
        Ok(open.memo)
    }

    /// Before the items of a tuple.
    pub(crate) fn open_tuple(&mut self, len: usize) -> io::Result<()> {
        self.boundary()?;
        if self.protocol < 2 || len > 3 {
            self.buffer.push(b'(');
        }
        Ok(())
    }

    /// After the items of a tuple that is not empty; as for [`Encoder::close`].
    pub(crate) fn close_tuple(&mut self, len: usize, held: bool) -> Option<u32> {
        let short = if self.protocol >= 2 { len } else { 0 };
        self.buffer.push(match short {
            1 => 0x85,
            2 => 0x86,
            3 => 0x87,
            _ => b't',
        });
        (held || !self.is_cpp()).then(|| self.put())
    }
}

/// A memo opcode: its text form, its form for one byte, and that for four.
#[inline]
fn reference(out: &mut Vec<u8>, protocol: u8, [text, short, long]: &[u8; 3], memo: u32) {
    if protocol == 0 {
        out.push(*text);
        out.extend(format!("{memo}\n").bytes());
    } else if let Ok(memo) = u8::try_from(memo) {
        out.extend([*short, memo]);
    } else {
        let [a, b, c, d] = memo.to_le_bytes();
        out.extend([*long, a, b, c, d]);
    }
}

/// The text form of protocol 0: Latin-1 bytes as they are, everything else (and what would end the line) escaped.
fn raw_unicode_escape(text: &str, out: &mut Vec<u8>) {
    for c in text.chars() {
        match u32::from(c) {
            code @ 0x10000.. => out.extend(format!("\\U{code:08x}").bytes()),
            code @ (0 | 0x0a | 0x0d | 0x1a | 0x5c | 0x100..) => out.extend(format!("\\u{code:04x}").bytes()),
            code => out.push(code as u8),
        }
    }
}
