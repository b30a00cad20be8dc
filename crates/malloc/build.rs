//! Tells the linker the library's name, and that it stays: blocks outlive whoever loaded it.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rustc-cdylib-link-arg=-Wl,-soname,libheapwright.so");
    println!("cargo::rustc-cdylib-link-arg=-Wl,-z,nodelete");
}
