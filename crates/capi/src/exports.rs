//! The exported names, one line each. Safety of all of them: as the headers say.

/// Exports functions whose bodies rely on what the header requires of callers.
macro_rules! export {
    ($($name:ident($($argument:ident: $type:ty),*) -> $result:ty { $($body:tt)* })*) => {$(
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name($($argument: $type),*) -> $result {
            // SAFETY: pointers are null or point to what their types say, handles to a heap that no other thread
            // destroys or (but for shared heaps) uses meanwhile, and blocks that are freed or cut off are not used any
            // more: the header requires it of callers.
            #[allow(unused_unsafe, reason = "some of the bodies are safe")]
            unsafe { $($body)* }
        }
    )*};
}

mod heapwright;
mod mavalloc;
mod sbmem;
mod shared;
