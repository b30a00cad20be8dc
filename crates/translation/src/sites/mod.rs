//! Call sites: turns the stack of a thread into a site of the trace.
//!
//! From the bottom up: `binary` (files with code), `made` (code that is in none), `rules` (how the process follows its
//! stacks), `signal` (what a signal interrupted), `modules` (where it has mapped files; the unwinder), `unloads` (where
//! it will have none), `numbers` (the paths that it has followed), `names` (functions and lines), and here the sites of
//! one process.

mod binary;
mod made;
mod modules;
mod names;
mod numbers;
mod python;
mod realigned;
mod redaction;
mod rules;
mod signal;
mod unloads;

use std::collections::{HashMap, HashSet};
use std::fs::File;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use heapwright_stream::{Mapping, Stack};
use heapwright_trace::{SiteId, WriteError, Writer};

pub use self::names::{Place, Places};

pub use self::made::LONGEST as LONGEST_MAP;
use self::made::MadeCode;
use self::modules::{Change, End, Modules};
use self::numbers::Numbers;
use self::python::PythonFrames;
pub use self::redaction::Redaction;
use self::signal::SIGNAL;
use self::unloads::Unloads;
use crate::merge::{CallPath, Python, PythonName};
use crate::producer::Producer;
use crate::source::Table;

/// Caches that all processes of a recording share, to read each file once.
#[derive(Clone, Default)]
pub struct Library {
    pub(crate) binaries: binary::Binaries,
    pub(crate) names: names::Names,
}

/// Counts of requests with stacks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sampled {
    /// Requests with a stack.
    pub requests: u64,
    /// Distinct sites.
    pub sites: u64,
    /// Requests whose stack could not be unwound.
    pub unclear: u64,
    /// Sites that have only their innermost frames: the trace had no room for whole ones.
    pub shortened: u64,
    /// Requests from sites that the trace had no room for.
    pub left_out: u64,
}

/// The most pages of code without a file that are remembered.
const MOST_PATHLESS: usize = 1 << 16;

