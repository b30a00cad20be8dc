//! A snapshot of PyTorch's CUDA memory: `segments`, as they were when it was taken, and `device_traces`, what happened last before
//! that.
//!
//! What is remembered of the past begins in the middle of a life. Blocks that lived before are known from two sides: they are freed
//! without having been allocated, or lie in segments at the end without having been allocated; all of them are allocated first.
//! A place can be used again when its free is completed, so that is taken for the free.

use std::collections::{HashMap, HashSet};
use std::io::{BufRead, Write};

use super::book::Book;
use super::lines::cut;
use super::pickle::{self, Value, Values};
use super::{ImportError, Line};
use crate::event::Kind;
use crate::sites::SiteId;

/// What CUDA's caching allocator aligns to, in bytes.
const ALIGN: u64 = 512;

/// The most stack frames of a call site that are kept.
const DEEPEST: usize = 128;

/// How long the texts of stack frames may be that are kept for the next time, in bytes.
const TEXTS: usize = 64 << 20;

/// An entry of a trace.
#[derive(Clone, Copy)]
enum Action {
    Alloc,
    Free,
    OutOfMemory,
    /// What says nothing of blocks, or says it again.
    Other,
}

struct Entry {
    action: Action,
    address: u64,
    size: u64,
    microseconds: Option<u64>,
    frames: Option<Value>,
}

pub(super) fn read<W: Write>(source: impl BufRead, device: usize, book: &mut Book<'_, W>) -> Result<(), ImportError> {
    let (values, root) = pickle::read(source)?;
    let snapshot = Snapshot { values: &values, root };
    let entries = snapshot.trace(device)?;
    for (address, size) in snapshot.blocks_before(entries, device) {
        book.allocate(address, Kind::Aligned, size, ALIGN)?;
        book.summary.before += 1;
    }
    let mut sites = Sites::default();
    for (number, &value) in (1..).zip(entries) {
        book.summary.lines = number;
        let said = snapshot.describe(value);
        book.at_line(number, &said);
        let Some(entry) = snapshot.entry(value) else {
            book.summary.not_understood.add(number, &said);
            continue;
        };
        if let Some(now) = entry.microseconds {
            book.at_time_of_day(now.saturating_mul(1000));
        }
        if let (Action::Alloc | Action::OutOfMemory, Some(frames)) = (entry.action, entry.frames) {
            let site = sites.of(&values, frames, book)?;
            book.at_site(site)?;
        }
        match tell(&entry, book)? {
            Line::PassedOver => book.summary.passed_over += 1,
            Line::Done | Line::NotUnderstood => {}
        }
    }
    Ok(())
}

fn tell<W: Write>(entry: &Entry, book: &mut Book<'_, W>) -> Result<Line, ImportError> {
    match entry.action {
        Action::Alloc => book.allocate(entry.address, Kind::Aligned, entry.size, ALIGN),
        Action::Free => book.free(entry.address),
        Action::OutOfMemory => book.fail(entry.size, ALIGN),
        Action::Other => Ok(Line::PassedOver),
    }
}

struct Snapshot<'v> {
    values: &'v Values,
    root: Value,
}

