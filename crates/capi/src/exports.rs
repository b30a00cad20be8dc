//! The exported names, one line each. `# Safety` of all of them: what the headers say.

/// Exports functions whose bodies rely on what the header asks of their callers.
macro_rules! export {
    ($($name:ident($($argument:ident: $type:ty),*) -> $result:ty { $body:expr })*) => {$(
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name($($argument: $type),*) -> $result {
            // SAFETY: the header asks for it.
            #[allow(unused_unsafe, reason = "some of the bodies are safe")]
            unsafe { $body }
        }
    )*};
}

mod heapwright;
mod mavalloc;
mod sbmem;
mod shared;
