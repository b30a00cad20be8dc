//! Linker options: the library's SONAME, and that it is never unloaded, as programs use its functions until their end.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rustc-cdylib-link-arg=-Wl,-soname,libheapwright_record.so");
    println!("cargo::rustc-cdylib-link-arg=-Wl,-z,nodelete");
    // Cargo does not pass on the profile's `strip`.
    println!("cargo::rustc-cdylib-link-arg=-Wl,--strip-debug");
}
