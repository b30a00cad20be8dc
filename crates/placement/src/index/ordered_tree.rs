//! The ordered tree: a counted B+ tree of distinct keys, for the rank of a key and the key of a rank.
//!
//! ```text
//!   header:  root | height | size | fresh | freed | nodes…
//!   leaf:    len  | up to 63 keys in order
//!   inner:   len  | up to 31 separators | up to 31 links, each a child and how many keys lie below it
//! ```
//! A separator is at most the least key of its child and above every key of the child before; the first separator of
//! a node is the one its parent has for it (0 in the leftmost). Every node but the root is at least half full.
//!
//! Insertion splits full nodes and removal refills half-full ones on the way down, so that one descent suffices and the
//! path need not be stored. Unused nodes are taken in order; zeros are an empty tree.

use core::hint::select_unpredictable;

use crate::cells::Cells;
use crate::rules::MAX_GRANULES;

/// Number of cells of a node.
const NODE: usize = 64;
/// The most keys in a leaf, and the fewest unless it is the root.
const KEYS: usize = NODE - 1;
const FEWEST_KEYS: usize = KEYS / 2;
/// The most children of an inner node, and the fewest unless it is the root.
const CHILDREN: usize = KEYS / 2;
const FEWEST_CHILDREN: usize = CHILDREN / 2;

/// Offsets in the node of a leaf's keys or an inner node's separators, and of its links.
const FIRST_KEY: usize = 1;
const FIRST_LINK: usize = FIRST_KEY + CHILDREN;

/// The cells of the header.
const ROOT: usize = 0;
/// Number of levels of inner nodes.
const HEIGHT: usize = 1;
const SIZE: usize = 2;
/// Number of nodes behind the first that have ever been in use.
const FRESH: usize = 3;
/// The node freed last, plus one; each freed node begins with the one freed before it in the same way.
const FREED: usize = 4;
const HEADER: usize = 5;

/// Upper bound of the height: a root has two children and every other node at least half of the most.
const HIGHEST: u64 = 8;
const _: () = assert!(2 * (FEWEST_CHILDREN as u64).pow(HIGHEST as u32) > MAX_GRANULES as u64 / 64);

/// Returns how many cells a tree of at most `keys` keys takes, with all nodes as empty as allowed.
pub(crate) const fn cells_for(keys: usize) -> usize {
    let mut level = if keys < 2 * FEWEST_KEYS { 1 } else { keys / FEWEST_KEYS };
    let mut nodes = level;
    while level > 1 {
        level = if level < 2 * FEWEST_CHILDREN { 1 } else { level / FEWEST_CHILDREN };
        nodes += level;
    }
    HEADER + nodes * NODE
}

/// A node and its height above the leaves.
#[derive(Clone, Copy)]
struct Node {
    at: usize,
    height: usize,
}

impl Node {
    /// Returns the offset of its keys or separators.
    #[inline(always)]
    fn keys(self) -> usize {
        self.at + FIRST_KEY
    }

    /// Returns the offset of its links, if it is an inner node.
    #[inline(always)]
    fn links(self) -> usize {
        self.at + FIRST_LINK
    }

    #[inline(always)]
    fn most(self) -> usize {
        if self.height == 0 { KEYS } else { CHILDREN }
    }

    #[inline(always)]
    fn fewest(self) -> usize {
        if self.height == 0 { FEWEST_KEYS } else { FEWEST_CHILDREN }
    }
}

/// A link: the child's number and, in the upper half, how many keys lie below it.
#[derive(Clone, Copy)]
struct Link(u64);

impl Link {
    #[inline(always)]
    fn weight(self) -> usize {
        (self.0 >> 32) as usize
    }

    #[inline(always)]
    fn number(self) -> usize {
        self.0 as u32 as usize
    }
}

/// A view of the tree stored in `cells` from `base` on, all zeros for an empty one.
#[derive(Clone, Copy)]
pub(crate) struct OrderedTree {
    base: usize,
}

