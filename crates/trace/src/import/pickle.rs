//! Reads pickles of plain values: none, numbers, texts, lists and dictionaries.
//!
//! A pickle is a program for a stack machine that creates objects and may call any function. This machine creates
//! values only and rejects calls. Its stack refers to lists and dictionaries by number: nothing is copied and no
//! reference is followed, so that time and memory are proportional to the length of the pickle, for malicious pickles
//! too.

use std::collections::HashMap;
use std::io::{self, BufRead, Read};

use super::ImportError;

/// The memory limit of all values, in bytes.
const LIMIT: u64 = 4 << 30;

/// The limit of a line, such as a number in digits, in bytes.
const LONGEST_LINE: u64 = 1 << 16;

/// The number of keys of a dictionary that a lookup examines, those set last. Bounds the time for a huge dictionary.
const KEYS: usize = 256;

#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Value {
    Nothing,
    Bool(bool),
    /// An integer, truncated to 64 bits.
    Int(i64),
    Float(f64),
    Text(u32),
    /// A list, tuple or set.
    List(u32),
    Dict(u32),
}

/// The values of a pickle by number.
#[derive(Default)]
pub(super) struct Values {
    texts: Vec<String>,
    lists: Vec<Vec<Value>>,
    dicts: Vec<Vec<(Value, Value)>>,
}

impl Values {
    pub(super) fn text(&self, value: Value) -> Option<&str> {
        let Value::Text(number) = value else { return None };
        self.texts.get(number as usize).map(String::as_str)
    }

    pub(super) fn list(&self, value: Value) -> Option<&[Value]> {
        let Value::List(number) = value else { return None };
        self.lists.get(number as usize).map(Vec::as_slice)
    }

    /// Returns the value of a key of a dictionary.
    pub(super) fn get(&self, value: Value, key: &str) -> Option<Value> {
        let Value::Dict(number) = value else { return None };
        let pairs = self.dicts.get(number as usize)?;
        pairs.iter().rev().take(KEYS).find(|pair| self.text(pair.0) == Some(key)).map(|pair| pair.1)
    }
}

/// Reads a pickle; returns its values and the root value.
pub(super) fn read(source: impl BufRead) -> Result<(Values, Value), ImportError> {
    let mut machine = Machine {
        source,
        offset: 0,
        retained: 0,
        values: Values::default(),
        stack: Vec::new(),
        marks: Vec::new(),
        memo: HashMap::new(),
    };
    match machine.run() {
        Ok(value) => Ok((machine.values, value)),
        Err(Defect::Io(error)) => Err(ImportError::Read(error)),
        Err(Defect::Invalid(what)) => Err(ImportError::Pickle { offset: machine.offset, what }),
    }
}

/// The reason why reading ends early.
enum Defect {
    Io(io::Error),
    /// The pickle is invalid; the text says why.
    Invalid(&'static str),
}

impl From<io::Error> for Defect {
    fn from(error: io::Error) -> Self {
        Defect::Io(error)
    }
}

const CUT_OFF: Defect = Defect::Invalid("it is cut off");
const TOO_MUCH: Defect = Defect::Invalid("its values take more than 4 GiB");
const EMPTY: Defect = Defect::Invalid("it takes a value from an empty stack");
const NO_CONTAINER: Defect = Defect::Invalid("it adds to a value that is not a list or a dictionary of the right kind");
const NO_NUMBER: Defect = Defect::Invalid("a number is missing or invalid");

struct Machine<R> {
    source: R,
    /// The number of bytes read.
    offset: u64,
    /// The approximate memory of the values, in bytes.
    retained: u64,
    values: Values,
    stack: Vec<Value>,
    /// The stack lengths that mark operations have saved.
    marks: Vec<usize>,
    memo: HashMap<u32, Value>,
}

impl<R: BufRead> Machine<R> {
    fn run(&mut self) -> Result<Value, Defect> {
        loop {
            let [operation] = self.bytes()?;
            if operation == b'.' {
                return self.pop();
            }
            self.perform(operation)?;
        }
    }

    fn perform(&mut self, operation: u8) -> Result<(), Defect> {
        match operation {
            b'0' | b'1' | b'2' | b'(' | b'q' | b'r' | b'p' | b'h' | b'j' | b'g' | 0x94 | 0x80 | 0x95 => {
                self.arrange(operation)
            }
            b']' | b')' | 0x8f | b'l' | b't' | 0x91 | 0x85..=0x87 | b'a' | b'e' | 0x90 => self.list(operation),
            b'}' | b'd' | b's' | b'u' => self.dict(operation),
            _ => {
                let value = self.literal(operation)?;
                self.push(value)
            }
        }
    }

