//! The min tries: holes longer than 64 granules, in bins by length, without any memory of their own.
//!
//! A bin is a binary trie that is also a heap: every hole in it sits above those of its subtree that come after it in
//! the bin's order. The root is therefore the bin's first hole, and the `d`-th bit of a key distinguishes the two
//! children of a node at depth `d`. A trie is at most as deep as a key has bits, whatever the holes are.
//!
//! A hole is identified by the word of the map it starts in, in which it is the last start. Its two links are stored in
//! the 64 hole bits of the map behind its start, which are otherwise unused ([`BlockMap::note`]).

use crate::bits::highest;
use crate::map::{BlockMap, Hole};

/// The order of a bin: by address when all its holes are equally long or the length does not matter, else by length
/// and then address. The number is that of the low bits of a length in which the bin's holes differ.
#[derive(Clone, Copy)]
pub struct LengthBits(pub(crate) u32);

/// A hole in a trie: the word of its stretch in which it starts, plus one. 0 is no hole.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Node(pub(crate) u32);

/// All holes of a trie start in the same stretch of this many words, so that 32 bits of a link suffice. Functions are
/// passed the first word of the stretch as `base`.
const STRETCH: usize = if cfg!(test) { 1 << 7 } else { 1 << 31 };

/// Returns how many stretches `words` of a map are.
pub(crate) const fn stretches(words: usize) -> usize {
    words.div_ceil(STRETCH)
}

/// Returns the stretch in which a hole starts.
#[inline(always)]
pub(crate) fn stretch_of(hole: Hole) -> usize {
    hole.start / 64 / STRETCH
}

/// Returns the first word of a stretch.
#[inline(always)]
pub(crate) fn base_of(stretch: usize) -> usize {
    stretch * STRETCH
}

const NONE: Node = Node(0);

/// Number of bits of a node's word that distinguish it from others.
const NODE_BITS: u32 = STRETCH.ilog2();

impl Node {
    fn of(hole: Hole) -> Node {
        Node((hole.start / 64 % STRETCH) as u32 + 1)
    }

    fn word(self, base: usize) -> usize {
        base + self.0 as usize - 1
    }

    pub(crate) fn start(self, map: &BlockMap<'_>, base: usize) -> usize {
        let word = self.word(base);
        word * 64 + highest(map.starts(word))
    }

    pub(crate) fn hole(self, map: &BlockMap<'_>, base: usize) -> Hole {
        map.hole_at(self.start(map, base))
    }
}

/// Where the name of a node is written: in the bin's root or in a link of its parent.
#[derive(Clone, Copy)]
enum Slot {
    Root,
    Link { parent: usize, side: usize },
}

/// What orders holes in a bin.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Key {
    len: usize,
    node: u32,
}

impl LengthBits {
    #[inline(always)]
    fn key(self, map: &BlockMap<'_>, base: usize, node: Node) -> Key {
        Key { len: if self.0 == 0 { 0 } else { node.hole(map, base).len }, node: node.0 }
    }

    #[inline(always)]
    fn key_of(self, hole: Hole) -> Key {
        Key { len: if self.0 == 0 { 0 } else { hole.len }, node: Node::of(hole).0 }
    }

    /// Which child holds the key at `depth`: the bits of the length from the top, then those of the word from below.
    #[inline(always)]
    fn side(self, key: Key, depth: u32) -> usize {
        if depth < self.0 {
            key.len >> (self.0 - 1 - depth) & 1
        } else {
            (key.node - 1) as usize >> (depth - self.0) & 1
        }
    }
}

#[inline(always)]
fn links(map: &BlockMap<'_>, start: usize) -> [Node; 2] {
    let note = map.note(start);
    [Node(note as u32), Node((note >> 32) as u32)]
}

#[inline(always)]
fn set_links(map: &mut BlockMap<'_>, start: usize, [low, high]: [Node; 2]) {
    map.set_note(start, u64::from(low.0) | u64::from(high.0) << 32);
}

#[inline(always)]
fn write(map: &mut BlockMap<'_>, root: &mut Node, slot: Slot, node: Node) {
    match slot {
        Slot::Root => *root = node,
        Slot::Link { parent, side } => {
            let mut pair = links(map, parent);
            pair[side] = node;
            set_links(map, parent, pair);
        }
    }
}

/// Adds a hole to the bin whose root is `root`.
pub(crate) fn insert(map: &mut BlockMap<'_>, base: usize, root: &mut Node, order: LengthBits, hole: Hole) {
    let (mut carried, mut carried_start, mut key) = (Node::of(hole), hole.start, order.key_of(hole));
    let (mut slot, mut at, mut depth) = (Slot::Root, *root, 0);
    while at != NONE {
        let here = at.start(map, base);
        let pair = links(map, here);
        let key_here = order.key(map, base, at);
        let mut parent = here;
        if key < key_here {
            // The carried hole comes first: it takes this place, and the one that was here goes on down.
            set_links(map, carried_start, pair);
            write(map, root, slot, carried);
            parent = carried_start;
            (carried, carried_start, key) = (at, here, key_here);
        }
        let side = order.side(key, depth);
        slot = Slot::Link { parent, side };
        at = pair[side];
        depth += 1;
    }
    set_links(map, carried_start, [NONE, NONE]);
    write(map, root, slot, carried);
}