impl OrderedTree {
    #[inline(always)]
    pub(crate) const fn new(base: usize) -> Self {
        OrderedTree { base }
    }

    #[inline(always)]
    fn node(self, number: usize, height: usize) -> Node {
        Node { at: self.base + HEADER + number * NODE, height }
    }

    #[inline(always)]
    fn number(self, node: Node) -> usize {
        (node.at - self.base - HEADER) / NODE
    }

    /// Returns a link to `child`, below which there are `weight` keys.
    #[inline(always)]
    fn link_to(self, child: Node, weight: usize) -> Link {
        Link((weight as u64) << 32 | self.number(child) as u64)
    }

    /// Returns the number of keys.
    #[inline(always)]
    pub(crate) fn size(self, cells: &Cells<'_, u64>) -> usize {
        cells.get(self.base + SIZE) as usize
    }

    #[inline(always)]
    fn root(self, cells: &Cells<'_, u64>) -> Node {
        self.node(cells.get(self.base + ROOT) as usize, cells.get(self.base + HEIGHT) as usize)
    }

    #[inline(always)]
    fn len(self, cells: &Cells<'_, u64>, node: Node) -> usize {
        cells.get(node.at) as usize
    }

    fn set_len(self, cells: &mut Cells<'_, u64>, node: Node, len: usize) {
        cells.set(node.at, len as u64);
    }

    #[inline(always)]
    fn key(self, cells: &Cells<'_, u64>, node: Node, place: usize) -> u64 {
        cells.get(node.keys() + place)
    }

    #[inline(always)]
    fn link(self, cells: &Cells<'_, u64>, node: Node, place: usize) -> Link {
        Link(cells.get(node.links() + place))
    }

    #[inline(always)]
    fn set_link(self, cells: &mut Cells<'_, u64>, node: Node, place: usize, link: Link) {
        cells.set(node.links() + place, link.0);
    }

    /// Adds `change` to the number of keys below the child at `place`.
    #[inline(always)]
    fn change_weight(self, cells: &mut Cells<'_, u64>, node: Node, place: usize, change: i64) {
        let cell = node.links() + place;
        cells.set(cell, cells.get(cell).wrapping_add_signed(change << 32));
    }

    #[inline(always)]
    fn child(self, cells: &Cells<'_, u64>, node: Node, place: usize) -> Node {
        self.node(self.link(cells, node, place).number(), node.height - 1)
    }

    /// Returns how many of the node's keys or separators are below `bound`.
    #[inline(always)]
    fn below(self, cells: &Cells<'_, u64>, node: Node, bound: u64) -> usize {
        let len = self.len(cells, node);
        let mut low = 0;
        // Always six steps, each without a branch: neither the number of keys nor their order can be predicted.
        for half in [32, 16, 8, 4, 2, 1] {
            let next = select_unpredictable(low + half <= len, low + half, 0);
            let lower = next != 0 && self.key(cells, node, next.max(1) - 1) < bound;
            low = select_unpredictable(lower, next, low);
        }
        low
    }

    /// Returns the place of the child that contains `key` if any does; the first separator is never above it.
    #[inline(always)]
    fn place_of(self, cells: &Cells<'_, u64>, node: Node, key: u64) -> usize {
        self.below(cells, node, key + 1) - 1
    }

    /// Returns how many keys are below `key`.
    pub(crate) fn rank(self, cells: &Cells<'_, u64>, key: u64) -> usize {
        let (mut node, mut rank) = (self.root(cells), 0);
        while node.height > 0 {
            let place = self.place_of(cells, node, key);
            rank += (0..place).map(|before| self.link(cells, node, before).weight()).sum::<usize>();
            node = self.child(cells, node, place);
        }
        rank + self.below(cells, node, key)
    }

    /// Returns the key with `rank` keys below it; `rank` is below the size.
    pub(crate) fn select(self, cells: &Cells<'_, u64>, mut rank: usize) -> u64 {
        let mut node = self.root(cells);
        while node.height > 0 {
            let mut place = 0;
            let mut link = self.link(cells, node, 0);
            while rank >= link.weight() {
                rank -= link.weight();
                place += 1;
                link = self.link(cells, node, place);
            }
            node = self.node(link.number(), node.height - 1);
        }
        self.key(cells, node, rank)
    }

