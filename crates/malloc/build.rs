//! Sets the library's name, and makes the linker keep it loaded: blocks outlive the code that loaded it.

/// The operators `delete` that others end in by default. The symbol `heapwright_own` and the name is the library's own
/// form, whichever replaces it.
const OWN: [&str; 4] = ["_ZdlPv", "_ZdaPv", "_ZdlPvSt11align_val_t", "_ZdaPvSt11align_val_t"];

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rustc-cdylib-link-arg=-Wl,-soname,libheapwright.so");
    println!("cargo::rustc-cdylib-link-arg=-Wl,-z,nodelete");
    // Cargo does not pass on the profile's `strip`.
    println!("cargo::rustc-cdylib-link-arg=-Wl,--strip-debug");
    for keyword in ["max-page-size=65536", "separate-loadable-segments"] {
        println!("cargo::rustc-cdylib-link-arg=-Wl,-z,{keyword}");
    }
    for name in OWN {
        println!("cargo::rustc-cdylib-link-arg=-Wl,--defsym=heapwright_own{name}={name}");
    }
    println!("cargo::rerun-if-changed=layout.ld");
    println!("cargo::rustc-cdylib-link-arg=-Wl,-T,{}/layout.ld", env!("CARGO_MANIFEST_DIR"));
}
