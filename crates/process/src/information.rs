//! `malloc_info`: the heap in XML, of the shape that glibc's has.
//!
//! A `heap` is what is placed by one lock's holder: the heap of a policy is number 0. Of the cached heap number 0 is what lies between slabs,
//! and each thread's heap has a number of its own. A `size` tells of free pieces: holes from so many bytes to so many, or the free
//! blocks of a class, with its slabs and the blocks that the program has. What is not known is left out.
//!
//! Each heap is written down behind the lock and handed to the stream without it, for streams allocate. So their sums are
//! those of what was written, whatever happens in between.

use core::ffi::c_void;
use core::fmt::{self, Write};

use heapwright_cached as cached;
use heapwright_heaps::BlockState;
use heapwright_os::{Line, Stream, set_errno};

use crate::heap::Heap;
use crate::inspect::{Pieces, Summary};
use crate::state::with;

const EINVAL: i32 = 22;

/// Long enough for what is said of one heap.
type Text = Line<{ 16 << 10 }>;

/// `malloc_info`: writes the heap in figures to the stream `file`. 0, or -1 and `errno` when `options` is not 0, there is no stream or it
/// does not take it.
///
/// # Safety
/// `file` is null or a `FILE` that is open.
pub unsafe fn write_information(options: i32, file: *mut c_void) -> i32 {
    // SAFETY: the caller's promise.
    let stream = unsafe { Stream::over(file) }.filter(|_| options == 0);
    let Some(stream) = stream else {
        set_errno(EINVAL);
        return -1;
    };
    if write_all(&stream).is_some() { 0 } else { -1 }
}

/// `None` when the stream does not take it.
fn write_all(stream: &Stream) -> Option<()> {
    let hand_over = |text: &Text| stream.write(text.bytes()).then_some(());
    // One for all, for it is long and stacks may be short.
    let mut text = Text::new();
    let _ = text.write_str("<malloc version=\"1\">\n");
    hand_over(&text)?;
    let mut sum = Summary::default();
    for number in 0..=heaps() {
        text.clear();
        sum += with(|state| write_heap(&mut text, &state.heap, number));
        hand_over(&text)?;
    }
    text.clear();
    let peak = with(|state| state.heap.placement_counters()).map(|counters| counters.peak_heap_size);
    let _ = write_sum(&mut text, &sum, peak);
    hand_over(&text)
}

/// How many heaps there are but for number 0.
fn heaps() -> u32 {
    with(|state| if let Heap::Cached = state.heap { cached::heaps() } else { 0 })
}

/// Writes what one heap is like; nothing of one that has no slabs.
fn write_heap(text: &mut Text, heap: &Heap, number: u32) -> Summary {
    let mut holes = Holes::default();
    let (summary, census) = match heap {
        _ if number != 0 => {
            let Some(census) = cached::census_of(number).filter(|census| census.slab_bytes() != 0) else {
                return Summary::default();
            };
            (Summary::of_slabs(&census), Some(census))
        }
        Heap::Cached => {
            cached::each_page_hole(|bytes| holes.add(bytes));
            // Where it is hardened threads have no heaps that are told apart: all of it is here.
            match cached::census() {
                Some(census) if cached::heaps() == 0 => (Summary::of_cached(&census), Some(census)),
                census => (census.as_ref().map(Summary::between_slabs).unwrap_or_default(), None),
            }
        }
        Heap::Growing(growing) => {
            growing.blocks().filter(|block| block.state == BlockState::Free).for_each(|hole| holes.add(hole.size));
            (Summary::of(heap), None)
        }
        Heap::Mapped(_) => (Summary::of(heap), None),
    };
    let _ = writeln!(text, "<heap nr=\"{number}\">\n<sizes>");
    let _ = holes.write(text);
    if let Some(census) = &census {
        let _ = write_classes(text, census);
    }
    let _ = text.write_str("</sizes>\n");
    let _ = write_totals(text, &summary);
    let _ = text.write_str("</heap>\n");
    summary
}

/// The holes from 2^k to 2^(k+1) - 1 bytes, for each k.
struct Holes([Pieces; usize::BITS as usize]);

impl Default for Holes {
    fn default() -> Holes {
        Holes([Pieces::default(); usize::BITS as usize])
    }
}

impl Holes {
    fn add(&mut self, bytes: usize) {
        self.0[bytes.max(1).ilog2() as usize] += Pieces { count: 1, bytes };
    }

    fn write(&self, text: &mut Text) -> fmt::Result {
        for (power, &Pieces { count, bytes }) in self.0.iter().enumerate().filter(|(_, pieces)| pieces.count != 0) {
            let from = 1usize << power;
            let to = from - 1 + from;
            writeln!(text, "<size from=\"{from}\" to=\"{to}\" total=\"{bytes}\" count=\"{count}\"/>")?;
        }
        Ok(())
    }
}

fn write_classes(text: &mut Text, census: &cached::Census) -> fmt::Result {
    for class in census.classes() {
        let cached::ClassSlabs { size, slabs, used, .. } = class;
        let (total, count) = (class.free() * size, class.free());
        write!(text, "<size from=\"{size}\" to=\"{size}\" total=\"{total}\" count=\"{count}\"")?;
        writeln!(text, " slabs=\"{slabs}\" used=\"{used}\"/>")?;
    }
    Ok(())
}

fn write_totals(text: &mut Text, summary: &Summary) -> fmt::Result {
    let Summary { used, listed, free, mapped, .. } = *summary;
    for (kind, Pieces { count, bytes }) in [("fast", listed), ("rest", free), ("mmap", mapped), ("used", used)] {
        writeln!(text, "<total type=\"{kind}\" count=\"{count}\" size=\"{bytes}\"/>")?;
    }
    writeln!(text, "<system type=\"current\" size=\"{}\"/>", summary.heap())
}

fn write_sum(text: &mut Text, sum: &Summary, peak: Option<u64>) -> fmt::Result {
    write_totals(text, sum)?;
    // Of mappings, the peak is theirs, and no heap's.
    if let Some(peak) = peak.filter(|_| sum.mapped.count == 0) {
        writeln!(text, "<system type=\"max\" size=\"{peak}\"/>")?;
    }
    writeln!(text, "<aspace type=\"total\" size=\"{}\"/>", sum.heap() + sum.mapped.bytes)?;
    text.write_str("</malloc>\n")
}
