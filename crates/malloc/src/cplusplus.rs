//! The operators `new` and `delete` of C++, by their mangled names.

use heapwright_process as heap;

mod throwing;

macro_rules! allocate {
    ($($name:ident($($rest:ident: $type:ty),*);)*) => { $(
        /// An operator `new` that returns null.
        #[unsafe(no_mangle)]
        #[allow(non_snake_case)]
        pub extern "C" fn $name(size: usize, $($rest: $type),*) -> *mut u8 {
            $(let _ = $rest;)*
            heap::allocate(size)
        }
    )* };
}

macro_rules! allocate_aligned {
    ($($name:ident($($rest:ident: $type:ty),*);)*) => { $(
        /// An aligned operator `new` that returns null.
        #[unsafe(no_mangle)]
        #[allow(non_snake_case)]
        pub extern "C" fn $name(size: usize, align: usize, $($rest: $type),*) -> *mut u8 {
            $(let _ = $rest;)*
            heap::allocate_aligned(align, size)
        }
    )* };
}

macro_rules! free {
    ($($name:ident($($rest:ident: $type:ty),*);)*) => { $(
        /// An operator `delete`.
        ///
        /// # Safety
        /// `block` is null or a live block that the program does not use any more.
        #[unsafe(no_mangle)]
        #[allow(non_snake_case)]
        pub unsafe extern "C" fn $name(block: *mut u8, $($rest: $type),*) {
            $(let _ = $rest;)*
            // SAFETY: as C++ requires of `operator delete`, the program does not use the block any more.
            unsafe { heap::free(block) }
        }
    )* };
}

macro_rules! free_sized {
    ($($name:ident($($rest:ident: $type:ty),*);)*) => { $(
        /// A sized operator `delete`.
        ///
        /// # Safety
        /// `block` is null or a live block of this size that the program does not use any more.
        #[unsafe(no_mangle)]
        #[allow(non_snake_case)]
        pub unsafe extern "C" fn $name(block: *mut u8, size: usize, $($rest: $type),*) {
            $(let _ = $rest;)*
            // SAFETY: as C++ requires of `operator delete`, the program does not use the block any more.
            unsafe { heap::free_sized(block, size) }
        }
    )* };
}

type NoThrow = *const u8;

allocate! {
    _ZnwmRKSt9nothrow_t(tag: NoThrow);
    _ZnamRKSt9nothrow_t(tag: NoThrow);
}

allocate_aligned! {
    _ZnwmSt11align_val_tRKSt9nothrow_t(tag: NoThrow);
    _ZnamSt11align_val_tRKSt9nothrow_t(tag: NoThrow);
}

free! {
    _ZdlPv();
    _ZdaPv();
    _ZdlPvRKSt9nothrow_t(tag: NoThrow);
    _ZdaPvRKSt9nothrow_t(tag: NoThrow);
    _ZdlPvSt11align_val_t(align: usize);
    _ZdaPvSt11align_val_t(align: usize);
    _ZdlPvSt11align_val_tRKSt9nothrow_t(align: usize, tag: NoThrow);
    _ZdaPvSt11align_val_tRKSt9nothrow_t(align: usize, tag: NoThrow);
}

free_sized! {
    _ZdlPvm();
    _ZdaPvm();
    _ZdlPvmSt11align_val_t(align: usize);
    _ZdaPvmSt11align_val_t(align: usize);
}
