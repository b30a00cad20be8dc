//! The operations that are killed, and the heaps that they find.

use heapwright_shared::SmallBlocks;

/// A block of a heap as it is before an operation, in the order in which they are allocated. Sizes in bytes.
#[derive(Clone, Copy, Debug)]
pub enum Piece {
    /// Used.
    Block(usize),
    /// Allocated and, when all pieces are, freed.
    Hole(usize),
    /// Allocated by a process that dies.
    Orphan(usize),
}

/// What a victim does. Blocks are named by their place in the list of pieces.
#[derive(Clone, Copy, Debug)]
pub enum Action {
    Allocate {
        bytes: usize,
        align: usize,
    },
    Free(usize),
    Resize {
        block: usize,
        bytes: usize,
    },
    /// Through the word of the first piece behind its contents, which shows the block.
    AllocateInto(usize),
    ResizeInto {
        block: usize,
        bytes: usize,
    },
    FreeFrom(usize),
    /// Allocates a block into the word and frees it from there.
    Pass(usize),
    Grow(usize),
    SetRoot {
        name: &'static str,
        block: usize,
    },
    RemoveRoot(&'static str),
    Open,
    Close,
    Adopt(usize),
    /// Allocates blocks and frees them.
    Churn {
        bytes: usize,
        count: usize,
    },
    /// Allocates blocks, has another process free them and allocates them again.
    Recycle {
        bytes: usize,
        count: usize,
    },
    ReclaimDead,
    Repair,
}

impl Action {
    /// The piece that the word of the first piece shows before the operation, if the operation is one on a word.
    pub fn linked(self) -> Option<Option<usize>> {
        match self {
            Action::AllocateInto(_) | Action::Pass(_) => Some(None),
            Action::ResizeInto { block, .. } | Action::FreeFrom(block) => Some(Some(block)),
            _ => None,
        }
    }
}

/// Where the word lies in the first piece.
pub const WORD: u64 = 56;

/// An operation and the heap that it finds.
#[derive(Clone, Copy, Debug)]
pub struct Scenario {
    pub name: &'static str,
    pub pieces: &'static [Piece],
    /// The root `root` points at this piece.
    pub root: Option<usize>,
    /// How long the heap is and may become, in bytes.
    pub size: usize,
    pub most: usize,
    pub action: Action,
    /// How many used blocks there are more afterwards.
    pub gain: isize,
    pub small: SmallBlocks,
    /// How many blocks there may be meanwhile that are there neither before nor afterwards.
    pub passing: usize,
}

const fn fixed(name: &'static str, pieces: &'static [Piece], action: Action, gain: isize) -> Scenario {
    let (size, small) = (64 << 10, SmallBlocks::Placed);
    Scenario { name, pieces, root: None, size, most: size, action, gain, small, passing: 0 }
}

const fn growing(name: &'static str, size: usize, action: Action, gain: isize) -> Scenario {
    Scenario { size, most: 256 << 10, ..fixed(name, &[Block(16384), Block(64)], action, gain) }
}

const fn rooted(name: &'static str, pieces: &'static [Piece], action: Action, gain: isize) -> Scenario {
    Scenario { root: Some(0), ..fixed(name, pieces, action, gain) }
}

const fn slabs(name: &'static str, pieces: &'static [Piece], action: Action, gain: isize) -> Scenario {
    Scenario { size: 160 << 10, most: 160 << 10, small: SmallBlocks::Slabs, ..fixed(name, pieces, action, gain) }
}

const fn allocate(bytes: usize) -> Action {
    Action::Allocate { bytes, align: 1 }
}

use Piece::{Block, Hole, Orphan};

/// Every operation in every situation that placement tells apart.
pub const SCENARIOS: &[Scenario] = &[
    fixed("allocate in an empty heap", &[], allocate(64), 1),
    fixed(
        "allocate a hole of that length",
        &[Block(256), Hole(128), Block(256), Hole(512), Block(64)],
        allocate(128),
        1,
    ),
    fixed("allocate a part of a hole", &[Block(64), Hole(512), Block(64), Block(512)], allocate(192), 1),
    fixed("allocate from the wilderness", &[Block(64), Block(192)], allocate(640), 1),
    fixed(
        "allocate a part of a long hole",
        &[Block(64), Hole(8192), Block(64), Hole(12288), Block(64)],
        allocate(4160),
        1,
    ),
    fixed(
        "allocate aligned, behind a gap",
        &[Block(64), Hole(4096), Block(64)],
        Action::Allocate { bytes: 128, align: 512 },
        1,
    ),
    fixed("fail to allocate", &[Block(64), Hole(64), Block(32768)], allocate(1 << 20), 0),
    fixed("free between blocks", &[Block(64), Block(128), Block(64)], Action::Free(1), -1),
    fixed("free behind a hole", &[Block(64), Hole(192), Block(128), Block(64)], Action::Free(2), -1),
    fixed("free before a hole", &[Block(64), Block(128), Hole(192), Block(64)], Action::Free(1), -1),
    fixed("free between holes", &[Block(64), Hole(192), Block(128), Hole(64), Block(64)], Action::Free(2), -1),
    fixed("free between long holes", &[Block(64), Hole(8192), Block(64), Hole(12288), Block(64)], Action::Free(2), -1),
    fixed("free the last block", &[Block(64), Hole(64), Block(128)], Action::Free(2), -1),
    fixed("free the only block", &[Block(64)], Action::Free(0), -1),
    fixed("resize into a hole", &[Block(128), Hole(128), Block(64)], Action::Resize { block: 0, bytes: 192 }, 0),
    fixed("resize into the wilderness", &[Block(64), Block(128)], Action::Resize { block: 1, bytes: 1000 }, 0),
    fixed("shrink", &[Block(1024), Block(64)], Action::Resize { block: 0, bytes: 128 }, 0),
    fixed("shrink before a hole", &[Block(1024), Hole(128), Block(64)], Action::Resize { block: 0, bytes: 128 }, 0),
    fixed("resize by moving", &[Block(128), Block(64)], Action::Resize { block: 0, bytes: 2048 }, 0),
    fixed(
        "resize by moving, copied without the lock",
        &[Block(5000), Block(64)],
        Action::Resize { block: 0, bytes: 9000 },
        0,
    ),
    fixed("allocate into a word", &[Block(56)], Action::AllocateInto(128), 1),
    fixed("allocate a part of a hole into a word", &[Block(56), Hole(512), Block(64)], Action::AllocateInto(192), 1),
    Scenario {
        most: 256 << 10,
        ..fixed("grow to allocate into a word", &[Block(56)], Action::AllocateInto(70 << 10), 1)
    },
    fixed("resize into a word", &[Block(56), Block(128)], Action::ResizeInto { block: 1, bytes: 1000 }, 0),
    fixed(
        "resize into a word by moving",
        &[Block(56), Hole(8192), Block(64), Hole(64), Block(128), Block(64)],
        Action::ResizeInto { block: 4, bytes: 4000 },
        0,
    ),
    fixed("free from a word", &[Block(56), Hole(192), Block(128)], Action::FreeFrom(2), -1),
    fixed(
        "free from a word between holes",
        &[Block(56), Hole(192), Block(128), Hole(64), Block(64)],
        Action::FreeFrom(2),
        -1,
    ),
    growing("grow within the capacity", 96 << 10, Action::Grow(112 << 10), 0),
    growing("grow beyond the capacity", 64 << 10, Action::Grow(100 << 10), 0),
    growing("grow by two doublings", 64 << 10, Action::Grow(200 << 10), 0),
    growing("grow to allocate", 64 << 10, allocate(60 << 10), 1),
    fixed("set a new root", &[Block(64)], Action::SetRoot { name: "root", block: 0 }, 0),
    rooted("replace a root", &[Block(64), Block(64)], Action::SetRoot { name: "root", block: 1 }, 0),
    rooted("add a root", &[Block(64), Block(64)], Action::SetRoot { name: "another", block: 1 }, 0),
    rooted("remove a root", &[Block(64)], Action::RemoveRoot("root"), 0),
    fixed("open", &[Block(64)], Action::Open, 0),
    fixed("open a full table", &[Orphan(64); 8], Action::Open, 0),
    fixed("close", &[Block(64)], Action::Close, 0),
    fixed("adopt a block of one's own", &[Block(64), Block(64)], Action::Adopt(0), 0),
    fixed("adopt a block of the dead", &[Orphan(64), Block(64)], Action::Adopt(0), 0),
    rooted("repair", &[Block(64), Hole(512), Block(64)], Action::Repair, 0),
    rooted(
        "reclaim what the dead left",
        &[Orphan(128), Orphan(64), Block(64), Orphan(256), Hole(64), Orphan(64)],
        Action::ReclaimDead,
        -3,
    ),
];

/// The same for heaps with slabs: whatever a slab goes through.
pub const SLAB_SCENARIOS: &[Scenario] = &[
    slabs("allocate from a new slab", &[], allocate(64), 1),
    slabs("allocate from a slab of one that left", &[Block(64), Block(64), Hole(64), Block(64)], allocate(64), 1),
    slabs("allocate from a slab of the dead", &[Orphan(64), Orphan(64), Block(64)], allocate(64), 1),
    slabs("allocate beside a slab of another class", &[Block(64), Orphan(100), Block(5000)], allocate(300), 1),
    slabs("allocate aligned in a slab", &[Block(64)], Action::Allocate { bytes: 100, align: 256 }, 1),
    Scenario {
        size: 64 << 10,
        most: 256 << 10,
        ..slabs("grow to make a slab", &[Block(16384), Block(32768)], allocate(2000), 1)
    },
    Scenario {
        size: 64 << 10,
        most: 64 << 10,
        ..slabs("allocate where no slab fits", &[Block(2048), Block(9000)], allocate(64), 1)
    },
    Scenario { passing: 1, ..slabs("allocate and free", &[], Action::Churn { bytes: 64, count: 1 }, 0) },
    Scenario { passing: 34, ..slabs("fill slabs and empty them", &[], Action::Churn { bytes: 2048, count: 34 }, 0) },
    // The policy places the first 8.
    Scenario { passing: 20, ..slabs("fill slabs of long blocks", &[], Action::Churn { bytes: 4096, count: 20 }, 0) },
    Scenario { passing: 17, ..slabs("collect what others free", &[], Action::Recycle { bytes: 2000, count: 17 }, 17) },
    slabs("free a block of a slab of another", &[Block(64), Block(128), Block(64)], Action::Free(2), -1),
    slabs("resize in a slab", &[Block(65), Block(64)], Action::Resize { block: 0, bytes: 128 }, 0),
    slabs("resize to another slab", &[Block(128), Block(64)], Action::Resize { block: 0, bytes: 1500 }, 0),
    slabs("resize out of slabs", &[Block(128), Block(64)], Action::Resize { block: 0, bytes: 5000 }, 0),
    slabs("set a root to a block of a slab", &[Block(64)], Action::SetRoot { name: "root", block: 0 }, 0),
    slabs("allocate into a word from a new slab", &[Block(56)], Action::AllocateInto(128), 1),
    slabs(
        "allocate into a word from a slab of the dead",
        &[Block(56), Orphan(128), Orphan(128)],
        Action::AllocateInto(128),
        1,
    ),
    slabs("allocate a long block into a word", &[Block(56)], Action::AllocateInto(5000), 1),
    slabs("resize into a word within slabs", &[Block(56), Block(128)], Action::ResizeInto { block: 1, bytes: 1000 }, 0),
    slabs("resize into a word within a slab", &[Block(56), Block(64)], Action::ResizeInto { block: 1, bytes: 128 }, 0),
    slabs("resize into a word out of slabs", &[Block(56), Block(128)], Action::ResizeInto { block: 1, bytes: 5000 }, 0),
    slabs(
        "resize into a word outside slabs",
        &[Block(56), Block(2112), Block(2112)],
        Action::ResizeInto { block: 1, bytes: 9000 },
        0,
    ),
    slabs("free a block of a slab from a word", &[Block(56), Block(128), Block(128)], Action::FreeFrom(1), -1),
    slabs("free the only block of a slab from a word", &[Block(56), Block(300)], Action::FreeFrom(1), -1),
    slabs("free a long block from a word", &[Block(56), Block(5000)], Action::FreeFrom(1), -1),
    Scenario { passing: 1, ..slabs("allocate into a word and free from it", &[Block(56)], Action::Pass(128), 0) },
    slabs("open where slabs are", &[Block(64), Orphan(64)], Action::Open, 0),
    slabs("open a full table, with slabs", &[Orphan(64); 8], Action::Open, 0),
    slabs("close where slabs are", &[Block(64)], Action::Close, 0),
    slabs("adopt a block of a slab of the dead", &[Orphan(64), Block(64)], Action::Adopt(0), 0),
    Scenario { root: Some(0), ..slabs("repair, with slabs", &[Block(64), Hole(512), Block(64)], Action::Repair, 0) },
    Scenario {
        root: Some(0),
        ..slabs(
            "reclaim what the dead left in slabs",
            &[Orphan(128), Orphan(64), Block(64), Orphan(256), Hole(64), Orphan(64), Orphan(4096)],
            Action::ReclaimDead,
            -4,
        )
    },
];
