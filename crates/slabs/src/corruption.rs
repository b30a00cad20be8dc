//! The end of a process whose free lists are corrupted.

use core::fmt::Write;
use core::ptr::NonNull;

use heapwright_os::{Line, Output, abort};

/// Reports a corrupted heap and aborts: `block` is in a list to which it does not belong.
#[cold]
#[inline(never)]
pub(crate) fn corrupted(block: NonNull<u8>) -> ! {
    let mut line = Line::<160>::new();
    let _ = writeln!(
        line,
        "heapwright: damaged heap: a block was freed twice, or written to after it was freed: {block:p}"
    );
    Output::standard_error().write(line.bytes());
    abort()
}