/// Removes a hole from the bin whose root is `root`.
pub(crate) fn remove(map: &mut BlockMap<'_>, base: usize, root: &mut Node, order: LengthBits, hole: Hole) {
    let Some(mut slot) = find(map, base, *root, order, hole) else {
        debug_assert!(false, "the hole at {} is not in its bin", hole.start);
        return;
    };
    // The first of the children moves up, and the place it leaves is filled in the same way.
    let mut pair = links(map, hole.start);
    loop {
        let side = match pair {
            [NONE, NONE] => break,
            [_, NONE] => 0,
            [NONE, _] => 1,
            [low, high] => usize::from(order.key(map, base, high) < order.key(map, base, low)),
        };
        let child = pair[side];
        let start = child.start(map, base);
        let below = links(map, start);
        write(map, root, slot, child);
        set_links(map, start, pair);
        slot = Slot::Link { parent: start, side };
        pair = below;
    }
    write(map, root, slot, NONE);
}

/// Returns the slot that refers to `hole`.
fn find(map: &BlockMap<'_>, base: usize, root: Node, order: LengthBits, hole: Hole) -> Option<Slot> {
    let (target, key) = (Node::of(hole), order.key_of(hole));
    let (mut slot, mut at, mut depth) = (Slot::Root, root, 0);
    while at != target {
        if at == NONE {
            return None;
        }
        let side = order.side(key, depth);
        let parent = at.start(map, base);
        slot = Slot::Link { parent, side };
        at = links(map, parent)[side];
        depth += 1;
    }
    Some(slot)
}

/// Returns the first hole of at least `len` granules, in the order of the bin.
pub(crate) fn first_from(map: &BlockMap<'_>, base: usize, root: Node, order: LengthBits, len: usize) -> Option<Hole> {
    let (mut at, mut depth) = (root, 0);
    let mut fallback = NONE;
    while at != NONE {
        let hole = at.hole(map, base);
        if hole.len >= len {
            return Some(hole);
        }
        if depth == order.0 {
            break;
        }
        let pair = links(map, hole.start);
        let side = len >> (order.0 - 1 - depth) & 1;
        if side == 0 && pair[1] != NONE {
            fallback = pair[1];
        }
        at = pair[side];
        depth += 1;
    }
    (fallback != NONE).then(|| fallback.hole(map, base))
}

/// Returns the first hole, in the order of the bin, that `fits`. Visits the holes before it and their children.
pub(crate) fn first_that(
    map: &BlockMap<'_>,
    base: usize,
    root: Node,
    order: LengthBits,
    fits: impl Fn(Hole) -> bool,
) -> Option<Hole> {
    let mut best: Option<(Key, Hole)> = None;
    // In a trie, keys differ in at most 31 bits of the word and 39 of the length, so that a path leaves at most as many
    // siblings behind.
    let mut pending = [NONE; 72];
    let mut count = usize::from(root != NONE);
    pending[0] = root;
    while count > 0 {
        count -= 1;
        let node = pending[count];
        let (key, hole) = (order.key(map, base, node), node.hole(map, base));
        if best.is_some_and(|(first, _)| first < key) {
            continue;
        }
        if fits(hole) {
            best = Some((key, hole));
            continue;
        }
        for child in links(map, hole.start) {
            if child != NONE && count < pending.len() {
                pending[count] = child;
                count += 1;
            }
        }
    }
    best.map(|(_, hole)| hole)
}

/// The path from the root of a trie to a node; for the checks.
#[derive(Clone, Copy)]
struct Path {
    /// The sides taken, the first as bit 0.
    sides: u128,
    depth: u32,
    /// The key of the node above.
    above: Option<Key>,
}

/// Counts the holes of the trie whose root is `root`. Checks that each is a hole of the first `words` words of the map
/// for which `belongs` holds, occurs once, in order and where its key belongs; otherwise returns a granule near the
/// error. The links may contain anything.
pub(crate) fn count(
    map: &BlockMap<'_>,
    base: usize,
    root: Node,
    order: LengthBits,
    words: usize,
    belongs: &impl Fn(Hole) -> bool,
) -> Result<usize, usize> {
    count_below(map, base, root, order, words, belongs, Path { sides: 0, depth: 0, above: None })
}

/// Keys rise on every path down and agree with the sides taken, so that no node is visited twice and no path is longer
/// than a key has bits, which bounds the recursion.
fn count_below(
    map: &BlockMap<'_>,
    base: usize,
    node: Node,
    order: LengthBits,
    words: usize,
    belongs: &impl Fn(Hole) -> bool,
    way: Path,
) -> Result<usize, usize> {
    if node == NONE {
        return Ok(0);
    }
    let word = node.word(base);
    if word >= words || map.starts(word) == 0 {
        return Err(word.min(words - 1) * 64);
    }
    let start = node.start(map, base);
    if way.depth > order.0 + NODE_BITS || !map.is_hole(start) || !belongs(map.hole_at(start)) {
        return Err(start);
    }
    let key = order.key(map, base, node);
    let sides = (0..way.depth).rev().fold(0, |sides, depth| sides << 1 | order.side(key, depth) as u128);
    if sides != way.sides || way.above.is_some_and(|above| above >= key) {
        return Err(start);
    }
    let mut count = 1;
    for (side, child) in links(map, start).into_iter().enumerate() {
        let sides = way.sides | (side as u128) << way.depth;
        let further = Path { sides, depth: way.depth + 1, above: Some(key) };
        count += count_below(map, base, child, order, words, belongs, further)?;
    }
    Ok(count)
}

#[cfg(test)]
mod tests;
