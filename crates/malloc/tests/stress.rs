//! Threads, forks, last destructors and handlers at exit, all at once, under the cached heap: some seconds, or as long
//! as `HEAPWRIGHT_STRESS_SECONDS` says.

mod support;

use support::{code, compile, complaints, is_emulated, run};

fn endures(variables: &[(&str, &str)]) {
    if is_emulated() {
        return;
    }
    let seconds = std::env::var("HEAPWRIGHT_STRESS_SECONDS").unwrap_or_else(|_| "4".to_owned());
    let plugin = compile("plugin.c", &["-shared", "-fPIC"]);
    let output = run(&compile("stress.c", &["-ldl"]), &[plugin.to_str().unwrap(), &seconds], variables);
    assert_eq!(code(&output), 0, "{}", complaints(&output));
    assert_eq!(String::from_utf8_lossy(&output.stdout), "stress: ok\n");
}

#[test]
fn the_cached_heap_endures_it() {
    endures(&[]);
}

#[test]
fn the_hardened_heap_endures_it() {
    endures(&[("HEAPWRIGHT_HARDEN", "full")]);
}

#[test]
fn the_lightly_hardened_heap_endures_it() {
    endures(&[("HEAPWRIGHT_HARDEN", "light")]);
}
