//! The functions that a worker calls: those of the malloc that the dynamic linker has found, or functions that allocate
//! nothing, for measuring the cost of the replay itself.

use std::cell::Cell;
use std::ffi::{CStr, c_void};
use std::hint::black_box;

use anyhow::{Context, Result};
use heapwright_host::identity::symbol;

use heapwright_host::lazy::Lazy;

type Block = *mut u8;
type BySize = unsafe extern "C" fn(usize) -> Block;
type ByTwo = unsafe extern "C" fn(usize, usize) -> Block;
type Resizing = unsafe extern "C" fn(Block, usize) -> Block;
type Freeing = unsafe extern "C" fn(Block);
type Measuring = unsafe extern "C" fn(Block) -> usize;

/// A malloc family.
#[derive(Clone, Copy)]
pub struct Calls {
    pub malloc: BySize,
    pub calloc: ByTwo,
    /// Alignment, then size.
    pub aligned: ByTwo,
    pub realloc: Resizing,
    pub free: Freeing,
    /// `malloc_usable_size`, which not every library has.
    pub usable: Option<Measuring>,
}

impl Calls {
    /// Allocates and frees a block, so that the allocator has prepared itself.
    pub fn warm_up(&self) {
        // SAFETY: these are the functions of malloc's family, and the block is freed once, or null.
        unsafe { (self.free)((self.malloc)(16)) };
    }

    /// Returns this process' own functions. They are called by address, so that the compiler makes no assumptions.
    ///
    /// # Errors
    /// When the family is incomplete.
    pub fn of_this_process() -> Result<Calls> {
        let malloc = symbol(c"malloc").context("this process has no malloc")?;
        let is_own = |&function: &*const c_void| heapwright_os::are_in_one_object(function, malloc);
        let own = |name: &CStr| symbol(name).filter(is_own);
        let need = |name: &CStr| own(name).with_context(|| format!("the library of malloc has no {name:?}"));
        let aligned = own(c"memalign").or_else(|| own(c"aligned_alloc"));
        let aligned: ByTwo = match aligned {
            // SAFETY: memalign and aligned_alloc both take two sizes and return a pointer, by the C standard and its
            // manual pages.
            Some(function) => unsafe { std::mem::transmute::<*const c_void, ByTwo>(function) },
            None => no_aligned,
        };
        // SAFETY: the C standard defines the types of malloc, calloc, realloc and free, and its manual page that of
        // malloc_usable_size; each address is that of the function of that name.
        unsafe {
            Ok(Calls {
                malloc: std::mem::transmute::<*const c_void, BySize>(malloc),
                calloc: std::mem::transmute::<*const c_void, ByTwo>(need(c"calloc")?),
                aligned,
                realloc: std::mem::transmute::<*const c_void, Resizing>(need(c"realloc")?),
                free: std::mem::transmute::<*const c_void, Freeing>(need(c"free")?),
                usable: own(c"malloc_usable_size")
                    .map(|function| std::mem::transmute::<*const c_void, Measuring>(function)),
            })
        }
    }

    /// Returns functions that allocate nothing: all blocks of a thread overlap in its scratch memory.
    pub fn no_op() -> Calls {
        black_box(Calls {
            malloc: no_op_malloc,
            calloc: no_op_calloc,
            aligned: no_op_aligned,
            realloc: no_op_realloc,
            free: no_op_free,
            usable: None,
        })
    }
}

/// Stands in for a library without aligned allocation: refuses every request.
unsafe extern "C" fn no_aligned(_: usize, _: usize) -> Block {
    std::ptr::null_mut()
}

/// Memory in which all blocks of a no-op replay overlap, touched before the run.
pub struct Scratch {
    memory: Lazy<u8>,
}

/// The longest block, in bytes. A longer one is refused: touching its memory before the run would take longer than the
/// run.
const LONGEST: usize = 1 << 28;

impl Scratch {
    /// Maps and touches memory for blocks of up to `longest` bytes.
    pub fn for_blocks_of(longest: usize) -> Result<Scratch> {
        Ok(Scratch { memory: Lazy::committed(longest.min(LONGEST))? })
    }

    /// Makes this the memory of the no-op blocks that the calling thread allocates, for as long as the scratch exists.
    pub fn adopt(&self) {
        SCRATCH.set((self.memory.as_ptr().cast_mut(), self.memory.len()));
    }
}

thread_local! {
    /// The start and the length of this thread's scratch memory.
    static SCRATCH: Cell<(Block, usize)> = const { Cell::new((std::ptr::null_mut(), 0)) };
}

#[inline(always)]
fn in_scratch(size: usize) -> Block {
    let (start, len) = SCRATCH.get();
    if size <= len { start } else { std::ptr::null_mut() }
}

unsafe extern "C" fn no_op_malloc(size: usize) -> Block {
    in_scratch(size)
}

unsafe extern "C" fn no_op_calloc(count: usize, size: usize) -> Block {
    in_scratch(count * size)
}

unsafe extern "C" fn no_op_aligned(align: usize, size: usize) -> Block {
    let (start, len) = SCRATCH.get();
    let offset = start.addr().wrapping_neg() & (align - 1);
    let fits = offset.checked_add(size).is_some_and(|end| end <= len);
    if fits { start.wrapping_add(offset) } else { std::ptr::null_mut() }
}

unsafe extern "C" fn no_op_realloc(_: Block, size: usize) -> Block {
    in_scratch(size)
}

unsafe extern "C" fn no_op_free(_: Block) {}
