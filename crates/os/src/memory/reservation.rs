//! A long range of addresses, of which parts are backed with memory as they are used, and purged.

use core::ptr::{NonNull, with_exposed_provenance_mut};

use crate::call::errno::{errno, errno_kept};
use crate::call::page_size::page_size;
use crate::call::refused::{Refused, refuse_if_told};
use crate::memory::arena;
use crate::memory::barrier::{forbid, permit};
use crate::memory::huge_pages::{keep_pages_small, split_before_purge};
use crate::memory::pages::{Access, map_aligned_with, page_seems_written, populate, unmap};
use crate::memory::ranges::purge;

/// A range of addresses. What of it is mapped is unmapped when the value is dropped.
///
/// ```
/// use heapwright_os::Reservation;
/// let mut range = Reservation::claim(1 << 40, 1 << 21).unwrap();
/// range.extend(1 << 16).unwrap();
/// // SAFETY: the first 64 KiB are mapped, and not used otherwise.
/// unsafe { range.base().write_bytes(7, 1 << 16) };
/// ```
pub struct Reservation {
    base: NonNull<u8>,
    length: usize,
    extent: usize,
    kind: Kind,
    /// Whether another range was split off at its end: then it is not the last one, wherever the arena's units end.
    is_followed: bool,
}

/// How the addresses are held.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// Chosen: nothing is mapped above the extent, and others may map there.
    Chosen(Pages),
    /// Mapped as a whole, without access above the extent.
    Mapped,
}

/// The pages that memory may consist of.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Pages {
    /// As the system likes.
    Any,
    /// No transparent huge pages.
    Small,
}

// SAFETY: a reservation owns its range, and the system calls that act on it may come from any thread.
unsafe impl Send for Reservation {}

impl Reservation {
    /// Claims `length` bytes (a positive multiple of the page size) of addresses at a multiple of `align` (a power of
    /// two). Nothing is mapped: no limit of the process counts the range, and other code that asks the system for an
    /// address of its choice does not get one there. The extent is 0; [`Reservation::extend`] makes bytes accessible.
    ///
    /// Where addresses cannot be chosen, they are reserved by a mapping without access, which the limit on address
    /// space counts, and which is not longer than a 64th of the address space, or than 8 GiB if that is more.
    ///
    /// # Errors
    /// [`Refused`], when no such range is left, by the process's limit on address space, or because the range is longer
    /// than a mapping may be.
    pub fn claim(length: usize, align: usize) -> Result<Reservation, Refused> {
        Self::claim_with(length, align, Pages::Any)
    }

    /// As [`Reservation::claim`], at a multiple of the page size, for tables that are used sparsely or are short: they
    /// are not backed by transparent huge pages.
    ///
    /// # Errors
    /// As [`Reservation::claim`].
    pub fn claim_table(length: usize) -> Result<Reservation, Refused> {
        Self::claim_with(length, page_size(), Pages::Small)
    }

    fn claim_with(length: usize, align: usize, pages: Pages) -> Result<Reservation, Refused> {
        /// So many ranges are tried. Each is free unless another copy of this code or the program chose it.
        const TRIES: usize = 8;
        refuse_if_told()?;
        let mut occupied = [0; TRIES];
        let mut tried = 0;
        let mut chosen = None;
        while tried < TRIES && chosen.is_none() {
            let Some(at) = arena::take(length, align) else { break };
            let kind = match look_at(at, length) {
                Sight::Free => Kind::Chosen(pages),
                Sight::Held => Kind::Mapped,
                Sight::Occupied => {
                    occupied[tried] = at;
                    tried += 1;
                    continue;
                }
            };
            chosen = NonNull::new(with_exposed_provenance_mut::<u8>(at)).map(|base| (base, kind));
        }
        // Not before: the same range would be handed out again.
        occupied[..tried].iter().for_each(|&at| arena::give_back(at, length));
        match chosen {
            Some((base, kind)) => Ok(Reservation { base, length, extent: 0, kind, is_followed: false }),
            None => Self::reserve(length, align).inspect(|_| arena::record_system_choice()),
        }
    }

