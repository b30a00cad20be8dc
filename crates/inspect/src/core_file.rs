//! ELF core files, of x86-64 and aarch64: the memory of a process that has ended.

use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::Path;

use anyhow::{Context, Result, bail};
use heapwright_host::files::{next_data, open_plain};
use heapwright_host::names::Shown;
use heapwright_host::names::printable;
use heapwright_host::target::Thread;

use crate::mappings::{Mapping, without_huge_pages};
use crate::memory::{Memory, PAGE, PageState};

/// Bounds of what a damaged file may claim.
const MOST_SEGMENTS: u64 = 1 << 20;
const LONGEST_NOTES: u64 = 256 << 20;
const MOST_FILES: u64 = 1 << 20;

/// Bytes that are searched for pages of zeroes at a time.
const PART: usize = 1 << 20;

/// Kinds of segments and notes.
const LOAD: u32 = 1;
const NOTE: u32 = 4;
const STATUS: u32 = 1;
const PROGRAM: u32 = 3;
const FILES: u32 = 0x4649_4c45;
const STORAGE_OF_AARCH64: u32 = 0x401;

/// Where a field of a thread's status is: its number, and its registers.
const ID_AT: usize = 32;
const REGISTERS_AT: usize = 112;

/// A processor whose core files can be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Processor {
    X86,
    Aarch64,
}

impl Processor {
    /// Returns which register is the stack pointer.
    fn stack_pointer(self) -> usize {
        match self {
            Processor::X86 => 19,
            Processor::Aarch64 => 31,
        }
    }

    /// Returns which register points to the thread's control block.
    fn control_block(self) -> Option<usize> {
        (self == Processor::X86).then_some(21)
    }
}

/// Memory that a core file contains.
#[derive(Debug)]
struct Load {
    range: Range<u64>,
    access: u32,
    /// Where it lies in the file.
    offset: u64,
    /// Bytes in the file.
    in_file: u64,
    /// Numbers of the pages that are not zero.
    states: Vec<bool>,
}

/// An ELF core file.
#[derive(Debug)]
pub struct Core {
    file: File,
    loads: Vec<Load>,
    names: Vec<(Range<u64>, String)>,
    /// The threads of the process.
    pub threads: Vec<Thread>,
    /// The name of the program.
    pub program: String,
    /// The number of the process.
    pub pid: u32,
    /// Bytes that the file should have and does not.
    pub missing: u64,
}

impl Core {
    /// Reads the core file at `path`.
    ///
    /// # Errors
    /// When it cannot be read, is no core file, or is one of another kind of machine.
    pub fn open(path: &Path) -> Result<Core> {
        let file = open_plain(path).with_context(|| format!("cannot read {}", path.shown()))?;
        Core::read(file).with_context(|| format!("{}", path.shown()))
    }

    fn read(file: File) -> Result<Core> {
        let length = file.metadata()?.len();
        let header = bytes(&file, 0, 64).ok().context("no core file: it is shorter than the header of one")?;
        let processor = processor(&header)?;
        let mut core = Core {
            file,
            loads: Vec::new(),
            names: Vec::new(),
            threads: Vec::new(),
            program: String::new(),
            pid: 0,
            missing: 0,
        };
        for segment in core.segments(&header)? {
            let (kind, access) = (u32_at(&segment, 0), u32_at(&segment, 4));
            let [offset, start, in_file, in_memory] = [8, 16, 32, 40].map(|at| u64_at(&segment, at));
            let there = in_file.min(length.saturating_sub(offset));
            core.missing = core.missing.saturating_add(in_file - there);
            match kind {
                NOTE if there > LONGEST_NOTES => bail!("the core file is damaged: its notes have {there} bytes"),
                NOTE => {
                    let notes = bytes(&core.file, offset, there as usize)?;
                    core.take_notes(&notes, processor);
                }
                LOAD => core.add_load(offset, start, there, in_memory, access)?,
                _ => {}
            }
        }
        if core.loads.is_empty() {
            bail!("the core file has no memory: it is truncated, or was written without");
        }
        core.loads.sort_by_key(|load| load.range.start);
        if core.loads.windows(2).any(|pair| pair[1].range.start < pair[0].range.end) {
            bail!("the core file is damaged: parts of its memory overlap");
        }
        Ok(core)
    }

