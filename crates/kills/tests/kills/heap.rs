//! A shared heap and one operation on it, as the subject of kills.

use std::ops::Range;
use std::path::Path;

use heapwright_shared::{Access, Error, Offset, Place, PolicyKind, Settings, SharedHeap, SmallBlocks, Strangers};

use crate::census::{Census, fill, verify};
use crate::child;
use crate::fates::{Fate, Fates, empty};
use crate::scenario::{Action, Piece, Scenario, WORD};
use crate::subject::Subject;
use crate::words;

/// Where the redo record lies in a segment's header (`record`, in `live`). Were it elsewhere, erasing this would break
/// nothing, and a test would say so.
const RECORD: Range<usize> = 200..232;

/// What a block is filled with that the operation allocates into a word.
const NEW: u64 = 99;

fn word_of(piece: Offset) -> Result<Offset<Option<Offset>>, String> {
    Offset::new(piece.get() + WORD).ok_or_else(|| "a word at offset 0".into())
}

/// One scenario under one policy. Dropping it removes its segment.
pub struct HeapOperation {
    scenario: Scenario,
    policy: PolicyKind,
    place: Place,
    /// The blocks of the pieces, by place in the list.
    blocks: Vec<Option<Offset>>,
    fates: Fates,
}

impl HeapOperation {
    /// Makes the heap once, does the operation without a kill and remembers what it does.
    pub fn new(scenario: Scenario, policy: PolicyKind, place: Place) -> Result<HeapOperation, String> {
        let nothing = Census { used: Default::default(), roots: Default::default(), size: 0 };
        let passing = scenario.passing;
        let fates = Fates { before: nothing.clone(), after: nothing, blocks: Vec::new(), passing };
        let mut operation = HeapOperation { scenario, policy, place, blocks: Vec::new(), fates };
        operation.blocks = operation.build()?;
        let heap = operation.open()?;
        operation.fates.before = Census::take(&heap)?;
        let mut handle = Some(heap);
        let moved = operation.act(&mut handle)?;
        let heap = handle.map_or_else(|| operation.open(), Ok)?;
        operation.fates.after = Census::take(&heap)?;
        operation.fates.blocks = operation.blocks_fates(moved);
        operation.has_the_effect()?;
        Ok(operation)
    }

    fn has_the_effect(&self) -> Result<(), String> {
        let gain = self.fates.after.used.len() as isize - self.fates.before.used.len() as isize;
        match gain == self.scenario.gain {
            true => Ok(()),
            false => Err(format!("{}: {gain} more blocks, not {}", self.name(), self.scenario.gain)),
        }
    }

    fn blocks_fates(&self, moved: Option<Offset>) -> Vec<Fate> {
        let blocks = self.scenario.pieces.iter().zip(&self.blocks).enumerate();
        let live = blocks.filter_map(|(index, (piece, block))| match piece {
            Piece::Block(bytes) => Some((index, (*block)?, *bytes)),
            Piece::Hole(_) | Piece::Orphan(_) => None,
        });
        live.map(|(index, block, bytes)| {
            let after = match self.scenario.action {
                Action::Free(freed) | Action::FreeFrom(freed) if freed == index => None,
                Action::Resize { block: resized, bytes: new } | Action::ResizeInto { block: resized, bytes: new }
                    if resized == index =>
                {
                    Some((moved.unwrap_or(block), new))
                }
                _ => Some((block, bytes)),
            };
            Fate { tag: index as u64, before: (block, bytes), after }
        })
        .collect()
    }

    /// Makes the segment with its pieces; no process is attached to it afterwards.
    fn build(&self) -> Result<Vec<Option<Offset>>, String> {
        self.remove()?;
        let Scenario { pieces, root, size, most, .. } = self.scenario;
        let settings = Settings {
            size: if most > size { size.min(64 << 10) } else { size },
            max_size: (most > size).then_some(most),
            policy: self.policy,
            processes: 8,
            roots: 4,
            small: self.scenario.small,
            ..Settings::default()
        };
        let heap = SharedHeap::create(&self.place, &settings).map_err(words("create"))?;
        let mut blocks = Vec::new();
        for (index, piece) in pieces.iter().enumerate() {
            let (Piece::Block(bytes) | Piece::Hole(bytes) | Piece::Orphan(bytes)) = *piece;
            let block = match piece {
                Piece::Orphan(_) => self.orphan(bytes)?,
                _ => heap.allocate(bytes).map_err(words("allocate"))?,
            };
            fill(&heap, block, bytes, index as u64);
            blocks.push(Some(block));
        }
        for (piece, block) in pieces.iter().zip(&mut blocks) {
            if let (Piece::Hole(_), Some(hole)) = (piece, block.take_if(|_| matches!(piece, Piece::Hole(_)))) {
                heap.deallocate(hole).map_err(words("deallocate"))?;
            }
        }
        if let Some(target) = root.and_then(|piece| blocks[piece]) {
            heap.set_root("root", target).map_err(words("set_root"))?;
        }
        if let Some(linked) = self.scenario.action.linked() {
            let target = linked.and_then(|piece| blocks[piece]).map_or(0, Offset::get);
            let word = word_of(blocks[0].ok_or("no piece for the word")?)?;
            // SAFETY: the word lies in the first piece, which no process uses yet.
            unsafe { heap.pointer(word.cast::<u64>()).write(target) };
        }
        if size > heap.size().map_err(words("size"))? {
            heap.grow(size).map_err(words("grow"))?;
        }
        heap.close().map_err(words("close"))?;
        Ok(blocks)
    }

