//! How a program marks a block: by calling [`heapwright_record_begin`] and [`heapwright_record_end`], which it looks up
//! by name (`dlsym`).

use crate::marked;
use crate::state;

/// What a marked block remembers until it ends.
#[repr(C)]
pub struct Marked {
    /// Live bytes when it began.
    live: i64,
    /// Its number among the open ones, plus one.
    number: u64,
}

/// Begins a marked block. Returns 1, or 0 when blocks are not recorded in this process (`record --marked`), or 4,096
/// are open.
///
/// # Safety
/// `block` is valid for a write.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn heapwright_record_begin(block: *mut Marked) -> i32 {
    if !marked::is_enabled() || !state::is_on() {
        return 0;
    }
    let Some((live, number)) = state::exclusively(marked::open).flatten() else { return 0 };
    // SAFETY: `block` is valid for a write, as this function requires.
    unsafe { block.write(Marked { live, number: number.into() }) };
    1
}

/// Ends a marked block. Returns by how many bytes the live blocks of the process had grown in it at most; 0 when it is
/// not open.
///
/// # Safety
/// `block` is valid for a read.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn heapwright_record_end(block: *const Marked) -> u64 {
    // SAFETY: `block` is valid for a read, as this function requires.
    let Marked { live, number } = unsafe { block.read() };
    let close = || u32::try_from(number).ok().and_then(marked::close);
    let Some(peak) = state::exclusively(close).flatten() else { return 0 };
    u64::try_from(peak - live).unwrap_or(0)
}
