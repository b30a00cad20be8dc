//! What is printed fits a terminal of 40 columns.

mod common;

use common::heapwright;
use tempfile::TempDir;

/// Only a word can be longer than a line: it is not broken.
#[test]
fn help_fits_40_columns() {
    let help = |words: &[&str]| {
        let output = heapwright().args(words).arg("--help").env("COLUMNS", "40").output().unwrap();
        assert!(output.status.success(), "{words:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    };
    let general = help(&[]);
    let commands = general.lines().skip_while(|line| *line != "Commands:").skip(1);
    let names = commands.take_while(|line| !line.is_empty()).filter_map(|line| line.strip_prefix("  "));
    let names: Vec<&str> = names.filter_map(|line| line.split(' ').next().filter(|name| !name.is_empty())).collect();
    assert!(names.contains(&"compare") && names.contains(&"shm"), "{names:?}");
    let nested = [&["bench", "malloc"][..], &["shm", "create"]];
    let all = names.iter().filter(|name| **name != "help").map(std::slice::from_ref).chain(nested).chain([&[][..]]);
    for words in all {
        let text = help(words);
        let is_long = |line: &&str| line.chars().count() > 40 && line.split_whitespace().nth(1).is_some();
        let long: Vec<&str> = text.lines().filter(is_long).collect();
        assert!(long.is_empty(), "{words:?}: {long:#?}");
    }
}

#[test]
fn tables_and_lines_fit_40_columns() {
    let folder = TempDir::new().unwrap();
    common::trace_with_sites(&folder.path().join("a_trace_of_a_program.hwt"), "program");
    std::fs::copy(concat!(env!("CARGO_MANIFEST_DIR"), "/../../corpus/git.hwt"), folder.path().join("git.hwt")).unwrap();
    for words in [
        "compare --policies-only a_trace_of_a_program.hwt",
        "compare --rounds 1 -p first a_trace_of_a_program.hwt",
        "report --no-real -p first a_trace_of_a_program.hwt",
        "report --no-real -p first git.hwt -o a_page_with_a_name_that_is_longer_than_a_line.html",
        "sites a_trace_of_a_program.hwt",
        "sites a_trace_of_a_program.hwt --group stack",
        "sites a_trace_of_a_program.hwt --by pinned --limit 1",
        "sites a_trace_of_a_program.hwt --tree",
        "sites git.hwt --group size --limit 3",
        "diff a_trace_of_a_program.hwt a_trace_of_a_program.hwt",
        "diff --group size a_trace_of_a_program.hwt git.hwt --limit 3",
        "fit -p first git.hwt",
        "fit -p first --granule 4 --header 8 a_trace_of_a_program.hwt",
        "replay git.hwt",
        "replay --merging deferred -p first a_trace_of_a_program.hwt",
        "watch --once git.hwt",
        "watch --once git.hwt -p best -p buddy --at 60000",
        "watch --once git.hwt -p next --merging deferred --rover never-wraps --at 5000",
        "counterexample",
        "counterexample --calls 2 --region 2",
        "reproduce 000 001 --no-times",
    ] {
        let mut command = heapwright();
        command.args(words.split(' ')).current_dir(&folder).env("COLUMNS", "40");
        let output = command.env("HEAPWRIGHT_PEERS", folder.path()).output().unwrap();
        assert!(output.status.success(), "{words}: {}", String::from_utf8_lossy(&output.stderr));
        let text = String::from_utf8(output.stdout).unwrap();
        assert!(!text.is_empty(), "{words}");
        let long: Vec<&str> = text.lines().filter(|line| line.chars().count() > 40).collect();
        assert!(long.is_empty(), "{words}: {long:#?}");
    }
}