    /// Returns whether the tree contains `key`.
    pub(crate) fn contains(self, cells: &Cells<'_, u64>, key: u64) -> bool {
        let rank = self.rank(cells, key);
        rank < self.size(cells) && self.select(cells, rank) == key
    }

    /// Adds `key`, which must not be in the tree and is below `u64::MAX`.
    pub(crate) fn insert(self, cells: &mut Cells<'_, u64>, key: u64) {
        let mut node = self.root(cells);
        if self.len(cells, node) == node.most() {
            node = self.grow_root(cells, node);
        }
        while node.height > 0 {
            let mut place = self.place_of(cells, node, key);
            let child = self.child(cells, node, place);
            if self.len(cells, child) == child.most() {
                self.split(cells, node, place);
                place += usize::from(self.key(cells, node, place + 1) <= key);
            }
            self.change_weight(cells, node, place, 1);
            node = self.child(cells, node, place);
        }
        let place = self.below(cells, node, key);
        self.open(cells, node, place);
        cells.set(node.keys() + place, key);
        cells.set(self.base + SIZE, cells.get(self.base + SIZE) + 1);
    }

    /// Removes `key`, which must be in the tree.
    pub(crate) fn remove(self, cells: &mut Cells<'_, u64>, key: u64) {
        let root = self.root(cells);
        let mut node = root;
        while node.height > 0 {
            let mut place = self.place_of(cells, node, key);
            let child = self.child(cells, node, place);
            if self.len(cells, child) == child.fewest() {
                self.refill(cells, node, place);
                place = self.place_of(cells, node, key);
            }
            self.change_weight(cells, node, place, -1);
            node = self.child(cells, node, place);
        }
        let place = self.below(cells, node, key);
        debug_assert_eq!(self.key(cells, node, place), key, "the key is there");
        self.close(cells, node, place);
        cells.set(self.base + SIZE, cells.get(self.base + SIZE) - 1);
        if root.height > 0 && self.len(cells, root) == 1 {
            cells.set(self.base + ROOT, self.link(cells, root, 0).number() as u64);
            cells.set(self.base + HEIGHT, root.height as u64 - 1);
            self.free(cells, root);
        }
    }

    /// Replaces `from`, which must be in the tree, by `to`, which must not. Where both belong into one leaf, only the
    /// keys between them are moved.
    pub(crate) fn replace(self, cells: &mut Cells<'_, u64>, from: u64, to: u64) {
        let mut node = self.root(cells);
        while node.height > 0 {
            let place = self.place_of(cells, node, from);
            if self.place_of(cells, node, to) != place {
                self.remove(cells, from);
                self.insert(cells, to);
                return;
            }
            node = self.child(cells, node, place);
        }
        let (old, new) = (self.below(cells, node, from), self.below(cells, node, to));
        debug_assert_eq!(self.key(cells, node, old), from, "the key is there");
        let keys = node.keys();
        if new <= old {
            cells.copy_within(keys + new, keys + new + 1, old - new);
            cells.set(keys + new, to);
        } else {
            cells.copy_within(keys + old + 1, keys + old, new - 1 - old);
            cells.set(keys + new - 1, to);
        }
    }

    /// Adds a root above the full `root`, which is split.
    fn grow_root(self, cells: &mut Cells<'_, u64>, root: Node) -> Node {
        let above = self.new_node(cells, root.height + 1);
        cells.set(above.keys(), 0);
        let link = self.link_to(root, self.size(cells));
        self.set_link(cells, above, 0, link);
        self.set_len(cells, above, 1);
        self.split(cells, above, 0);
        cells.set(self.base + ROOT, self.number(above) as u64);
        cells.set(self.base + HEIGHT, above.height as u64);
        above
    }

