//! What was found, in one line, and the end of the process.

use core::fmt::Write;
use core::ptr::NonNull;

use heapwright_heaps::FreeError;
use heapwright_os::{Line, Output, abort};

/// Something that no program does on purpose.
pub(super) enum Fault {
    /// The bytes behind a block of so many were written to.
    Overflow { size: usize },
    /// A free block of so many bytes was written to, at this one.
    UseAfterFree { size: usize, at: usize },
    /// What was freed cannot be.
    Free(FreeError),
}

/// Ends the process.
#[cold]
#[inline(never)]
pub(super) fn end(fault: &Fault, block: NonNull<u8>) -> ! {
    let mut line = Line::<192>::new();
    let _ = match fault {
        Fault::Overflow { size } => {
            writeln!(
                line,
                "heapwright: overflow: the bytes behind the block at {block:p} of {size} bytes were written to"
            )
        }
        Fault::UseAfterFree { size, at } => writeln!(
            line,
            "heapwright: use after free: byte {at} of the block at {block:p} of {size} bytes was written to after it was freed"
        ),
        Fault::Free(FreeError::AlreadyFree) => {
            writeln!(line, "heapwright: double free: free({block:p}): the block is free")
        }
        Fault::Free(_) => writeln!(line, "heapwright: invalid pointer: free({block:p}): it is not a block"),
    };
    Output::standard_error().write(line.bytes());
    abort()
}
