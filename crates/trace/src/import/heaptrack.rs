//! KDE's heaptrack, numbers in hexadecimal. As it is kept: `s` strings, `i` instructions (with functions, files and lines), `t` calls (an
//! instruction and the call it was in), `a` what is allocated (a size, and from which call), `+` and `-` of those. Raw: `t`, and `+` and `-` with
//! addresses. `c` says how many milliseconds have passed.
//!
//! A file that is not raw does not say which block is freed, only of which size and from where it was: the youngest of those is
//! taken. Neither says that a block was resized: there it is freed, and another allocated.

use std::collections::HashMap;
use std::io::Write;

use super::book::Book;
use super::lines::cut;
use super::{ImportError, Line};
use crate::sites::SiteId;

/// The most that strings, instructions and calls may take, in bytes.
const LIMIT: usize = 256 << 20;

/// What one of them takes besides its text, about.
const ENTRY: usize = 64;

/// The most stack frames of a call site that are kept.
const DEEPEST: usize = 128;

/// The most functions of one instruction, all but the last inlined there.
const INLINED: usize = 16;

/// A place in the program, by numbers of strings from 1, 0 where it is not known.
#[derive(Clone, Copy, Default)]
struct Place {
    function: u64,
    file: u64,
    line: u64,
}

struct Instruction {
    address: u64,
    module: u64,
    /// Where it is; functions that are inlined there come first.
    places: Vec<Place>,
    named: bool,
}

/// An instruction, and the call in which it is; both by number from 1.
struct Call {
    instruction: u64,
    caller: u64,
    site: Site,
}

#[derive(Clone, Copy)]
enum Site {
    Undefined,
    Defined(Option<SiteId>),
}

/// What has been defined so far.
#[derive(Default)]
pub(super) struct Heaptrack {
    /// Strings have their lengths in front.
    sized: bool,
    strings: Vec<String>,
    instructions: Vec<Instruction>,
    calls: Vec<Call>,
    /// What is allocated: its size and its call.
    kinds: Vec<(u64, u64)>,
    /// The live blocks of each kind.
    live: HashMap<u64, Vec<u64>>,
    blocks: u64,
    held: usize,
}

fn hexadecimal(text: &str) -> Option<u64> {
    u64::from_str_radix(text, 16).ok()
}

impl Heaptrack {
    pub(super) fn read<W: Write>(&mut self, line: &str, book: &mut Book<'_, W>) -> Result<Line, ImportError> {
        let (mode, rest) = line.split_once(' ').unwrap_or((line, ""));
        match mode {
            // What it found out about itself, its machine and its memory.
            "" | "#" | "A" | "I" | "R" | "S" | "m" | "x" => return Ok(Line::PassedOver),
            "X" => {
                book.tell("command", rest)?;
                return Ok(Line::PassedOver);
            }
            "s" => return self.string(rest),
            _ => {}
        }
        let Some(numbers) = rest.split_whitespace().map(hexadecimal).collect::<Option<Vec<u64>>>() else {
            return Ok(Line::NotUnderstood);
        };
        match (mode, &numbers[..]) {
            ("v", [_, version @ ..]) => {
                self.sized = version.first().is_some_and(|&version| version >= 3);
                Ok(Line::PassedOver)
            }
            ("i", [address, module, places @ ..]) => self.instruction(*address, *module, places),
            ("t", [instruction, caller]) => self.call(*instruction, *caller),
            ("a", [size, call]) => self.kind(*size, *call),
            ("c", [milliseconds]) => {
                book.at(milliseconds.saturating_mul(1_000_000));
                Ok(Line::PassedOver)
            }
            ("+", [kind]) => self.allocate(*kind, book),
            ("-", [kind]) if !self.kinds.is_empty() => self.free(*kind, book),
            ("+", [size, call, address]) => {
                self.at_call(*call, book)?;
                book.malloc(*address, *size)
            }
            ("-", [address]) => book.free(*address),
            _ => Ok(Line::NotUnderstood),
        }
    }

    /// Names the stack frames that were used.
    pub(super) fn finish<W: Write>(&self, book: &mut Book<'_, W>) -> Result<(), ImportError> {
        for instruction in self.instructions.iter().filter(|instruction| instruction.named) {
            let places: Vec<String> = instruction.places.iter().map(|&place| self.place(place)).collect();
            if !places.is_empty() {
                book.name_frame(&self.frame(instruction), cut(&places.join(" in ")))?;
            }
        }
        Ok(())
    }

