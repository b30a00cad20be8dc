//! Addresses that the arena gave back to the system for good: where a limit of the process is reached, a table of slabs
//! could not grow otherwise, and no hole would serve another slab.

use core::alloc::Layout;

use heapwright_os::{Refused, give_addresses_back, take_addresses_back};

use super::{ArenaState, Surrendered};
use crate::classes::SLAB;
use crate::errors::OutOfMemory;

impl ArenaState {
    /// Returns the addresses that were given back.
    pub fn surrendered(&self) -> Surrendered {
        self.surrendered
    }

    /// Calls `extend`, which maps `bytes` for a table, after as many addresses of a hole were given back. If it fails
    /// all the same, they are taken back.
    ///
    /// # Errors
    /// [`Refused`] when no hole is as long, or `extend` fails.
    #[cold]
    pub fn extend_instead<R>(
        &mut self,
        bytes: usize,
        extend: impl FnOnce() -> Result<R, Refused>,
    ) -> Result<R, Refused> {
        let length = bytes.checked_next_multiple_of(SLAB).ok_or(Refused)?;
        let layout = Layout::from_size_align(length, SLAB).map_err(|_| Refused)?;
        let start = self.place(layout).map_err(|OutOfMemory| Refused)?;
        // SAFETY: the block was placed just now, and is used by this function only.
        let extended = unsafe { give_addresses_back(start, length) }.and_then(|()| {
            let extended = extend();
            match extended.is_err() && take_addresses_back(start, length).is_ok() {
                true => Err(Refused),
                false => Ok(extended),
            }
        });
        match extended {
            Ok(extended) => {
                self.surrendered.ranges += 1;
                self.surrendered.bytes += length;
                extended
            }
            Err(Refused) => {
                // SAFETY: as above.
                let _ = unsafe { self.remove(start) };
                Err(Refused)
            }
        }
    }
}
