//! The headers by the C and C++ compilers of the machine: without warnings, linked with both libraries, run, and in
//! agreement with the library about every layout and number.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::mem::offset_of;
use std::path::{Path, PathBuf};
use std::process::Command;

use heapwright_c::{
    Block, Holes, Options, RequestRules, SharedAccess, SharedBlock, SharedProcess, SharedReclaimed, SharedRoot,
    SharedSettings, Status, Violation,
};
use heapwright_heaps::{Counters, PolicyKind};
use heapwright_shared::RawMutex;
use heapwright_testkit::library::{C_HEADERS, Library};

const C: [&str; 2] = ["cc", "-std=c11"];
const CPLUSPLUS: [&str; 4] = ["c++", "-std=c++17", "-x", "c++"];
const WARNINGS: [&str; 6] = ["-Wall", "-Wextra", "-Wpedantic", "-Wconversion", "-Wshadow", "-Werror"];

const HEADERS: [&str; 3] = ["heapwright.h", "mavalloc.h", "sbmem.h"];

/// Where cargo put this test, and the library before it.
fn built() -> PathBuf {
    let test = std::env::current_exe().expect("the test's own path");
    test.parent().expect("a directory").to_path_buf()
}

fn run(command: &mut Command) -> String {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {}\n{errors}", output.status);
    String::from_utf8(output.stdout).expect("text")
}

/// Compiles `tests/c/SOURCE`, or `tests/c/SOURCE.c`, with `compiler`, links it with `library`, runs it and returns what
/// it printed.
fn compiled(compiler: &[&str], source: &str, library: &str) -> String {
    let home = Path::new(env!("CARGO_MANIFEST_DIR"));
    let library = built().join(library);
    let program = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!(
        "{source}-{}-{}",
        compiler[0],
        library.extension().and_then(|name| name.to_str()).expect("a or so")
    ));
    run(Command::new(compiler[0])
        .args(&compiler[1..])
        .args(WARNINGS)
        .arg("-I")
        .arg(home.join("include"))
        .args(["-I", C_HEADERS])
        .arg(home.join("tests/c").join(if source.contains('.') { source.into() } else { format!("{source}.c") }))
        .args(["-x", "none", "-o"])
        .arg(&program)
        .arg(&library)
        .arg("-lm"));
    run(Command::new(&program).env("LD_LIBRARY_PATH", built()))
}

#[test]
fn every_header_compiles_links_and_runs() {
    for source in ["heapwright", "mavalloc", "sbmem", "shared", "shared_processes", "shared_refusals"] {
        for library in ["libheapwright_c.a", "libheapwright_c.so"] {
            for compiler in [&C[..], &CPLUSPLUS[..]] {
                assert_eq!(compiled(compiler, source, library), format!("{source}: ok\n"));
            }
        }
    }
}

#[test]
fn the_header_for_cplusplus_compiles_links_and_runs() {
    for library in ["libheapwright_c.a", "libheapwright_c.so"] {
        assert_eq!(compiled(&CPLUSPLUS, "shared_cplusplus.cpp", library), "shared_cplusplus: ok\n");
    }
}

#[test]
fn every_header_is_c99_and_oldish_cplusplus() {
    let include = Path::new(env!("CARGO_MANIFEST_DIR")).join("include");
    for compiler in [["cc", "-std=c99", "c"], ["c++", "-std=c++11", "c++"]] {
        for header in HEADERS {
            run(Command::new(compiler[0])
                .args([compiler[1], "-x", compiler[2], "-fsyntax-only"])
                .args(["-Wall", "-Wextra", "-Werror", "-pedantic"])
                .arg(include.join(header)));
        }
    }
}

