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
    /// By number; `None` when the trace had no room for the site.
    sites: Vec<Option<SiteId>>,
    /// Whether a path may end at code that is in no known file.
    pub has_strange_ends: bool,
}

impl Numbers {
    /// The most paths that are remembered.
    const MOST: usize = 1 << 20;

    /// Creates an empty set of paths, whose rules and numbers are added to `table`.
    pub fn new(table: Option<Table>) -> Numbers {
        let (ruled, known, sites) = (HashSet::default(), HashMap::default(), Vec::new());
        let mut numbers = Numbers { table, generation: 0, ruled, known, sites, has_strange_ends: false };
        numbers.restart();
        numbers
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

    /// Returns the site of the path with this hash, if the path is known.
    pub fn site_of(&self, hash: u64) -> Option<Option<SiteId>> {
        self.site(*self.known.get(&hash)?)
    }

    /// Returns the site of the path with this number, if there is one.
    pub fn site(&self, number: u32) -> Option<Option<SiteId>> {
        self.sites.get(number as usize).copied()
    }

    /// Adds a path, so that the process records its number the next time.
    pub fn add(&mut self, hash: u64, site: Option<SiteId>) {
        if self.sites.len() == Numbers::MOST {
            return;
        }
        let number = self.sites.len() as u32;
        self.sites.push(site);
        self.known.insert(hash, number);
        if let Some(table) = self.table.as_ref().and_then(Table::get) {
            // Without room for the number, the process records the addresses.
            let _has_room = table.add_number(hash, number);
        }
    }
}