    /// Reserves `length` bytes at a multiple of `align` by a mapping without access.
    fn reserve(length: usize, align: usize) -> Result<Reservation, Refused> {
        if length > arena::most_mapped() {
            return Err(Refused);
        }
        let base = map_aligned_with(length, align, Access::None)?;
        Ok(Reservation { base, length, extent: 0, kind: Kind::Mapped, is_followed: false })
    }

    /// Reserves `length` bytes that are zero and can be touched at once. The system allocates each page at its first
    /// touch.
    ///
    /// # Errors
    /// [`Refused`], typically by the process's limit on address space or by strict overcommit accounting.
    pub fn sparse(length: usize) -> Result<Reservation, Refused> {
        let base = map_aligned_with(length, page_size(), Access::ReadWriteSparse)?;
        Ok(Reservation { base, length, extent: length, kind: Kind::Mapped, is_followed: false })
    }

    /// The first byte. Does not change.
    #[inline]
    #[must_use]
    pub fn base(&self) -> NonNull<u8> {
        self.base
    }

    /// Returns the length of the range in bytes.
    #[inline]
    #[must_use]
    pub fn length(&self) -> usize {
        self.length
    }

    /// Returns up to where [`Reservation::extend`] has made the range accessible, in bytes from the base.
    #[inline]
    #[must_use]
    pub fn extent(&self) -> usize {
        self.extent
    }

    /// Makes the bytes `0..to` (a multiple of the page size) readable and writable; new ones are zero. The system
    /// accounts for all of them at once, and refuses more than it can ever provide. With a `to` below the extent
    /// nothing happens.
    ///
    /// # Errors
    /// [`Refused`]: the range is shorter, the system has no memory, a limit of the process is reached, or something
    /// else was mapped there. Nothing has changed then.
    pub fn extend(&mut self, to: usize) -> Result<(), Refused> {
        if to <= self.extent {
            return Ok(());
        }
        let from = self.part_of(self.length, self.extent, to)?;
        refuse_if_told()?;
        self.commit(from, to - self.extent)?;
        if self.kind == Kind::Chosen(Pages::Small) {
            let base = self.base.addr().get();
            keep_pages_small(base..base + self.extent, base..base + to);
        }
        self.extent = to;
        Ok(())
    }

    /// Makes `added` bytes of the range that are not accessible readable and writable.
    pub(crate) fn commit(&self, from: NonNull<u8>, added: usize) -> Result<(), Refused> {
        if self.kind == Kind::Mapped {
            // SAFETY: the range lies inside this reservation, which this value owns.
            return unsafe { permit(from, added) };
        }
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        map_at(from.addr().get(), added, protection, Address::Required).map_err(|_| Refused)
    }

    /// Whether the addresses are held without a mapping.
    pub(crate) fn is_chosen(&self) -> bool {
        self.kind != Kind::Mapped
    }

    /// Makes the bytes from `to` (a multiple of the page size) on inaccessible, and gives their memory back. Nothing
    /// happens if they are not accessible.
    ///
    /// # Errors
    /// [`Refused`] when the process has too many mappings, or the memory cannot be purged, as when it is locked
    /// (`mlock`). The extent has not changed then.
    ///
    /// # Safety
    /// The contents of the bytes are not needed any more.
    pub unsafe fn retract(&mut self, to: usize) -> Result<(), Refused> {
        if to >= self.extent {
            return Ok(());
        }
        let (start, length) = (self.part(to, self.extent)?, self.extent - to);
        // SAFETY: the range lies inside this reservation and is not needed, as this function requires.
        unsafe {
            if self.kind == Kind::Mapped {
                // Before it is forbidden: what the process has locked in memory keeps its contents, and stays.
                purge(start, length)?;
                forbid(start, length)?;
            } else {
                split_before_purge(start, length);
                unmap(start, length)?;
            }
        }
        self.extent = to;
        Ok(())
    }

