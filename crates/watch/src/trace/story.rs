//! Explains what an event did to a heap, and why, in words.

use std::cmp::Ordering;
use std::ops::Range;

use heapwright_placement::{Block, BlockState, Engine, PolicyKind};
use heapwright_replay::{Effect, Model, Placed};
use heapwright_rules::Merging;
use heapwright_trace::{Event, Kind};

use super::before::{Before, Hole, Need, coalesces};
use super::why::{Untaken, Why};
use heapwright_show::number::{bytes, counted, grouped};

/// The explanation of an event.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Story {
    /// The call and its outcome.
    pub what: String,
    /// How and why, in one or more sentences.
    pub why: String,
    /// The bytes concerned.
    pub mark: Option<Range<usize>>,
}

impl Story {
    /// Explains what `event` did by `effect` to the heap of `engine`, which was as `before`.
    pub fn of(event: &Event, effect: &Effect, before: &Before, engine: &impl Engine, model: &Model) -> Story {
        let explainer = Explainer { before, engine, model };
        match (*event, *effect) {
            (Event::Allocate { block, kind, align, .. }, Effect::Placed(placed)) => {
                explainer.placed(&call(kind, placed.size, align), block, placed, kind.named_align(align))
            }
            (Event::Allocate { kind, size, align, .. }, Effect::Refused { .. }) => {
                let what = format!("{}: no room", call(kind, size as usize, align));
                Story { what, why: explainer.refusal(size as usize, kind.named_align(align)), mark: None }
            }
            (Event::Allocate { kind, size, align, .. }, Effect::Nothing) => {
                let what = format!("{} → null", call(kind, size as usize, align));
                Story { what, why: "By these rules, a request for nothing gets no block.".to_owned(), mark: None }
            }
            (Event::Resize { block, .. }, Effect::Placed(placed)) => {
                let call = format!("realloc {} of block {}, which is null", placed.size, grouped(block));
                explainer.placed(&call, block, placed, 1)
            }
            (Event::Free { block }, Effect::Nothing) => {
                let what = format!("free of block {}, which is null", grouped(block));
                Story { what, why: "Nothing happens.".to_owned(), mark: None }
            }
            (Event::Resize { block, .. }, Effect::Resized { new, .. }) => explainer.resized(block, new),
            (Event::Resize { block, .. }, Effect::Moved { new, .. }) => explainer.moved(block, new),
            (Event::Resize { block, size, .. }, Effect::Refused { .. }) if before.block.is_empty() => {
                let what = format!("realloc {size} of block {}, which is null: no room", grouped(block));
                Story { what, why: explainer.refusal(size as usize, 1), mark: None }
            }
            (Event::Resize { block, size, .. }, Effect::Refused { .. }) => {
                let what = format!("realloc of block {} to {}: no room", grouped(block), bytes(size));
                let why = format!("No room where it is. {}", explainer.refusal(size as usize, 1));
                Story { what, why, mark: None }
            }
            (Event::Free { block }, Effect::Freed(_)) => explainer.freed(block),
            (Event::Free { block } | Event::Resize { block, .. }, _) => {
                let what = format!("block {}: it does not live", grouped(block));
                Story { what, why: "Its request was refused here, or the trace is at fault.".to_owned(), mark: None }
            }
            (Event::Failed { size, .. }, _) => {
                let what = format!("a request for {} that was refused when the trace was recorded", bytes(size));
                Story { what, ..Story::default() }
            }
            (event, _) => Story { what: format!("{event:?}"), ..Story::default() },
        }
    }
}

/// Formats a call.
pub fn call(kind: Kind, size: usize, align: u64) -> String {
    match kind {
        Kind::Malloc => format!("malloc {size}"),
        Kind::Calloc => format!("calloc {size}"),
        Kind::Aligned => format!("malloc {size} at a multiple of {align}"),
    }
}

/// Begins the explanation of a request before which deferred merges took place.
const MERGED: &str = "The policy selected no hole, so the holes that touch were merged. ";

/// Context of an explanation.
struct Explainer<'t, E> {
    before: &'t Before,
    engine: &'t E,
    model: &'t Model,
}

