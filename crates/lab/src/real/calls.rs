//! The functions that a worker calls: whoever's malloc the dynamic linker has found, or none at all.

use std::cell::Cell;
use std::ffi::{CStr, c_void};
use std::hint::black_box;

use anyhow::{Context, Result};

use super::resident::library_of;
use crate::bench::lazy::Lazy;

type Block = *mut u8;
type BySize = unsafe extern "C" fn(usize) -> Block;
type ByTwo = unsafe extern "C" fn(usize, usize) -> Block;
type Resizing = unsafe extern "C" fn(Block, usize) -> Block;
type Freeing = unsafe extern "C" fn(Block);

/// A malloc family.
#[derive(Clone, Copy)]
pub struct Calls {
    pub malloc: BySize,
    pub calloc: ByTwo,
    /// Alignment, then size.
    pub aligned: ByTwo,
    pub realloc: Resizing,
    pub free: Freeing,
}

impl Calls {
    /// This process' own, by their addresses, so that the compiler cannot know what they do.
    ///
    /// # Errors
    /// When the family is incomplete.
    pub fn of_this_process() -> Result<Calls> {
        let malloc = symbol(c"malloc").context("this process has no malloc")?;
        let library = library_of(malloc);
        let own = |name: &CStr| symbol(name).filter(|&function| library_of(function) == library);
        let need = |name: &CStr| own(name).with_context(|| format!("the library of malloc has no {name:?}"));
        let aligned = own(c"memalign").or_else(|| own(c"aligned_alloc"));
        let aligned: ByTwo = match aligned {
            // SAFETY: the functions of these names are of this type, as C and its manuals have it.
            Some(function) => unsafe { std::mem::transmute::<*const c_void, ByTwo>(function) },
            None => no_aligned,
        };
        // SAFETY: as above.
        unsafe {
            Ok(Calls {
                malloc: std::mem::transmute::<*const c_void, BySize>(malloc),
                calloc: std::mem::transmute::<*const c_void, ByTwo>(need(c"calloc")?),
                aligned,
                realloc: std::mem::transmute::<*const c_void, Resizing>(need(c"realloc")?),
                free: std::mem::transmute::<*const c_void, Freeing>(need(c"free")?),
            })
        }
    }

    /// Functions that go to no allocator: every block lies in the thread's scratch, where all others lie too.
    pub fn to_nobody() -> Calls {
        black_box(Calls {
            malloc: nobody_malloc,
            calloc: nobody_calloc,
            aligned: nobody_aligned,
            realloc: nobody_realloc,
            free: nobody_free,
        })
    }
}

fn symbol(name: &CStr) -> Option<*const c_void> {
    // SAFETY: the name ends with a zero byte.
    let address = unsafe { libc::dlsym(libc::RTLD_DEFAULT, name.as_ptr()) };
    (!address.is_null()).then_some(address.cast_const())
}

/// Of a library that has no aligned allocation at all: it refuses.
unsafe extern "C" fn no_aligned(_: usize, _: usize) -> Block {
    std::ptr::null_mut()
}

/// Memory for blocks of nobody's, touched beforehand.
pub struct Scratch {
    memory: Lazy<u8>,
}

/// A longer block is refused: to touch the memory for it beforehand would take longer than the run.
const LONGEST: usize = 1 << 28;

impl Scratch {
    /// Room for blocks of up to `longest` bytes.
    pub fn for_blocks_of(longest: usize) -> Result<Scratch> {
        Ok(Scratch { memory: Lazy::committed(longest.min(LONGEST))? })
    }

    /// Has the blocks of nobody's that this thread asks for lie here, for as long as the scratch lives.
    pub fn adopt(&self) {
        NOBODY.set((self.memory.as_ptr().cast_mut(), self.memory.len()));
    }
}

thread_local! {
    /// Where all blocks of nobody's lie, and how much room there is.
    static NOBODY: Cell<(Block, usize)> = const { Cell::new((std::ptr::null_mut(), 0)) };
}

#[inline(always)]
fn nobodys(size: usize) -> Block {
    let (start, len) = NOBODY.get();
    if size <= len { start } else { std::ptr::null_mut() }
}

unsafe extern "C" fn nobody_malloc(size: usize) -> Block {
    nobodys(size)
}

unsafe extern "C" fn nobody_calloc(count: usize, size: usize) -> Block {
    nobodys(count * size)
}

unsafe extern "C" fn nobody_aligned(align: usize, size: usize) -> Block {
    let (start, len) = NOBODY.get();
    let offset = start.addr().wrapping_neg() & (align - 1);
    let fits = offset.checked_add(size).is_some_and(|end| end <= len);
    if fits { start.wrapping_add(offset) } else { std::ptr::null_mut() }
}

unsafe extern "C" fn nobody_realloc(_: Block, size: usize) -> Block {
    nobodys(size)
}

unsafe extern "C" fn nobody_free(_: Block) {}