    /// Performs an operation on the stack or the memo, or skips one without effect.
    fn arrange(&mut self, operation: u8) -> Result<(), Defect> {
        match operation {
            // The protocol version, and the length of a frame.
            0x80 => self.bytes::<1>().map(drop),
            0x95 => self.bytes::<8>().map(drop),
            b'(' => {
                self.marks.push(self.stack.len());
                self.charge(8)
            }
            b'0' => self.pop().map(drop),
            b'1' => self.pop_to_mark().map(drop),
            b'2' => self.top().and_then(|value| self.push(value)),
            b'q' => self.bytes().and_then(|[number]| self.remember(u32::from(number))),
            b'r' => self.bytes().and_then(|bytes| self.remember(u32::from_le_bytes(bytes))),
            b'p' => self.decimal().and_then(|number| self.remember(number)),
            0x94 => self.remember(self.memo.len() as u32),
            b'h' => self.bytes().and_then(|[number]| self.recall(u32::from(number))),
            b'j' => self.bytes().and_then(|bytes| self.recall(u32::from_le_bytes(bytes))),
            _ => self.decimal().and_then(|number| self.recall(number)),
        }
    }

    fn list(&mut self, operation: u8) -> Result<(), Defect> {
        match operation {
            b']' | b')' | 0x8f => self.push_list(Vec::new()),
            0x85..=0x87 => {
                let start = self.stack.len().checked_sub(usize::from(operation - 0x84)).ok_or(EMPTY)?;
                if self.marks.last().is_some_and(|&mark| start < mark) {
                    return Err(EMPTY);
                }
                let values = self.stack.split_off(start);
                self.push_list(values)
            }
            b'a' => self.pop().and_then(|value| self.append(&[value])),
            b'e' | 0x90 => self.pop_to_mark().and_then(|values| self.append(&values)),
            _ => self.pop_to_mark().and_then(|values| self.push_list(values)),
        }
    }

    fn dict(&mut self, operation: u8) -> Result<(), Defect> {
        match operation {
            b'}' => self.push_dict(&[]),
            b'd' => self.pop_to_mark().and_then(|values| self.push_dict(&values)),
            b's' => {
                let value = self.pop()?;
                let key = self.pop()?;
                self.insert(&[key, value])
            }
            _ => self.pop_to_mark().and_then(|values| self.insert(&values)),
        }
    }

    /// Reads a literal value.
    fn literal(&mut self, operation: u8) -> Result<Value, Defect> {
        Ok(match operation {
            b'N' => Value::Nothing,
            0x88 => Value::Bool(true),
            0x89 => Value::Bool(false),
            b'K' => self.bytes().map(|[byte]| Value::Int(i64::from(byte)))?,
            b'M' => self.bytes().map(|bytes| Value::Int(i64::from(u16::from_le_bytes(bytes))))?,
            b'J' => self.bytes().map(|bytes| Value::Int(i64::from(i32::from_le_bytes(bytes))))?,
            b'G' => self.bytes().map(|bytes| Value::Float(f64::from_be_bytes(bytes)))?,
            0x8a => self.bytes().and_then(|[length]| self.long(u64::from(length)))?,
            0x8b => self.bytes().and_then(|length| self.long(u64::from(u32::from_le_bytes(length))))?,
            b'I' | b'L' => self.integer()?,
            b'F' => self.line()?.parse().map(Value::Float).map_err(|_| NO_NUMBER)?,
            b'S' | b'V' => self.line().and_then(|text| self.text(text))?,
            b'U' | b'C' | 0x8c => self.bytes().and_then(|[length]| self.long_text(u64::from(length)))?,
            b'T' | b'X' | b'B' => {
                self.bytes().and_then(|length| self.long_text(u64::from(u32::from_le_bytes(length))))?
            }
            0x8d | 0x8e | 0x96 => self.bytes().and_then(|length| self.long_text(u64::from_le_bytes(length)))?,
            _ => return Err(Defect::Invalid("it creates objects or calls functions; only plain values are supported")),
        })
    }

    fn charge(&mut self, bytes: usize) -> Result<(), Defect> {
        self.retained += bytes as u64;
        if self.retained <= LIMIT { Ok(()) } else { Err(TOO_MUCH) }
    }

