//! Calls that a tool which counts instructions can tell apart: each kind is made in a function of its own, and what is counted below that
//! function is the allocator's.

use std::ffi::OsString;
use std::hint::black_box;

use crate::heap::{Block, Heap};
use crate::work::tell_malloc;

/// The argument with which this program calls malloc and free to be counted.
pub const COUNT: &str = "count";
/// The function that calls malloc, and nothing else.
pub const CALLS_MALLOC: &str = "heapwright_bench_calls_malloc";
/// The function that calls free, and nothing else.
pub const CALLS_FREE: &str = "heapwright_bench_calls_free";

/// Allocates and frees a block, again and again: `BYTES PAIRS`. Prints the line of [`MALLOC`](crate::MALLOC).
///
/// # Errors
/// What is wrong with the arguments.
pub fn count(arguments: &[OsString]) -> Result<(), String> {
    let usage = || format!("{COUNT} BYTES PAIRS");
    let [bytes, pairs] = arguments else { return Err(usage()) };
    let number = |text: &OsString| text.to_str().and_then(|text| text.parse::<usize>().ok()).ok_or_else(usage);
    let (bytes, pairs) = (number(bytes)?.max(1), number(pairs)?);
    let heap = Heap::of_this_process();
    for _ in 0..pairs {
        let block = heapwright_bench_calls_malloc(heap, bytes);
        heapwright_bench_calls_free(heap, block);
    }
    tell_malloc();
    Ok(())
}

// SAFETY: nobody else has a function of that name.
#[unsafe(no_mangle)]
#[inline(never)]
fn heapwright_bench_calls_malloc(heap: Heap, bytes: usize) -> Block {
    heap.allocate(bytes)
}

// SAFETY: nobody else has a function of that name.
#[unsafe(no_mangle)]
#[inline(never)]
fn heapwright_bench_calls_free(heap: Heap, block: Block) {
    let bytes = block.bytes();
    heap.free(block);
    // Something is left to do, or the call would become a jump that no tool sees.
    black_box(bytes);
}
