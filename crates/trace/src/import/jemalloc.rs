//! The heap profiles of jemalloc (`MALLOC_CONF=prof:true`), version 2:
//!
//! ```text
//! heap_v2/524288
//!   t*: 3: 4096 [0: 0]
//!   t0: 3: 4096 [0: 0]
//! @ 0x401136 0x401150
//!   t*: 3: 4096 [0: 0]
//!   t0: 3: 4096 [0: 0]
//!
//! MAPPED_LIBRARIES:
//! 00400000-00402000 r-xp 00000000 fe:00 42 /bin/program
//! ```
//!
//! A stack (`@`) has return addresses, the innermost first; its lines have the blocks and the bytes that are live, of
//! all threads (`t*`) and of each. In brackets is what was ever requested, which is left out: the profile does not say
//! when. The first line has the mean distance of sampled bytes. Figures are scaled by it as jemalloc's own `jeprof`
//! scales them, so that they estimate all blocks.

use std::collections::HashMap;
use std::io::Write;

use super::ImportError;
use super::code_files::CodeFiles;
use super::ledger::Ledger;
use super::limits::{DEEPEST, LIMIT};
use super::lines::{Line, file_name, number};
use super::snapshot::{Blocks, Snapshot};
use crate::event::Kind;
use crate::sites::SiteId;

/// The beginning of the first line.
pub(super) const HEADING: &str = "heap_v2/";

struct Stack {
    addresses: Vec<u64>,
    /// Blocks and bytes by thread; of all threads under `None`.
    live: Vec<(Option<u64>, u64, u64)>,
}

/// A file with code in the profiled process.
struct Mapping {
    start: u64,
    end: u64,
    offset: u64,
    path: String,
}

/// The profile read so far.
#[derive(Default)]
pub(super) struct Jemalloc {
    period: f64,
    stacks: Vec<Stack>,
    mappings: Vec<Mapping>,
    has_mappings: bool,
    retained: usize,
}

/// A place in a file, or an address that is in none.
#[derive(Clone, PartialEq, Eq, Hash)]
enum Place {
    File { mapping: usize, offset: u64 },
    Nowhere(u64),
}

impl Jemalloc {
    pub(super) fn read<W: Write>(&mut self, line: &str, ledger: &mut Ledger<'_, W>) -> Result<Line, ImportError> {
        if self.has_mappings {
            return self.mapping(line);
        }
        if let Some(period) = line.strip_prefix(HEADING) {
            let Ok(period) = period.parse::<u64>() else { return Ok(Line::NotUnderstood) };
            self.period = period as f64;
            Snapshot::describe("jemalloc", ledger)?;
            return Ok(Line::PassedOver);
        }
        if let Some(addresses) = line.strip_prefix('@') {
            let addresses: Option<Vec<u64>> = addresses.split_whitespace().take(DEEPEST).map(number).collect();
            let Some(addresses) = addresses else { return Ok(Line::NotUnderstood) };
            self.retain(addresses.len() * size_of::<u64>())?;
            self.stacks.push(Stack { addresses, live: Vec::new() });
            return Ok(Line::PassedOver);
        }
        if line == "MAPPED_LIBRARIES:" {
            self.has_mappings = true;
            return Ok(Line::PassedOver);
        }
        if line.is_empty() {
            return Ok(Line::PassedOver);
        }
        let Some(live) = live(line) else { return Ok(Line::NotUnderstood) };
        if self.stacks.is_empty() {
            // The sums of all stacks.
            return Ok(Line::PassedOver);
        }
        self.retain(0)?;
        self.stacks.last_mut().expect("there is one").live.push(live);
        Ok(Line::PassedOver)
    }

    fn retain(&mut self, bytes: usize) -> Result<(), ImportError> {
        self.retained += bytes + 64;
        if self.retained > LIMIT { Err(ImportError::TooMuch { what: "stacks" }) } else { Ok(()) }
    }

    /// Reads a line of `/proc/PID/maps`.
    fn mapping(&mut self, line: &str) -> Result<Line, ImportError> {
        let mut fields = line.split_ascii_whitespace();
        let hexadecimal = |text: &str| u64::from_str_radix(text, 16).ok();
        let range = fields.next().and_then(|range| range.split_once('-'));
        let range = range.and_then(|(start, end)| Some((hexadecimal(start)?, hexadecimal(end)?)));
        let (Some((start, end)), Some(rights), Some(offset)) =
            (range, fields.next(), fields.next().and_then(hexadecimal))
        else {
            return Ok(if line.is_empty() { Line::PassedOver } else { Line::NotUnderstood });
        };
        let path = line.find('/').map_or("", |at| &line[at..]);
        if rights.contains('x') && !path.is_empty() && start < end {
            self.retain(path.len())?;
            self.mappings.push(Mapping { start, end, offset, path: path.to_owned() });
        }
        Ok(Line::PassedOver)
    }

    /// Writes the blocks of all stacks.
    pub(super) fn finish<W: Write>(
        mut self,
        files: Option<&dyn CodeFiles>,
        ledger: &mut Ledger<'_, W>,
    ) -> Result<(), ImportError> {
        self.mappings.sort_by_key(|mapping| mapping.start);
        let texts = self.name_frames(files, ledger)?;
        let mut snapshot = Snapshot::default();
        for stack in &self.stacks {
            let frames: Vec<&str> = self.frames(stack).iter().map(|place| texts[place].as_str()).collect();
            let site = if frames.is_empty() { None } else { ledger.define_site(&frames)? };
            self.allocate(stack, site, &mut snapshot, ledger)?;
        }
        Ok(())
    }

