//! What is typed wrong is answered with exit code 2 and a way out.

mod common;

use std::process::Stdio;

use common::heapwright;

const TRACE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../corpus/git.hwt");

#[test]
fn usage_errors_exit_with_2() {
    let wrong: [&[&str]; 40] = [
        &["rnu"],
        &["run"],
        &["run", "--policy", "bset", "--", "true"],
        &["run", "--stats", "yaml", "--", "true"],
        &["run", "--seed", "-1", "--", "true"],
        &["reproduce", "005"],
        &["reproduce", "--rounds", "0"],
        &["reproduce", "--seeds", "99"],
        &["completions", "tcsh"],
        &["replay", TRACE, "--granule", "3"],
        &["replay", TRACE, "--header", "7"],
        &["replay", TRACE, "--align", "3"],
        &["replay", TRACE, "--growth", "pages"],
        &["replay", TRACE, "--region", "0"],
        &["replay", TRACE, "--rules", "report001"],
        &["run", "--granule", "3", "--", "true"],
        &["sweep", TRACE, "--seed", "5..1", "-o", "q.csv"],
        &["sweep", TRACE, "--granule", "8,,16", "-o", "q.csv"],
        &["sweep", TRACE, "-o", "q.txt"],
        &["merge", "q.csv", "-o", "q.txt"],
        &["fit", TRACE, "--region", "1MiB"],
        &["record", "-o", "-", "--", "true"],
        &["record", "--output=-", "--", "true"],
        &["watch"],
        &["watch", "--once"],
        &["watch", "--once", "--at", "5", "--", "true"],
        &["watch", "--quiz", "--", "true"],
        &["watch", "--once", TRACE, "-p", "first", "-p", "best", "-p", "worst"],
        &["watch", "--once", TRACE, "-p", "cached"],
        &["watch", "--once", "-p", "first", "-p", "best", "--", "true"],
        &["watch", "--once", "--pid", "1", "--granule", "8"],
        &["watch", TRACE, "--quiz", "-p", "random"],
        &["watch", TRACE, "--quiz", "-p", "first", "-p", "best"],
        &["watch", TRACE, "--quiz", "--split", "high"],
        &["run", "-p", "best", "--rules", "report002", "--", "true"],
        &["run", "-p", "first", "--harden", "--", "true"],
        &["minimize", TRACE, "-o", "q.hwt"],
        &["counterexample", "first", "first"],
        &["sites", TRACE, "--tree", "--least", "nan"],
        &["sites", TRACE, "--tree", "--least", "101"],
    ];
    for arguments in wrong {
        let output = heapwright().args(arguments).output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        assert!(output.stdout.is_empty() && !output.stderr.is_empty(), "{arguments:?}");
    }
}

/// A negative number is a value that is refused, and never a reason to type `--`.
#[test]
fn negative_numbers_are_refused_by_name() {
    let all: [(&[&str], &str); 6] = [
        (&["watch", "--at", "-1", TRACE], "'--at <EVENT>'"),
        (&["watch", "--pid", "-1"], "'--pid <PID>'"),
        (&["run", "--seed", "-1", "--", "true"], "'--seed <N>'"),
        (&["compare", "--rounds", "-1", TRACE], "'--rounds <N>'"),
        (&["inspect", "-1"], "'[PID]'"),
        (&["bench", "--repeat", "-1"], "'--repeat <N>'"),
    ];
    for (arguments, name) in all {
        let output = heapwright().args(arguments).output().unwrap();
        let text = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {text}");
        assert!(text.contains("invalid value '-1' for") && text.contains(name), "{arguments:?}: {text}");
        assert!(!text.contains("-- -1"), "{arguments:?}: {text}");
    }
}

/// Behind `--`, where clap would have it, is a program.
#[test]
fn names_that_begin_with_a_dash_are_answered_with_the_way_to_type_them() {
    let all: [&[&str]; 4] = [
        &["record", "-o", "-z.hwt", "--", "true"],
        &["report", "-o", "-z.html", TRACE],
        &["compare", "-z.hwt"],
        &["compare", "ls", "-z"],
    ];
    for arguments in all {
        let output = heapwright().args(arguments).output().unwrap();
        let text = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {text}");
        assert!(text.contains("unexpected argument '-z' found"), "{arguments:?}: {text}");
        assert!(text.contains("'-' is typed with './' in front, and a program with '--'"), "{arguments:?}: {text}");
        assert!(!text.contains("-- -z"), "{arguments:?}: {text}");
    }
}

/// Rows of one name could not be told apart: one of them was left out.
#[test]
fn allocators_of_one_name_are_refused() {
    let all: [&[&str]; 4] =
        [&["compare", TRACE], &["replay", "--real", TRACE], &["report", TRACE], &["bench", "malloc"]];
    for command in all {
        let both = ["--allocator", "x=./a.so", "--allocator", "y=./a.so", "--allocator", "x=./b.so"];
        let output = heapwright().args(command).args(both).output().unwrap();
        let text = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{command:?}: {text}");
        assert!(text.contains("--allocator x=./a.so and --allocator x=./b.so have the same name"), "{text}");
    }
}

