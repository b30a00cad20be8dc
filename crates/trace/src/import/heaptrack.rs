//! KDE's heaptrack, numbers in hexadecimal. An interpreted file has: `s` a string, `i` an instruction (with functions,
//! files and lines), `t` a call (an instruction and the enclosing call), `a` an allocation kind (a size and a call),
//! `+` and `-` an allocation and a free of a kind. A raw file has `t`, and `+` and `-` with addresses. `c` gives the
//! time in milliseconds.
//!
//! An interpreted file identifies a freed block only by its kind: the youngest live block of that kind is freed.
//! Neither form has resizes: a resize appears as a free and an allocation.

use std::collections::HashMap;
use std::io::Write;

use super::ImportError;
use super::ledger::Ledger;
use super::limits::{DEEPEST, LIMIT};
use super::lines::{Line, cut, file_name};
use crate::sites::SiteId;

/// The approximate memory of one of these without its text, in bytes.
const ENTRY: usize = 64;

/// The limit of functions of one instruction; all but the last are inlined there.
const INLINED: usize = 16;

/// A source location, by numbers of strings from 1; 0 if unknown.
#[derive(Clone, Copy, Default)]
struct Place {
    function: u64,
    file: u64,
    line: u64,
}

struct Instruction {
    address: u64,
    module: u64,
    /// The source locations of the instruction, those of inlined functions first.
    places: Vec<Place>,
    /// Whether a call site uses the instruction, so that its stack frame needs a name.
    named: bool,
}

/// An instruction and the call that encloses it, both by number from 1.
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

/// The definitions read so far.
#[derive(Default)]
pub(super) struct Heaptrack {
    /// Whether a string is preceded by its length.
    sized: bool,
    strings: Vec<String>,
    instructions: Vec<Instruction>,
    calls: Vec<Call>,
    /// The allocation kinds: size and call.
    kinds: Vec<(u64, u64)>,
    /// The live blocks of each kind.
    live: HashMap<u64, Vec<u64>>,
    blocks: u64,
    retained: usize,
}

fn hexadecimal(text: &str) -> Option<u64> {
    u64::from_str_radix(text, 16).ok()
}

impl Heaptrack {
    pub(super) fn read<W: Write>(&mut self, line: &str, ledger: &mut Ledger<'_, W>) -> Result<Line, ImportError> {
        let (mode, rest) = line.split_once(' ').unwrap_or((line, ""));
        match mode {
            // Facts about heaptrack itself, the machine and its memory.
            "" | "#" | "A" | "I" | "R" | "S" | "m" | "x" => return Ok(Line::PassedOver),
            "X" => {
                ledger.add_text("command", rest)?;
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
                ledger.at(milliseconds.saturating_mul(1_000_000));
                Ok(Line::PassedOver)
            }
            ("+", [kind]) => self.allocate(*kind, ledger),
            ("-", [kind]) if !self.kinds.is_empty() => self.free(*kind, ledger),
            ("+", [size, call, address]) => {
                self.at_call(*call, ledger)?;
                ledger.malloc(*address, *size)
            }
            ("-", [address]) => ledger.free(*address),
            _ => Ok(Line::NotUnderstood),
        }
    }

    /// Adds the names of all stack frames that call sites use.
    pub(super) fn finish<W: Write>(&self, ledger: &mut Ledger<'_, W>) -> Result<(), ImportError> {
        for instruction in self.instructions.iter().filter(|instruction| instruction.named) {
            let places: Vec<String> = instruction.places.iter().map(|&place| self.place(place)).collect();
            if !places.is_empty() {
                ledger.name_frame(&self.frame(instruction), &places.join(" in "))?;
            }
        }
        Ok(())
    }

    fn charge(&mut self, bytes: usize) -> Result<Line, ImportError> {
        self.retained += bytes;
        if self.retained <= LIMIT {
            Ok(Line::PassedOver)
        } else {
            Err(ImportError::TooMuch { what: "strings and calls" })
        }
    }

    fn string(&mut self, rest: &str) -> Result<Line, ImportError> {
        let text = if self.sized { rest.split_once(' ').map_or("", |(_, text)| text) } else { rest };
        self.strings.push(text.to_owned());
        self.charge(ENTRY + text.len())
    }

    fn instruction(&mut self, address: u64, module: u64, places: &[u64]) -> Result<Line, ImportError> {
        let (triples, rest) = places.as_chunks::<3>();
        // A single number is a function without a file.
        let lone = rest.first().map(|&function| Place { function, ..Place::default() });
        let places = triples.iter().map(|&[function, file, line]| Place { function, file, line });
        let places: Vec<Place> = places.chain(lone).take(INLINED).collect();
        let bytes = ENTRY + places.len() * size_of::<Place>();
        self.instructions.push(Instruction { address, module, places, named: false });
        self.charge(bytes)
    }

    fn call(&mut self, instruction: u64, caller: u64) -> Result<Line, ImportError> {
        self.calls.push(Call { instruction, caller, site: Site::Undefined });
        self.charge(ENTRY)
    }

    fn kind(&mut self, size: u64, call: u64) -> Result<Line, ImportError> {
        self.kinds.push((size, call));
        self.charge(ENTRY)
    }

    fn allocate<W: Write>(&mut self, kind: u64, ledger: &mut Ledger<'_, W>) -> Result<Line, ImportError> {
        let Some(&(size, call)) = usize::try_from(kind).ok().and_then(|kind| self.kinds.get(kind)) else {
            return Ok(Line::NotUnderstood);
        };
        self.at_call(call, ledger)?;
        self.blocks += 1;
        self.live.entry(kind).or_default().push(self.blocks);
        ledger.malloc(self.blocks, size)
    }

    fn free<W: Write>(&mut self, kind: u64, ledger: &mut Ledger<'_, W>) -> Result<Line, ImportError> {
        // Blocks are numbered from 1, so that 0 is unknown to the ledger.
        let block = self.live.get_mut(&kind).and_then(Vec::pop).unwrap_or(0);
        ledger.free(block)
    }

    /// Sets the call site of the next request.
    fn at_call<W: Write>(&mut self, number: u64, ledger: &mut Ledger<'_, W>) -> Result<(), ImportError> {
        let Some(at) = index(number).filter(|&at| at < self.calls.len()) else { return Ok(()) };
        if let Site::Undefined = self.calls[at].site {
            let frames = self.frames(number);
            let frames: Vec<&str> = frames.iter().map(String::as_str).collect();
            self.calls[at].site = Site::Defined(ledger.define_site(&frames)?);
        }
        match self.calls[at].site {
            Site::Defined(site) => ledger.at_site(site),
            Site::Undefined => Ok(()),
        }
    }

    /// Returns the stack frames of a call, the innermost first.
    fn frames(&mut self, mut number: u64) -> Vec<String> {
        let mut frames = Vec::new();
        while let Some(call) = index(number).and_then(|at| self.calls.get(at))
            && frames.len() < DEEPEST
        {
            // In a raw file the instruction is an address.
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

/// Returns the index of a number from 1; `None` for 0.
fn index(number: u64) -> Option<usize> {
    usize::try_from(number.checked_sub(1)?).ok()
}
