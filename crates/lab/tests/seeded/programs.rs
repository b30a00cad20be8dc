//! Programs of 200 functions that all allocate, of which three are seeded: one leaks most, one holds most at the peak,
//! and one allocates and frees most.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use heapwright_testkit::library::place_program;

use crate::common::python;

/// The function that leaks.
pub const LEAK: &str = "work_137";
/// The function that holds most memory at the peak.
pub const PEAK: &str = "work_042";
/// The function that allocates and frees at once.
pub const CHURN: &str = "work_099";

/// Number of functions.
const FUNCTIONS: usize = 200;

/// What a program is written in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Language {
    C,
    /// C, with four threads that run all functions.
    Threads,
    CPlusPlus,
    Rust,
    Python,
}

/// Builds the program in `folder`.
pub fn program(folder: &Path, language: Language) -> PathBuf {
    if language == Language::Python {
        return script(folder);
    }
    let (extension, source, compiler): (_, _, &[&str]) = match language {
        Language::C => ("c", c(C_MAIN), &["cc", "-O1", "-g", "-fno-builtin"]),
        Language::Threads => ("c", c(C_THREADS), &["cc", "-O1", "-g", "-fno-builtin", "-pthread"]),
        Language::CPlusPlus => ("cpp", with_functions(CPP, &cpp_function), &["c++", "-O1", "-g"]),
        Language::Rust => ("rs", with_functions(RUST, &rust_function), &["rustc", "-Copt-level=1", "-g"]),
        Language::Python => unreachable!("it is not compiled"),
    };
    let (code, program) = (folder.join(format!("seeded.{extension}")), folder.join("seeded"));
    fs::write(&code, source).unwrap();
    let status = Command::new(compiler[0]).args(&compiler[1..]).arg("-o").arg(&program).arg(&code).status().unwrap();
    assert!(status.success(), "{} failed", compiler[0]);
    program
}

/// Writes a program in Python.
fn script(folder: &Path) -> PathBuf {
    let path = folder.join("seeded.py");
    let source = with_functions(PYTHON, &python_function);
    place_program(&path, format!("#!{}\n{source}", python().unwrap()).as_bytes());
    path
}

/// Puts the functions, and a list of their names, into a source.
fn with_functions(source: &str, function: &dyn Fn(usize) -> String) -> String {
    let functions: String = (0..FUNCTIONS).map(function).collect();
    let names: Vec<String> = (0..FUNCTIONS).map(name).collect();
    source.replace("FUNCTIONS;", &functions).replace("NAMES", &names.join(", "))
}

fn name(number: usize) -> String {
    format!("work_{number:03}")
}

fn c(main: &str) -> String {
    with_functions(&format!("{C}{main}"), &c_function)
}

const C: &str = "
#include <stdlib.h>
#define ROUNDS 20
static __thread void *kept[200];
static __thread void *peak[64];
static __thread void *volatile sink;
FUNCTIONS;
static void (*const all[200])(int) = { NAMES };
static void run(void) {
    for (int round = 0; round < ROUNDS; ++round)
        for (int i = 0; i < 200; ++i) all[i](round);
    for (int i = 0; i < 200; ++i) free(kept[i]);
}
";

const C_MAIN: &str = "
int main(void) { run(); return 0; }
";

const C_THREADS: &str = "
#include <pthread.h>
static void *thread(void *unused) { run(); return unused; }
int main(void) {
    pthread_t threads[4];
    work_042(0);
    for (int i = 0; i < 4; ++i) pthread_create(&threads[i], NULL, thread, NULL);
    for (int i = 0; i < 4; ++i) pthread_join(threads[i], NULL);
    work_042(15);
    return 0;
}
";