    /// Reads the headers of the segments.
    fn segments(&self, header: &[u8]) -> Result<Vec<[u8; 56]>> {
        let (table, sections) = (u64_at(header, 32), u64_at(header, 40));
        let mut count = u64::from(u16_at(header, 56));
        // More do not fit, and the first section has their number.
        if count == 0xffff {
            let section = bytes(&self.file, sections, 64).context("the core file is truncated: it has no sections")?;
            count = u64::from(u32_at(&section, 44));
        }
        if u16_at(header, 54) != 56 || count > MOST_SEGMENTS {
            bail!("the core file is damaged: it has {count} segments of {} bytes", u16_at(header, 54));
        }
        let table = bytes(&self.file, table, count as usize * 56);
        Ok(table.context("the core file is truncated: it has no table of segments")?.as_chunks().0.to_vec())
    }

    fn add_load(&mut self, offset: u64, start: u64, in_file: u64, in_memory: u64, access: u32) -> Result<()> {
        let end = start.checked_add(in_memory.max(in_file)).filter(|_| start.is_multiple_of(PAGE));
        let end = end.context("the core file is damaged: memory lies behind the last address")?;
        let offset_end = offset.checked_add(in_file).context("the core file is damaged: offsets are too long")?;
        let mut states = vec![false; in_file.div_ceil(PAGE) as usize];
        let mut at = offset;
        while let Some(data) = next_data(&self.file, at).filter(|data| data.start < offset_end) {
            self.find_pages(offset, data.start.max(offset)..data.end.min(offset_end), &mut states)?;
            at = data.end;
        }
        self.loads.push(Load { range: start..end, access, offset, in_file, states });
        Ok(())
    }

    /// Marks the pages of a part of the file that are not zero.
    fn find_pages(&self, offset: u64, data: Range<u64>, states: &mut [bool]) -> io::Result<()> {
        // Whole pages of the segment.
        let mut at = offset + (data.start - offset) / PAGE * PAGE;
        while at < data.end {
            let part = bytes(&self.file, at, (data.end - at).min(PART as u64) as usize)?;
            for (page, bytes) in part.chunks(PAGE as usize).enumerate() {
                let number = ((at - offset) / PAGE) as usize + page;
                states[number] |= bytes.iter().any(|byte| *byte != 0);
            }
            at += PART as u64;
        }
        Ok(())
    }

    fn take_notes(&mut self, notes: &[u8], processor: Processor) {
        let mut at: usize = 0;
        while let Some(header) = notes.get(at..at.saturating_add(12)) {
            let [name, length, kind] = [0, 4, 8].map(|at| u32_at(header, at) as usize);
            let start = at + 12 + name.next_multiple_of(4);
            let Some(note) = notes.get(start..start.saturating_add(length)) else { break };
            self.take_note(kind as u32, note, processor);
            at = start + length.next_multiple_of(4);
        }
    }

    fn take_note(&mut self, kind: u32, note: &[u8], processor: Processor) {
        match kind {
            STATUS if note.len() >= REGISTERS_AT + 8 * 34 || note.len() >= REGISTERS_AT + 8 * 27 => {
                let id = u32_at(note, ID_AT);
                let register = |number: usize| {
                    let at = REGISTERS_AT + 8 * number;
                    (at + 8 <= note.len()).then(|| u64_at(note, at))
                };
                let control_block = processor.control_block().and_then(register);
                let stack_pointer = register(processor.stack_pointer());
                let name = String::new();
                self.threads.push(Thread { id, id_inside: id, name, stack_pointer, control_block });
            }
            PROGRAM if note.len() >= 56 => {
                self.pid = u32_at(note, 24);
                let name = note[40..56].split(|byte| *byte == 0).next().unwrap_or_default();
                self.program = printable(name);
            }
            FILES => self.names = files(note).unwrap_or_default(),
            STORAGE_OF_AARCH64 if processor == Processor::Aarch64 && note.len() >= 8 => {
                if let Some(thread) = self.threads.last_mut() {
                    thread.control_block = Some(u64_at(note, 0));
                }
            }
            _ => {}
        }
    }