impl<E: Engine> Explainer<'_, E> {
    fn placed(&self, call: &str, block: u64, placed: Placed, named: u64) -> Story {
        let range = self.range(placed);
        Story {
            what: format!("{call} → block {} at {:#x}", grouped(block), placed.offset),
            why: self.choice(placed, named, &range),
            mark: Some(range),
        }
    }

    /// Explains why a request is refused.
    fn refusal(&self, size: usize, named: u64) -> String {
        let need = self.need(size, named);
        if let Some(reason) = self.model.odd_reason() {
            return self.odd_refusal(&need, reason);
        }
        let untaken = match Untaken::of(self.model.policy, self.before, &need) {
            Untaken::Unfit { .. } => "no hole holds it".to_owned(),
            untaken => untaken.to_string(),
        };
        format!("{}, and the heap may not grow so far.", capitalised(&untaken))
    }

    /// Describes a refusal by odd rules: the reference engine gives no reasons.
    fn odd_refusal(&self, need: &Need, reason: &str) -> String {
        let (first, holes) = match self.merged_first() {
            Some(merged) => (MERGED, merged.holes),
            None => ("", self.before.holes.clone()),
        };
        let untaken = match holes.into_iter().filter(|&hole| need.fits(hole)).count() {
            0 => "No hole holds it".to_owned(),
            fitting => format!("{} would hold it (reference engine: {reason})", counted(fitting as u64, "hole")),
        };
        format!("{first}{untaken}, and the heap may not grow so far.")
    }

    /// Returns what a request needs that names this alignment.
    fn need(&self, size: usize, named: u64) -> Need {
        let Model { rules, requests, .. } = self.model;
        Need::of(requests.bytes(size).unwrap_or_default(), requests.align(named as usize), rules)
    }

    /// Explains why the block is where it is, and what became of the hole; `named` is the alignment that the request
    /// names.
    fn choice(&self, placed: Placed, named: u64, range: &Range<usize>) -> String {
        let need = self.need(placed.size, named);
        if let Some(reason) = self.model.odd_reason() {
            return self.odd_choice(range, reason);
        }
        let chosen = self.before.hole_around(range.start);
        let why = Why::of(self.engine.policy(), self.before, &need, chosen, self.grown_end());
        match chosen {
            Some(hole) if !matches!(why, Why::Grew { .. }) => {
                format!("{} is taken: {why}. {}", name(self.before, hole), self.rest(hole, range, need.len))
            }
            _ => format!("{}.", capitalised(&why.to_string())),
        }
    }

    /// Returns where the heap ended once there was room; frees do not change it.
    fn grown_end(&self) -> usize {
        self.engine.heap_size()
    }

    /// Describes where a block was placed by odd rules: the reference engine gives no reasons.
    fn odd_choice(&self, range: &Range<usize>, reason: &str) -> String {
        let merged = self.merged_first();
        let first = if merged.is_some() { MERGED } else { "" };
        let before = merged.as_ref().unwrap_or(self.before);
        let chosen = before.hole_around(range.start).filter(|_| self.grown_end() == before.end);
        let hole = chosen.map_or("The heap grew".to_owned(), |hole| format!("{} is taken", name(before, hole)));
        format!("{first}{hole} (reference engine: {reason}).")
    }

    /// Returns the heap in which a request searched again, if its deferred merges came first.
    fn merged_first(&self) -> Option<Before> {
        if self.model.odd.merging != Merging::Deferred || self.engine.policy() == PolicyKind::Buddy {
            return None;
        }
        // An extended tail counts as a merge, too, but only after those of holes that touch.
        let merged = Some(self.before.merged()).filter(|merged| merged.holes.len() < self.before.holes.len());
        merged.filter(|_| coalesces(self.engine) > self.before.coalesces)
    }

    /// Describes what is left of the hole around the block.
    fn rest(&self, hole: Hole, block: &Range<usize>, need: usize) -> String {
        if self.engine.policy() == PolicyKind::Buddy {
            let sentence = halved(hole.len / block.len().max(1));
            return format!("{}.", capitalised(&sentence));
        }
        let (gap, remainder) = (block.start - hole.start, hole.end() - block.end);
        match (gap, remainder) {
            (0, 0) if block.len() > need => {
                format!("It keeps the {} behind it, too few for a hole.", bytes((block.len() - need) as u64))
            }
            (0, 0) => "It fits exactly.".to_owned(),
            (0, remainder) => format!("Split: {} remain.", bytes(remainder as u64)),
            (gap, 0) => format!("Split: {} remain in front of it for its alignment.", bytes(gap as u64)),
            (gap, remainder) => {
                format!(
                    "Split twice: {} remain in front of it for its alignment, {} behind.",
                    bytes(gap as u64),
                    bytes(remainder as u64)
                )
            }
        }
    }

    fn freed(&self, block: u64) -> Story {
        let range = self.before.block.clone();
        Story {
            what: format!(
                "free of block {} at {:#x} ({})",
                grouped(block),
                self.payload(&range),
                bytes(range.len() as u64)
            ),
            why: self.joined(&range),
            mark: Some(range),
        }
    }

    /// Describes the hole that the bytes of `freed` are now part of.
    fn joined(&self, freed: &Range<usize>) -> String {
        let Some(hole) = self.engine.block_containing(freed.start).filter(|hole| hole.state == BlockState::Free) else {
            return String::new();
        };
        let now = format!("{} free at {:#x}", bytes(hole.size as u64), hole.offset);
        if self.engine.policy() == PolicyKind::Buddy {
            return match (hole.size / freed.len().max(1)).checked_ilog2() {
                Some(0) | None => format!("Its buddy is not free: {now}."),
                Some(1) => format!("Joined with its buddy: {now}."),
                Some(times) => format!("Joined with its buddy, {times} times in a row: {now}."),
            };
        }
        let (below, behind) = (hole.offset < freed.start, hole.offset + hole.size > freed.end);
        let name = if freed.end >= self.before.top { "the free tail" } else { "the hole behind" };
        let apart = self.unmerged(&hole);
        let joined = match (below, behind) {
            (false, false) if hole.offset >= self.engine.top() => format!("It is the free tail now: {now}."),
            (false, false) if apart.is_some() => format!("A new hole, {now}."),
            (false, false) => format!("Used blocks on both sides: a new hole, {now}."),
            (true, false) => format!("Joined with the hole before: {now}."),
            (false, true) => format!("Joined with {name}: {now}."),
            (true, true) => format!("Joined with the hole before and {name}: {now}."),
        };
        joined + &apart.unwrap_or_default()
    }

    /// Names the holes that touch `hole` and are not merged with it by odd rules.
    fn unmerged(&self, hole: &Block) -> Option<String> {
        let reason = self.model.odd_reason()?;
        let hole_at = |at| self.engine.block_containing(at).filter(|block| block.state == BlockState::Free);
        let before = hole.offset.checked_sub(1).and_then(hole_at).map(|_| "the hole before it");
        let is_tail = |behind: Block| behind.offset >= self.engine.top();
        let behind = hole_at(hole.offset + hole.size)
            .map(|behind| if is_tail(behind) { "the free tail behind it" } else { "the hole behind it" });
        let names: Vec<&str> = before.into_iter().chain(behind).collect();
        let text = || format!(" It is not merged with {} (reference engine: {reason}).", names.join(" and "));
        (!names.is_empty()).then(text)
    }

    fn resized(&self, block: u64, new: Placed) -> Story {
        let (was, is) = (self.before.block.clone(), self.range(new));
        let grown = self.grown_end() - self.before.end;
        let is_buddy = self.engine.policy() == PolicyKind::Buddy;
        let why = match is.end.cmp(&was.end) {
            Ordering::Equal => "It has room enough where it is, and nothing to give back.".to_owned(),
            Ordering::Less if is_buddy => {
                format!("Shorter where it is: {}.", halved(was.len() / is.len().max(1)))
            }
            Ordering::Greater if is_buddy => "Longer where it is: joined with the free buddies behind it.".to_owned(),
            Ordering::Less => {
                let rest = is.end..was.end;
                format!("Shorter where it is: {} go. {}", bytes(rest.len() as u64), self.joined(&rest))
            }
            Ordering::Greater if grown > 0 => {
                format!("It is the last block: the heap grows by {} behind it.", bytes(grown as u64))
            }
            Ordering::Greater => {
                let behind = if was.end >= self.before.top { "the free tail" } else { "the hole" };
                format!("Longer where it is: {} are taken from {behind} behind it.", bytes((is.end - was.end) as u64))
            }
        };
        Story {
            what: format!("realloc {} of block {} at {:#x}: it stays", new.size, grouped(block), new.offset),
            why,
            mark: Some(is),
        }
    }

    fn moved(&self, block: u64, new: Placed) -> Story {
        let (was, is) = (self.before.block.clone(), self.range(new));
        Story {
            what: format!(
                "realloc {} of block {} at {:#x} → {:#x}",
                new.size,
                grouped(block),
                self.payload(&was),
                new.offset
            ),
            why: format!(
                "{} {} Then the old one goes. {}",
                self.no_room_behind(&was),
                self.choice(new, 1, &is),
                self.joined(&was)
            ),
            mark: Some(is),
        }
    }

    /// Describes why a block does not become longer where it is.
    fn no_room_behind(&self, block: &Range<usize>) -> &'static str {
        let next = self.before.hole_around(block.end).and_then(|hole| self.before.hole_around(hole.end()));
        match next {
            Some(_) if self.engine.policy() != PolicyKind::Buddy => {
                "The hole behind it is too short, and not merged with the next one."
            }
            _ => "No room behind it.",
        }
    }

    fn range(&self, placed: Placed) -> Range<usize> {
        range(self.engine, self.model, placed)
    }

    /// Returns where the payload of a block begins.
    fn payload(&self, block: &Range<usize>) -> usize {
        block.start + self.model.rules.header as usize
    }
}

/// Returns the bytes of a block, with its header.
pub fn range(engine: &impl Engine, model: &Model, placed: Placed) -> Range<usize> {
    let size = engine.usable_size(placed.offset).unwrap_or(placed.size);
    placed.offset - model.rules.header as usize..placed.offset + size
}

/// Names a hole of the heap.
fn name(before: &Before, hole: Hole) -> String {
    let kind = if before.is_tail(hole) { "The free tail" } else { "The hole" };
    format!("{kind} at {:#x} ({})", hole.start, bytes(hole.len as u64))
}

/// Describes how a buddy block became shorter by this factor.
fn halved(factor: usize) -> String {
    match factor.checked_ilog2() {
        Some(0) | None => "it is as long".to_owned(),
        Some(1) => "halved once".to_owned(),
        Some(times) => format!("halved {times} times"),
    }
}

fn capitalised(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map_or_else(String::new, |first| first.to_uppercase().chain(letters).collect())
}
