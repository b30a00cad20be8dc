//! The malloc family and the C++ operators, under every policy.

mod support;

use support::{code, compile, complaints, is_emulated, run};

fn expect(output: &std::process::Output, text: &str) {
    assert_eq!(code(output), 0, "{}", complaints(output));
    assert_eq!(String::from_utf8_lossy(&output.stdout).trim_end(), text);
    assert_eq!(complaints(output), "");
}

fn conforms(policy: &str) {
    let plugin = compile("plugin.c", &["-shared", "-fPIC"]);
    let program = compile("conformance.c", &["-ldl"]);
    let mut arguments = vec![plugin.to_str().unwrap()];
    if is_emulated() {
        arguments.push("emulated");
    }
    let output = run(&program, &arguments, &[("HEAPWRIGHT_POLICY", policy)]);
    expect(&output, "conformance: ok");
}

fn covers_corners(variables: &[(&str, &str)]) {
    let arguments: &[&str] = if is_emulated() { &["emulated"] } else { &[] };
    expect(&run(&compile("corners.c", &[]), arguments, variables), "corners: ok");
}

fn covers_corners_under(policy: &str) {
    covers_corners(&[("HEAPWRIGHT_POLICY", policy)]);
}

#[test]
fn hardened_heaps_cover_corners() {
    for measures in HARDENED {
        covers_corners(&[("HEAPWRIGHT_HARDEN", measures)]);
    }
}

/// The hardened heap, with all measures, at the light level, and with each measure alone.
const HARDENED: [&str; 7] = ["1", "light", "guard", "random", "quarantine", "zero", "canary"];

fn conforms_hardened(measures: &str) {
    let plugin = compile("plugin.c", &["-shared", "-fPIC"]);
    let program = compile("conformance.c", &["-ldl"]);
    let output = run(&program, &[plugin.to_str().unwrap()], &[("HEAPWRIGHT_HARDEN", measures)]);
    expect(&output, "conformance: ok");
}

#[test]
fn hardened_heaps_conform() {
    if !is_emulated() {
        HARDENED.into_iter().for_each(conforms_hardened);
    }
}

#[test]
fn hardened_heaps_serve_cplusplus() {
    for measures in HARDENED {
        expect(&run(&compile("operators.cc", &[]), &[], &[("HEAPWRIGHT_HARDEN", measures)]), "operators: ok");
    }
}

fn serves_cplusplus(policy: &str) {
    let output = run(&compile("operators.cc", &[]), &[], &[("HEAPWRIGHT_POLICY", policy)]);
    expect(&output, "operators: ok");
}

fn reports_correct_figures(policy: &str) {
    let output = run(&compile("figures.c", &[]), &[policy], &[("HEAPWRIGHT_POLICY", policy)]);
    expect(&output, "figures: ok");
}

mod family {
    crate::under_every_policy!(super::conforms);
}

mod corners {
    crate::under_every_policy!(super::covers_corners_under);
}

mod operators {
    crate::under_every_policy!(super::serves_cplusplus);
}

mod figures {
    crate::under_every_policy!(super::reports_correct_figures);

    #[test]
    fn hardened() {
        let variables = [("HEAPWRIGHT_POLICY", "cached"), ("HEAPWRIGHT_HARDEN", "1")];
        super::expect(&super::run(&super::compile("figures.c", &[]), &["hardened"], &variables), "figures: ok");
    }
}