    /// Returns the mappings. Pages of zeroes count as not in memory.
    pub fn mappings(&self) -> Vec<Mapping> {
        let mapping = |load: &Load| {
            let name = self.names.iter().find(|(range, _)| range.contains(&load.range.start));
            let is_stack = self.threads.first().and_then(|thread| thread.stack_pointer);
            let is_stack = is_stack.is_some_and(|pointer| load.range.contains(&pointer));
            let bit = |bit: u32, letter: char| if load.access & bit != 0 { letter } else { '-' };
            let rss = load.states.iter().filter(|is_present| **is_present).count() as u64 * PAGE;
            let named = name.map(|(_, name)| without_huge_pages(name).to_owned());
            Mapping {
                range: load.range.clone(),
                access: [bit(4, 'r'), bit(2, 'w'), bit(1, 'x'), 'p'].iter().collect(),
                name: named.unwrap_or(if is_stack { "[stack]".to_owned() } else { String::new() }),
                rss,
                pss: rss,
                ..Mapping::default()
            }
        };
        self.loads.iter().map(mapping).collect()
    }

    fn load(&self, address: u64) -> Option<&Load> {
        let behind = self.loads.partition_point(|load| load.range.start <= address);
        self.loads.get(behind.checked_sub(1)?).filter(|load| load.range.contains(&address))
    }
}

impl Memory for Core {
    fn read(&self, address: u64, bytes: &mut [u8]) -> bool {
        let (mut done, mut complete) = (0, true);
        while done < bytes.len() {
            let at = address.checked_add(done as u64);
            let Some((load, at)) = at.and_then(|at| Some((self.load(at)?, at))) else { return false };
            let length = ((load.range.end - at).min((bytes.len() - done) as u64)) as usize;
            let inside = at - load.range.start;
            let in_file = length.min(load.in_file.saturating_sub(inside) as usize);
            let part = &mut bytes[done..done + in_file];
            complete &= in_file == length && self.file.read_exact_at(part, load.offset + inside).is_ok();
            done += length;
        }
        complete
    }

    fn pages(&self, address: u64, count: usize) -> Vec<PageState> {
        let state = |page: u64| {
            let at = (address / PAGE * PAGE).saturating_add(page * PAGE);
            let load = self.load(at)?;
            let is_present = *load.states.get(((at - load.range.start) / PAGE) as usize)?;
            is_present.then_some(PageState::Present)
        };
        (0..count as u64).map(|page| state(page).unwrap_or(PageState::Absent)).collect()
    }
}

fn processor(header: &[u8]) -> Result<Processor> {
    if !header.starts_with(b"\x7fELF") {
        bail!("no core file: it does not begin as ELF files do");
    }
    if header[4..6] != [2, 1] {
        bail!("a file of a 32-bit or big-endian machine: its heap has another layout, which is not supported");
    }
    if u16_at(header, 16) != 4 {
        bail!("no core file: it is a program or a library");
    }
    match u16_at(header, 18) {
        62 => Ok(Processor::X86),
        183 => Ok(Processor::Aarch64),
        other => bail!("a core file of machine {other} of ELF: only those of x86-64 and aarch64 can be read"),
    }
}

/// Returns the files that are mapped; `None` when the note is damaged.
fn files(note: &[u8]) -> Option<Vec<(Range<u64>, String)>> {
    let word = |at: usize| Some(u64::from_le_bytes(note.get(at..at.checked_add(8)?)?.try_into().ok()?));
    let count = word(0).filter(|count| *count < MOST_FILES)? as usize;
    let names = note.get(16 + count * 24..)?.split(|byte| *byte == 0);
    let named = names.take(count).enumerate().map(|(number, name)| {
        let range = word(16 + number * 24)?..word(24 + number * 24)?;
        Some((range, String::from_utf8_lossy(name).into_owned()))
    });
    named.collect()
}

fn bytes(file: &File, offset: u64, count: usize) -> io::Result<Vec<u8>> {
    let mut bytes = vec![0; count];
    file.read_exact_at(&mut bytes, offset)?;
    Ok(bytes)
}

fn u16_at(bytes: &[u8], at: usize) -> u16 {
    u16::from_le_bytes([bytes[at], bytes[at + 1]])
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from(u16_at(bytes, at)) | u32::from(u16_at(bytes, at + 2)) << 16
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from(u32_at(bytes, at)) | u64::from(u32_at(bytes, at + 4)) << 32
}