    fn push(&mut self, value: Value) -> Result<(), Defect> {
        self.stack.push(value);
        self.charge(size_of::<Value>())
    }

    fn top(&self) -> Result<Value, Defect> {
        let below = self.marks.last().copied().unwrap_or(0);
        self.stack[below..].last().copied().ok_or(EMPTY)
    }

    fn pop(&mut self) -> Result<Value, Defect> {
        let value = self.top()?;
        self.stack.pop();
        Ok(value)
    }

    fn pop_to_mark(&mut self) -> Result<Vec<Value>, Defect> {
        let mark = self.marks.pop().ok_or(EMPTY)?;
        Ok(self.stack.split_off(mark))
    }

    fn remember(&mut self, number: u32) -> Result<(), Defect> {
        self.memo.insert(number, self.top()?);
        self.charge(4 * size_of::<Value>())
    }

    fn recall(&mut self, number: u32) -> Result<(), Defect> {
        let value = *self.memo.get(&number).ok_or(Defect::Invalid("it recalls a value that is not in the memo"))?;
        self.push(value)
    }

    fn push_list(&mut self, values: Vec<Value>) -> Result<(), Defect> {
        self.charge(size_of::<Vec<Value>>() + size_of_val(&values[..]))?;
        self.values.lists.push(values);
        self.push(Value::List(self.values.lists.len() as u32 - 1))
    }

    fn push_dict(&mut self, values: &[Value]) -> Result<(), Defect> {
        self.charge(size_of::<Vec<Value>>())?;
        self.values.dicts.push(Vec::new());
        self.push(Value::Dict(self.values.dicts.len() as u32 - 1))?;
        self.insert(values)
    }

    /// Appends to the list on top of the stack.
    fn append(&mut self, values: &[Value]) -> Result<(), Defect> {
        let Value::List(number) = self.top()? else { return Err(NO_CONTAINER) };
        self.charge(size_of_val(values))?;
        self.values.lists[number as usize].extend_from_slice(values);
        Ok(())
    }

    /// Adds alternating keys and values to the dictionary on top of the stack.
    fn insert(&mut self, values: &[Value]) -> Result<(), Defect> {
        let Value::Dict(number) = self.top()? else { return Err(NO_CONTAINER) };
        let (pairs, []) = values.as_chunks::<2>() else { return Err(Defect::Invalid("a key has no value")) };
        self.charge(size_of_val(values))?;
        self.values.dicts[number as usize].extend(pairs.iter().map(|&[key, value]| (key, value)));
        Ok(())
    }

    fn bytes<const N: usize>(&mut self) -> Result<[u8; N], Defect> {
        let mut bytes = [0; N];
        match self.source.read_exact(&mut bytes) {
            Ok(()) => {
                self.offset += N as u64;
                Ok(bytes)
            }
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Err(CUT_OFF),
            Err(error) => Err(error.into()),
        }
    }

    /// Reads `length` bytes. Does not allocate more than the source has, nor more than the limit.
    fn many(&mut self, length: u64) -> Result<Vec<u8>, Defect> {
        let mut bytes = Vec::new();
        let left = LIMIT.saturating_sub(self.retained);
        (&mut self.source).take(length.min(left)).read_to_end(&mut bytes)?;
        self.offset += bytes.len() as u64;
        match bytes.len() as u64 {
            read if read == length => Ok(bytes),
            read if read == left => Err(TOO_MUCH),
            _ => Err(CUT_OFF),
        }
    }

    /// Reads an integer of `length` bytes, lowest first.
    fn long(&mut self, length: u64) -> Result<Value, Defect> {
        let bytes = self.many(length)?;
        let sign = if bytes.last().is_some_and(|&byte| byte >= 0x80) { 0xff } else { 0 };
        let mut whole = [sign; 8];
        whole.iter_mut().zip(&bytes).for_each(|(to, &from)| *to = from);
        Ok(Value::Int(i64::from_le_bytes(whole)))
    }

    fn line(&mut self) -> Result<String, Defect> {
        let mut bytes = Vec::new();
        (&mut self.source).take(LONGEST_LINE).read_until(b'\n', &mut bytes)?;
        self.offset += bytes.len() as u64;
        match bytes.pop() {
            Some(b'\n') => Ok(String::from_utf8_lossy(&bytes).into_owned()),
            _ => Err(CUT_OFF),
        }
    }

    fn decimal(&mut self) -> Result<u32, Defect> {
        self.line()?.trim().parse().map_err(|_| NO_NUMBER)
    }