/// Lists the mappings of a process: passes each to the callback, and returns whether it looked at all.
pub type Look = Box<dyn FnMut(&mut dyn FnMut(&Mapping<'_>)) -> bool>;

/// How many frames a site keeps, the innermost of compiled functions and of Python functions, once this many eighths of
/// the trace's room for sites are taken. Recursion makes stacks by the hundred thousand, most of them of requests that
/// do not matter; those that follow have names as well, which matters more than who called their callers.
const SHORTER: [(usize, [usize; 2]); 3] = [(4, [12, 12]), (6, [4, 8]), (7, [1, 4])];

/// The sites of a process.
pub struct Sites {
    library: Library,
    look: Look,
    unloads: Unloads,
    modules: Modules,
    numbers: Numbers,
    python: PythonFrames,
    made: MadeCode,
    /// Sites by the addresses of their calls.
    known: HashMap<Box<[u64]>, SiteId, foldhash::fast::RandomState>,
    /// Whether the trace can hold no more sites.
    is_full: bool,
    /// Texts of stack frames in use, with their place in a file.
    frames: Places,
    /// The places of those of which the names have not been asked for.
    unnamed: Vec<Place>,
    /// The text of each call's frame, as long as the mappings are these.
    texts: HashMap<u64, Arc<str>, foldhash::fast::RandomState>,
    /// The name of each file in texts.
    files: HashMap<Arc<Path>, Arc<str>>,
    /// Pages with code that is in no file, of those looked up.
    pathless: HashSet<u64>,
    redaction: Redaction,
    /// The frames of the current stack.
    calls: Vec<u64>,
    sampled: Sampled,
}

impl Sites {
    /// Creates an empty set of sites of a process; `look` lists its mappings, and it follows its stacks by `table`.
    pub fn new(process: &Producer, library: Library, look: Look, table: Option<Table>, redaction: Redaction) -> Sites {
        let modules = Modules::new(library.binaries.clone());
        let (known, frames, files, pathless) = (HashMap::default(), Places::default(), HashMap::new(), HashSet::new());
        let (is_full, calls, sampled) = (false, Vec::new(), Sampled::default());
        let (numbers, python) = (Numbers::new(table), PythonFrames::default());
        Sites {
            library,
            look,
            unloads: Unloads::of(process.stream.clone()),
            modules,
            numbers,
            python,
            made: MadeCode::of(process),
            known,
            is_full,
            frames,
            unnamed: Vec::new(),
            texts: HashMap::default(),
            files,
            pathless,
            redaction,
            calls,
            sampled,
        }
    }

    /// Records a mapping of code; or keeps it until calls come from there, if another library may have had its place
    /// when the calls were made that are read next.
    pub fn add_mapping(&mut self, mapping: &Mapping<'_>) {
        if self.unloads.is_question_open() {
            self.settle(Change::Added);
            return self.unloads.doubt(mapping);
        }
        let change = self.modules.add(mapping);
        self.settle(change);
    }

    /// Forgets code that is not mapped any more. Its addresses are looked up again when calls come from there.
    pub fn remove_code(&mut self, code: &Range<u64>) {
        self.unloads.pass(code);
        let change = self.modules.forget(code);
        // Its calls may have been read when it was gone. What comes to its addresses is looked for again.
        let pages = page_of(code.start)..=page_of(code.end.saturating_sub(1));
        let was_missed = self.pathless.iter().any(|page| pages.contains(page));
        self.settle(if was_missed { change.max(Change::Added) } else { change });
        self.numbers.settle_unloaded();
    }

    /// Forgets what a change made stale.
    fn settle(&mut self, change: Change) {
        if change == Change::Replaced {
            self.known.clear();
        }
        if change == Change::Replaced || change == Change::Added && self.numbers.has_strange_ends {
            self.numbers.restart();
        }
        if change != Change::Nothing {
            self.pathless.clear();
            self.texts.clear();
        }
    }

    /// Looks for the mapping of an address; returns whether it found any new one.
    fn look_for(&mut self, address: u64) -> bool {
        if self.pathless.contains(&page_of(address)) {
            return false;
        }
        let (modules, mut change) = (&mut self.modules, Change::Nothing);
        if self.made.read(|start, end| change = change.max(modules.add_made(start, end))) {
            change = change.max(modules.follow_made_code());
        }
        let (unloads, mut pending) = (&mut self.unloads, None);
        let looked = (self.look)(&mut |mapping| {
            if pending.get_or_insert_with(|| unloads.pending()).concerns(&mapping.range) {
                unloads.doubt(mapping);
            } else {
                change = change.max(modules.add(mapping));
            }
        });
        let is_any_doubted = unloads.each_certain(&mut |mapping| change = change.max(modules.add(mapping)));
        self.settle(change);
        if looked && !is_any_doubted && change == Change::Nothing && self.pathless.len() < MOST_PATHLESS {
            self.pathless.insert(page_of(address));
        }
        change != Change::Nothing
    }

    /// Records the name of a frame of a Python function.
    pub fn add_python_name(&mut self, name: &PythonName<'_>) {
        if self.python.add_name(name, self.redaction) {
            self.numbers.add_to_table(name.hash, 0);
        }
    }

    /// Returns the site of a stack; defines it in the trace if it is new.
    pub fn site(
        &mut self,
        writer: &mut Writer<File>,
        stack: &Stack<'_>,
        python: Option<Python<'_>>,
    ) -> Result<Option<SiteId>, WriteError> {
        self.sampled.requests += 1;
        let mut calls = std::mem::take(&mut self.calls);
        let mut end = self.modules.unwind(stack, &mut calls);
        if let End::Unknown(address) = end
            && self.look_for(address)
        {
            end = self.modules.unwind(stack, &mut calls);
        }
        if !self.is_open(end) {
            self.numbers.add_rules(self.modules.steps());
        }
        let python = self.number_of(python);
        let site = self.site_of_calls(writer, &mut calls, python);
        self.calls = calls;
        site
    }

    /// Returns whether a stack may lead on when more mappings are known; notes that it does not otherwise.
    fn is_open(&mut self, end: End) -> bool {
        let End::Unknown(address) = end else { return false };
        let is_strange = self.pathless.contains(&page_of(address));
        self.numbers.has_strange_ends |= is_strange;
        !is_strange
    }

    /// Returns the site of a path that the process has followed.
    pub fn site_of_path(
        &mut self,
        writer: &mut Writer<File>,
        path: CallPath<'_>,
        python: Option<Python<'_>>,
    ) -> Result<Option<SiteId>, WriteError> {
        self.sampled.requests += 1;
        let python = self.number_of(python);
        let number = match path {
            CallPath::Known(number) => Some(number),
            CallPath::New(addresses) => self.number_of_path(addresses),
        };
        if let Some(number) = number
            && let Some(site) = self.numbers.site(number, python)
        {
            self.sampled.left_out += u64::from(site.is_none());
            return Ok(site);
        }
        let mut calls = std::mem::take(&mut self.calls);
        match (number, path) {
            (Some(number), _) => self.numbers.calls(number, &mut calls),
            (None, CallPath::New(addresses)) => drop(self.modules.calls_of(addresses, &mut calls)),
            (None, CallPath::Known(_)) => calls.clear(),
        }
        let site = self.site_of_calls(writer, &mut calls, python);
        self.calls = calls;
        // A path that leads nowhere is looked at again: each of its requests is counted as such.
        if let (Some(number), Ok(site), false) = (number, &site, self.calls.is_empty()) {
            self.numbers.set_site(number, python, *site);
        }
        site
    }

    /// Returns the site of a path by its number, without Python functions; `None` when it is not known yet. The inner
    /// option is `None` when the trace had no room for it.
    #[inline(always)]
    pub fn known_site(&self, path: u32) -> Option<Option<SiteId>> {
        self.numbers.site(path, 0)
    }

    /// Counts a request from a [`Sites::known_site`].
    #[inline(always)]
    pub fn count_known(&mut self, site: Option<SiteId>) {
        self.sampled.requests += 1;
        self.sampled.left_out += u64::from(site.is_none());
    }

    /// Returns the number of a path, which is given one when all of its code is known.
    fn number_of_path(&mut self, addresses: &[u64]) -> Option<u32> {
        let hash = self.numbers.hash(addresses);
        if let Some(number) = self.numbers.number_of(hash) {
            return Some(number);
        }
        let mut calls = Vec::new();
        let mut end = self.modules.calls_of(addresses, &mut calls);
        if let End::Unknown(address) = end
            && self.look_for(address)
        {
            end = self.modules.calls_of(addresses, &mut calls);
        }
        if self.is_open(end) { None } else { self.numbers.add(hash, calls) }
    }

    /// Returns the number of a stack of Python functions, from 1 on; 0 when there is none.
    fn number_of(&mut self, python: Option<Python<'_>>) -> u32 {
        match python {
            None => 0,
            Some(Python::Known(number)) => number,
            Some(Python::New(hashes)) => {
                let (hash, number) = self.python.number_of(hashes);
                if let Some(number) = number.filter(|_| self.python.is_new(hash)) {
                    self.numbers.add_to_table(hash, number);
                }
                number.unwrap_or(0)
            }
        }
    }

    /// Returns the site of calls within a stack of Python functions, whose frames it adds to them.
    fn site_of_calls(
        &mut self,
        writer: &mut Writer<File>,
        calls: &mut Vec<u64>,
        python: u32,
    ) -> Result<Option<SiteId>, WriteError> {
        let compiled = calls.len();
        calls.extend(self.python.frames(python));
        if let Some(&site) = self.known.get(&**calls) {
            return Ok(Some(site));
        }
        if calls.is_empty() {
            self.sampled.unclear += 1;
            return Ok(None);
        }
        let is_shortened = shorten(calls, compiled, writer.eighths_of_sites());
        if is_shortened && let Some(&site) = self.known.get(&**calls) {
            return Ok(Some(site));
        }
        let site = self.define(writer, calls)?;
        self.sampled.shortened += u64::from(is_shortened && site.is_some());
        self.sampled.left_out += u64::from(site.is_none());
        Ok(site)
    }

    fn define(&mut self, writer: &mut Writer<File>, calls: &[u64]) -> Result<Option<SiteId>, WriteError> {
        if self.is_full {
            return Ok(None);
        }
        let texts: Vec<Arc<str>> = calls.iter().map(|&call| self.text(call)).collect();
        let texts: Vec<&str> = texts.iter().map(|text| &**text).collect();
        if !self.unnamed.is_empty() {
            self.library.names.expect(std::mem::take(&mut self.unnamed));
        }
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

    /// Returns the text of a call's frame.
    fn text(&mut self, call: u64) -> Arc<str> {
        if let Some(text) = self.python.text(call).or_else(|| self.texts.get(&call)) {
            return text.clone();
        }
        let text = self.new_text(call);
        self.texts.insert(call, text.clone());
        text
    }

    fn new_text(&mut self, call: u64) -> Arc<str> {
        let Some((loaded, address)) = self.modules.place(call) else {
            let text = if self.modules.is_made(call) { self.made.text(call) } else { format!("{call:#x}") };
            return text.into();
        };
        if loaded.is_trampoline(call) {
            return SIGNAL.into();
        }
        let file = name_of(&mut self.files, &loaded.path, self.redaction);
        let text: Arc<str> = format!("{file}+{address:#x}").into();
        if !self.frames.contains_key(&text) {
            let version = loaded.binary.as_ref().map(|binary| binary.version);
            let place = Place { path: loaded.path.clone(), version, address };
            self.unnamed.push(place.clone());
            self.frames.insert(text.clone(), place);
        }
        text
    }

    /// Writes names for the frames of all sites, where names are found.
    pub fn name_frames(&mut self, writer: &mut Writer<File>) -> Result<(), WriteError> {
        let native = self.library.names.of(&self.frames).into_iter().map(|(text, name)| match self.redaction {
            Redaction::Nothing => (text, name),
            Redaction::Private => (text, without_folders(&name)),
        });
        let made = self.made.names();
        let made = made.iter().map(|(text, name)| (text.as_str(), without_folders(name)));
        for (text, name) in native.chain(self.python.names()).chain(made) {
            match writer.name_frame(text, &name) {
                Err(WriteError::TooMuch { .. } | WriteError::LimitReached { .. }) => return Ok(()),
                outcome => outcome?,
            }
        }
        Ok(())
    }

    /// Returns the map of made code and its length in bytes, if only its last [`LONGEST_MAP`] were read.
    pub fn cut_map(&self) -> Option<(&Path, u64)> {
        self.made.cut()
    }

    /// Closes what the sites have open, and returns what of them has many parts: dropping it takes milliseconds.
    pub fn memory(self) -> impl Send + 'static {
        let Sites { modules, numbers, known, frames, texts, .. } = self;
        (modules, numbers.memory(), known, frames, texts)
    }

    /// Returns the counts of requests with stacks.
    pub fn sampled(&self) -> Sampled {
        self.sampled
    }
}

/// Leaves out the outermost of `compiled` frames and of the Python functions behind them, as [`SHORTER`] says; returns
/// whether it did.
fn shorten(calls: &mut Vec<u64>, compiled: usize, eighths: usize) -> bool {
    let all = calls.len();
    let scarce = SHORTER.iter().rev().find(|(from, _)| eighths >= *from);
    if let Some((_, [most_compiled, most_python])) = scarce {
        calls.truncate(compiled + most_python);
        calls.drain(compiled.min(*most_compiled)..compiled);
    }
    calls.len() < all
}

/// Returns the page of an address, for lookups of code.
fn page_of(address: u64) -> u64 {
    address >> 12
}

/// Returns the name of a file in texts: its file name; its path if another file has that name, or the name and a number
/// if paths are left out.
fn name_of(files: &mut HashMap<Arc<Path>, Arc<str>>, path: &Arc<Path>, redaction: Redaction) -> Arc<str> {
    if let Some(name) = files.get(path) {
        return name.clone();
    }
    let name = path.file_name().unwrap_or(path.as_os_str()).to_string_lossy();
    let is_taken = |name: &str| files.values().any(|other| **other == *name);
    let name: Arc<str> = match redaction {
        _ if !is_taken(&name) => name.into(),
        Redaction::Nothing => path.to_string_lossy().into(),
        Redaction::Private => {
            let mut numbered = (2..).map(|number| format!("{name}-{number}"));
            numbered.find(|name| !is_taken(name)).unwrap_or_default().into()
        }
    };
    files.insert(path.clone(), name.clone());
    name
}

/// Returns a name without the folders of paths. Compilers put paths into some names, as `f<(lambda at /src/x.cpp:1)>`.
fn without_folders(name: &str) -> String {
    let is_between = |c: char| c.is_whitespace() || "()<>[]{},'\"`".contains(c);
    let words = name.split_inclusive(is_between);
    let shortened = words.map(|word| match word.rsplit_once('/') {
        // Not an operator, as in `operator/=`.
        Some((_, file)) if file.starts_with(|c: char| c.is_alphanumeric() || "._-$".contains(c)) => file,
        _ => word,
    });
    shortened.collect()
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::ffi::CString;
    use std::fs;
    use std::rc::Rc;

    use heapwright_stream::{Limits, Origin, Recording};
    use heapwright_trace::About;

    use super::*;
    use crate::source::Source;

    #[test]
    fn names_lose_their_folders_and_nothing_else() {
        for (name, expected) in [
            ("main a.c:10", "main a.c:10"),
            ("f<(lambda at /home/me/x.cpp:3:4)> x.cpp:9", "f<(lambda at x.cpp:3:4)> x.cpp:9"),
            ("g(src/y.h) in /z", "g(y.h) in z"),
            ("operator/(A, B) in operator/=<A>", "operator/(A, B) in operator/=<A>"),
        ] {
            assert_eq!(without_folders(name), expected);
        }
    }

    /// The sites of a process that has recorded nothing, and that has no mappings.
    fn sites_of_no_process() -> Sites {
        sites_looking(Box::new(|_| true))
    }

    /// The sites of a process that has recorded nothing.
    fn sites_looking(look: Look) -> Sites {
        let folder = tempfile::tempdir().unwrap();
        let path = CString::new(folder.path().to_str().unwrap()).unwrap();
        let limits = Limits { buffers: 2, patience: 1, has_paths: false };
        let _recording = Recording::begin(&path, Origin::Exec, limits).unwrap();
        let stream = fs::read_dir(folder.path()).unwrap().next().unwrap().unwrap().path();
        let source = Source::open(&stream).unwrap();
        Sites::new(source.producer(), Library::default(), look, None, Redaction::Nothing)
    }

    #[test]
    fn the_text_of_a_call_is_that_of_the_file_that_is_mapped_there() {
        let mut sites = sites_of_no_process();
        assert_eq!(&*sites.text(0x10_0500), "0x100500");
        for (path, offset) in [("/no/such/a.so", 0), ("/no/such/b.so", 0), ("/no/such/b.so", 0x2000)] {
            let (range, path) = (0x10_0000..0x10_1000, path.as_bytes());
            let (is_executable, is_guard, file) = (true, false, 0);
            sites.add_mapping(&Mapping { range, is_executable, is_guard, offset, file, path });
            let name = if path.ends_with(b"a.so") { "a.so" } else { "b.so" };
            assert_eq!(&*sites.text(0x10_0500), format!("{name}+{:#x}", offset + 0x500));
        }
        sites.remove_code(&(0x10_0000..0x10_1000));
        assert_eq!(&*sites.text(0x10_0500), "0x100500");
    }

    #[test]
    fn each_request_from_a_path_that_leads_nowhere_is_counted_as_such() {
        let mut sites = sites_of_no_process();
        let mut writer = Writer::new(tempfile::tempfile().unwrap(), &About::default()).unwrap();
        let addresses = [0x1000, 0x2000];
        for requests in 1..=3 {
            assert!(sites.site_of_path(&mut writer, CallPath::New(&addresses), None).unwrap().is_none());
            let Sampled { unclear, left_out, .. } = sites.sampled;
            assert_eq!((unclear, left_out), (requests, 0));
        }
    }

    fn mapping(start: usize, path: &str) -> Mapping<'_> {
        let (range, path) = (start..start + 0x1000, path.as_bytes());
        Mapping { range, is_executable: true, is_guard: false, offset: 0, file: 0, path }
    }

    /// The first calls of a library are read when it is gone; then another one comes to its addresses.
    #[test]
    fn a_place_where_nothing_was_is_looked_at_again_when_something_was_unloaded_there() {
        let is_loaded = Rc::new(Cell::new(false));
        let is_there = is_loaded.clone();
        let mut sites = sites_looking(Box::new(move |visit| {
            if is_there.get() {
                visit(&mapping(0x10_0000, "/no/such/next.so"));
            }
            true
        }));
        sites.add_mapping(&mapping(0x1000, "/no/such/recorder.so"));
        let mut writer = Writer::new(tempfile::tempfile().unwrap(), &About::default()).unwrap();
        let addresses = [0x1500, 0x10_0500];
        assert!(sites.site_of_path(&mut writer, CallPath::New(&addresses), None).unwrap().is_none());
        is_loaded.set(true);
        sites.remove_code(&(0x10_0000..0x10_1000));
        assert!(sites.site_of_path(&mut writer, CallPath::New(&addresses), None).unwrap().is_some());
    }

    /// Takes room for sites until this many eighths are taken.
    fn fill(writer: &mut Writer<File>, eighths: usize) {
        for number in 0.. {
            if writer.eighths_of_sites() >= eighths {
                return;
            }
            writer.define_site(&[&format!("{number}{}", "0".repeat(1_000_000))]).unwrap();
        }
    }

    #[test]
    fn stacks_are_shorter_the_less_room_there_is_for_them() {
        let mut sites = sites_of_no_process();
        let mut writer = Writer::new(tempfile::tempfile().unwrap(), &About::default()).unwrap();
        // Stacks of one innermost function and one outermost each.
        let mut site = |writer: &mut Writer<File>, outermost: u64| {
            let mut calls: Vec<u64> = (1..30).chain([outermost]).collect();
            let site = sites.site_of_calls(writer, &mut calls, 0).unwrap().unwrap();
            (site, calls.len(), sites.sampled.shortened)
        };
        let first = site(&mut writer, 100);
        assert_ne!(site(&mut writer, 101).0, first.0);
        let mut shortened = 0;
        for (eighths, frames) in [(4, 12), (6, 4), (7, 1)] {
            fill(&mut writer, eighths);
            shortened += 1;
            let short = site(&mut writer, 102);
            assert_eq!(short, (site(&mut writer, 103).0, frames, shortened));
            // A site that is known is whole.
            assert_eq!(site(&mut writer, 100), (first.0, 30, shortened));
        }
    }

    #[test]
    fn the_frames_that_are_left_out_are_the_outermost_of_each_language() {
        let left = |compiled: u64, python: u64, eighths| {
            let mut calls: Vec<u64> = (0..compiled).chain(1000..1000 + python).collect();
            let is_shortened = shorten(&mut calls, compiled as usize, eighths);
            (calls, is_shortened)
        };
        assert!(!left(20, 20, 3).1);
        assert!(!left(12, 12, 5).1);
        assert_eq!(left(5, 9, 6), ((0..4).chain(1000..1008).collect(), true));
        assert_eq!(left(0, 9, 7), ((1000..1004).collect(), true));
        assert_eq!(left(2, 0, 8), (vec![0], true));
    }

    #[test]
    fn files_of_one_name_are_told_apart_without_their_paths_too() {
        let paths = ["/home/me/lib.so", "/home/me/lib.so", "/opt/lib.so", "/usr/lib.so"].map(Path::new);
        let names = |redaction| {
            let mut files = HashMap::new();
            paths.map(|path| name_of(&mut files, &path.into(), redaction).to_string())
        };
        assert_eq!(names(Redaction::Nothing), ["lib.so", "lib.so", "/opt/lib.so", "/usr/lib.so"]);
        assert_eq!(names(Redaction::Private), ["lib.so", "lib.so", "lib.so-2", "lib.so-3"]);
    }
}