fn c_function(number: usize) -> String {
    let name = name(number);
    let body = match name.as_str() {
        LEAK => "sink = malloc(8000);",
        PEAK => {
            "if (round == 0) for (int i = 0; i < 64; ++i) peak[i] = malloc(100000 + i);
             if (round == 15) for (int i = 0; i < 64; ++i) free(peak[i]);"
        }
        CHURN => "for (int i = 0; i < 1000; ++i) { sink = malloc(600 + i % 7); free(sink); }",
        _ => {
            "free(kept[NUMBER]); kept[NUMBER] = malloc(100 + NUMBER * (round % 3)); sink = malloc(NUMBER); free(sink);
              if (round == 5) sink = malloc(NUMBER);"
        }
    };
    format!("__attribute__((noinline)) void {name}(int round) {{ {} }}\n", body.replace("NUMBER", &number.to_string()))
}

const CPP: &str = "
#include <map>
#include <memory>
#include <string>
#include <vector>
namespace app {
std::vector<std::vector<int>> peak;
std::map<int, std::string> kept;
void *volatile sink;
FUNCTIONS;
}
int main() {
    using namespace app;
    static void (*const all[200])(int) = { NAMES };
    for (int round = 0; round < 20; ++round)
        for (auto function : all) function(round);
    return 0;
}
";

fn cpp_function(number: usize) -> String {
    let name = name(number);
    let body = match name.as_str() {
        LEAK => "sink = new std::vector<char>(8000);",
        PEAK => {
            "if (round == 0) for (int i = 0; i < 64; ++i) peak.emplace_back(25000 + i);
             if (round == 15) peak = {};"
        }
        CHURN => "for (int i = 0; i < 1000; ++i) { std::string text(600 + i % 7, 'x'); sink = &text; }",
        _ => {
            "kept[NUMBER] = std::string(100 + NUMBER * (round % 3), 'y');
              auto block = std::make_unique<char[]>(NUMBER + 1); sink = block.get();
              if (round == 5) sink = new char[NUMBER + 1];"
        }
    };
    format!("__attribute__((noinline)) void {name}(int round) {{ {} }}\n", body.replace("NUMBER", &number.to_string()))
}

const RUST: &str = "
use std::collections::BTreeMap;
use std::hint::black_box;
#[derive(Default)]
pub struct State { peak: Vec<Vec<u8>>, kept: BTreeMap<usize, String> }
FUNCTIONS;
fn main() {
    let all: [fn(&mut State, usize); 200] = [NAMES];
    let mut state = State::default();
    for round in 0..20 {
        for function in all { function(&mut state, round); }
    }
}
";

fn rust_function(number: usize) -> String {
    let name = name(number);
    let body = match name.as_str() {
        LEAK => "black_box(vec![round as u8; 8000].leak());",
        PEAK => {
            "if round == 0 { for i in 0..64 { state.peak.push(vec![1; 100_000 + i]); } }
             if round == 15 { state.peak = Vec::new(); }"
        }
        CHURN => "for i in 0..1000 { black_box(\"x\".repeat(600 + i % 7)); }",
        _ => {
            "state.kept.insert(NUMBER, \"y\".repeat(100 + NUMBER * (round % 3)));
              black_box(Box::new([round; NUMBER + 1]));
              if round == 5 { std::mem::forget(black_box(Box::new([1_u8; NUMBER + 1]))); }"
        }
    };
    let body = body.replace("NUMBER", &number.to_string());
    format!("#[inline(never)]\nfn {name}(state: &mut State, round: usize) {{ let _ = &state; {body} }}\n")
}

/// Ends without clearing what is left, as an interpreter does otherwise.
const PYTHON: &str = "
import os
kept, peak, leaked = {}, [], []
FUNCTIONS;
for number in range(20):
    for function in [NAMES]:
        function(number)
os._exit(0)
";

fn python_function(number: usize) -> String {
    let name = name(number);
    let body = match name.as_str() {
        LEAK => "leaked.append(bytearray(200_000))",
        PEAK => {
            "if number == 0: peak.extend(bytearray(200_000 + i) for i in range(64))
    if number == 15: peak.clear()"
        }
        CHURN => "for i in range(4000): bytes(600 + i % 7)",
        _ => {
            "kept[NUMBER] = bytes(100 + NUMBER * (number % 3))
    bytearray(NUMBER + 1)
    if number == 5: leaked.append(bytes(NUMBER))"
        }
    };
    format!("def {name}(number):\n    {}\n", body.replace("NUMBER", &number.to_string()))
}
