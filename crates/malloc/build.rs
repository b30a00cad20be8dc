//! Sets the library's name, and makes the linker keep it loaded: blocks outlive the code that loaded it.

use std::env;
use std::path::Path;
use std::process::Command;

/// The operators `delete` that others end in by default. The symbol `heapwright_own` and the name is the library's own
/// form, whichever replaces it.
const OWN: [&str; 4] = ["_ZdlPv", "_ZdaPv", "_ZdlPvSt11align_val_t", "_ZdaPvSt11align_val_t"];

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rustc-cdylib-link-arg=-Wl,-soname,libheapwright.so");
    println!("cargo::rustc-cdylib-link-arg=-Wl,-z,nodelete");
    // Cargo does not pass on the profile's `strip`.
    println!("cargo::rustc-cdylib-link-arg=-Wl,--strip-debug");
    // Each part of the file that is mapped apart costs a start of a program a hundredth of its time. Tables that are
    // only read lie in one part with the code; nothing in it is writable.
    println!("cargo::rustc-cdylib-link-arg=-Wl,-z,noseparate-code");
    if the_linker_is_lld() {
        println!("cargo::rustc-cdylib-link-arg=-Wl,--no-rosegment");
    }
    for name in OWN {
        println!("cargo::rustc-cdylib-link-arg=-Wl,--defsym=heapwright_own{name}={name}");
    }
    println!("cargo::rerun-if-changed=layout.ld");
    println!("cargo::rustc-cdylib-link-arg=-Wl,-T,{}/layout.ld", env!("CARGO_MANIFEST_DIR"));
}

/// Whether the library is linked by the linker that comes with the compiler: others may refuse options which that has.
/// From version 1.90 on it is the default on x86-64, where a distribution did not leave it out.
fn the_linker_is_lld() -> bool {
    const TRIPLE: &str = "x86_64-unknown-linux-gnu";
    let setting = |name: &str| env::var(name).unwrap_or_default();
    let compiler = |argument: &[&str]| {
        let output = Command::new(setting("RUSTC")).args(argument).output().ok()?;
        String::from_utf8(output.stdout).ok()
    };
    let is_default = || {
        let release = compiler(&["--version"])?.split([' ', '.']).nth(2)?.parse::<u32>().ok()?;
        let linker = format!("{}/lib/rustlib/{TRIPLE}/bin/gcc-ld/ld.lld", compiler(&["--print", "sysroot"])?.trim());
        Some(release >= 90 && Path::new(&linker).exists())
    };
    setting("TARGET") == TRIPLE
        && setting("HOST") == TRIPLE
        && setting("RUSTC_LINKER").is_empty()
        && !setting("CARGO_ENCODED_RUSTFLAGS").contains("link")
        && is_default() == Some(true)
}