    /// Divides the range at `at` (a multiple of the page size), which is not below the extent: keeps what lies below,
    /// and returns the rest.
    ///
    /// # Errors
    /// [`Refused`] when `at` is not in the range, or below the extent.
    pub fn split_off(&mut self, at: usize) -> Result<Reservation, Refused> {
        if at < self.extent {
            return Err(Refused);
        }
        let (base, length) = (self.part_of(self.length, at, at)?, self.length - at);
        if matches!(self.kind, Kind::Chosen(_)) {
            arena::divide(base.addr().get());
        }
        self.length = at;
        let is_followed = core::mem::replace(&mut self.is_followed, true);
        Ok(Reservation { base, length, extent: 0, kind: self.kind, is_followed })
    }

    /// Cuts the first `length` bytes (a multiple of the page size) off a range of which nothing is accessible, as a
    /// table like those of [`Reservation::claim_table`]: tables that are claimed together lie close together, and cost
    /// fewer calls.
    ///
    /// # Errors
    /// [`Refused`] when the range is shorter, or a part of it accessible.
    pub fn cut_table(&mut self, length: usize) -> Result<Reservation, Refused> {
        if self.extent != 0 {
            return Err(Refused);
        }
        let rest = self.split_off(length)?;
        let mut table = core::mem::replace(self, rest);
        if let Kind::Chosen(pages) = &mut table.kind {
            *pages = Pages::Small;
        }
        Ok(table)
    }

    /// Whether the accessible page at `offset` (a multiple of the page size) [seems written](page_seems_written).
    #[must_use]
    pub fn seems_written(&self, offset: usize) -> bool {
        self.part(offset, offset.saturating_add(page_size())).is_ok_and(page_seems_written)
    }

    /// Populates the accessible bytes `from..to` (multiples of the page size) with memory at once, which takes less
    /// time than a page fault for each page. Only a hint.
    pub fn populate(&mut self, from: usize, to: usize) {
        if let Ok(start) = self.part(from, to) {
            // SAFETY: the range lies inside this reservation, which is private anonymous memory.
            unsafe { populate(start, to - from) };
        }
    }

    /// The start of a part that this value owns.
    fn part(&self, from: usize, to: usize) -> Result<NonNull<u8>, Refused> {
        self.part_of(self.mapped(), from, to)
    }

    fn part_of(&self, end: usize, from: usize, to: usize) -> Result<NonNull<u8>, Refused> {
        if from > to || to > end {
            return Err(Refused);
        }
        // SAFETY: `from` lies inside the range or at its end.
        Ok(unsafe { self.base.add(from) })
    }

    /// How many bytes from the base on are mapped.
    fn mapped(&self) -> usize {
        if self.kind == Kind::Mapped { self.length } else { self.extent }
    }
}

impl Drop for Reservation {
    #[inline(never)]
    fn drop(&mut self) {
        let mapped = self.mapped();
        // SAFETY: the range was mapped by this value, which owns it and ends here.
        let is_gone = mapped == 0 || unsafe { unmap(self.base, mapped) }.is_ok();
        // What could not be unmapped would be in the way of the next range.
        if is_gone && matches!(self.kind, Kind::Chosen(_)) {
            let at = self.base.addr().get();
            let give_back = if self.is_followed { arena::give_back_before_another } else { arena::give_back };
            give_back(at, self.length);
        }
    }
}

/// Unmaps `length` bytes (whole pages) in the accessible part of a range: no limit counts them until
/// [`take_addresses_back`], and others may map there.
///
/// # Errors
/// [`Refused`] when the process has too many mappings. Nothing has changed then.
///
/// # Safety
/// The bytes are mapped and not used, until they were taken back.
pub unsafe fn give_addresses_back(start: NonNull<u8>, length: usize) -> Result<(), Refused> {
    // SAFETY: the bytes are not used, as this function requires.
    unsafe {
        split_before_purge(start, length);
        unmap(start, length)
    }
}