    fn hold(&mut self, bytes: usize) -> Result<Line, ImportError> {
        self.held += bytes;
        if self.held <= LIMIT { Ok(Line::PassedOver) } else { Err(ImportError::TooMuch { what: "strings and calls" }) }
    }

    fn string(&mut self, rest: &str) -> Result<Line, ImportError> {
        let text = if self.sized { rest.split_once(' ').map_or("", |(_, text)| text) } else { rest };
        self.strings.push(text.to_owned());
        self.hold(ENTRY + text.len())
    }

    fn instruction(&mut self, address: u64, module: u64, places: &[u64]) -> Result<Line, ImportError> {
        let (triples, rest) = places.as_chunks::<3>();
        // A function alone has no file.
        let lone = rest.first().map(|&function| Place { function, ..Place::default() });
        let places = triples.iter().map(|&[function, file, line]| Place { function, file, line });
        let places: Vec<Place> = places.chain(lone).take(INLINED).collect();
        let bytes = ENTRY + places.len() * size_of::<Place>();
        self.instructions.push(Instruction { address, module, places, named: false });
        self.hold(bytes)
    }

    fn call(&mut self, instruction: u64, caller: u64) -> Result<Line, ImportError> {
        self.calls.push(Call { instruction, caller, site: Site::Undefined });
        self.hold(ENTRY)
    }

    fn kind(&mut self, size: u64, call: u64) -> Result<Line, ImportError> {
        self.kinds.push((size, call));
        self.hold(ENTRY)
    }

    fn allocate<W: Write>(&mut self, kind: u64, book: &mut Book<'_, W>) -> Result<Line, ImportError> {
        let Some(&(size, call)) = usize::try_from(kind).ok().and_then(|kind| self.kinds.get(kind)) else {
            return Ok(Line::NotUnderstood);
        };
        self.at_call(call, book)?;
        self.blocks += 1;
        self.live.entry(kind).or_default().push(self.blocks);
        book.malloc(self.blocks, size)
    }

    fn free<W: Write>(&mut self, kind: u64, book: &mut Book<'_, W>) -> Result<Line, ImportError> {
        // No block is called 0.
        let block = self.live.get_mut(&kind).and_then(Vec::pop).unwrap_or(0);
        book.free(block)
    }

    /// The next request comes from there.
    fn at_call<W: Write>(&mut self, number: u64, book: &mut Book<'_, W>) -> Result<(), ImportError> {
        let Some(at) = index(number).filter(|&at| at < self.calls.len()) else { return Ok(()) };
        if let Site::Undefined = self.calls[at].site {
            let frames = self.frames(number);
            let frames: Vec<&str> = frames.iter().map(String::as_str).collect();
            self.calls[at].site = Site::Defined(book.define_site(&frames)?);
        }
        match self.calls[at].site {
            Site::Defined(site) => book.at_site(site),
            Site::Undefined => Ok(()),
        }
    }

    /// The stack frames of a call, the innermost first.
    fn frames(&mut self, mut number: u64) -> Vec<String> {
        let mut frames = Vec::new();
        while let Some(call) = index(number).and_then(|at| self.calls.get(at))
            && frames.len() < DEEPEST
        {
            // In a raw file this is an address.
            let text = match index(call.instruction).and_then(|at| self.instructions.get(at)) {
                Some(instruction) => self.frame(instruction),
                None => format!("{:#x}", call.instruction),
            };
            frames.push(text);
            let (instruction, caller) = (call.instruction, call.caller);
            if let Some(instruction) = index(instruction).and_then(|at| self.instructions.get_mut(at)) {
                instruction.named = true;
            }
            number = caller;
        }
        frames
    }

    fn frame(&self, instruction: &Instruction) -> String {
        let module = file_name(self.text(instruction.module));
        format!("{}@{:#x}", cut(module), instruction.address)
    }

    fn place(&self, place: Place) -> String {
        let function = cut(self.text(place.function));
        match file_name(self.text(place.file)) {
            "" => function.to_owned(),
            file => format!("{function} {}:{}", cut(file), place.line),
        }
    }

    fn text(&self, number: u64) -> &str {
        index(number).and_then(|at| self.strings.get(at)).map_or("", String::as_str)
    }
}

/// Numbers begin with 1.
fn index(number: u64) -> Option<usize> {
    usize::try_from(number.checked_sub(1)?).ok()
}

fn file_name(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}
