//! What becomes of a process whose lists of free blocks are not what they were.

use core::fmt::Write;
use core::ptr::NonNull;

use heapwright_os::{Line, Output, abort};

/// Ends it: `block` is in a list where it cannot be.
#[cold]
#[inline(never)]
pub(crate) fn damaged(block: NonNull<u8>) -> ! {
    let mut line = Line::<160>::new();
    let _ = writeln!(
        line,
        "heapwright: damaged heap: a block was freed twice, or written to after it was freed: {block:p}"
    );
    Output::standard_error().write(line.bytes());
    abort()
}
