//! A snapshot of PyTorch's CUDA memory: `segments`, the state when it was taken, and `device_traces`, the last events
//! before.
//!
//! The events begin in the middle of a program's life. Earlier blocks are those that are freed, or in a segment at the
//! end, without an allocation in the events; the imported trace allocates all of them first. Memory can be reused once
//! `free_completed` is logged, so that event is imported as the free.

use std::collections::{HashMap, HashSet};
use std::io::{BufRead, Write};

use super::ImportError;
use super::ledger::Ledger;
use super::limits::DEEPEST;
use super::lines::{Line, cut, file_name};
use super::pickle::{self, Value, Values};
use crate::event::Kind;
use crate::sites::SiteId;

/// The alignment of PyTorch's CUDA caching allocator, in bytes.
const ALIGN: u64 = 512;

/// The limit of cached texts of stack frames, in bytes.
const TEXTS: usize = 64 << 20;

/// The action of an entry.
#[derive(Clone, Copy)]
enum Action {
    Alloc,
    Free,
    OutOfMemory,
    /// An action that is not about blocks, or repeats another one.
    Other,
}

struct Entry {
    action: Action,
    address: u64,
    size: u64,
    microseconds: Option<u64>,
    frames: Option<Value>,
}

pub(super) fn read<W: Write>(
    source: impl BufRead,
    device: usize,
    ledger: &mut Ledger<'_, W>,
) -> Result<(), ImportError> {
    let (values, root) = pickle::read(source)?;
    let snapshot = Snapshot { values: &values, root };
    let entries = snapshot.trace(device)?;
    for (address, size) in snapshot.blocks_before(entries, device) {
        ledger.allocate(address, Kind::Aligned, size, ALIGN)?;
        ledger.summary.before += 1;
    }
    let mut sites = Sites::default();
    for (number, &value) in (1..).zip(entries) {
        ledger.summary.lines = number;
        let text = snapshot.describe(value);
        ledger.at_line(number, &text);
        let Some(entry) = snapshot.entry(value) else {
            ledger.summary.not_understood.add(number, &text);
            continue;
        };
        if let Some(now) = entry.microseconds {
            ledger.at_time_of_day(now.saturating_mul(1000));
        }
        if let (Action::Alloc | Action::OutOfMemory, Some(frames)) = (entry.action, entry.frames) {
            let site = sites.of(&values, frames, ledger)?;
            ledger.at_site(site)?;
        }
        match import_entry(&entry, ledger)? {
            Line::PassedOver => ledger.summary.passed_over += 1,
            Line::Done | Line::NotUnderstood | Line::OfAnotherProcess => {}
        }
    }
    Ok(())
}

