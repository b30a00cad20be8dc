//! The functions that a loaded library imports, replaced by others.

use std::ffi::{CStr, c_char, c_int, c_void};
use std::io;
use std::ops::Range;
use std::ptr::{with_exposed_provenance, with_exposed_provenance_mut};
use std::sync::atomic::{AtomicPtr, Ordering};

use heapwright_os::page_size;

/// An entry of the dynamic section.
#[repr(C)]
struct Dynamic {
    tag: u64,
    value: u64,
}

/// Tags of the dynamic section.
mod tag {
    pub(super) const END: u64 = 0;
    pub(super) const PLT_BYTES: u64 = 2;
    pub(super) const STRINGS: u64 = 5;
    pub(super) const SYMBOLS: u64 = 6;
    pub(super) const RELA: u64 = 7;
    pub(super) const RELA_BYTES: u64 = 8;
    pub(super) const REL: u64 = 17;
    pub(super) const REL_BYTES: u64 = 18;
    pub(super) const PLT_KIND: u64 = 20;
    pub(super) const PLT: u64 = 23;
}

/// Types of relocations that store a function's address.
#[cfg(target_arch = "x86_64")]
const ADDRESSES: [u32; 3] = [1, 6, 7];
/// Types of relocations that store a function's address.
#[cfg(target_arch = "aarch64")]
const ADDRESSES: [u32; 3] = [257, 1025, 1026];
/// Of other processors, none is known.
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
const ADDRESSES: [u32; 0] = [];

/// A function's name and what is called instead.
pub type Replacement<'n> = (&'n CStr, *const c_void);

