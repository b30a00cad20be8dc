//! What the heap consists of, found out when somebody asks: nothing is counted for it.
//!
//! A slab tells how many of its blocks are out, that is with the program or in a thread's list. What lies in lists is known of the calling
//! thread and of those that have ended; what lies in those of other threads counts as the program's.

use heapwright_heaps::Counters;

use crate::classes::{CLASSES, size_of_class};
use crate::ground::{GROUND, Held};
use crate::harden;
use crate::heap::Entry;
use crate::slab::SLAB;
use crate::{long, thread};

/// The slabs of one size at one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClassSlabs {
    /// How long their blocks are, in bytes.
    pub size: usize,
    /// How many slabs.
    pub slabs: usize,
    /// Blocks that the program has.
    pub used: usize,
    /// Blocks that wait in lists for who asks next.
    pub listed: usize,
}

impl ClassSlabs {
    /// There are none whose blocks have `size` bytes, which is not 0.
    #[must_use]
    pub const fn none_of(size: usize) -> ClassSlabs {
        ClassSlabs { size, slabs: 0, used: 0, listed: 0 }
    }

    /// How many blocks there are, used and free.
    #[must_use]
    pub fn blocks(&self) -> usize {
        self.slabs * (SLAB / self.size)
    }

    /// How many blocks are free, those in lists among them.
    #[must_use]
    pub fn free(&self) -> usize {
        self.blocks().saturating_sub(self.used)
    }
}

/// The heap at one moment. While other threads are at work, its parts are of moments that lie close together.
#[derive(Clone, Debug)]
pub struct Census {
    /// The pages in figures: slabs and longer blocks are its blocks.
    pub pages: Counters,
    /// Bytes at the heap's end that nothing lies in.
    pub tail: usize,
    /// Bytes of pages that lie between the hardened heap's slabs and long blocks, or wait, or are kept by threads.
    apart: usize,
    /// How many long blocks wait there or are kept.
    waiting: usize,
    /// How many long blocks have mappings of their own, and their bytes.
    mapped: (usize, usize),
    /// By class: slabs, blocks that are out, and those of them that are known to lie in lists.
    classes: [(usize, usize, usize); CLASSES],
}

impl Census {
    /// The sizes of which there are slabs, the shortest first.
    pub fn classes(&self) -> impl Iterator<Item = ClassSlabs> + '_ {
        // The first two have blocks of one size.
        (1..CLASSES).filter_map(|class| {
            let (mut slabs, mut out, mut listed) = self.classes[class];
            if class == 1 {
                let (more_slabs, more_out, more_listed) = self.classes[0];
                (slabs, out, listed) = (slabs + more_slabs, out + more_out, listed + more_listed);
            }
            let size = size_of_class(class);
            (slabs != 0).then(|| ClassSlabs { size, slabs, used: out.saturating_sub(listed), listed })
        })
    }

    /// How many bytes slabs take.
    #[must_use]
    pub fn slab_bytes(&self) -> usize {
        self.classes().map(|class| class.slabs * SLAB).sum()
    }

    /// How many blocks have no class, each of its own length.
    #[must_use]
    pub fn long_blocks(&self) -> usize {
        let slabs: usize = self.classes().map(|class| class.slabs).sum();
        let placed = (self.pages.blocks.saturating_sub(self.pages.holes) as usize).saturating_sub(slabs + self.waiting);
        placed + self.mapped.0
    }

    /// How many bytes those have.
    #[must_use]
    pub fn long_bytes(&self) -> usize {
        (self.pages.live as usize).saturating_sub(self.slab_bytes() + self.apart) + self.mapped.1
    }

    /// How many bytes the program has.
    #[must_use]
    pub fn used_bytes(&self) -> usize {
        self.long_bytes() + self.classes().map(|class| class.used * class.size).sum::<usize>()
    }

    /// Adds what the hardened heap has at a number.
    fn see_span(&mut self, number: u32) {
        let Some(span) = harden::span_at(number) else { return };
        self.apart += span.apart;
        match span.class {
            Some(class) => {
                self.classes[class].0 += 1;
                self.classes[class].1 += span.live;
            }
            None => self.waiting += 1 - span.live,
        }
    }

    fn see_listed(&mut self, entry: Entry, blocks: u32) {
        self.classes[entry.class()].2 += blocks as usize;
    }
}

/// The heap of the process; `None` before there is one. Time: proportional to the heap's slabs and to what lies in lists.
#[must_use]
pub fn census() -> Option<Census> {
    take(|_| true)
}

/// The same of one heap of those that there are, by its number: its slabs only, whatever lists their blocks lie in.
#[must_use]
pub fn census_of(heap: u32) -> Option<Census> {
    take(|entry| entry.owner() == heap)
}

/// How many heaps there are; their numbers begin at 1. None where measures of hardening are taken: what threads have is not kept
/// apart then.
#[must_use]
pub fn heaps() -> u32 {
    if harden::is_on() {
        return 0;
    }
    GROUND.shared().map_or(0, |ground| ground.heaps.made())
}

/// Looks at the slabs that are `meant`. The ground is held: no slab comes or goes.
fn take(meant: impl Fn(Entry) -> bool) -> Option<Census> {
    let ground = GROUND.shared()?;
    let pages = ground.pages.counters().unwrap_or_default();
    let tail = (pages.heap_size as usize).saturating_sub(ground.pages.top());
    let (mapped, classes) = (long::apart(&ground), [(0, 0, 0); CLASSES]);
    let mut census = Census { pages, tail, apart: 0, waiting: 0, mapped, classes };
    for number in 0..(pages.heap_size as usize).div_ceil(SLAB) as u32 {
        if harden::is_on() {
            census.see_span(number);
        }
        let entry = GROUND.entry(number);
        if entry != Entry::NONE && meant(entry) {
            let (slabs, out, _) = &mut census.classes[entry.class()];
            *slabs += 1;
            *out += GROUND.blocks_out(number).count() as usize;
        }
    }
    see_lists(&ground, &mut census, meant);
    Some(census)
}

/// Looks at the lists of the calling thread, and at what waits in the inbox of each heap.
fn see_lists(ground: &Held, census: &mut Census, meant: impl Fn(Entry) -> bool) {
    if let Some(mut own) = thread::heap_if_any() {
        let (blocks, bytes) = own.kept().figures();
        census.waiting += blocks;
        census.apart += bytes;
    }
    let mut see = |entry, blocks| {
        if meant(entry) {
            census.see_listed(entry, blocks);
        }
    };
    if let Some(own) = thread::heap_if_any() {
        own.each_listed(&mut see);
    }
    for heap in ground.heaps.all() {
        heap.each_waiting(|entry| see(entry, 1));
    }
}