fn import_entry<W: Write>(entry: &Entry, ledger: &mut Ledger<'_, W>) -> Result<Line, ImportError> {
    match entry.action {
        Action::Alloc => ledger.allocate(entry.address, Kind::Aligned, entry.size, ALIGN),
        Action::Free => ledger.free(entry.address),
        Action::OutOfMemory => ledger.fail(entry.size, ALIGN),
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
            self.values.list(traces).ok_or(ImportError::NoSnapshot { what: "its device_traces are not a list" })?;
        let trace = *traces.get(device).ok_or(ImportError::NoSuchDevice { devices: traces.len() })?;
        self.values.list(trace).ok_or(ImportError::NoSnapshot { what: "the trace of the device is not a list" })
    }

    /// Returns address and size of the blocks allocated before the trace begins, ordered by address.
    fn blocks_before(&self, entries: &[Value], device: usize) -> Vec<(u64, u64)> {
        let mut before = HashMap::new();
        let mut visited = HashSet::new();
        for entry in entries.iter().filter_map(|&value| self.entry(value)) {
            let first = match entry.action {
                Action::Alloc | Action::Free => visited.insert(entry.address),
                _ => false,
            };
            if first && let Action::Free = entry.action {
                before.insert(entry.address, entry.size);
            }
        }
        let at_the_end = self.blocks_at_the_end(device);
        before.extend(at_the_end.into_iter().filter(|(address, _)| !visited.contains(address)));
        let mut before: Vec<(u64, u64)> = before.into_iter().collect();
        before.sort_unstable();
        before
    }

    fn blocks_at_the_end(&self, device: usize) -> Vec<(u64, u64)> {
        let segments = self.values.get(self.root, "segments").and_then(|segments| self.values.list(segments));
        let mut blocks = Vec::new();
        // A malicious snapshot may refer to a list many times; each is visited once.
        let mut visited = HashSet::new();
        for &segment in segments.unwrap_or_default() {
            let list = self.values.get(segment, "blocks");
            if self.number(segment, "device") != Some(device as u64) {
                continue;
            }
            if let (Some(Value::List(number)), Some(start)) = (list, self.number(segment, "address"))
                && visited.insert(number)
            {
                let list = self.values.list(Value::List(number)).unwrap_or_default();
                self.add_blocks(list, start, &mut blocks);
            }
        }
        blocks
    }

    /// Adds the used blocks of a segment that begins at address `start`.
    fn add_blocks(&self, list: &[Value], start: u64, blocks: &mut Vec<(u64, u64)>) {
        let mut next = start;
        for &block in list {
            // Older snapshots have no addresses, only sizes.
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

    /// Returns an address or size. A negative integer is one whose top bit is set.
    fn number(&self, value: Value, key: &str) -> Option<u64> {
        match self.values.get(value, key)? {
            Value::Int(number) => Some(number as u64),
            _ => None,
        }
    }

    /// Returns an entry as one line of text, for the report.
    fn describe(&self, value: Value) -> String {
        let action = self.values.get(value, "action").and_then(|action| self.values.text(action));
        let Some(action) = action else { return "an entry without action".to_owned() };
        let number = |key| self.number(value, key).unwrap_or(0);
        format!("{} {:#x} {}", cut(action), number("addr"), number("size"))
    }
}

/// Call sites by the numbers of their lists of frames. The same list is the same site.
#[derive(Default)]
struct Sites {
    sites: HashMap<u32, Option<SiteId>>,
    texts: HashMap<u32, String>,
    /// The length of all cached texts, in bytes.
    cached: usize,
}

impl Sites {
    fn of<W: Write>(
        &mut self,
        values: &Values,
        frames: Value,
        ledger: &mut Ledger<'_, W>,
    ) -> Result<Option<SiteId>, ImportError> {
        let Value::List(number) = frames else { return Ok(None) };
        if let Some(&site) = self.sites.get(&number) {
            return Ok(site);
        }
        let frames = values.list(frames).unwrap_or_default().iter();
        let frames = frames.filter_map(|&frame| if let Value::Dict(number) = frame { Some(number) } else { None });
        let frames: Vec<u32> = frames.take(DEEPEST).collect();
        if self.cached > TEXTS {
            self.texts.clear();
            self.cached = 0;
        }
        for &frame in &frames {
            self.texts.entry(frame).or_insert_with(|| {
                let text = text(values, Value::Dict(frame));
                self.cached += text.len();
                text
            });
        }
        let texts: Vec<&str> = frames.iter().map(|frame| self.texts[frame].as_str()).collect();
        let site = if texts.is_empty() { None } else { ledger.define_site(&texts)? };
        self.sites.insert(number, site);
        Ok(site)
    }
}

/// Returns the text of a stack frame: function, file and line.
fn text(values: &Values, frame: Value) -> String {
    let text = |key| values.get(frame, key).and_then(|value| values.text(value)).map_or("", cut);
    let file = file_name(text("filename"));
    match values.get(frame, "line") {
        Some(Value::Int(line)) if !file.is_empty() => format!("{} {file}:{line}", text("name")),
        _ => text("name").to_owned(),
    }
}
