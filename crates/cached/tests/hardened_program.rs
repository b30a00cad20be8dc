//! A Rust program on the cached heap that its environment hardens. It starts itself as the program, once for each
//! mistake.

use std::alloc::{Layout, alloc, dealloc};
use std::env;
use std::hint::black_box;
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, Output};

use heapwright_cached::Cached;

#[global_allocator]
static HEAP: Cached = Cached;

const LAYOUT: Layout = match Layout::from_size_align(24, 8) {
    Ok(layout) => layout,
    Err(_) => panic!("the layout is valid"),
};

/// Commits a mistake; the bytes behind a block of 24 are its class's, so that nothing else is harmed.
fn commit(mistake: &str) {
    // SAFETY: none, that is the point; what is harmed is a block of 32 bytes that is not in use.
    unsafe {
        let (block, other) = (black_box(alloc(LAYOUT)), black_box(alloc(LAYOUT)));
        match mistake {
            "overflow" => block.add(24).write(0),
            "twice" => {
                dealloc(block, LAYOUT);
                dealloc(other, LAYOUT);
            }
            _ => {}
        }
        dealloc(block, LAYOUT);
    }
}

fn run(mistake: &str, measures: &str) -> Output {
    let program = env::current_exe().expect("this program has a name");
    Command::new(program).env("HEAPWRIGHT_HARDEN", measures).env("MISTAKE", mistake).output().expect("it runs")
}

fn main() {
    if let Ok(mistake) = env::var("MISTAKE") {
        return commit(&mistake);
    }
    for (mistake, stopped, said) in [
        ("none", &[][..], ""),
        ("overflow", &["1", "canary"], "overflow: "),
        ("twice", &["1", "zero"], "double free: "),
    ] {
        for measures in ["", "0", "1", "zero", "canary", "guard,random"] {
            let output = run(mistake, measures);
            let complaint = String::from_utf8_lossy(&output.stderr);
            let is_exact = mistake == "twice" && !["", "0"].contains(&measures);
            if stopped.contains(&measures) || is_exact {
                assert_eq!(output.status.signal(), Some(libc::SIGABRT), "{mistake} under {measures}: {complaint}");
                assert!(
                    complaint.starts_with(&format!("heapwright: {said}")),
                    "{mistake} under {measures}: {complaint}"
                );
            } else {
                assert!(output.status.success(), "{mistake} under {measures}: {complaint}");
            }
        }
    }
    let refused = run("none", "walls");
    let complaint = String::from_utf8_lossy(&refused.stderr);
    assert!(refused.status.code() == Some(2) && complaint.contains("HEAPWRIGHT_HARDEN=walls "), "{complaint}");
    println!("mistakes are stopped where the environment asks for it");
}