impl<'v> Snapshot<'v> {
    fn trace(&self, device: usize) -> Result<&'v [Value], ImportError> {
        let traces = self.values.get(self.root, "device_traces");
        let traces = traces.ok_or(ImportError::NoSnapshot { what: "it has no device_traces" })?;
        let traces =
            self.values.list(traces).ok_or(ImportError::NoSnapshot { what: "its device_traces are no list" })?;
        let trace = *traces.get(device).ok_or(ImportError::NoSuchDevice { devices: traces.len() })?;
        self.values.list(trace).ok_or(ImportError::NoSnapshot { what: "the trace of the device is no list" })
    }

    /// Blocks that lived before the trace begins, by address: where, and their sizes.
    fn blocks_before(&self, entries: &[Value], device: usize) -> Vec<(u64, u64)> {
        let mut before = HashMap::new();
        let mut seen = HashSet::new();
        for entry in entries.iter().filter_map(|&value| self.entry(value)) {
            let first = match entry.action {
                Action::Alloc | Action::Free => seen.insert(entry.address),
                _ => false,
            };
            if first && let Action::Free = entry.action {
                before.insert(entry.address, entry.size);
            }
        }
        let at_the_end = self.blocks_at_the_end(device);
        before.extend(at_the_end.into_iter().filter(|(address, _)| !seen.contains(address)));
        let mut before: Vec<(u64, u64)> = before.into_iter().collect();
        before.sort_unstable();
        before
    }

    fn blocks_at_the_end(&self, device: usize) -> Vec<(u64, u64)> {
        let segments = self.values.get(self.root, "segments").and_then(|segments| self.values.list(segments));
        let mut blocks = Vec::new();
        // Nothing is walked through twice, however often it is referred to.
        let mut seen = HashSet::new();
        for &segment in segments.unwrap_or_default() {
            let list = self.values.get(segment, "blocks");
            if self.number(segment, "device") != Some(device as u64) {
                continue;
            }
            if let (Some(Value::List(number)), Some(start)) = (list, self.number(segment, "address"))
                && seen.insert(number)
            {
                let list = self.values.list(Value::List(number)).unwrap_or_default();
                self.add_blocks(list, start, &mut blocks);
            }
        }
        blocks
    }

    /// Adds the used blocks of a segment that begins at `start`.
    fn add_blocks(&self, list: &[Value], start: u64, blocks: &mut Vec<(u64, u64)>) {
        let mut next = start;
        for &block in list {
            // Older snapshots say only how long the blocks before it are.
            let address = self.number(block, "address").unwrap_or(next);
            let size = self.number(block, "size").unwrap_or(0);
            let state = self.values.get(block, "state").and_then(|state| self.values.text(state));
            if state.is_some_and(|state| state.starts_with("active")) {
                blocks.push((address, self.number(block, "requested_size").unwrap_or(size)));
            }
            next = address.wrapping_add(size);
        }
    }

    fn entry(&self, value: Value) -> Option<Entry> {
        let action = self.values.get(value, "action").and_then(|action| self.values.text(action))?;
        let action = match action {
            "alloc" => Action::Alloc,
            "free_completed" | "free" => Action::Free,
            "oom" => Action::OutOfMemory,
            "free_requested" | "segment_alloc" | "segment_free" | "segment_map" | "segment_unmap" | "snapshot" => {
                Action::Other
            }
            _ => return None,
        };
        let address = self.number(value, "addr");
        Some(Entry {
            action,
            address: match action {
                Action::Alloc | Action::Free => address?,
                Action::OutOfMemory | Action::Other => address.unwrap_or(0),
            },
            size: self.number(value, "size").unwrap_or(0),
            microseconds: self.number(value, "time_us"),
            frames: self.values.get(value, "frames"),
        })
    }

    /// Numbers are addresses and sizes: what looks negative has its top bit set.
    fn number(&self, value: Value, key: &str) -> Option<u64> {
        match self.values.get(value, key)? {
            Value::Int(number) => Some(number as u64),
            _ => None,
        }
    }

    /// An entry in one line, for people.
    fn describe(&self, value: Value) -> String {
        let action = self.values.get(value, "action").and_then(|action| self.values.text(action));
        let Some(action) = action else { return "an entry without action".to_owned() };
        let number = |key| self.number(value, key).unwrap_or(0);
        format!("{} {:#x} {}", cut(action), number("addr"), number("size"))
    }
}

/// Call sites, by the numbers of their lists of frames: what is the same list is the same site.
#[derive(Default)]
struct Sites {
    sites: HashMap<u32, Option<SiteId>>,
    texts: HashMap<u32, String>,
    /// How long the texts are, in bytes.
    held: usize,
}

impl Sites {
    fn of<W: Write>(
        &mut self,
        values: &Values,
        frames: Value,
        book: &mut Book<'_, W>,
    ) -> Result<Option<SiteId>, ImportError> {
        let Value::List(number) = frames else { return Ok(None) };
        if let Some(&site) = self.sites.get(&number) {
            return Ok(site);
        }
        let frames = values.list(frames).unwrap_or_default().iter();
        let frames = frames.filter_map(|&frame| if let Value::Dict(number) = frame { Some(number) } else { None });
        let frames: Vec<u32> = frames.take(DEEPEST).collect();
        if self.held > TEXTS {
            self.texts.clear();
            self.held = 0;
        }
        for &frame in &frames {
            self.texts.entry(frame).or_insert_with(|| {
                let text = text(values, Value::Dict(frame));
                self.held += text.len();
                text
            });
        }
        let texts: Vec<&str> = frames.iter().map(|frame| self.texts[frame].as_str()).collect();
        let site = if texts.is_empty() { None } else { book.define_site(&texts)? };
        self.sites.insert(number, site);
        Ok(site)
    }
}

/// A stack frame: the function, its file and the line.
fn text(values: &Values, frame: Value) -> String {
    let text = |key| values.get(frame, key).and_then(|value| values.text(value)).map_or("", cut);
    let file = text("filename");
    let file = file.rsplit('/').next().unwrap_or(file);
    match values.get(frame, "line") {
        Some(Value::Int(line)) if !file.is_empty() => format!("{} {file}:{line}", text("name")),
        _ => text("name").to_owned(),
    }
}
