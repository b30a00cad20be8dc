//! A list of slabs of one class that have free blocks, linked through the metadata of each.

use crate::slab::NO_SLAB;

/// The place of a slab in a list: its neighbours there.
pub(crate) struct Node {
    next: u32,
    previous: u32,
    is_listed: bool,
}

impl Node {
    /// In no list.
    pub(crate) const UNLISTED: Node = Node { next: NO_SLAB, previous: NO_SLAB, is_listed: false };

    pub(crate) fn is_listed(&self) -> bool {
        self.is_listed
    }

    /// Returns whether the list has other slabs, too.
    pub(crate) fn has_neighbours(&self) -> bool {
        self.next != NO_SLAB || self.previous != NO_SLAB
    }

    /// The number of the slab behind this one.
    pub(crate) fn next(&self) -> Option<u32> {
        Some(self.next).filter(|&number| number != NO_SLAB)
    }
}

/// The slabs that lists of one kind consist of.
pub(crate) trait Nodes {
    /// The node of the slab of a number.
    fn node(&mut self, number: u32) -> &mut Node;
}

/// The first slab of a list, by its number.
pub(crate) struct SlabList(u32);

impl SlabList {
    pub(crate) const EMPTY: SlabList = SlabList(NO_SLAB);

    pub(crate) fn first(&self) -> Option<u32> {
        Some(self.0).filter(|&number| number != NO_SLAB)
    }

    /// Puts a slab that is in no list in front.
    pub(crate) fn push(&mut self, number: u32, nodes: &mut impl Nodes) {
        let next = core::mem::replace(&mut self.0, number);
        *nodes.node(number) = Node { next, previous: NO_SLAB, is_listed: true };
        if next != NO_SLAB {
            nodes.node(next).previous = number;
        }
    }

    /// Takes a slab of this list out of it.
    pub(crate) fn remove(&mut self, number: u32, nodes: &mut impl Nodes) {
        let Node { next, previous, .. } = core::mem::replace(nodes.node(number), Node::UNLISTED);
        match previous {
            NO_SLAB => self.0 = next,
            previous => nodes.node(previous).next = next,
        }
        if next != NO_SLAB {
            nodes.node(next).previous = previous;
        }
    }
}
