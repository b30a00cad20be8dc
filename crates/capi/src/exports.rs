//! The exported names, one line each. `# Safety` of all of them: what the headers say.

mod heapwright;
mod mavalloc;
