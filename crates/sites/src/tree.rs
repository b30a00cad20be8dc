//! Stacks as a tree, and as folded lines.

use std::collections::BTreeMap;

use heapwright_host::names::Shown;
use heapwright_show::terminal;

use crate::analysis::Analysis;
use crate::stacks::Stacks;
use crate::tally::Measure;

/// Which end of the stacks is the root of a tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Direction {
    /// From the program's entry to the functions that request memory.
    TopDown,
    /// From the functions that request memory to their callers.
    BottomUp,
}

/// A frame with all stacks below it.
#[derive(Default)]
pub struct Node {
    /// The value of all stacks through this node.
    pub value: u64,
    /// The next frames, by their numbers.
    pub next: BTreeMap<u32, Node>,
}

impl Node {
    /// Returns the root of the tree of all stacks of a ledger.
    pub fn root(analysis: &Analysis, measure: Measure, direction: Direction) -> Node {
        let mut root = Node::default();
        for (site, tally) in analysis.sites() {
            let value = measure.of(&tally);
            let numbers = analysis.stacks.numbers(site).iter().copied();
            match direction {
                Direction::BottomUp => root.add(numbers, value),
                Direction::TopDown => root.add(numbers.rev(), value),
            }
        }
        root
    }

    fn add(&mut self, stack: impl Iterator<Item = u32>, value: u64) {
        self.value = self.value.saturating_add(value);
        let mut node = self;
        for frame in stack {
            node = node.next.entry(frame).or_default();
            node.value = node.value.saturating_add(value);
        }
    }

    /// Returns the next nodes with at least `least`, the largest first.
    pub fn largest(&self, least: u64) -> Vec<(u32, &Node)> {
        let mut next: Vec<(u32, &Node)> = self
            .next
            .iter()
            .filter(|(_, node)| node.value >= least.max(1))
            .map(|(&frame, node)| (frame, node))
            .collect();
        next.sort_by_key(|&(frame, node)| (std::cmp::Reverse(node.value), frame));
        next
    }
}

impl Drop for Node {
    /// Drops the nodes below one after the other: a stack may be deeper than the memory for calls in calls allows.
    fn drop(&mut self) {
        let mut pending: Vec<Node> = std::mem::take(&mut self.next).into_values().collect();
        while let Some(mut node) = pending.pop() {
            pending.extend(std::mem::take(&mut node.next).into_values());
        }
    }
}

/// Returns a line for each node with at least `least`: its value as `show` formats it, its share, and its frame. The
/// only successor of a node stands at the node's depth behind an arrow. Lines are cut where the terminal ends.
pub fn lines(root: &Node, stacks: &Stacks, least: u64, show: &dyn Fn(u64) -> String) -> Vec<String> {
    let mut lines = Vec::new();
    let columns = terminal::columns().unwrap_or(usize::MAX);
    let mut pending: Vec<(usize, &str, u32, &Node)> = Vec::new();
    pending.extend(root.largest(least).into_iter().rev().map(|(frame, node)| (0, "", frame, node)));
    while let Some((depth, arrow, frame, node)) = pending.pop() {
        let share = 100.0 * node.value as f64 / root.value.max(1) as f64;
        let figures = format!("{:>10} {share:>5.1} %  ", show(node.value));
        let room = columns.saturating_sub(figures.chars().count());
        let indent = " ".repeat((2 * depth).min(room / 2));
        let name = format!("{indent}{arrow}{}", stacks.frame(frame).to_string().shown());
        lines.push(figures + &terminal::shortened(&name, room));
        let next = node.largest(least);
        let is_chain = next.len() == 1 && next[0].1.value == node.value;
        let (deeper, arrow) = if is_chain { (depth, "↳ ") } else { (depth + 1, "") };
        pending.extend(next.into_iter().rev().map(|(frame, node)| (deeper, arrow, frame, node)));
    }
    lines
}

/// Returns a folded line per stack, as flame graphs are drawn from: frames from the outermost on, then the value.
pub fn folded(analysis: &Analysis, measure: Measure) -> Vec<String> {
    let mut folded: BTreeMap<String, u64> = BTreeMap::new();
    let names = analysis.stacks.function_names();
    for (site, tally) in analysis.sites() {
        let numbers = analysis.stacks.numbers(site).iter().rev();
        let frames = numbers.map(|&number| names[number as usize].shown().replace(';', ":"));
        let sum = folded.entry(frames.collect::<Vec<_>>().join(";")).or_default();
        *sum = sum.saturating_add(measure.of(&tally));
    }
    folded.retain(|_, value| *value > 0);
    folded.into_iter().map(|(stack, value)| format!("{stack} {value}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tree_may_be_as_deep_as_a_stack() {
        let mut root = Node::default();
        root.add(0..1_000_000, 7);
        drop(root);
    }
}
