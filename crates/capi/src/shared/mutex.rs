//! Mutexes in the segment.

use core::ptr::NonNull;

use heapwright_shared::{RawMutex, SharedHeap};

use super::failure::Failure;
use crate::types::Status;

/// The mutex at an address, which must lie among the blocks. Whether one of them is there is not looked at.
///
/// # Safety
/// If the address lies among the heap's blocks, a mutex lies there, in a block that stays while the result is used.
unsafe fn mutex_at(heap: &SharedHeap, address: *mut RawMutex) -> Result<&RawMutex, Failure> {
    let address = NonNull::new(address).ok_or(Status::NullPointer)?;
    if !address.is_aligned() || !heap.reaches_over(address, size_of::<RawMutex>())? {
        return Err(Status::NotABlock.into());
    }
    // SAFETY: it is aligned and lies among the blocks, hence is a mutex that stays, as this function requires. Its
    // words are atomic.
    Ok(unsafe { address.as_ref() })
}

/// Locks the mutex; the status says whether a previous holder died.
///
/// # Safety
/// As for [`mutex_at`].
pub(crate) unsafe fn lock(heap: &SharedHeap, mutex: *mut RawMutex) -> Result<Status, Failure> {
    // SAFETY: as this function requires.
    let died = heap.lock_raw(unsafe { mutex_at(heap, mutex) }?)?;
    Ok(if died { Status::PreviousHolderDied } else { Status::Ok })
}

/// Unlocks the mutex.
///
/// # Safety
/// As for [`mutex_at`]; no other thread of this process holds the mutex.
pub(crate) unsafe fn unlock(heap: &SharedHeap, mutex: *mut RawMutex) -> Result<(), Failure> {
    // SAFETY: as this function requires.
    Ok(unsafe { heap.unlock_raw(mutex_at(heap, mutex)?) }?)
}

/// Declares the data of the mutex consistent.
///
/// # Safety
/// As for [`mutex_at`].
pub(crate) unsafe fn mark_consistent(heap: &SharedHeap, mutex: *mut RawMutex) -> Result<(), Failure> {
    // SAFETY: as this function requires.
    Ok(heap.mark_consistent(unsafe { mutex_at(heap, mutex) }?)?)
}
