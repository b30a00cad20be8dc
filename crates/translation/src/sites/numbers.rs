//! The paths that a process has followed through its stacks: their numbers and sites.

use std::collections::{HashMap, HashSet};

use heapwright_trace::SiteId;

use super::rules::Step;
use crate::source::Table;

/// Paths by number, and what the table of the stream has.
pub struct Numbers {
    table: Option<Table>,
    generation: u16,
    /// Addresses that have a rule in the table.
    ruled: HashSet<u64, foldhash::fast::RandomState>,
    /// Numbers by the hashes of paths.
    known: HashMap<u64, u32, foldhash::fast::RandomState>,
    /// By number.
    paths: Vec<Path>,
    /// Sites by path and stack of Python functions.
    within: HashMap<(u32, u32), Option<SiteId>, foldhash::fast::RandomState>,
    /// Whether a path may end at code that is in no known file.
    pub has_strange_ends: bool,
}

/// A path.
struct Path {
    calls: Box<[u64]>,
    /// Its site, if it is known; `Some(None)` when the trace had no room for it.
    site: Option<Option<SiteId>>,
}

impl Numbers {
    /// The most paths that are remembered, and the most within stacks of Python functions.
    const MOST: usize = 1 << 20;

    /// Creates an empty set of paths, whose rules and numbers are added to `table`.
    pub fn new(table: Option<Table>) -> Numbers {
        let (ruled, known, paths) = (HashSet::default(), HashMap::default(), Vec::new());
        let within = HashMap::default();
        let mut numbers = Numbers { table, generation: 0, ruled, known, paths, within, has_strange_ends: false };
        numbers.restart();
        numbers
    }

    /// Returns what of them has many parts.
    pub fn memory(self) -> impl Send + 'static {
        self.paths
    }

    /// Makes the process forget all rules, because the code at some address has changed.
    pub fn restart(&mut self) {
        self.has_strange_ends = false;
        self.ruled.clear();
        self.known.clear();
        match self.generation.checked_add(1) {
            Some(next) => self.generation = next,
            None => self.table = None,
        }
        if let Some(table) = self.table.as_ref().and_then(Table::get) {
            table.begin(self.generation);
        }
    }

    /// Lets the process use rules again after it has unloaded code.
    pub fn settle_unloaded(&self) {
        if let Some(table) = self.table.as_ref().and_then(Table::get) {
            table.settle_unloaded();
        }
    }

    /// Adds the rules of a stack's frames, so that the process follows it the next time.
    pub fn add_rules(&mut self, steps: &[Step]) {
        let Some(table) = self.table.as_ref().and_then(Table::get) else { return };
        for step in steps {
            if let Some(rule) = step.rule
                && self.ruled.insert(step.address)
            {
                // A table without room leaves its stacks to be copied.
                let _has_room = table.add_rule(step.address, rule);
            }
        }
    }

    /// Returns the hash of a path.
    pub fn hash(&self, addresses: &[u64]) -> u64 {
        self.table.as_ref().and_then(Table::get).map_or(0, |table| table.hash(addresses))
    }

    /// Returns the number of the path with this hash, if it has one.
    pub fn number_of(&self, hash: u64) -> Option<u32> {
        self.known.get(&hash).copied()
    }

    /// Returns the site of a path within a stack of Python functions, if it is known.
    #[inline(always)]
    pub fn site(&self, number: u32, python: u32) -> Option<Option<SiteId>> {
        match python {
            0 => self.paths.get(number as usize)?.site,
            _ => self.within.get(&(number, python)).copied(),
        }
    }

    /// Sets that site.
    pub fn set_site(&mut self, number: u32, python: u32, site: Option<SiteId>) {
        let Some(path) = self.paths.get_mut(number as usize) else { return };
        match python {
            0 => path.site = Some(site),
            _ if self.within.len() < Numbers::MOST => drop(self.within.insert((number, python), site)),
            // The site is found by its calls.
            _ => {}
        }
    }

    /// Stores the calls of a path in `calls`, innermost first.
    pub fn calls(&self, number: u32, calls: &mut Vec<u64>) {
        calls.clear();
        calls.extend(self.paths.get(number as usize).into_iter().flat_map(|path| path.calls.iter()));
    }

    /// Adds a path, so that the process records its number the next time; `None` when there are too many.
    pub fn add(&mut self, hash: u64, calls: Vec<u64>) -> Option<u32> {
        if self.paths.len() == Numbers::MOST {
            return None;
        }
        let number = self.paths.len() as u32;
        self.paths.push(Path { calls: calls.into(), site: None });
        self.known.insert(hash, number);
        self.add_to_table(hash, number);
        Some(number)
    }

    /// Adds a number to the table, by its hash. Without room for it, the process records the stack each time.
    pub fn add_to_table(&self, hash: u64, number: u32) {
        if let Some(table) = self.table.as_ref().and_then(Table::get) {
            let _has_room = table.add_number(hash, number);
        }
    }
}
