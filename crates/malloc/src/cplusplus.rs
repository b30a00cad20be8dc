//! The operators `new` and `delete` of C++, by their mangled names.
//!
//! A program may replace any of them. Each form by default calls another one ([new.delete] of the standard), so that a
//! program that replaces `operator new(size_t)` and `operator delete(void*)` gets every block but the aligned ones. The
//! basic forms, plain and aligned, allocate and free here; all others (`derived`, `sized`) call the form that the
//! dynamic linker chose, which is the program's if it has one.
//!
//! The C++ library has the same derived forms. They are exported nevertheless: another library before it, a malloc
//! that the program is linked with, may have forms that end in its own heap.

use heapwright_process as heap;

mod derived;
mod runtime;
mod sized;
mod throwing;

pub(crate) use sized::look_up_forms;

macro_rules! free {
    ($($name:ident($($type:ty),*);)*) => { $(
        /// A basic operator `delete`.
        ///
        /// # Safety
        /// `block` is null or a live block that the program does not use any more.
        #[unsafe(no_mangle)]
        #[allow(non_snake_case)]
        pub unsafe extern "C" fn $name(block: *mut u8, $(_: $type),*) {
            // SAFETY: as C++ requires of `operator delete`, the program does not use the block any more.
            unsafe { heap::free(block) }
        }
    )* };
}

free! {
    _ZdlPv();
    _ZdlPvSt11align_val_t(usize);
}