    /// Allocates the blocks of a stack, thread by thread where the profile has threads.
    fn allocate<W: Write>(
        &self,
        stack: &Stack,
        site: Option<SiteId>,
        snapshot: &mut Snapshot,
        ledger: &mut Ledger<'_, W>,
    ) -> Result<(), ImportError> {
        let of_threads = || stack.live.iter().filter(|(thread, ..)| thread.is_some());
        let has_threads = of_threads().next().is_some();
        let in_all = stack.live.iter().find(|(thread, ..)| thread.is_none()).map(|&(_, count, bytes)| (count, bytes));
        let (count, bytes) = in_all.unwrap_or_else(|| {
            of_threads().fold((0, 0), |sums, &(_, count, bytes)| {
                (u64::saturating_add(sums.0, count), u64::saturating_add(sums.1, bytes))
            })
        });
        let probability = self.probability(count, bytes);
        let scaled = |figure: u64| (figure as f64 / probability).round() as u64;
        for &(thread, count, bytes) in stack.live.iter().filter(|(thread, ..)| thread.is_some() == has_threads) {
            ledger.in_thread(thread.unwrap_or(0));
            let blocks = Blocks { kind: Kind::Malloc, count: scaled(count), bytes: scaled(bytes) };
            snapshot.add(&blocks, site, ledger)?;
        }
        Ok(())
    }

    /// Returns the probability with which each of `count` blocks of `bytes` bytes was sampled: of a block of `size`
    /// bytes `1 - exp(-size / period)`. As `jeprof`, it is asked for all blocks of a stack, with their mean size: some
    /// blocks of a thread alone would be scaled by the size of few.
    fn probability(&self, count: u64, bytes: u64) -> f64 {
        if count == 0 || self.period <= 1.0 {
            return 1.0;
        }
        let probability = -(-(bytes as f64 / count as f64) / self.period).exp_m1();
        if probability > 0.0 { probability } else { 1.0 }
    }

    /// Returns the places of a stack's calls, without those inside of jemalloc's library.
    fn frames(&self, stack: &Stack) -> Vec<Place> {
        let mut places: Vec<Place> = stack.addresses.iter().map(|&address| self.place(address)).collect();
        let is_own = |place: &Place| match place {
            Place::File { mapping, .. } => file_name(&self.mappings[*mapping].path).starts_with("libjemalloc"),
            Place::Nowhere(_) => false,
        };
        let own = places.iter().take_while(|place| is_own(place)).count();
        places.drain(..if own < places.len() { own } else { 0 });
        places
    }

    /// Returns the place of the call that returns to an address.
    fn place(&self, address: u64) -> Place {
        let call = address.saturating_sub(1);
        let behind = self.mappings.partition_point(|mapping| mapping.start <= call);
        match behind.checked_sub(1).filter(|&before| call < self.mappings[before].end) {
            Some(mapping) => {
                let Mapping { start, offset, .. } = self.mappings[mapping];
                Place::File { mapping, offset: (call - start).saturating_add(offset) }
            }
            None => Place::Nowhere(call),
        }
    }

    /// Returns the texts of all frames, and adds the names that the files have for them.
    fn name_frames<W: Write>(
        &self,
        files: Option<&dyn CodeFiles>,
        ledger: &mut Ledger<'_, W>,
    ) -> Result<HashMap<Place, String>, ImportError> {
        let mut texts: HashMap<Place, String> = HashMap::new();
        let (mut places, mut asked) = (Vec::new(), Vec::new());
        for place in self.stacks.iter().flat_map(|stack| self.frames(stack)) {
            if texts.contains_key(&place) {
                continue;
            }
            let text = match &place {
                Place::Nowhere(address) => format!("{address:#x}"),
                Place::File { mapping, offset } => {
                    let path = self.mappings[*mapping].path.as_str();
                    places.push(place.clone());
                    asked.push((path, *offset));
                    format!("{}+{offset:#x}", file_name(path))
                }
            };
            texts.insert(place, text);
        }
        let located = files.map(|files| files.locate(&asked)).unwrap_or_default();
        for ((place, (path, _)), located) in places.iter().zip(&asked).zip(located) {
            let Some(located) = located else { continue };
            let text = format!("{}+{:#x}", file_name(path), located.address);
            if let Some(name) = located.name {
                ledger.name_frame(&text, &name)?;
            }
            texts.insert(place.clone(), text);
        }
        Ok(texts)
    }
}

/// Reads `t7: 3: 4096 [0: 0]`: the thread, blocks and bytes.
fn live(line: &str) -> Option<(Option<u64>, u64, u64)> {
    let (thread, rest) = line.strip_prefix('t')?.split_once(": ")?;
    let thread = if thread == "*" { None } else { Some(thread.parse().ok()?) };
    let (figures, _) = rest.split_once('[')?;
    let (count, bytes) = figures.trim().split_once(": ")?;
    Some((thread, count.trim().parse().ok()?, bytes.trim().parse().ok()?))
}
