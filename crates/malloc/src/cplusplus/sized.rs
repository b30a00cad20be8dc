//! The sized operators `delete`. They call the unsized ones, by default; if those are the library's own, they check the
//! size instead.

use core::arch::{global_asm, naked_asm};
use core::sync::atomic::{AtomicUsize, Ordering};

use heapwright_process as heap;

use super::derived::jump;

/// Added to every size by a bitwise or: 0 if the operators that the sized ones call are the library's own. Otherwise,
/// and until that is known, it makes all sizes [`UNKNOWN`], which no block has, so that blocks leave the fast path.
static MASK: AtomicUsize = AtomicUsize::new(UNKNOWN);

/// The size of a block that is freed by an unsized operator.
const UNKNOWN: usize = usize::MAX;

/// The alignment of blocks of plain operators.
const ALIGN: usize = 16;

/// An operator as the dynamic linker chose it, and the library's own.
#[repr(C)]
struct Form {
    chosen: usize,
    own: usize,
}

global_asm!(
    ".hidden heapwright_own_ZdlPv",
    ".hidden heapwright_own_ZdaPv",
    ".hidden heapwright_own_ZdlPvSt11align_val_t",
    ".hidden heapwright_own_ZdaPvSt11align_val_t",
    ".hidden heapwright_forms",
    ".globl heapwright_forms",
    ".pushsection .data.rel.ro.heapwright_forms, \"aw\"",
    ".balign 8",
    "heapwright_forms:",
    ".quad _ZdlPv, heapwright_own_ZdlPv",
    ".quad _ZdaPv, heapwright_own_ZdaPv",
    ".quad _ZdlPvSt11align_val_t, heapwright_own_ZdlPvSt11align_val_t",
    ".quad _ZdaPvSt11align_val_t, heapwright_own_ZdaPvSt11align_val_t",
    ".popsection",
);

unsafe extern "C" {
    static heapwright_forms: [Form; 4];
}

/// Looks up once, when the library is loaded, whether the program replaces what the sized operators call.
pub(crate) fn look_up_forms() {
    // SAFETY: the assembly above defines the table, and the dynamic linker has filled it in; nothing writes to it.
    let forms = unsafe { &heapwright_forms };
    if forms.iter().all(|form| form.chosen == form.own) {
        MASK.store(0, Ordering::Relaxed);
    }
}

macro_rules! free_sized {
    ($($name:ident => $unsized:ident, $called:literal;)*) => { $(
        /// A sized operator `delete`.
        ///
        /// # Safety
        /// `block` is null or a live block of this size that the program does not use any more.
        #[unsafe(no_mangle)]
        #[allow(non_snake_case)]
        pub unsafe extern "C" fn $name(block: *mut u8, size: usize) {
            let size = size | MASK.load(Ordering::Relaxed);
            // SAFETY: as C++ requires of `operator delete`, the program does not use the block any more.
            unsafe {
                if heap::give_sized(block, size) {
                    return;
                }
                if size == UNKNOWN {
                    $unsized(block);
                } else {
                    heap::free_sized_otherwise(block, ALIGN, size);
                }
            }
        }

        /// Calls the unsized operator.
        #[unsafe(naked)]
        extern "C" fn $unsized(_block: *mut u8) {
            jump!($called);
        }
    )* };
}

macro_rules! free_aligned_sized {
    ($($name:ident => $unsized:ident, $called:literal;)*) => { $(
        /// A sized operator `delete` for aligned blocks.
        ///
        /// # Safety
        /// `block` is null or a live block of this size and alignment that the program does not use any more.
        #[unsafe(no_mangle)]
        #[allow(non_snake_case)]
        pub unsafe extern "C" fn $name(block: *mut u8, size: usize, align: usize) {
            let size = size | MASK.load(Ordering::Relaxed);
            // SAFETY: as C++ requires of `operator delete`, the program does not use the block any more.
            unsafe {
                if heap::give_sized(block, size) {
                    return;
                }
                if size == UNKNOWN {
                    $unsized(block, align);
                } else {
                    heap::free_sized_otherwise(block, align, size);
                }
            }
        }

        /// Calls the unsized operator.
        #[unsafe(naked)]
        extern "C" fn $unsized(_block: *mut u8, _align: usize) {
            jump!($called);
        }
    )* };
}

free_sized! {
    _ZdlPvm => free_unsized, "_ZdlPv";
    _ZdaPvm => free_array_unsized, "_ZdaPv";
}

free_aligned_sized! {
    _ZdlPvmSt11align_val_t => free_aligned_unsized, "_ZdlPvSt11align_val_t";
    _ZdaPvmSt11align_val_t => free_aligned_array_unsized, "_ZdaPvSt11align_val_t";
}
