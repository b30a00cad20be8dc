extern crate std;

use std::vec;
use std::vec::Vec;

use super::*;
use crate::generator::Generator;

/// A tree, and the sorted keys that it should contain.
struct Beside<'m> {
    cells: Cells<'m, u64>,
    tree: OrderedTree,
    most: usize,
    keys: Vec<u64>,
}

impl<'m> Beside<'m> {
    /// Creates a tree of at most `most` keys in `memory` from `base` on.
    fn new(memory: &'m mut [u64], base: usize, most: usize) -> Self {
        assert_eq!(memory.len(), base + cells_for(most));
        // SAFETY: the slice is borrowed exclusively for 'm, so that its memory is valid and used through nothing else.
        let cells = unsafe { Cells::new(memory.as_mut_ptr(), memory.len()) };
        Beside { cells, tree: OrderedTree::new(base), most, keys: Vec::new() }
    }

    /// Adds the key if it is not there, otherwise removes it.
    fn toggle(&mut self, key: u64) {
        match self.keys.binary_search(&key) {
            Ok(place) => {
                self.keys.remove(place);
                self.tree.remove(&mut self.cells, key);
            }
            Err(place) => {
                self.keys.insert(place, key);
                self.tree.insert(&mut self.cells, key);
            }
        }
    }

    /// Replaces the key at `place` by `key`, which is not there.
    fn replace(&mut self, place: usize, key: u64) {
        self.tree.replace(&mut self.cells, self.keys[place], key);
        self.keys.remove(place);
        let (Ok(place) | Err(place)) = self.keys.binary_search(&key);
        self.keys.insert(place, key);
    }

    fn agrees_on(&self, key: u64) {
        let found = self.keys.binary_search(&key);
        let (Ok(place) | Err(place)) = found;
        assert_eq!(self.tree.rank(&self.cells, key), place);
        assert_eq!(self.tree.contains(&self.cells, key), found.is_ok());
        assert_eq!(self.tree.size(&self.cells), self.keys.len());
        if let Some(&next) = self.keys.get(place) {
            assert_eq!(self.tree.select(&self.cells, place), next);
        }
    }

    fn agrees(&self) {
        assert!(self.tree.is_sound(&self.cells, self.most));
        for (rank, &key) in self.keys.iter().enumerate() {
            assert_eq!(self.tree.select(&self.cells, rank), key);
        }
    }
}

#[test]
fn random_keys_have_the_ranks_they_have_in_order() {
    const MOST: usize = 6000;
    let mut memory = vec![0u64; cells_for(MOST)];
    let mut beside = Beside::new(&mut memory, 0, MOST);
    let mut seed = 1;
    let mut numbers = Generator(&mut seed);
    // Fills and empties in turn, so that nodes split, lend and join.
    for round in 0..40 {
        let wanted = if round % 2 == 0 { MOST } else { numbers.below(MOST / (round + 1)) };
        while beside.keys.len() != wanted {
            let grows = (beside.keys.len() < wanted) == (numbers.below(4) != 0);
            let key = match grows && beside.keys.len() < MOST || beside.keys.is_empty() {
                true => 1 + numbers.below(1 << 20) as u64,
                false => beside.keys[numbers.below(beside.keys.len())],
            };
            if beside.keys.len() < MOST || beside.keys.binary_search(&key).is_ok() {
                beside.toggle(key);
            }
            beside.agrees_on(1 + numbers.below(1 << 20) as u64);
            if beside.keys.is_empty() {
                continue;
            }
            // By any key, or by one nearby, which mostly belongs into the same leaf.
            let place = numbers.below(beside.keys.len());
            let near = beside.keys[place].saturating_sub(1 << 11).max(1) + numbers.below(1 << 12) as u64;
            let key = if numbers.below(4) == 0 { 1 + numbers.below(1 << 20) as u64 } else { near };
            if beside.keys.binary_search(&key).is_err() {
                beside.replace(place, key);
                beside.agrees_on(key);
            }
        }
        beside.agrees();
    }
}

#[test]
fn the_emptiest_tree_fits_its_cells() {
    for most in [1, 62, 63, 64, 500, 961, 5000, 40_000] {
        let mut memory = vec![0u64; cells_for(most)];
        let mut beside = Beside::new(&mut memory, 0, most);
        // Rising keys leave every node half full; removing all but every other leaf's worth then joins them.
        for key in 1..=most as u64 {
            beside.toggle(key);
        }
        beside.agrees();
        for key in (1..=most as u64).filter(|key| key / 31 % 2 == 0) {
            beside.toggle(key);
        }
        beside.agrees();
        for key in (most as u64 + 1..).take(most - beside.keys.len()) {
            beside.toggle(key);
        }
        beside.agrees();
    }
}

#[test]
fn falling_keys_and_keys_in_the_middle() {
    let mut memory = vec![0u64; 7 + cells_for(4000)];
    let mut beside = Beside::new(&mut memory, 7, 4000);
    for key in (2001..=4000).rev() {
        beside.toggle(key);
    }
    for key in 1..=2000 {
        beside.toggle(2000 * 4000 / (2000 + key) + 10_000 * key);
    }
    beside.agrees();
    while let Some(&key) = beside.keys.get(beside.keys.len() / 2) {
        beside.toggle(key);
    }
    beside.agrees();
}

#[test]
fn a_node_out_of_order_or_miscounted_is_not_sound() {
    let mut memory = vec![0u64; cells_for(500)];
    let mut beside = Beside::new(&mut memory, 0, 500);
    for key in 1..=500 {
        beside.toggle(key);
    }
    let (tree, root) = (beside.tree, beside.tree.root(&beside.cells));
    let leaf = tree.child(&beside.cells, root, 3);
    let key = tree.key(&beside.cells, leaf, 5);
    beside.cells.set(leaf.keys() + 5, key + 2);
    assert!(!tree.is_sound(&beside.cells, 500));
    beside.cells.set(leaf.keys() + 5, key);
    assert!(tree.is_sound(&beside.cells, 500));
    tree.change_weight(&mut beside.cells, root, 3, 1);
    assert!(!tree.is_sound(&beside.cells, 500));
}

#[test]
fn a_freed_node_that_is_in_use_or_lost_is_not_sound() {
    let mut memory = vec![0u64; cells_for(500)];
    let mut beside = Beside::new(&mut memory, 0, 500);
    for key in 1..=500 {
        beside.toggle(key);
    }
    for key in 1..=300 {
        beside.toggle(key);
    }
    let (tree, freed) = (beside.tree, beside.cells.get(FREED));
    let root = tree.root(&beside.cells);
    let leaf = tree.link(&beside.cells, root, 0).number();
    assert!(freed != 0 && root.height == 1);
    for (wrong, what) in [(0, "lost"), (leaf + 1, "a leaf"), (tree.number(root) + 1, "the root"), (500, "nowhere")] {
        beside.cells.set(FREED, wrong as u64);
        assert!(!tree.is_sound(&beside.cells, 500), "{what}");
    }
    beside.cells.set(FREED, freed);
    assert!(tree.is_sound(&beside.cells, 500));
}
