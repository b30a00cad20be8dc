//! Reports the free of an address that is not a live block.

use core::fmt::Write;
use core::ptr::NonNull;

use heapwright_heaps::{BlockState, FreeError};
use heapwright_os::Line;

use crate::exact::Extent;
use crate::state::State;

/// The call that the program made.
#[derive(Clone, Copy)]
pub(crate) enum Call {
    Free,
    Reallocate,
}

impl Call {
    fn name(self) -> &'static str {
        match self {
            Call::Free => "free",
            Call::Reallocate => "realloc",
        }
    }
}

/// Returns one line about the bad `address`. `None` if the settings ask for bad frees to be ignored: then it is
/// counted.
pub(crate) fn complaint(state: &mut State, call: Call, address: NonNull<u8>, error: FreeError) -> Option<Line<256>> {
    if state.ignores_bad_frees() {
        state.bad_frees += 1;
        return None;
    }
    let extent = state.heap.exact().and_then(|heap| heap.extent_at(address));
    Some(line_about(call, address, error, extent))
}

/// Returns one line about the bad `address` in a process that has no memory for a heap.
pub(crate) fn complaint_without_heap(call: Call, address: NonNull<u8>, error: FreeError) -> Line<256> {
    line_about(call, address, error, None)
}

fn line_about(call: Call, address: NonNull<u8>, error: FreeError, extent: Option<Extent>) -> Line<256> {
    let mut line = Line::new();
    let _ = describe(&mut line, call, address.addr().get(), error, extent);
    line
}

fn describe(
    line: &mut Line<256>,
    call: Call,
    address: usize,
    error: FreeError,
    extent: Option<Extent>,
) -> core::fmt::Result {
    let fault = match (error, &extent) {
        (FreeError::WrongSize, _) => "wrong size",
        (FreeError::AlreadyFree, _) | (_, Some(Extent { state: BlockState::Free, .. })) => "double free",
        _ => "invalid pointer",
    };
    write!(line, "heapwright: {fault}: {}({address:#x}): ", call.name())?;
    match extent {
        None if error == FreeError::AlreadyFree => writeln!(line, "the block is free"),
        None if error == FreeError::WrongSize => writeln!(line, "the block has another size"),
        None => writeln!(line, "it lies in no block of the heap"),
        Some(Extent { start, size, state }) => {
            let kind = if state == BlockState::Free { "free" } else { "used" };
            writeln!(line, "it lies {} bytes into the {kind} block at {start:#x} of {size} bytes", address - start)
        }
    }
}