    fn integer(&mut self) -> Result<Value, Defect> {
        let line = self.line()?;
        match line.trim().trim_end_matches('L') {
            "00" => Ok(Value::Bool(false)),
            "01" => Ok(Value::Bool(true)),
            digits => digits.parse::<i128>().map(|number| Value::Int(number as i64)).map_err(|_| NO_NUMBER),
        }
    }

    fn long_text(&mut self, length: u64) -> Result<Value, Defect> {
        let bytes = self.many(length)?;
        self.text(String::from_utf8_lossy(&bytes).into_owned())
    }

    fn text(&mut self, text: String) -> Result<Value, Defect> {
        self.charge(size_of::<String>() + text.len())?;
        self.values.texts.push(text);
        Ok(Value::Text(self.values.texts.len() as u32 - 1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn number_of(values: &Values, root: Value, key: &str) -> Option<i64> {
        match values.get(root, key) {
            Some(Value::Int(number)) => Some(number),
            _ => None,
        }
    }

    #[test]
    fn a_pickle_of_the_first_protocol() {
        // {'a': [1, 2L], 'b': 'x'} in protocol 0.
        let pickle = b"(dp0\nVa\np1\n(lp2\nI1\naL2L\nasVb\np3\nVx\np4\ns.";
        let (values, root) = read(&pickle[..]).unwrap_or_else(|error| panic!("{error}"));
        let list = values.get(root, "a").unwrap();
        assert_eq!(values.list(list), Some(&[Value::Int(1), Value::Int(2)][..]));
        assert_eq!(values.get(root, "b").and_then(|value| values.text(value)), Some("x"));
    }

    #[test]
    fn integers_of_every_length() {
        let cases: [(&[u8], i64); 7] = [
            (b"K\xff.", 255),
            (b"M\xff\xff.", 65535),
            (b"J\xff\xff\xff\xff.", -1),
            (b"\x8a\x00.", 0),
            (b"\x8a\x02\x00\xff.", -256),
            (b"\x8a\x09\x00\x00\x00\x00\x00\x00\x00\x80\x00.", i64::MIN),
            (b"L12345678901L\n.", 12_345_678_901),
        ];
        for (pickle, expected) in cases {
            assert_eq!(read(pickle).unwrap_or_else(|error| panic!("{error}")).1, Value::Int(expected));
        }
    }

    #[test]
    fn the_last_value_of_a_key_counts() {
        let (values, root) = read(&b"}U\x01aK\x01sU\x01aK\x02s."[..]).unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(number_of(&values, root, "a"), Some(2));
    }

    #[test]
    fn recursive_and_shared_references_take_linear_memory() {
        // A list that contains itself, and a "billion laughs": ten lists, each of which contains the previous one ten
        // times.
        assert!(read(&b"]q\x00h\x00a."[..]).is_ok());
        let mut pickle = b"]q\x00".to_vec();
        for _ in 0..10 {
            pickle
                .extend(b"(hhhhhhhhhh".iter().flat_map(|&byte| if byte == b'h' { vec![b'h', 0] } else { vec![byte] }));
            pickle.extend(b"lq\x00");
        }
        pickle.push(b'.');
        let (values, _) = read(&pickle[..]).unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(values.lists.iter().map(Vec::len).sum::<usize>(), 100);
    }

    #[test]
    fn calls_and_truncated_pickles_are_rejected() {
        let defect = |pickle: &[u8]| match read(pickle) {
            Err(ImportError::Pickle { what, .. }) => what,
            Err(error) => panic!("{error}"),
            Ok(_) => panic!("it was read"),
        };
        assert!(defect(b"cos\nsystem\n(S'ls'\ntR.").contains("calls"));
        assert!(defect(b"\x80\x04\x8c\x02os\x8c\x06system\x93.").contains("calls"));
        assert!(defect(b"\x8d\xff\xff\xff\xff\xff\xff\xff\x7fabc.").contains("cut off"));
        assert!(defect(b"\x80\x04]").contains("cut off"));
        assert!(defect(b"a.").contains("empty stack"));
        assert!(defect(b"K\x01K\x02a.").contains("not a list"));
        assert!(defect(b"(K\x01d.").contains("no value"));
        assert!(defect(b"K\x01(0.").contains("empty stack"));
        assert!(defect(b"h\x07.").contains("recalls"));
        assert!(defect(b"]K\x01K\x02s.").contains("not a list"));
    }
}