/// Maps bytes again that [`give_addresses_back`] unmapped. They are zero.
///
/// # Errors
/// [`Refused`] when something else was mapped there, or a limit of the process is reached.
pub fn take_addresses_back(start: NonNull<u8>, length: usize) -> Result<(), Refused> {
    refuse_if_told()?;
    map_at(start.addr().get(), length, libc::PROT_READ | libc::PROT_WRITE, Address::Required).map_err(|_| Refused)
}

/// Why nothing was mapped at an address.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Obstacle {
    /// Something is mapped there, or the system maps nothing there.
    Place,
    /// The system has no memory, or a limit of the process is reached.
    Limit,
}

/// How the system takes the address of a mapping.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Address {
    /// It maps there or fails.
    Required,
    /// It maps there if it can, and elsewhere otherwise.
    Hinted,
}

impl Address {
    fn flags(self) -> i32 {
        match self {
            Address::Required => libc::MAP_FIXED_NOREPLACE,
            Address::Hinted => 0,
        }
    }
}

/// Maps `length` bytes at an address where nothing is mapped. Systems to which the address is a hint may not follow it
/// at once: a mapping elsewhere is tried once more.
fn map_at(address: usize, length: usize, protection: i32, how: Address) -> Result<(), Obstacle> {
    match try_to_map_at(address, length, protection, how) {
        Err(Obstacle::Place) => try_to_map_at(address, length, protection, how),
        result => result,
    }
}

fn try_to_map_at(address: usize, length: usize, protection: i32, how: Address) -> Result<(), Obstacle> {
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | how.flags();
    let place = with_exposed_provenance_mut(address);
    // SAFETY: a new anonymous mapping that replaces no other changes no existing memory.
    let (mapped, error) = errno_kept(|| (unsafe { libc::mmap(place, length, protection, flags, -1, 0) }, errno()));
    if mapped == libc::MAP_FAILED {
        let is_limit = matches!(error, libc::ENOMEM | libc::EAGAIN);
        return Err(if is_limit { Obstacle::Limit } else { Obstacle::Place });
    }
    if mapped.expose_provenance() == address {
        return Ok(());
    }
    // Before Linux 4.17, and in emulators, the address is a hint.
    // SAFETY: the mapping was just made, and is not used.
    let _ = errno_kept(|| unsafe { libc::munmap(mapped, length) });
    Err(Obstacle::Place)
}

/// What was found in a range of addresses.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Sight {
    /// Nothing is mapped there.
    Free,
    /// The mapping by which that was found out: the system did not unmap it, as sandboxes may not.
    Held,
    /// Something else is mapped there.
    Occupied,
}

/// Finds out what is mapped in the range, or in the beginning of it where [mappings cost memory](arena::most_probed),
/// by a mapping that lasts for a moment. Where limits do not allow it, only the first page is looked at.
///
/// The address is only a hint. ThreadSanitizer replaces addresses that it does not support by 0, which the system maps
/// for privileged processes if it is required to, and ends the program then.
fn look_at(address: usize, length: usize) -> Sight {
    let probe = |length| {
        map_at(address, length, libc::PROT_NONE, Address::Hinted)?;
        // SAFETY: the mapping was just made, and is not used.
        let is_gone = errno_kept(|| unsafe { libc::munmap(with_exposed_provenance_mut(address), length) }) == 0;
        Ok(if is_gone { Sight::Free } else { Sight::Held })
    };
    let probed = length.min(arena::most_probed());
    match probe(probed) {
        // The rest is not held.
        Ok(Sight::Held) if probed < length => Sight::Occupied,
        Ok(sight) => sight,
        Err(Obstacle::Place) => Sight::Occupied,
        Err(Obstacle::Limit) => match probe(page_size()) {
            Ok(Sight::Free) | Err(Obstacle::Limit) => Sight::Free,
            _ => Sight::Occupied,
        },
    }
}
