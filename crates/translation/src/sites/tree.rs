//! The tree of all call paths of a process: which the process recognises, and the sites they are.

use std::collections::HashMap;

use heapwright_stream::Rule;
use heapwright_trace::SiteId;

use crate::source::Table;

/// A frame of a stack that was unwound.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step {
    /// The instruction pointer or return address.
    pub address: u64,
    /// The call in the site, if the frame is a part of it.
    pub call: Option<u64>,
    /// How its caller is found; `None` when no rule of the process can express that.
    pub rule: Option<Rule>,
}

/// A node: the end of a path.
struct Node {
    parent: u32,
    call: Option<u64>,
    site: Known,
}

/// What is known of a node's site.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Known {
    /// It was not asked for yet.
    No,
    /// The site; `None` when the trace had no room for it.
    Site(Option<SiteId>),
}

/// The tree, which grows by stacks that were unwound. Its nodes are numbered from 1, the first root.
pub struct Tree {
    table: Option<Table>,
    nodes: Vec<Node>,
    /// Nodes by their parents and addresses.
    children: HashMap<(u32, u64), u32, foldhash::fast::RandomState>,
    root: u32,
    /// Whether some path ends at code that is in no known file.
    pub has_strange_ends: bool,
}

impl Tree {
    /// Creates a tree whose steps are added to a table.
    pub fn new(table: Option<Table>) -> Tree {
        let none = Node { parent: 0, call: None, site: Known::No };
        Tree { table, nodes: vec![none], children: HashMap::default(), root: 0, has_strange_ends: false }
    }

    /// Makes all paths unknown to the process, because the code at some address has changed.
    pub fn restart(&mut self) {
        self.has_strange_ends = false;
        if self.root != 0 {
            self.begin();
        }
    }

    fn begin(&mut self) {
        self.children.clear();
        self.root = self.push(Node { parent: 0, call: None, site: Known::No });
        if let Some(table) = self.table.as_ref().and_then(Table::get) {
            table.begin_at(self.root);
        }
    }

    fn push(&mut self, node: Node) -> u32 {
        self.nodes.push(node);
        self.nodes.len() as u32 - 1
    }

    /// Adds the path of a stack, up to a step that the process cannot follow or has no room for.
    pub fn add(&mut self, steps: &[Step]) {
        /// Far more than the table has room for.
        const MOST: usize = 1 << 24;
        if self.table.is_none() || self.nodes.len() > MOST {
            return;
        }
        if self.root == 0 {
            self.begin();
        }
        let mut node = self.root;
        for step in steps {
            let Some(next) = self.child(node, step) else { return };
            node = next;
        }
    }

    fn child(&mut self, node: u32, step: &Step) -> Option<u32> {
        if let Some(&known) = self.children.get(&(node, step.address)) {
            return Some(known);
        }
        let (rule, next) = (step.rule?, self.nodes.len() as u32);
        let table = self.table.as_ref().and_then(Table::get)?;
        if !table.add(node, step.address, next, rule) {
            return None;
        }
        self.children.insert((node, step.address), next);
        Some(self.push(Node { parent: node, call: step.call, site: Known::No }))
    }

    /// Returns the site of a node; `None` when there is no such node.
    pub fn site(&self, node: u32) -> Option<Known> {
        Some(self.nodes.get(node as usize)?.site)
    }

    /// Sets the site of a node that exists.
    pub fn set_site(&mut self, node: u32, site: Option<SiteId>) {
        if let Some(node) = self.nodes.get_mut(node as usize) {
            node.site = Known::Site(site);
        }
    }

    /// Stores the calls of a path in `calls`, innermost first.
    pub fn calls(&self, mut node: u32, calls: &mut Vec<u64>) {
        calls.clear();
        // Parents have lower numbers, so that this ends.
        while let Some(found) = self.nodes.get(node as usize).filter(|_| node != 0) {
            calls.extend(found.call);
            node = found.parent;
        }
        calls.reverse();
    }
}