    /// Has a process allocate a block and die.
    fn orphan(&self, bytes: usize) -> Result<Offset, String> {
        let before = self.offsets()?;
        child::finish(child::spawn(|| {
            let heap = self.open()?;
            heap.allocate(bytes).map_err(words("allocate"))?;
            std::mem::forget(heap);
            Ok(())
        }))?;
        let new = self.offsets()?.into_iter().find(|offset| !before.contains(offset));
        new.and_then(Offset::new).ok_or_else(|| "the orphan's block is not there".into())
    }

    fn offsets(&self) -> Result<Vec<u64>, String> {
        Ok(Census::take(&self.open()?)?.used.into_keys().collect())
    }

    fn open(&self) -> Result<SharedHeap, String> {
        SharedHeap::open(&self.place).map_err(words("open"))
    }

    fn remove(&self) -> Result<(), String> {
        match SharedHeap::unlink(&self.place) {
            Ok(()) | Err(Error::NotFound { .. }) => Ok(()),
            Err(error) => Err(error.to_string()),
        }
    }

    fn block(&self, piece: usize) -> Result<Offset, String> {
        self.blocks.get(piece).copied().flatten().ok_or_else(|| format!("piece {piece} is not a used block"))
    }

    /// Buddies are aligned as their data's start is, at the least to 64.
    fn possible(&self, align: usize) -> usize {
        if self.policy == PolicyKind::Buddy { align.min(64) } else { align }
    }

    fn word(&self) -> Result<Offset<Option<Offset>>, String> {
        word_of(self.block(0)?)
    }

    /// Nothing leaks: the word shows the block before the operation or after it, and no block is there that it should
    /// show.
    fn allow_word(&self, heap: &SharedHeap) -> Result<(), String> {
        let Some(linked) = self.scenario.action.linked() else { return Ok(()) };
        let found = Census::take(heap)?;
        // SAFETY: the word lies in the first piece, and the victim is dead.
        let shown = unsafe { *heap.get(self.word()?.cast::<u64>()) };
        let before = linked.map_or(Ok(0), |piece| self.block(piece).map(Offset::get))?;
        let expected = if shown == before { &self.fates.before } else { &self.fates.after };
        let passing: Option<Offset> =
            if matches!(self.scenario.action, Action::Pass(_)) { Offset::new(shown) } else { None };
        let used = found.used.keys().filter(|&&offset| passing.is_none_or(|passing| passing.get() != offset));
        if used.ne(expected.used.keys()) {
            return Err(format!("the word shows {shown:#x}, and the used blocks are {:x?}", found.used.keys()));
        }
        match Offset::new(shown) {
            Some(block) if !found.used.contains_key(&shown) => Err(format!("the word shows {block:?}, which is free")),
            Some(block) if before == 0 => verify(heap, block, 128, NEW),
            _ => Ok(()),
        }
    }

