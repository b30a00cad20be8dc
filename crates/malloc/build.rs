//! Sets the library's name, and makes the linker keep it loaded: blocks outlive the code that loaded it.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rustc-cdylib-link-arg=-Wl,-soname,libheapwright.so");
    println!("cargo::rustc-cdylib-link-arg=-Wl,-z,nodelete");
    for keyword in ["max-page-size=65536", "separate-loadable-segments"] {
        println!("cargo::rustc-cdylib-link-arg=-Wl,-z,{keyword}");
    }
    println!("cargo::rerun-if-changed=layout.ld");
    println!("cargo::rustc-cdylib-link-arg=-Wl,-T,{}/layout.ld", env!("CARGO_MANIFEST_DIR"));
}
