//! Reports the free of an address that is not a live block.

use core::fmt::Write;
use core::ptr::NonNull;

use heapwright_heaps::{BlockState, FreeError};
use heapwright_os::Line;

use crate::exact::Extent;
use crate::state::State;

/// Where an address lies.
enum Place {
    InBlock(Extent),
    InNoBlock,
    /// Not where a block begins; more is not known.
    Elsewhere,
}

/// The call that the program made.
#[derive(Clone, Copy)]
pub(crate) enum Call {
    Free,
    /// With the size that the block is said to have.
    FreeSized(usize),
    Reallocate,
}

impl Call {
    fn name(self) -> &'static str {
        match self {
            Call::Free | Call::FreeSized(_) => "free",
            Call::Reallocate => "realloc",
        }
    }
}

/// Returns one line about the bad `address`, at which a block with `usable` bytes begins, if that is known. `None` if
/// the settings ask for bad frees to be ignored: then it is counted.
pub(crate) fn complaint(
    state: &mut State,
    call: Call,
    address: NonNull<u8>,
    usable: Option<usize>,
    error: FreeError,
) -> Option<Line<256>> {
    if state.ignores_bad_frees() {
        state.bad_frees += 1;
        return None;
    }
    let place = match state.heap.exact() {
        Some(heap) => heap.extent_at(address).map_or(Place::InNoBlock, Place::InBlock),
        None => usable.map_or(Place::Elsewhere, |size| {
            Place::InBlock(Extent { start: address.addr().get(), size, state: BlockState::Used })
        }),
    };
    Some(line_about(call, address, error, &place))
}

/// Returns one line about the bad `address` in a process that has no memory for a heap.
pub(crate) fn complaint_without_heap(call: Call, address: NonNull<u8>, error: FreeError) -> Line<256> {
    line_about(call, address, error, &Place::InNoBlock)
}

fn line_about(call: Call, address: NonNull<u8>, error: FreeError, place: &Place) -> Line<256> {
    let mut line = Line::new();
    let _ = describe(&mut line, call, address.addr().get(), error, place);
    line
}

fn describe(line: &mut Line<256>, call: Call, address: usize, error: FreeError, place: &Place) -> core::fmt::Result {
    let fault = match (error, place) {
        (FreeError::WrongSize, _) => "wrong size",
        (FreeError::AlreadyFree, _) | (_, Place::InBlock(Extent { state: BlockState::Free, .. })) => "double free",
        _ => "invalid pointer",
    };
    write!(line, "heapwright: {fault}: {}({address:#x})", call.name())?;
    if let (FreeError::WrongSize, Call::FreeSized(told)) = (error, call) {
        write!(line, " as {told} bytes")?;
    }
    write!(line, ": ")?;
    match place {
        Place::InBlock(Extent { size, .. }) if error == FreeError::WrongSize => {
            writeln!(line, "the block has {size} bytes (in C++: perhaps deleted as another type)")
        }
        Place::InBlock(Extent { start, size, state }) => {
            let kind = if *state == BlockState::Free { "free" } else { "used" };
            writeln!(line, "it lies {} bytes into the {kind} block at {start:#x} of {size} bytes", address - start)
        }
        _ if error == FreeError::AlreadyFree => writeln!(line, "the block is free"),
        _ if error == FreeError::WrongSize => writeln!(line, "the block has another size"),
        Place::InNoBlock => writeln!(line, "it lies in no block of the heap"),
        Place::Elsewhere => writeln!(line, "no block begins there"),
    }
}
