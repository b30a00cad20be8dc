//! The stacks of a trace, as lists of frames.

use std::collections::HashMap;

use heapwright_trace::{Reader, SiteId};

use crate::frame::Frame;
use crate::internal::{first_caller, is_allocation, is_internal};
use crate::labels;
use crate::whole_names::{InModule, WholeNames};

/// Which frames a stack keeps.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Kept {
    /// Those of the program: without the innermost ones of allocators and standard libraries.
    #[default]
    Callers,
    /// All.
    All,
}

/// The frame of blocks without a stack.
const UNKNOWN: &str = "(no stack)";

/// The stacks of all sites of a trace. Equal frames have the same number.
pub struct Stacks {
    frames: Vec<Frame>,
    stacks: Vec<Vec<u32>>,
    unknown: [u32; 1],
    kept: Kept,
}

impl Stacks {
    /// Reads the stacks of a trace that has been read to its end, which is where names are.
    pub fn of(trace: &Reader<'_>, kept: Kept) -> Stacks {
        let mut frames = Frames::default();
        let unknown = [frames.number(Frame { function: UNKNOWN.to_owned(), ..Frame::default() })];
        let stacks = trace.all_sites().map(|site| frames.stack(trace, site, kept)).collect();
        let mut stacks = Stacks { frames: frames.all, stacks, unknown, kept };
        let names = WholeNames::of(stacks.frames.iter());
        let whole = stacks.frames.iter().map(|frame| names.name_of(frame, InModule::Same).map(str::to_owned)).collect();
        stacks.rename(whole);
        stacks
    }

    /// Completes the names of functions by those of another recording, perhaps of another build.
    pub fn complete_names_by(&mut self, other: &Stacks) {
        let names = WholeNames::of(other.frames.iter());
        let whole = self.frames.iter().map(|frame| names.name_of(frame, InModule::Any).map(str::to_owned)).collect();
        self.rename(whole);
    }

    /// Gives frames other names of their functions, where there is one.
    fn rename(&mut self, names: Vec<Option<String>>) {
        if names.iter().all(Option::is_none) {
            return;
        }
        let mut frames = Frames::default();
        let renamed = std::mem::take(&mut self.frames).into_iter().zip(names).map(|(frame, name)| match name {
            Some(function) => Frame { function, ..frame },
            None => frame,
        });
        let numbers: Vec<u32> = renamed.map(|frame| frames.number(frame)).collect();
        self.frames = frames.all;
        self.stacks.iter_mut().flatten().for_each(|number| *number = numbers[*number as usize]);
        self.unknown = self.unknown.map(|number| numbers[number as usize]);
    }

    /// Returns the numbers of a site's frames, the innermost first; never empty.
    pub fn numbers(&self, site: Option<SiteId>) -> &[u32] {
        let stack = site.and_then(|site| self.stacks.get(site.index() as usize));
        stack.filter(|stack| !stack.is_empty()).map_or(&self.unknown, |stack| stack)
    }

    /// Returns the frames of a site, the innermost first; never empty.
    pub fn frames(&self, site: Option<SiteId>) -> impl DoubleEndedIterator<Item = &Frame> {
        self.numbers(site).iter().map(|&number| self.frame(number))
    }

    /// Returns the innermost frame of a site.
    pub fn innermost(&self, site: Option<SiteId>) -> &Frame {
        self.frame(self.numbers(site)[0])
    }

    /// Returns the frame by which a site is named: the innermost of the program's own functions. Where those are
    /// Python's, what extensions do for them (an array of NumPy's, say) is theirs.
    pub fn naming(&self, site: Option<SiteId>) -> &Frame {
        let of_python = self.frames(site).find(|frame| self.kept == Kept::Callers && frame.is_python());
        of_python.unwrap_or_else(|| self.innermost(site))
    }

    /// Returns the name of the function of each frame, by its number. Functions of one name in several files have the
    /// file behind it.
    pub fn function_names(&self) -> Vec<String> {
        let mut numbers: HashMap<Frame, usize> = HashMap::new();
        let mut functions: Vec<Frame> = Vec::new();
        let mut function_of = |frame: &Frame| {
            let module = frame.module.clone().filter(|_| frame.file.is_none());
            let function = Frame { line: None, module, ..frame.clone() };
            *numbers.entry(function).or_insert_with_key(|function| {
                functions.push(function.clone());
                functions.len() - 1
            })
        };
        let by_frame: Vec<usize> = self.frames.iter().map(&mut function_of).collect();
        let labels = labels::of(functions.iter().map(std::slice::from_ref));
        let mut times: HashMap<&str, usize> = HashMap::new();
        functions.iter().for_each(|frame| *times.entry(&frame.function).or_default() += 1);
        let name = |at: usize| {
            let function = &functions[at].function;
            if times[function.as_str()] > 1 { labels[at].clone() } else { function.clone() }
        };
        by_frame.into_iter().map(name).collect()
    }