    /// Divides the full child at `place` of `node`, which is not full, into two.
    fn split(self, cells: &mut Cells<'_, u64>, node: Node, place: usize) {
        let left = self.child(cells, node, place);
        let right = self.new_node(cells, left.height);
        let kept = left.most().div_ceil(2);
        self.copy(cells, left, kept, right, 0, left.most() - kept);
        self.set_len(cells, right, left.most() - kept);
        self.set_len(cells, left, kept);
        let weight = self.weigh(cells, right);
        self.open(cells, node, place + 1);
        cells.set(node.keys() + place + 1, self.key(cells, right, 0));
        self.set_link(cells, node, place + 1, self.link_to(right, weight));
        self.change_weight(cells, node, place, -(weight as i64));
    }

    /// Joins the half-full child at `place` of `node` with a sibling, or shares their entries out evenly.
    fn refill(self, cells: &mut Cells<'_, u64>, node: Node, place: usize) {
        let place = if place + 1 < self.len(cells, node) { place } else { place - 1 };
        let (left, right) = (self.child(cells, node, place), self.child(cells, node, place + 1));
        let weight = self.link(cells, node, place).weight() + self.link(cells, node, place + 1).weight();
        let (has, gives) = (self.len(cells, left), self.len(cells, right));
        if has + gives <= left.most() {
            self.copy(cells, right, 0, left, has, gives);
            self.set_len(cells, left, has + gives);
            self.free(cells, right);
            self.close(cells, node, place + 1);
            self.set_link(cells, node, place, self.link_to(left, weight));
            return;
        }
        self.share_out(cells, left, right);
        let behind = self.weigh(cells, right);
        cells.set(node.keys() + place + 1, self.key(cells, right, 0));
        self.set_link(cells, node, place, self.link_to(left, weight - behind));
        self.set_link(cells, node, place + 1, self.link_to(right, behind));
    }

    /// Moves entries between two neighbours until their numbers differ by at most one.
    fn share_out(self, cells: &mut Cells<'_, u64>, left: Node, right: Node) {
        let (before, behind) = (self.len(cells, left), self.len(cells, right));
        let half = (before + behind) / 2;
        if before < half {
            let moved = half - before;
            self.copy(cells, right, 0, left, before, moved);
            self.copy(cells, right, moved, right, 0, behind - moved);
        } else {
            let moved = before - half;
            self.copy(cells, right, 0, right, moved, behind);
            self.copy(cells, left, half, right, 0, moved);
        }
        self.set_len(cells, left, half);
        self.set_len(cells, right, before + behind - half);
    }

    /// Returns how many keys lie below `node`.
    fn weigh(self, cells: &Cells<'_, u64>, node: Node) -> usize {
        let len = self.len(cells, node);
        if node.height == 0 { len } else { (0..len).map(|place| self.link(cells, node, place).weight()).sum() }
    }

    /// Copies `count` entries; the runs may overlap.
    #[inline(always)]
    fn copy(self, cells: &mut Cells<'_, u64>, from: Node, at: usize, to: Node, place: usize, count: usize) {
        cells.copy_within(from.keys() + at, to.keys() + place, count);
        if from.height > 0 {
            cells.copy_within(from.links() + at, to.links() + place, count);
        }
    }

    /// Makes room for an entry at `place` of `node`, which is not full.
    #[inline(always)]
    fn open(self, cells: &mut Cells<'_, u64>, node: Node, place: usize) {
        let len = self.len(cells, node);
        self.copy(cells, node, place, node, place + 1, len - place);
        self.set_len(cells, node, len + 1);
    }

    /// Removes the entry at `place` of `node`.
    #[inline(always)]
    fn close(self, cells: &mut Cells<'_, u64>, node: Node, place: usize) {
        let len = self.len(cells, node);
        self.copy(cells, node, place + 1, node, place, len - place - 1);
        self.set_len(cells, node, len - 1);
    }

