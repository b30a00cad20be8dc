//! Corrupted free lists: a report, and the end of a process that would use them.

use core::fmt::Write;
use core::ptr::NonNull;
use core::sync::atomic::{AtomicBool, Ordering};

use heapwright_os::{Line, Output, abort};

/// Reports a corrupted heap and aborts: `block` is in a list to which it does not belong.
#[cold]
#[inline(never)]
pub(crate) fn corrupted(block: NonNull<u8>) -> ! {
    write_report(block);
    abort()
}

/// Reports a corrupted heap, once per process, where no more is done than looking at it.
#[cold]
#[inline(never)]
pub(crate) fn report(block: NonNull<u8>) {
    static IS_REPORTED: AtomicBool = AtomicBool::new(false);
    if !IS_REPORTED.swap(true, Ordering::Relaxed) {
        write_report(block);
    }
}

fn write_report(block: NonNull<u8>) {
    let mut line = Line::<160>::new();
    let _ = writeln!(
        line,
        "heapwright: damaged heap: a block was freed twice, or written to after it was freed: {block:p}"
    );
    Output::standard_error().write(line.bytes());
}
