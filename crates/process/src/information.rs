//! `malloc_info`: describes the heap in XML of the same shape as glibc's.
//!
//! A `heap` element is what one lock protects: under a policy only number 0. In the cached heap, number 0 is the space
//! between slabs, and each thread's heap has its own number. A `size` element describes free pieces: holes in a range
//! of sizes, or the free blocks of a size class with the class's slabs and live blocks. Unknown figures are left out.
//!
//! Each heap is formatted under the lock and written to the stream after the lock's release, because streams allocate.
//! The totals are the sums of what was written, even if the heaps change in between.

use core::ffi::c_void;
use core::fmt::{self, Write};

use heapwright_cached as cached;
use heapwright_heaps::BlockState;
use heapwright_os::{Line, Stream, set_errno};

use crate::heap::Heap;
use crate::state::with_rarely;
use crate::summary::{Pieces, Summary};

const EINVAL: i32 = 22;

/// Large enough for the description of one heap.
type Text = Line<{ 16 << 10 }>;

/// `malloc_info`: writes a description of the heap to the stream `file`. Returns 0; `EINVAL`, as glibc does, if
/// `options` is not 0; or -1, with `errno` set, if there is no stream or the write fails.
///
/// # Safety
/// `file` is null or an open `FILE`.
pub unsafe fn write_information(options: i32, file: *mut c_void) -> i32 {
    // SAFETY: `file` is null or an open `FILE`, as this function requires.
    let stream = unsafe { Stream::over(file) };
    let Some(stream) = stream.filter(|_| options == 0) else {
        set_errno(EINVAL);
        return if options == 0 { -1 } else { EINVAL };
    };
    if write_all(&stream).is_some() { 0 } else { -1 }
}

/// Returns `None` if a write to the stream fails.
fn write_all(stream: &Stream) -> Option<()> {
    let hand_over = |text: &Text| stream.write(text.bytes()).then_some(());
    // One buffer for all heaps: it is large, and stacks may be small.
    let mut text = Text::new();
    let _ = text.write_str("<malloc version=\"1\">\n");
    hand_over(&text)?;
    let mut sum = Summary::default();
    for number in 0..=heaps() {
        text.clear();
        sum += with_rarely(|state| write_heap(&mut text, &mut state.heap, number)).unwrap_or_default();
        hand_over(&text)?;
    }
    text.clear();
    let peak = with_rarely(|state| state.heap.placement_counters()).flatten().map(|counters| counters.peak_heap_size);
    let _ = write_sum(&mut text, &sum, peak);
    hand_over(&text)
}

/// Returns the number of heaps without number 0.
fn heaps() -> u32 {
    with_rarely(|state| if let Heap::Cached = state.heap { cached::heaps() } else { 0 }).unwrap_or(0)
}

/// Writes the description of one heap; nothing for one without slabs.
fn write_heap(text: &mut Text, heap: &mut Heap, number: u32) -> Summary {
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
            // A hardened heap has no separate heaps per thread: everything is in number 0.
            match cached::census() {
                Some(census) if cached::heaps() == 0 => (Summary::of_cached(&census), Some(census)),
                census => (census.as_ref().map(Summary::between_slabs).unwrap_or_default(), None),
            }
        }
        Heap::Growing(growing) => {
            growing
                .settled()
                .blocks()
                .filter(|block| block.state == BlockState::Free)
                .for_each(|hole| holes.add(hole.size));
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

/// The holes of 2^k to 2^(k+1) - 1 bytes, for each k.
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
    for class in census.classes().filter(|class| class.slabs != 0) {
        let cached::ClassSlabs { size, slabs, .. } = class;
        let used = class.used - class.dissolved;
        let (total, count) = (class.free() * size, class.free());
        write!(text, "<size from=\"{size}\" to=\"{size}\" total=\"{total}\" count=\"{count}\"")?;
        writeln!(text, " slabs=\"{slabs}\" used=\"{used}\"/>")?;
    }
    let dissolved = census.dissolved();
    if dissolved.slabs != 0 {
        let (longest, slabs, used) = (cached::DissolvedSlabs::LONGEST_HOLE, dissolved.slabs, dissolved.used);
        let (total, count) = (dissolved.hole_bytes + dissolved.listed_bytes, dissolved.holes + dissolved.listed);
        write!(text, "<size from=\"16\" to=\"{longest}\" total=\"{total}\" count=\"{count}\"")?;
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
    // With mappings, the peak is the mappings', not a heap's.
    if let Some(peak) = peak.filter(|_| sum.mapped.count == 0) {
        writeln!(text, "<system type=\"max\" size=\"{peak}\"/>")?;
    }
    writeln!(text, "<aspace type=\"total\" size=\"{}\"/>", sum.heap() + sum.mapped.bytes)?;
    text.write_str("</malloc>\n")
}
