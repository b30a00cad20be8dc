//! A list of slabs of one class that have free blocks, linked through the metadata of each.

/// The number that stands for no slab.
pub(crate) const NO_SLAB: u32 = u32::MAX;

/// The place of a slab in a list: its neighbours there.
pub struct Node {
    /// The slab behind this one; [`NO_SLAB`] for the last.
    next: u32,
    /// The slab before this one; the last for the first.
    previous: u32,
    is_listed: bool,
}

impl Node {
    /// The node of a slab in no list.
    pub const UNLISTED: Node = Node { next: NO_SLAB, previous: NO_SLAB, is_listed: false };

    /// Returns whether the slab is in a list.
    pub fn is_listed(&self) -> bool {
        self.is_listed
    }

    /// The number of the slab behind this one.
    pub fn next(&self) -> Option<u32> {
        Some(self.next).filter(|&number| number != NO_SLAB)
    }

    /// The number of the slab before this one, which is not the first.
    pub(crate) fn previous(&self) -> u32 {
        self.previous
    }
}

/// The slabs that lists of one kind consist of.
pub trait Nodes {
    /// The node of the slab of a number.
    fn node(&mut self, number: u32) -> &mut Node;
}

/// The first slab of a list, by its number.
pub struct SlabList(u32);

impl SlabList {
    /// The list of no slab.
    pub const EMPTY: SlabList = SlabList(NO_SLAB);

    /// Returns the number of the first slab.
    pub fn first(&self) -> Option<u32> {
        Some(self.0).filter(|&number| number != NO_SLAB)
    }

    pub(crate) fn last(&self, nodes: &mut impl Nodes) -> Option<u32> {
        Some(nodes.node(self.first()?).previous)
    }

    /// Whether the list has more slabs than this one.
    pub(crate) fn has_others(&self, number: u32, nodes: &mut impl Nodes) -> bool {
        self.0 != number || nodes.node(number).next != NO_SLAB
    }

    /// Puts a slab that is in no list in front.
    pub fn push(&mut self, number: u32, nodes: &mut impl Nodes) {
        let previous = self.last(nodes).unwrap_or(number);
        let next = core::mem::replace(&mut self.0, number);
        *nodes.node(number) = Node { next, previous, is_listed: true };
        if next != NO_SLAB {
            nodes.node(next).previous = number;
        }
    }

    /// Takes a slab of this list out of it.
    pub fn remove(&mut self, number: u32, nodes: &mut impl Nodes) {
        self.take_out(number, nodes);
    }

    /// Takes a slab of this list out of it; returns the number of the slab before it, [`NO_SLAB`] if it was the first.
    pub(crate) fn take_out(&mut self, number: u32, nodes: &mut impl Nodes) -> u32 {
        let Node { next, previous, .. } = core::mem::replace(nodes.node(number), Node::UNLISTED);
        let first = self.0;
        if first == number {
            self.0 = next;
        } else {
            nodes.node(previous).next = next;
        }
        match next {
            NO_SLAB if first == number => {}
            NO_SLAB => nodes.node(first).previous = previous,
            next => nodes.node(next).previous = previous,
        }
        if first == number { NO_SLAB } else { previous }
    }

    /// Returns the number of the slab before one of this list; [`NO_SLAB`] for the first.
    pub(crate) fn before(&self, number: u32, nodes: &mut impl Nodes) -> u32 {
        if self.0 == number { NO_SLAB } else { nodes.node(number).previous }
    }
}