/// Makes the program or library that contains `address` call other functions than those of the given names that it
/// imports. Returns the number of pointers that were changed.
///
/// # Errors
/// The system's reason when a read-only page cannot be made writable for the moment.
///
/// # Safety
/// Each replacement is a function that can be called wherever that of its name can. The library stays loaded.
pub unsafe fn redirect(address: *const c_void, replacements: &[Replacement<'_>]) -> io::Result<usize> {
    let mut search = Search { address: address.addr(), found: None };
    // SAFETY: `look` has the type that dl_iterate_phdr requires and is called only with `search`, which outlives it.
    unsafe { libc::dl_iterate_phdr(Some(look), (&raw mut search).cast()) };
    match search.found {
        // SAFETY: the image is that of a loaded object; the caller guarantees the rest.
        Some(image) => unsafe { image.redirect(replacements) },
        None => Ok(0),
    }
}

/// The search for the object that contains an address.
struct Search {
    address: usize,
    found: Option<Image>,
}

/// A loaded program or library.
struct Image {
    base: usize,
    dynamic: *const Dynamic,
    /// What the dynamic linker has made read-only after it had stored all addresses.
    read_only: Range<usize>,
}

extern "C" fn look(info: *mut libc::dl_phdr_info, _: usize, search: *mut c_void) -> c_int {
    // SAFETY: dl_iterate_phdr passes a valid description of an object, whose headers are an array of `dlpi_phnum`; the
    // other pointer is that of `redirect`'s search, which nothing else uses meanwhile.
    let (info, search) = unsafe { (&*info, &mut *search.cast::<Search>()) };
    // SAFETY: the description is valid, and its headers are an array of `dlpi_phnum`, mapped as long as the object is.
    let headers = unsafe { std::slice::from_raw_parts(info.dlpi_phdr, usize::from(info.dlpi_phnum)) };
    let base = info.dlpi_addr as usize;
    let range = |header: &libc::Elf64_Phdr| {
        let start = base + header.p_vaddr as usize;
        start..start + header.p_memsz as usize
    };
    let of_type = |kind: u32| headers.iter().filter(move |header| header.p_type == kind);
    if !of_type(libc::PT_LOAD).any(|header| range(header).contains(&search.address)) {
        return 0;
    }
    let whole_pages = |range: Range<usize>| range.start & !(page_size() - 1)..range.end & !(page_size() - 1);
    search.found = of_type(libc::PT_DYNAMIC).next().map(|dynamic| Image {
        base,
        dynamic: with_exposed_provenance(range(dynamic).start),
        read_only: of_type(libc::PT_GNU_RELRO).next().map_or(0..0, |header| whole_pages(range(header))),
    });
    1
}

impl Image {
    /// Returns the value of an entry of the dynamic section.
    unsafe fn value(&self, tag: u64) -> Option<usize> {
        let mut entry = self.dynamic;
        // SAFETY: the dynamic section of a loaded object is mapped and ends with an entry of tag 0.
        unsafe {
            while (*entry).tag != tag::END {
                if (*entry).tag == tag {
                    return Some((*entry).value as usize);
                }
                entry = entry.add(1);
            }
        }
        None
    }

    /// Returns the address in an entry of the dynamic section. Some linkers store it relative to the base.
    unsafe fn address(&self, tag: u64) -> Option<usize> {
        // SAFETY: as the caller guarantees.
        let value = unsafe { self.value(tag) }?;
        Some(if value < self.base { self.base + value } else { value })
    }

    /// # Safety
    /// As [`redirect`]; the image is that of a loaded object.
    unsafe fn redirect(&self, replacements: &[Replacement<'_>]) -> io::Result<usize> {
        const WITH_ADDEND: usize = 24;
        const WITHOUT: usize = 16;
        let mut changed = 0;
        // SAFETY: the dynamic section says where the tables are and how long; they are mapped as long as the object is.
        unsafe {
            let plt_entry = if self.value(tag::PLT_KIND) == Some(tag::REL as usize) { WITHOUT } else { WITH_ADDEND };
            let tables = [
                (tag::PLT, tag::PLT_BYTES, plt_entry),
                (tag::RELA, tag::RELA_BYTES, WITH_ADDEND),
                (tag::REL, tag::REL_BYTES, WITHOUT),
            ];
            for (table, bytes, entry) in tables {
                let (Some(table), Some(bytes)) = (self.address(table), self.value(bytes)) else { continue };
                for at in (table..table + bytes / entry * entry).step_by(entry) {
                    changed += usize::from(self.redirect_one(with_exposed_provenance(at), replacements)?);
                }
            }
        }
        Ok(changed)
    }

    /// Changes the pointer of a relocation if it is that of a function with a replacement.
    unsafe fn redirect_one(&self, relocation: *const [u64; 2], replacements: &[Replacement<'_>]) -> io::Result<bool> {
        // SAFETY: the relocation is an entry of the object's table, which begins with these two words.
        let [offset, info] = unsafe { *relocation };
        if !ADDRESSES.contains(&(info as u32)) {
            return Ok(false);
        }
        // SAFETY: the relocation's symbol is one of the object's table.
        let Some(name) = (unsafe { self.name_of((info >> 32) as usize) }) else { return Ok(false) };
        let Some((_, function)) = replacements.iter().find(|(replaced, _)| *replaced == name) else { return Ok(false) };
        // SAFETY: the linker has stored a function's address there, which is changed to that of another function.
        unsafe { self.store(self.base + offset as usize, *function) }?;
        Ok(true)
    }

    unsafe fn name_of(&self, symbol: usize) -> Option<&CStr> {
        // SAFETY: the tables are mapped as long as the object is; the symbol is one of the table, and its name a text
        // in the table of strings that ends with a zero byte.
        unsafe {
            let symbols: *const libc::Elf64_Sym = with_exposed_provenance(self.address(tag::SYMBOLS)?);
            let strings: *const c_char = with_exposed_provenance(self.address(tag::STRINGS)?);
            Some(CStr::from_ptr(strings.add((*symbols.add(symbol)).st_name as usize)))
        }
    }

    /// Stores an address where the linker has stored one.
    unsafe fn store(&self, place: usize, function: *const c_void) -> io::Result<()> {
        let is_read_only = self.read_only.contains(&place);
        let page = place & !(page_size() - 1);
        let protect = |access: c_int| {
            // SAFETY: the page is one of the object's data, which is made writable and then read-only again: no
            // reference to it exists that this could invalidate.
            let refused = unsafe { libc::mprotect(with_exposed_provenance_mut(page), page_size(), access) };
            if refused == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
        };
        if is_read_only {
            protect(libc::PROT_READ | libc::PROT_WRITE)?;
        }
        // SAFETY: the page is writable now, and the place is aligned as the linker requires for an address. Other
        // threads only read it, whole words at a time.
        unsafe { AtomicPtr::from_ptr(with_exposed_provenance_mut(place)) }
            .store(function.cast_mut(), Ordering::Release);
        if is_read_only { protect(libc::PROT_READ) } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    extern "C" fn replacement() -> libc::pid_t {
        -77
    }

    #[test]
    fn a_function_that_is_imported_is_replaced() {
        let own = replacement as *const c_void;
        let own_number = std::process::id() as libc::pid_t;
        // SAFETY: both functions have no arguments and return a pid_t; no other test calls getsid.
        unsafe {
            assert_ne!(libc::getsid(own_number), -77);
            assert_eq!(redirect(own, &[(c"no such function", own)]).unwrap(), 0);
            assert_eq!(redirect(std::ptr::null(), &[(c"getsid", own)]).unwrap(), 0);
            assert_ne!(libc::getsid(own_number), -77);
            assert!(redirect(own, &[(c"getsid", own)]).unwrap() > 0);
            assert_eq!(libc::getsid(own_number), -77);
        }
    }
}