#[test]
fn the_examples_of_the_page_compile_as_it_says_and_print_what_it_says() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let page = std::fs::read_to_string(root.join("docs/c-api.md")).expect("the page");
    let blocks = |opening: &str| -> Vec<&str> {
        page.split(opening).skip(1).map(|rest| rest.split_once("```").expect("a block").0).collect()
    };
    // The page's own line, with what it builds taken from where this test's build put it.
    let line = blocks("```sh\n")[0].lines().find(|line| line.starts_with("cc ")).expect("a line that compiles");
    let quoted = |path: PathBuf| format!("'{}'", path.display());
    let line = line
        .replace("crates/capi/include", &quoted(root.join("crates/capi/include")))
        .replace("target/release", &quoted(built()));
    let (programs, outputs) = (blocks("```c\n"), blocks("```text\n"));
    assert_eq!((programs.len(), outputs.len()), (3, 3));
    for (number, (program, printed)) in programs.into_iter().zip(outputs).enumerate() {
        let home = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("page-{number}"));
        std::fs::create_dir_all(&home).expect("a directory");
        std::fs::write(home.join("program.c"), program).expect("a file");
        let mut shell = Command::new("sh");
        shell.current_dir(&home).env("HEAPWRIGHT_SBMEM", format!("heapwright-page-{}", std::process::id()));
        assert_eq!(run(shell.arg("-c").arg(format!("{line} && ./program"))), printed);
    }
}

/// `name` and its value, a line each.
macro_rules! lines {
    ($($name:literal: $value:expr),* $(,)?) => {
        [$(format!("{} {}\n", $name, $value as usize)),*].concat()
    };
}

fn layout<T>(name: &str, fields: &[(&str, usize)]) -> String {
    let mut lines = format!("{name} {}\n", size_of::<T>());
    for (field, offset) in fields {
        let _ = writeln!(lines, "{name}.{field} {offset}");
    }
    lines
}

macro_rules! layout {
    ($name:literal = $Type:ty { $($field:ident),* }) => {
        layout::<$Type>($name, &[$((stringify!($field), offset_of!($Type, $field))),*])
    };
}