    /// Returns an unused node; there is one, because the cells suffice for the most keys.
    fn new_node(self, cells: &mut Cells<'_, u64>, height: usize) -> Node {
        let freed = cells.get(self.base + FREED);
        if freed != 0 {
            let node = self.node(freed as usize - 1, height);
            cells.set(self.base + FREED, cells.get(node.at));
            return node;
        }
        let fresh = cells.get(self.base + FRESH) + 1;
        cells.set(self.base + FRESH, fresh);
        self.node(fresh as usize, height)
    }

    fn free(self, cells: &mut Cells<'_, u64>, node: Node) {
        cells.set(node.at, cells.get(self.base + FREED));
        cells.set(self.base + FREED, self.number(node) as u64 + 1);
    }

    /// Checks that every node is full enough, in order and counted, and that every other node that was ever in use is
    /// free, in a tree for at most `most` keys. The cells may contain anything.
    pub(crate) fn is_sound(self, cells: &Cells<'_, u64>, most: usize) -> bool {
        let nodes = (cells_for(most) - HEADER) / NODE;
        let [root, height, fresh] = [ROOT, HEIGHT, FRESH].map(|cell| cells.get(self.base + cell));
        if root > fresh || fresh >= nodes as u64 || height > HIGHEST {
            return false;
        }
        let (root, fresh) = (self.root(cells), fresh as usize);
        let fewest = if root.height == 0 { 0 } else { 2 };
        self.len(cells, root) >= fewest
            && self.count_nodes(cells, root, fresh, 0, u64::MAX).is_some_and(|used| {
                self.weigh(cells, root) == self.size(cells) && self.are_free(cells, fresh, fresh + 1 - used)
            })
    }

    /// Counts the nodes from `node` down; `None` unless all have numbers up to `fresh` and their keys lie in the ranges
    /// that start with `from..to`. Recursion is as deep as the tree, and no node is visited twice, because the key
    /// ranges of neighbours are disjoint.
    fn count_nodes(self, cells: &Cells<'_, u64>, node: Node, fresh: usize, from: u64, to: u64) -> Option<usize> {
        let len = self.len(cells, node);
        if len > node.most() {
            return None;
        }
        let ordered = (1..len).all(|place| self.key(cells, node, place - 1) < self.key(cells, node, place));
        let bounded = len == 0 || self.key(cells, node, 0) >= from && self.key(cells, node, len - 1) < to;
        if !ordered || !bounded || node.height > 0 && self.key(cells, node, 0) != from {
            return None;
        }
        let mut count = 1;
        for place in (0..len).take_while(|_| node.height > 0) {
            let link = self.link(cells, node, place);
            if link.number() > fresh {
                return None;
            }
            let child = self.child(cells, node, place);
            let end = if place + 1 < len { self.key(cells, node, place + 1) } else { to };
            if self.len(cells, child) < child.fewest() {
                return None;
            }
            count += self.count_nodes(cells, child, fresh, self.key(cells, node, place), end)?;
            if self.weigh(cells, child) != link.weight() {
                return None;
            }
        }
        Some(count)
    }

    /// Returns whether the list of freed nodes has `count` nodes with numbers up to `fresh`, none of them in use.
    fn are_free(self, cells: &Cells<'_, u64>, fresh: usize, count: usize) -> bool {
        let mut freed = cells.get(self.base + FREED);
        for _ in 0..count {
            if freed == 0 || freed > fresh as u64 + 1 || self.is_in_use(cells, freed as usize - 1) {
                return false;
            }
            freed = cells.get(self.node(freed as usize - 1, 0).at);
        }
        freed == 0
    }

    /// Returns whether the tree, which is sound, contains the node of this number: a search for its first key would
    /// lead to it.
    fn is_in_use(self, cells: &Cells<'_, u64>, number: usize) -> bool {
        let key = self.key(cells, self.node(number, 0), 0).min(u64::MAX - 1);
        let mut node = self.root(cells);
        while self.number(node) != number && node.height > 0 {
            node = self.child(cells, node, self.place_of(cells, node, key));
        }
        self.number(node) == number
    }
}

#[cfg(test)]
mod tests;