    /// Does the operation; says where a block went, if it moved one.
    fn act(&self, handle: &mut Option<SharedHeap>) -> Result<Option<Offset>, String> {
        if let Action::Open = self.scenario.action {
            *handle = Some(self.open()?);
            return Ok(None);
        }
        if let Action::Repair = self.scenario.action {
            let repaired = SharedHeap::repair(&self.place, &Access::default(), Strangers::Respect);
            return match repaired {
                // The survivor uses it.
                Err(Error::InUse { .. }) => Ok(None),
                repaired => repaired.map(|_| None).map_err(words("repair")),
            };
        }
        let heap = handle.as_ref().ok_or("no process is attached")?;
        match self.scenario.action {
            Action::Allocate { bytes, align } => match heap.allocate_aligned(bytes, self.possible(align)) {
                Err(Error::Full { .. }) if self.scenario.gain == 0 => {}
                other => drop(other.map_err(words("allocate"))?),
            },
            Action::Free(piece) => heap.deallocate(self.block(piece)?).map_err(words("deallocate"))?,
            Action::Resize { block, bytes } => {
                // SAFETY: no other thread uses the block.
                return unsafe { heap.resize(self.block(block)?, bytes) }.map(Some).map_err(words("resize"));
            }
            Action::AllocateInto(bytes) => {
                let fill_in = |block, _| fill(heap, heap.offset_of(block).expect("a block of the heap"), 128, NEW);
                // SAFETY: the word serves these operations only, and its block stays.
                unsafe { heap.allocate_into(self.word()?, bytes, fill_in) }.map_err(words("allocate_into"))?;
            }
            Action::ResizeInto { bytes, .. } => {
                // SAFETY: as above, and no other thread uses the block that the word shows.
                return unsafe { heap.resize_into(self.word()?, bytes) }.map(Some).map_err(words("resize_into"));
            }
            Action::Pass(bytes) => {
                let fill_in = |block, _| fill(heap, heap.offset_of(block).expect("a block of the heap"), bytes, NEW);
                // SAFETY: as above.
                unsafe { heap.allocate_into(self.word()?, bytes, fill_in) }.map_err(words("allocate_into"))?;
                // SAFETY: as above.
                unsafe { heap.free_from(self.word()?, |_| None) }.map_err(words("free_from"))?;
            }
            Action::FreeFrom(_) => {
                // SAFETY: as above.
                unsafe { heap.free_from(self.word()?, |_| None) }.map_err(words("free_from"))?;
            }
            Action::Grow(bytes) => heap.grow(bytes).map_err(words("grow"))?,
            Action::SetRoot { name, block } => {
                heap.set_root(name, self.block(block)?).map_err(words("set_root"))?;
            }
            Action::RemoveRoot(name) => {
                let expected = heap.root(name).map_err(words("root"))?;
                heap.replace_root(name, expected, None).map_err(words("replace_root"))?;
            }
            Action::ReclaimDead => heap.reclaim_dead().map(drop).map_err(words("reclaim_dead"))?,
            Action::Close => handle.take().map_or(Ok(()), SharedHeap::close).map_err(words("close"))?,
            Action::Adopt(piece) => heap.adopt(self.block(piece)?).map_err(words("adopt"))?,
            Action::Churn { bytes, count } => {
                for block in allocate_all(heap, bytes, count)? {
                    heap.deallocate(block).map_err(words("deallocate"))?;
                }
            }
            Action::Recycle { bytes, count } => self.recycle(heap, bytes, count)?,
            Action::Open | Action::Repair => {}
        }
        Ok(None)
    }
}

impl Drop for HeapOperation {
    fn drop(&mut self) {
        // What cannot be removed now was reported by whatever failed before.
        let _ = self.remove();
    }
}

impl Subject for HeapOperation {
    type Handle = Option<SharedHeap>;

    fn name(&self) -> String {
        format!("{}, {}", self.policy.name(), self.scenario.name)
    }

    fn path(&self) -> &Path {
        self.place.path()
    }

    fn prepare(&self) -> Result<(), String> {
        self.build().map(drop)
    }

    fn attach(&self) -> Result<Self::Handle, String> {
        match self.scenario.action {
            Action::Open | Action::Repair => Ok(None),
            _ => self.open().map(Some),
        }
    }

    fn operate(&self, handle: &mut Self::Handle) -> Result<(), String> {
        self.act(handle).map(drop)
    }

    fn recover(&self, handle: &mut Self::Handle) -> Result<(), String> {
        let heap = match handle {
            Some(heap) => heap,
            // Comes to judge, below.
            None if self.scenario.small == SmallBlocks::Slabs => return Ok(()),
            None => handle.insert(self.open()?),
        };
        heap.size().map(drop).map_err(words("size"))
    }

    fn judge(&self, handle: &mut Self::Handle) -> Result<(), String> {
        match self.scenario.small {
            SmallBlocks::Placed => self.judge_by(handle.as_ref().ok_or("no process is attached")?),
            // What a handle remembers of its slabs would not be true of the next state that is judged.
            SmallBlocks::Slabs => self.judge_by(&self.open()?),
        }
    }

    fn record(&self) -> Range<usize> {
        RECORD
    }
}

impl HeapOperation {
    fn recycle(&self, heap: &SharedHeap, bytes: usize, count: usize) -> Result<(), String> {
        let blocks = allocate_all(heap, bytes, count)?;
        let other = self.open()?;
        for block in blocks {
            other.deallocate(block).map_err(words("deallocate"))?;
        }
        allocate_all(heap, bytes, count).map(drop)
    }

    fn judge_by(&self, heap: &SharedHeap) -> Result<(), String> {
        match heap.allocate(64) {
            Ok(block) => heap.deallocate(block).map_err(words("deallocate"))?,
            Err(Error::Full { .. }) => {}
            Err(error) => return Err(format!("the survivor's own operation: {error}")),
        }
        heap.check().map_err(words("check"))?;
        self.fates.allow(heap)?;
        self.allow_word(heap)?;
        empty(heap)
    }
}

fn allocate_all(heap: &SharedHeap, bytes: usize, count: usize) -> Result<Vec<Offset>, String> {
    (0..count).map(|_| heap.allocate(bytes).map_err(words("allocate"))).collect()
}
