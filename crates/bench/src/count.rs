//! Calls of malloc and free for a tool that counts instructions. Each is made in a function of its own; the
//! instructions below that function are those of the allocator.

use std::ffi::OsString;
use std::hint::black_box;

use crate::heap::{Block, Heap};
use crate::work::print_malloc;

/// The first argument of this program for [`count()`].
pub const COUNT: &str = "count";
/// The name of the function that calls malloc, and nothing else.
pub const CALLS_MALLOC: &str = "heapwright_bench_calls_malloc";
/// The name of the function that calls free, and nothing else.
pub const CALLS_FREE: &str = "heapwright_bench_calls_free";

/// Allocates and frees a block of `BYTES` bytes `PAIRS` times; the arguments are `BYTES PAIRS`. Prints the line of
/// [`MALLOC`](crate::MALLOC).
///
/// # Errors
/// A description of invalid arguments.
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
    print_malloc();
    Ok(())
}

// SAFETY: the name has the prefix of this program, and no other function in it or its libraries uses it.
#[unsafe(no_mangle)]
#[inline(never)]
fn heapwright_bench_calls_malloc(heap: Heap, bytes: usize) -> Block {
    heap.allocate(bytes)
}

// SAFETY: the name has the prefix of this program, and no other function in it or its libraries uses it.
#[unsafe(no_mangle)]
#[inline(never)]
fn heapwright_bench_calls_free(heap: Heap, block: Block) {
    let bytes = block.bytes();
    heap.free(block);
    // Without work after the call, the compiler would turn it into a jump, which hides it from call-graph tools.
    black_box(bytes);
}