    /// Returns the texts of frames by their numbers; no two of them are equal if the frames' files or modules differ.
    pub fn labels(&self, numbers: &[u32]) -> Vec<String> {
        labels::of(numbers.iter().map(|&number| std::slice::from_ref(self.frame(number))))
    }

    /// Returns the frame of a number.
    pub fn frame(&self, number: u32) -> &Frame {
        &self.frames[number as usize]
    }
}

/// How the names of the functions begin in which CPython runs a program: the loop, or since 3.14 one function per
/// instruction where the compiler has such calls.
const LOOPS: [&str; 2] = ["_PyEval_EvalFrame", "_TAIL_CALL_"];

/// What a frame is in a stack.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// A function by which a language requests memory.
    Allocation,
    /// A function of an allocator or a standard library.
    Internal,
    /// A function of the Python interpreter.
    Interpreter,
    /// A function of a Python program.
    Python,
    Other,
}

impl Kind {
    fn of(frame: &Frame) -> Kind {
        match frame {
            _ if frame.is_python() => Kind::Python,
            _ if is_allocation(frame) => Kind::Allocation,
            _ if is_internal(frame) => Kind::Internal,
            _ if frame.is_interpreter() => Kind::Interpreter,
            _ => Kind::Other,
        }
    }
}

/// Frames by number, while stacks are read.
#[derive(Default)]
struct Frames {
    all: Vec<Frame>,
    kinds: Vec<Kind>,
    numbers: HashMap<Frame, u32>,
    /// The numbers of the frames of each text of the trace, by the text's number; empty while it was not met.
    known: Vec<Vec<u32>>,
}

impl Frames {
    fn number(&mut self, frame: Frame) -> u32 {
        let next = self.all.len() as u32;
        *self.numbers.entry(frame).or_insert_with_key(|frame| {
            self.kinds.push(Kind::of(frame));
            self.all.push(frame.clone());
            next
        })
    }

    fn kind(&self, number: u32) -> Kind {
        self.kinds[number as usize]
    }

    /// Puts the frames of Python functions, which are behind the native ones, in the place of the interpreter's loop
    /// and of what called it.
    fn join_python(&self, stack: &mut Vec<u32>) {
        let Some(python) = stack.iter().position(|&number| self.kind(number) == Kind::Python) else { return };
        let is_loop =
            |&number: &u32| LOOPS.iter().any(|loop_of| self.all[number as usize].function.starts_with(loop_of));
        let native = stack[..python].iter().position(is_loop).unwrap_or(python);
        stack.drain(native..python);
    }

    /// Returns the numbers of the frames that a text of the trace stands for.
    fn of_text(&mut self, trace: &Reader<'_>, number: u32) -> &[u32] {
        let at = number as usize;
        if self.known.get(at).is_none_or(Vec::is_empty) {
            let text = trace.frame_text(number);
            let frames = Frame::of(text, trace.frame_name(text));
            let numbers = frames.into_iter().map(|frame| self.number(frame)).collect();
            self.known.resize_with(self.known.len().max(at + 1), Vec::new);
            self.known[at] = numbers;
        }
        &self.known[at]
    }

    fn stack(&mut self, trace: &Reader<'_>, site: SiteId, kept: Kept) -> Vec<u32> {
        let mut stack = Vec::new();
        for &number in trace.site_frame_numbers(site) {
            stack.extend(self.of_text(trace, number));
        }
        self.join_python(&mut stack);
        if kept == Kept::Callers {
            let is_python = stack.iter().any(|&number| self.kind(number) == Kind::Python);
            let is_caller = |&number: &u32| match self.kind(number) {
                Kind::Allocation | Kind::Internal => false,
                Kind::Interpreter => !is_python,
                Kind::Python | Kind::Other => true,
            };
            let is_allocation = |&number: &u32| self.kind(number) == Kind::Allocation;
            stack.drain(..first_caller(&stack, is_allocation, is_caller));
        }
        stack
    }
}
