//! Tells the linker the library's name, and that it stays: the functions that it puts in front are in use until the end.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rustc-cdylib-link-arg=-Wl,-soname,libheapwright_record.so");
    println!("cargo::rustc-cdylib-link-arg=-Wl,-z,nodelete");
}
