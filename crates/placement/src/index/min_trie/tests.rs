extern crate std;

use std::vec;
use std::vec::Vec;

use super::*;
use crate::cells::Cells;
use crate::map::{cells_for, words_for};

const GRANULES: usize = 8000;
const HOLES: usize = 40;
const ORDER: LengthBits = LengthBits(4);

/// Returns a map with long holes between used blocks, and the root of a trie that contains them all.
fn planted(memory: &mut [u64]) -> (BlockMap<'_>, Node) {
    // SAFETY: the slice is borrowed exclusively, so that its memory is valid and used through nothing else.
    let cells = unsafe { Cells::new(memory.as_mut_ptr(), memory.len()) };
    let mut map = BlockMap::new(cells, GRANULES);
    let mut root = NONE;
    map.mark_block(0);
    for k in 0..HOLES {
        let hole = Hole { start: 10 + k * 190, len: 128 + k * 7 % 16 };
        map.mark_hole(hole.start);
        map.mark_block(hole.end());
        insert(&mut map, 0, &mut root, ORDER, hole);
    }
    (map, root)
}

fn counted(map: &BlockMap<'_>, root: Node) -> Result<usize, usize> {
    count(map, 0, root, ORDER, words_for(GRANULES), &|hole| (128..144).contains(&hole.len))
}

/// Returns every node, parents before children.
fn nodes(map: &BlockMap<'_>, root: Node) -> Vec<Node> {
    let mut nodes = vec![root];
    let mut done = 0;
    while done < nodes.len() {
        let pair = links(map, nodes[done].start(map, 0));
        nodes.extend(pair.into_iter().filter(|&node| node != NONE));
        done += 1;
    }
    nodes
}

#[test]
fn every_hole_is_counted() {
    let mut memory = vec![0; cells_for(GRANULES)];
    let (map, root) = planted(&mut memory);
    assert_eq!(counted(&map, root), Ok(HOLES));
    assert_eq!(counted(&map, NONE), Ok(0));
    assert!(count(&map, 0, root, ORDER, words_for(GRANULES), &|hole| hole.len != 130).is_err());
    assert!(count(&map, 0, root, ORDER, 20, &|_| true).is_err());
}

/// Every wrong value of one link is detected: another node, itself, one above it, none at all, one outside.
#[test]
fn no_link_can_be_another() {
    let mut memory = vec![0; cells_for(GRANULES)];
    let (mut map, root) = planted(&mut memory);
    let nodes = nodes(&map, root);
    assert_eq!(nodes.len(), HOLES);
    let elsewhere = [NONE, Node(1), Node(words_for(GRANULES) as u32 + 1), Node(u32::MAX)];
    for start in nodes.iter().map(|node| node.start(&map, 0)).collect::<Vec<_>>() {
        let pair = links(&map, start);
        for side in [0, 1] {
            for &other in nodes.iter().chain(&elsewhere).filter(|&&other| other != pair[side]) {
                let mut changed = pair;
                changed[side] = other;
                set_links(&mut map, start, changed);
                assert_ne!(counted(&map, root), Ok(HOLES), "side {side} of the hole at {start} leads to {}", other.0);
            }
        }
        set_links(&mut map, start, pair);
    }
    assert_eq!(counted(&map, root), Ok(HOLES));
}

/// Nodes that change places with their children, or sides with each other, are where their keys do not belong.
#[test]
fn no_two_nodes_can_change_places() {
    let mut memory = vec![0; cells_for(GRANULES)];
    let (mut map, root) = planted(&mut memory);
    let at = root.start(&map, 0);
    let [low, high] = links(&map, at);
    set_links(&mut map, at, [high, low]);
    assert!(counted(&map, root).is_err(), "sides are exchanged");
    let at_low = low.start(&map, 0);
    let below = links(&map, at_low);
    set_links(&mut map, at_low, [root, high]);
    set_links(&mut map, at, below);
    assert!(counted(&map, low).is_err(), "a child is the root");
}
