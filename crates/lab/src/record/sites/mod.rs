//! Call sites: from the stack of a thread to a site of the trace.
//!
//! From the bottom up: `binary` (files with code), `modules` (where a process has them, and the way up its stacks), `names` (functions and
//! lines), and here the sites of one process.

mod binary;
mod modules;
mod names;

use std::collections::{HashMap, HashSet};
use std::io::Write;
use std::path::Path;
use std::sync::Arc;

use heapwright_stream::{Mapping, Stack};
use heapwright_trace::{SiteId, WriteError, Writer};

use self::modules::{Change, End, Modules};

/// What the processes of a recording share, so that no file is read twice.
#[derive(Clone, Default)]
pub struct Library {
    binaries: binary::Binaries,
    names: names::Names,
}

/// How many requests came with their stacks, and what became of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sampled {
    /// Requests with a stack.
    pub requests: u64,
    /// Sites that they came from.
    pub sites: u64,
    /// Requests whose stack led nowhere.
    pub unclear: u64,
    /// Requests from sites for which there was no more room in the trace.
    pub left_out: u64,
}

/// How many pages with code in no file are remembered.
const MOST_PATHLESS: usize = 1 << 16;

/// Looks for what is mapped into a process now: calls back for each mapping, and returns whether it has looked at all.
pub type Look = Box<dyn FnMut(&mut dyn FnMut(&Mapping<'_>)) -> bool>;

/// The sites of a process.
pub struct Sites {
    library: Library,
    look: Look,
    modules: Modules,
    /// Sites by the addresses of their calls.
    known: HashMap<Box<[u64]>, SiteId, foldhash::fast::RandomState>,
    /// Whether the trace holds no more of them.
    is_full: bool,
    /// The texts of stack frames in use, and where in which file they are.
    frames: HashMap<String, names::Place>,
    /// What files are called in texts.
    files: HashMap<Arc<Path>, Arc<str>>,
    /// Pages with code that is in no file, as far as was looked.
    pathless: HashSet<u64>,
    /// The frames of the stack in hand.
    calls: Vec<u64>,
    sampled: Sampled,
}

impl Sites {
    /// None yet; `look` is called for what code is mapped where.
    pub fn new(library: Library, look: Look) -> Sites {
        let modules = Modules::new(library.binaries.clone());
        let (known, frames, files, pathless) = (HashMap::default(), HashMap::new(), HashMap::new(), HashSet::new());
        let (is_full, calls, sampled) = (false, Vec::new(), Sampled::default());
        Sites { library, look, modules, known, is_full, frames, files, pathless, calls, sampled }
    }

    /// Code is mapped there.
    pub fn see(&mut self, mapping: &Mapping<'_>) {
        let change = self.modules.add(mapping);
        self.settle(change);
    }

    /// Forgets what is not true any more.
    fn settle(&mut self, change: Change) {
        if change == Change::Replaced {
            self.known.clear();
        }
        if change != Change::Nothing {
            self.pathless.clear();
        }
    }

    /// Looks for the code at an address; returns whether anything new was found.
    fn look_for(&mut self, address: u64) -> bool {
        if self.pathless.contains(&page_of(address)) {
            return false;
        }
        let (modules, mut change) = (&mut self.modules, Change::Nothing);
        let looked = (self.look)(&mut |mapping| change = change.max(modules.add(mapping)));
        self.settle(change);
        if looked && change == Change::Nothing && self.pathless.len() < MOST_PATHLESS {
            self.pathless.insert(page_of(address));
        }
        change != Change::Nothing
    }

    /// Finds the site that a stack leads to; defines it in the trace if it is a new one.
    pub fn site<W: Write>(&mut self, writer: &mut Writer<W>, stack: &Stack<'_>) -> Result<Option<SiteId>, WriteError> {
        self.sampled.requests += 1;
        let mut calls = std::mem::take(&mut self.calls);
        if let End::Unknown(address) = self.modules.unwind(stack, &mut calls)
            && self.look_for(address)
        {
            self.modules.unwind(stack, &mut calls);
        }
        let site = match self.known.get(&*calls) {
            Some(&site) => Some(site),
            None if calls.is_empty() => {
                self.sampled.unclear += 1;
                None
            }
            None => {
                let site = self.define(writer, &calls)?;
                self.sampled.left_out += u64::from(site.is_none());
                site
            }
        };
        self.calls = calls;
        Ok(site)
    }

    fn define<W: Write>(&mut self, writer: &mut Writer<W>, calls: &[u64]) -> Result<Option<SiteId>, WriteError> {
        if self.is_full {
            return Ok(None);
        }
        let texts: Vec<String> = calls.iter().map(|&call| self.text(call)).collect();
        let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
        match writer.define_site(&texts) {
            Ok(site) => {
                self.sampled.sites += 1;
                self.known.insert(calls.into(), site);
                Ok(Some(site))
            }
            Err(WriteError::TooMuch { .. }) => {
                self.is_full = true;
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }

    /// What the frame of a call is called in definitions.
    fn text(&mut self, call: u64) -> String {
        let Some((loaded, address)) = self.modules.place(call) else { return format!("{call:#x}") };
        let file = name_of(&mut self.files, &loaded.path);
        let text = format!("{file}+{address:#x}");
        if !self.frames.contains_key(&text) {
            let version = loaded.binary.as_ref().map(|binary| binary.version);
            let place = names::Place { path: loaded.path.clone(), version, address };
            self.frames.insert(text.clone(), place);
        }
        text
    }

    /// Names the frames of all sites, as far as there is anything to be found.
    pub fn name_frames<W: Write>(&self, writer: &mut Writer<W>) -> Result<(), WriteError> {
        for (text, name) in self.library.names.of(&self.frames) {
            match writer.name_frame(text, &name) {
                Err(WriteError::TooMuch { .. }) => return Ok(()),
                outcome => outcome?,
            }
        }
        Ok(())
    }

    /// How many requests came with their stacks, and what became of them.
    pub fn sampled(&self) -> Sampled {
        self.sampled
    }
}

/// The page, as far as this is about code, that an address is in.
fn page_of(address: u64) -> u64 {
    address >> 12
}

/// What a file is called in texts: by its name, unless another one is.
fn name_of(files: &mut HashMap<Arc<Path>, Arc<str>>, path: &Arc<Path>) -> Arc<str> {
    if let Some(name) = files.get(path) {
        return name.clone();
    }
    let name = path.file_name().unwrap_or(path.as_os_str()).to_string_lossy();
    let is_taken = files.values().any(|other| **other == name);
    let name: Arc<str> = if is_taken { path.to_string_lossy().into() } else { name.into() };
    files.insert(path.clone(), name.clone());
    name
}
