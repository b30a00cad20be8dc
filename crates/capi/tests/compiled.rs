//! The headers by the C and C++ compilers of the machine: without warnings, linked with both libraries, run, and in
//! agreement with the library about every layout and number.

use std::fmt::Write as _;
use std::mem::offset_of;
use std::path::{Path, PathBuf};
use std::process::Command;

use heapwright::{Counters, PolicyKind};
use heapwright_c::{Block, Holes, Options, Status, Violation};

const C: [&str; 2] = ["cc", "-std=c11"];
const CPLUSPLUS: [&str; 4] = ["c++", "-std=c++17", "-x", "c++"];
const WARNINGS: [&str; 6] = ["-Wall", "-Wextra", "-Wpedantic", "-Wconversion", "-Wshadow", "-Werror"];

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

/// Compiles `tests/c/SOURCE.c` with `compiler`, links it with `library`, runs it and returns what it printed.
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
        .arg(home.join("tests/c").join(source).with_extension("c"))
        .args(["-x", "none", "-o"])
        .arg(&program)
        .arg(&library)
        .arg("-lm"));
    run(Command::new(&program).env("LD_LIBRARY_PATH", built()))
}

#[test]
fn every_header_compiles_links_and_runs() {
    for source in ["heapwright", "mavalloc"] {
        for library in ["libheapwright_c.a", "libheapwright_c.so"] {
            for compiler in [&C[..], &CPLUSPLUS[..]] {
                assert_eq!(compiled(compiler, source, library), format!("{source}.h: ok\n"));
            }
        }
    }
}

#[test]
fn the_example_of_the_page_compiles_as_it_says_and_runs() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let page = std::fs::read_to_string(root.join("docs/c-api.md")).expect("the page");
    let block =
        |opening: &str| page.split_once(opening).and_then(|(_, rest)| rest.split_once("```")).expect("a block").0;
    let home = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("page");
    std::fs::create_dir_all(&home).expect("a directory");
    std::fs::write(home.join("program.c"), block("```c\n")).expect("a file");
    // The page's own line, with what it builds taken from where this test's build put it.
    let line = block("```sh\n").lines().find(|line| line.starts_with("cc ")).expect("a line that compiles");
    let line = line
        .replace("crates/capi/include", &root.join("crates/capi/include").display().to_string())
        .replace("target/release", &built().display().to_string());
    let output = run(Command::new("sh").current_dir(&home).arg("-c").arg(format!("{line} && ./program")));
    assert!(
        output.starts_with("freed twice: the block is already free\n  112 bytes free\n 1008 bytes used\n"),
        "{output}"
    );
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
        layout!("hw_options" = Options { granule, header, min_remainder, statistics, seed, capacity }),
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
    assert_eq!(Status::ALL.map(|status| status as usize), std::array::from_fn(|number| number));
}

#[test]
fn the_library_exports_what_the_headers_declare_and_nothing_else() {
    let symbols = run(Command::new("nm").args(["-D", "--defined-only"]).arg(built().join("libheapwright_c.so")));
    let mut exported: Vec<&str> = symbols.lines().filter_map(|line| line.split(' ').next_back()).collect();
    let headers = ["heapwright.h", "mavalloc.h"]
        .map(|name| {
            std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("include").join(name)).expect(name)
        })
        .concat();
    let names = headers.split(|c: char| !c.is_alphanumeric() && c != '_' && c != '(');
    let mut declared: Vec<&str> = names
        .filter_map(|word| word.split_once('(').map(|(name, _)| name))
        .filter(|name| name.starts_with("hw_") || name.starts_with("mavalloc_"))
        .collect();
    exported.sort_unstable();
    declared.sort_unstable();
    declared.dedup();
    assert_eq!(exported, declared);
}