#[test]
fn the_header_and_the_library_agree() {
    let expected = [
        layout!(
            "hw_options" = Options { granule, header, min_remainder, statistics, seed, capacity, growth, growth_step }
        ),
        layout!("hw_requests" = RequestRules { align, least, zero }),
        layout!("hw_block" = Block { address, size, used }),
        layout!("hw_holes" = Holes { count, total, smallest, largest, mean, deviation, fragmentation, by_doubling }),
        layout!(
            "hw_counters" = Counters {
                mallocs,
                frees,
                reuses,
                grows,
                splits,
                coalesces,
                resizes,
                blocks,
                holes,
                requested,
                rounded,
                released,
                unsized_frees,
                live,
                peak_live,
                heap_size,
                peak_heap_size
            }
        ),
        layout!("hw_violation" = Violation { offset, invariant }),
        layout!(
            "hw_shared_settings" = SharedSettings {
                size,
                max_size,
                seed,
                policy,
                mode,
                granule,
                processes,
                roots,
                patience,
                small_blocks
            }
        ),
        layout!("hw_shared_access" = SharedAccess { patience, owner, user }),
        layout!("hw_shared_root" = SharedRoot { offset, name }),
        layout!("hw_shared_block" = SharedBlock { offset, address, size, used, pid, state }),
        layout!("hw_shared_process" = SharedProcess { pid, state, blocks, bytes }),
        layout!("hw_shared_mutex" = RawMutex {}),
        layout!("hw_shared_reclaimed" = SharedReclaimed { blocks, bytes, kept }),
        lines! {
            "hw_status": size_of::<Status>(),
            "HW_OK": Status::Ok,
            "HW_NULL_POINTER": Status::NullPointer,
            "HW_NOT_A_HEAP": Status::NotAHeap,
            "HW_UNKNOWN_POLICY": Status::UnknownPolicy,
            "HW_BAD_OPTIONS": Status::BadOptions,
            "HW_TOO_SHORT": Status::TooShort,
            "HW_FULL": Status::Full,
            "HW_BAD_ALIGNMENT": Status::BadAlignment,
            "HW_NOT_A_BLOCK": Status::NotABlock,
            "HW_ALREADY_FREE": Status::AlreadyFree,
            "HW_WRONG_SIZE": Status::WrongSize,
            "HW_NO_STATISTICS": Status::NoStatistics,
            "HW_DAMAGED": Status::Damaged,
            "HW_OUT_OF_MEMORY": Status::OutOfMemory,
            "HW_BAD_NAME": Status::BadName,
            "HW_EXISTS": Status::Exists,
            "HW_NOT_FOUND": Status::NotFound,
            "HW_NOT_OURS": Status::NotOurs,
            "HW_NOT_A_SEGMENT": Status::NotASegment,
            "HW_OTHER_VERSION": Status::OtherVersion,
            "HW_WRONG_LENGTH": Status::WrongLength,
            "HW_OTHER_NAMESPACE": Status::OtherNamespace,
            "HW_TOO_MANY_PROCESSES": Status::TooManyProcesses,
            "HW_TIMED_OUT": Status::TimedOut,
            "HW_NO_ROOM": Status::NoRoom,
            "HW_BEYOND_MAXIMUM": Status::BeyondMaximum,
            "HW_BAD_ROOT_NAME": Status::BadRootName,
            "HW_ROOTS_FULL": Status::RootsFull,
            "HW_ROOT_DIFFERS": Status::RootDiffers,
            "HW_REFUSED": Status::Refused,
            "HW_HOLDER_UNKNOWN": Status::HolderUnknown,
            "HW_PREVIOUS_HOLDER_DIED": Status::PreviousHolderDied,
            "HW_NOT_THE_HOLDER": Status::NotTheHolder,
            "HW_OVERLAP": Status::Overlap,
            "HW_IN_USE": Status::InUse,
            "HW_FIRST": PolicyKind::First,
            "HW_NEXT": PolicyKind::Next,
            "HW_BEST": PolicyKind::Best,
            "HW_WORST": PolicyKind::Worst,
            "HW_RANDOM": PolicyKind::Random,
            "HW_BUDDY": PolicyKind::Buddy,
            "HW_GOOD": PolicyKind::Good,
        },
    ];
    assert_eq!(compiled(&C, "layout", "libheapwright_c.a"), expected.concat());
}

#[test]
fn the_header_describes_each_status_in_the_words_of_the_library() {
    let header = include_str!("../include/heapwright.h");
    let (_, rest) = header.split_once("typedef enum hw_status {").expect("the enum");
    let (body, _) = rest.split_once("} hw_status;").expect("its end");
    let described = body.split("HW_").filter_map(|one| one.split_once(" = ")).map(|(_, one)| {
        let (number, rest) = one.split_once("/*").expect("a comment");
        let text = rest.split_once("*/").expect("its end").0.split_whitespace().collect::<Vec<_>>().join(" ");
        (number.trim().trim_end_matches(',').parse().expect("a number"), text)
    });
    let expected =
        Status::ALL.iter().map(|&status| (status as usize, status.text().to_str().expect("text").to_owned()));
    assert_eq!(described.collect::<Vec<_>>(), expected.clone().collect::<Vec<_>>());
    assert!(expected.map(|(number, _)| number).eq(0..Status::ALL.len()));
}

#[test]
fn the_library_exports_what_the_headers_declare_and_nothing_else() {
    let headers = HEADERS
        .map(|name| {
            std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("include").join(name)).expect(name)
        })
        .concat();
    let names = headers.split(|c: char| !c.is_alphanumeric() && c != '_' && c != '(');
    let declared: BTreeSet<String> = names
        .filter_map(|word| word.split_once('(').map(|(name, _)| name.to_owned()))
        .filter(|name| ["hw_", "mavalloc_", "sbmem_"].iter().any(|prefix| name.starts_with(prefix)))
        .collect();
    assert_eq!(Library::at(built().join("libheapwright_c.so")).exports(), declared);
}