/// What is no number is refused in words that say what is allowed.
#[test]
fn numbers_are_refused_with_what_is_allowed() {
    let all: [(&[&str], &str); 8] = [
        (&["record", "--sites=0", "ls"], "invalid value '0' for '--sites[=<N>]': the least is 1"),
        (&["sites", "--every", "0", "--", "ls"], "invalid value '0' for '--every <N>': the least is 1"),
        (&["sites", "--every", "x", "--", "ls"], "'--every <N>': it must be a whole number, and not negative"),
        (&["sites", "--every", "99999999999", "--", "ls"], "'--every <N>': the number is too large"),
        (&["record", "--min-events", "-1", "ls"], "'--min-events <N>': it must be a whole number, and not negative"),
        (&["inspect", "self"], "invalid value 'self' for '[PID]': it must be a whole number, and not negative"),
        (&["replay", "--region", "0", TRACE], "--region 0: the heap is too short: the least that holds a block is 16"),
        (&["compare", "--rounds", "0", TRACE], "invalid value '0' for '--rounds <N>': 0 is not in 1..=10000"),
    ];
    for (arguments, expected) in all {
        let output = heapwright().args(arguments).output().unwrap();
        let text = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {text}");
        assert!(text.starts_with("error: ") && text.contains(expected), "{arguments:?}: {text}");
        assert!(text.ends_with("\n\nFor more information, try '--help'.\n"), "{arguments:?}: {text}");
    }
}

/// Each command has a row of a policy, however often it is named.
#[test]
fn a_policy_that_is_named_twice_is_taken_once() {
    let twice = ["-p", "first", "-p", "first"];
    for command in [&["replay", "--json"][..], &["fit", "--samples", "0", "--json"], &["watch", "--once"]] {
        let output = heapwright().args(command).args(twice).args(["-p", "first,first", TRACE]).output().unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        let rows = text.matches("\"policy\": \"first\"").count() + text.matches("\nunder first\n").count();
        assert_eq!(rows, 1, "{command:?}: {text}{}", String::from_utf8_lossy(&output.stderr));
    }
}

#[test]
fn policies_are_separated_by_commas() {
    for command in [&["replay", "--json"][..], &["fit", "--samples", "0", "--json"], &["watch", "--once"]] {
        let output = heapwright().args(command).args(["-p", "first,best", TRACE]).output().unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        for policy in ["first", "best"] {
            let is_shown = [format!("\"policy\": \"{policy}\""), format!("\nunder {policy}\n")];
            assert!(is_shown.iter().any(|shown| text.contains(shown)), "{command:?}: {text}");
        }
    }
}

#[test]
fn misspelt_names_get_suggestions() {
    for (arguments, meant) in
        [(&["runn"][..], "run"), (&["run", "-p", "wrost", "true"], "worst"), (&["reproduec"], "reproduce")]
    {
        let output = heapwright().args(arguments).output().unwrap();
        let text = String::from_utf8(output.stderr).unwrap();
        assert!(text.contains("similar") && text.contains(meant), "{text}");
    }
}

#[test]
fn help_has_examples() {
    for command in ["run", "record", "reproduce"] {
        let output = heapwright().args([command, "--help"]).output().unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        assert!(output.status.success());
        assert!(text.contains("Examples:") && text.contains(&format!("heapwright {command}")), "{command}: {text}");
    }
}

/// A line of prose ends where the next word would not fit, or a sentence or the paragraph ends.
#[test]
fn help_is_wrapped_once() {
    let commands = [
        "run",
        "record",
        "report",
        "compare",
        "sites",
        "diff",
        "watch",
        "inspect",
        "replay",
        "fit",
        "minimize",
        "sweep",
        "merge",
        "counterexample",
        "import",
        "export",
        "shm",
        "bench",
        "reproduce",
    ];
    for (command, width) in commands.into_iter().flat_map(|command| [(command, 60), (command, 100)]) {
        let output = heapwright().args(["help", command]).env("COLUMNS", width.to_string()).output().unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        let prose = text.split_once("\nExamples:").unwrap_or_else(|| panic!("{command}: {text}")).1;
        let lines: Vec<&str> = prose.lines().collect();
        for pair in lines.windows(2) {
            let is_prose = |line: &str| !line.is_empty() && !line.starts_with(' ');
            let next = pair[1].split(' ').next().unwrap_or_default();
            let has_room = pair[0].chars().count() + 1 + next.chars().count() <= width;
            let goes_on = is_prose(pair[0]) && is_prose(pair[1]) && !pair[0].ends_with([':', '.']);
            assert!(!(goes_on && has_room), "{command}, {width} columns: {pair:#?}");
        }
    }
}

#[test]
fn shells_are_completed() {
    for (shell, sign) in [("bash", "_heapwright()"), ("zsh", "#compdef heapwright"), ("fish", "complete -c heapwright")]
    {
        let output = heapwright().args(["completions", shell]).output().unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        assert!(text.contains(sign), "{shell}");
        assert!(text.contains("reproduce"), "{shell}");
    }
}

#[test]
fn colour_is_used_on_terminals_or_on_request() {
    let output = |arguments: &[&str]| heapwright().args(arguments).output().unwrap().stdout;
    let tables = ["reproduce", "001", "--no-times"];
    assert!(!output(&tables).contains(&0x1b));
    assert!(output(&["--color", "always", "reproduce", "001", "--no-times"]).contains(&0x1b));
}

#[test]
fn a_reader_that_leaves_early_ends_the_command_quietly() {
    for arguments in [&["reproduce", "003"][..], &["reproduce", "003", "--json"], &["completions", "zsh"], &["--help"]]
    {
        let mut child = heapwright().args(arguments).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        drop(child.stdout.take());
        let output = child.wait_with_output().unwrap();
        assert_eq!(String::from_utf8_lossy(&output.stderr), "", "{arguments:?}");
        assert_ne!(output.status.code(), Some(101), "{arguments:?}");
    }
}

/// A limit on stacks that other programs work with.
#[test]
fn commands_work_with_a_small_stack() {
    let program = assert_cmd::cargo::cargo_bin!("heapwright");
    let output = std::process::Command::new("sh")
        .args(["-c", "ulimit -s 128; exec \"$0\" compare --help"])
        .arg(program)
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}
