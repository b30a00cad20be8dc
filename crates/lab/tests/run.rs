//! `heapwright run` ends as the program does, and says what it heard of its heap.

mod common;

use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::ExitStatusExt;
use std::process::{Output, Stdio};

use assert_cmd::cargo::cargo_bin;
use common::{compiled, heapwright, place_program};
use serde_json::Value;

fn run(arguments: &[&str]) -> Output {
    heapwright().arg("run").args(arguments).output().unwrap()
}

fn stderr(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

#[test]
fn the_exit_code_is_the_programs() {
    assert_eq!(run(&["--", "sh", "-c", "exit 7"]).status.code(), Some(7));
    assert_eq!(run(&["--", "true"]).status.code(), Some(0));
}

#[test]
fn output_is_the_programs_and_statistics_go_to_standard_error() {
    let output = run(&["--policy", "first", "--", "ls", "/"]);
    assert!(String::from_utf8(output.stdout.clone()).unwrap().lines().any(|line| line == "tmp"));
    assert!(stderr(&output).contains("under first"), "{}", stderr(&output));
    assert!(stderr(&output).contains("mallocs"));
}

#[test]
fn the_signal_is_the_programs() {
    for signal in [libc::SIGTERM, libc::SIGKILL, libc::SIGSEGV] {
        let output = run(&["--", "sh", "-c", &format!("kill -{signal} $$")]);
        assert_eq!(output.status.signal(), Some(signal), "{}", stderr(&output));
        assert!(stderr(&output).contains(&format!("signal {signal}")));
    }
}

/// Again and again: the program may end before the command has taken the signal, which does not end the command then.
#[test]
fn a_signal_sent_to_the_command_reaches_the_program() {
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| (0..25).for_each(|_| end_by_a_signal_to_the_command()));
        }
    });
}

fn end_by_a_signal_to_the_command() {
    let script = "trap 'exit 9' TERM; echo ready; while :; do sleep 0.05; done";
    let mut child = heapwright()
        .args(["run", "--", "sh", "-c", script])
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    assert_eq!(line, "ready\n");
    // SAFETY: kill has no preconditions, and the child has not been waited for.
    unsafe { libc::kill(child.id() as libc::pid_t, libc::SIGTERM) };
    assert_eq!(child.wait().unwrap().code(), Some(9));
}

#[test]
fn every_policy_reports_under_its_name() {
    let folder = tempfile::tempdir().unwrap();
    for policy in ["cached", "first", "next", "best", "worst", "random", "buddy", "good", "mapped"] {
        let file = folder.path().join(policy);
        let output = heapwright()
            .args(["run", "--policy", policy, "--stats", "json", "--output"])
            .arg(&file)
            .args(["--", "ls", "/"])
            .output()
            .unwrap();
        assert_eq!((output.status.code(), stderr(&output).as_str()), (Some(0), ""), "{policy}");
        let json: Value = serde_json::from_slice(&fs::read(&file).unwrap()).unwrap();
        assert_eq!(json["schema"], 1);
        assert_eq!(json["results"][0]["policy"], policy);
        assert_eq!(json["results"][0]["program"], "ls");
        let mallocs = json["results"][0]["counters"]["mallocs"].as_u64();
        assert!(mallocs > Some(10), "{policy}: {mallocs:?}");
    }
}

#[test]
fn the_counters_are_those_of_the_program() {
    let folder = tempfile::tempdir().unwrap();
    let source = "#include <stdlib.h>\nvoid *volatile p;\n\
        int main(void) { for (int i = 0; i < 1000; i++) { p = malloc(48); if (i % 4) free(p); } return 0; }";
    let program = compiled(folder.path(), "thousand", source, &["-O0"]);
    let file = folder.path().join("heap.json");
    let status =
        heapwright().args(["run", "--stats", "json", "-o"]).arg(&file).arg("--").arg(&program).status().unwrap();
    assert!(status.success());
    let json: Value = serde_json::from_slice(&fs::read(&file).unwrap()).unwrap();
    let counters = &json["results"][0]["counters"];
    assert_eq!(counters["mallocs"], 1000);
    assert_eq!(counters["frees"], 750);
    assert_eq!(counters["requested"], 48_000);
    let classes = json["results"][0]["classes"].as_array().unwrap();
    // The first few of a class that is hardly used lie in slabs of a longer one.
    assert!((1..=2).contains(&classes.len()) && classes[0]["size"] == 48, "{classes:?}");
    let figure = |class: &Value, name: &str| class[name].as_u64().unwrap();
    let sum = |name| classes.iter().map(|class| figure(class, name)).sum::<u64>();
    assert_eq!([sum("allocated"), sum("freed"), sum("blocks")], [1000, 750, 250]);
    for class in classes {
        let [size, slabs, blocks] = ["size", "slabs", "blocks"].map(|name| figure(class, name));
        assert_eq!(figure(class, "free_bytes"), (slabs * (65_536 / size) - blocks) * size, "{class}");
    }

    let said = stderr(&heapwright().args(["run", "--"]).arg(&program).output().unwrap());
    let line = said.lines().skip_while(|line| !line.trim_start().starts_with("size class")).nth(2).unwrap_or_default();
    let cells: Vec<&str> = line.split_whitespace().collect();
    let blocks = figure(&classes[0], "blocks").to_string();
    assert_eq!((cells[0], cells[3], cells[4]), ("48", blocks.as_str(), "1"), "{said}");
}

#[test]
fn blocks_are_those_that_are_live_under_every_policy() {
    let folder = tempfile::tempdir().unwrap();
    let source = "#include <stdlib.h>\nvoid *p[25000];\nint main(void) {\n\
        for (int i = 0; i < 25000; i++) p[i] = malloc(100);\n\
        for (int i = 0; i < 20000; i += 2) free(p[i]);\n    return 0; }";
    let program = compiled(folder.path(), "halves", source, &["-O0"]);
    for policy in ["cached", "first", "next", "best", "worst", "random", "buddy", "good", "mapped"] {
        let said = stderr(&heapwright().args(["run", "-p", policy, "--"]).arg(&program).output().unwrap());
        let line = said.lines().find(|line| line.contains("blocks at exit")).unwrap_or_default();
        assert_eq!(line.split_whitespace().last(), Some("15,000"), "{policy}: {said}");
        let json = heapwright().args(["run", "--stats=json", "-p", policy, "--"]).arg(&program).output().unwrap();
        let json: Value = serde_json::from_slice(&json.stderr).unwrap();
        assert_eq!(json["results"][0]["counters"]["blocks"], 15_000, "{policy}");
    }
}

#[test]
fn report_000_counts_used_and_free_blocks() {
    let folder = tempfile::tempdir().unwrap();
    let source = "#include <stdlib.h>\nvoid *p[5];\nint main(void) {\n\
        for (int i = 0; i < 5; i++) p[i] = malloc(100);\n    free(p[1]); free(p[3]); return 0; }";
    let program = compiled(folder.path(), "five", source, &["-O0"]);
    let published = ["run", "--rules", "report000", "-p", "first", "--stats=report", "--"];
    let said = stderr(&heapwright().args(published).arg(&program).output().unwrap());
    let blocks = said.lines().find(|line| line.starts_with("blocks")).unwrap_or_default();
    assert_eq!(blocks.split_whitespace().last(), Some("5"), "{said}");
}

#[test]
fn a_static_program_is_reported() {
    let folder = tempfile::tempdir().unwrap();
    let program = compiled(folder.path(), "static", "int main(void) { return 3; }", &["-static"]);
    let output = heapwright().args(["run", "--"]).arg(program).output().unwrap();
    assert_eq!(output.status.code(), Some(3));
    assert!(stderr(&output).contains("nothing was intercepted") && stderr(&output).contains("statically linked"));
}

#[test]
fn a_program_that_skips_exit_handlers_is_reported() {
    let folder = tempfile::tempdir().unwrap();
    let program = compiled(folder.path(), "quick", "#include <unistd.h>\nint main(void) { _exit(4); }", &[]);
    let output = heapwright().args(["run", "--"]).arg(program).output().unwrap();
    assert_eq!(output.status.code(), Some(4));
    assert!(stderr(&output).contains("no statistics") && stderr(&output).contains("_exit"), "{}", stderr(&output));
}

#[test]
fn a_program_with_a_sanitizer_is_reported() {
    let folder = tempfile::tempdir().unwrap();
    let runtime = compiled(folder.path(), "libasan.so.99", "", &["-shared", "-fPIC", "-Wl,-soname,libasan.so.99"]);
    let source = "#include <unistd.h>\nint main(void) { _exit(1); }";
    let arguments = ["-Wl,--no-as-needed", runtime.to_str().unwrap(), "-Wl,-rpath", folder.path().to_str().unwrap()];
    let program = compiled(folder.path(), "sanitized", source, &arguments);
    let output = heapwright().args(["run", "--"]).arg(program).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(stderr(&output).contains("built with a sanitizer (libasan.so.99)"), "{}", stderr(&output));
    let program = compiled(folder.path(), "plain", source, &[]);
    let output = heapwright().args(["run", "--"]).arg(program).env("LD_PRELOAD", &runtime).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(stderr(&output).contains(&format!("LD_PRELOAD names {}", runtime.display())), "{}", stderr(&output));
}

#[test]
fn a_program_with_its_own_malloc_is_reported() {
    let folder = tempfile::tempdir().unwrap();
    let source = "#include <stdlib.h>\nvoid *malloc(size_t size) { static char room[64]; return size > 64 ? 0 : room; }\n\
        int main(void) { return malloc(8) == 0; }";
    let program = compiled(folder.path(), "own", source, &["-w", "-fno-builtin"]);
    let output = heapwright().args(["run", "--"]).arg(program).output().unwrap();
    assert_eq!(output.status.code(), Some(0));
    assert!(stderr(&output).contains("has its own malloc"), "{}", stderr(&output));
    assert!(!stderr(&run(&["--", "ls", "/"])).contains("its own malloc"));
}

#[test]
fn a_program_that_another_replaced_is_not_blamed_for_it() {
    let folder = tempfile::tempdir().unwrap();
    let silent = compiled(folder.path(), "silent", "int main(void) { return 0; }", &[]);
    let source = "#include <stdlib.h>\n#include <unistd.h>\n\
        int main(int count, char **words) { *(char *volatile *)words = malloc(8);\n\
        return execl(words[1], words[1], (char *)0); }";
    let first = compiled(folder.path(), "first", source, &["-w", "-fno-builtin"]);
    let output = heapwright().args(["run", "--"]).arg(&first).arg(&silent).output().unwrap();
    let expected = "first was replaced by exec, and its statistics are lost: silent made no malloc-family call";
    assert!(stderr(&output).contains(expected), "{}", stderr(&output));
    // The shell that runs a script is not another program.
    let script = folder.path().join("script");
    std::fs::write(&script, format!("#!{}\n", silent.display())).unwrap();
    std::fs::set_permissions(&script, PermissionsExt::from_mode(0o755)).unwrap();
    let output = heapwright().args(["run", "--"]).arg(&script).output().unwrap();
    assert!(stderr(&output).contains("script made no malloc-family call"), "{}", stderr(&output));
}

#[test]
fn a_bad_free_aborts_or_is_counted() {
    let folder = tempfile::tempdir().unwrap();
    let source =
        "#include <stdlib.h>\nvoid *volatile p;\nint main(void) { p = malloc(8); free(p); free(p); return 0; }";
    let program = compiled(folder.path(), "twice", source, &["-O0", "-w"]);
    let aborted = heapwright().args(["run", "--"]).arg(&program).output().unwrap();
    assert_eq!(aborted.status.signal(), Some(libc::SIGABRT));
    let counted =
        heapwright().args(["run", "--stats=json", "--on-bad-free=ignore", "--"]).arg(&program).output().unwrap();
    assert_eq!(counted.status.code(), Some(0));
    let json: Value = serde_json::from_slice(&counted.stderr).unwrap();
    assert_eq!(json["results"][0]["counters"]["bad_frees"], 1);
}

#[test]
fn unrunnable_programs_have_the_exit_codes_of_shells() {
    let folder = tempfile::tempdir().unwrap();
    let orphan = folder.path().join("orphan");
    place_program(&orphan, b"#!/nowhere/interpreter\n");
    assert_eq!(run(&["--", "no-such-program-anywhere"]).status.code(), Some(127));
    assert_eq!(run(&["--", "/etc/passwd"]).status.code(), Some(126));
    let output = run(&["--", orphan.to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(127));
    assert!(stderr(&output).contains("interpreter"));
    let text = folder.path().join("text");
    place_program(&text, b"echo without a first line that names an interpreter\n");
    for (name, code, why) in [
        (text.to_str().unwrap(), 126, "nor a script that begins with #!"),
        (folder.path().to_str().unwrap(), 126, "it is a directory"),
        ("", 127, "cannot run a program whose name is empty"),
    ] {
        let output = run(&["--", name]);
        assert_eq!(output.status.code(), Some(code), "{name}");
        assert!(stderr(&output).contains(why) && !stderr(&output).contains("os error"), "{}", stderr(&output));
    }
}

#[test]
fn what_is_not_a_library_stops_it_before_the_program_starts() {
    for library in ["/etc/passwd", "/dev/null", "/nowhere"] {
        let output = run(&["--library", library, "--", "echo", "started"]);
        assert_eq!(output.status.code(), Some(125), "{}", stderr(&output));
        assert!(output.stdout.is_empty() && stderr(&output).contains(library), "{}", stderr(&output));
    }
}

/// The dynamic linker replaces names behind a dollar sign in the paths of libraries.
#[test]
fn the_carried_library_is_not_put_where_the_linker_does_not_find_it() {
    let folder = tempfile::tempdir().unwrap();
    let runtime = folder.path().join("x${ORIGIN}");
    std::fs::create_dir(&runtime).unwrap();
    let output = common::heapwright().args(["run", "--", "true"]).env("XDG_RUNTIME_DIR", &runtime).output().unwrap();
    assert!(stderr(&output).contains("mallocs") && !stderr(&output).contains("no statistics"), "{}", stderr(&output));
}

#[test]
fn statistics_that_cannot_be_written_stop_it_before_the_program_starts() {
    let output = run(&["--output", "/nowhere/at/all", "--", "echo", "started"]);
    assert_eq!(output.status.code(), Some(125));
    assert!(output.stdout.is_empty());
}

#[test]
fn the_command_works_wherever_it_is_copied() {
    let folder = tempfile::tempdir().unwrap();
    let copy = folder.path().join("copy");
    place_program(&copy, &fs::read(cargo_bin!("heapwright")).unwrap());
    let output = std::process::Command::new(&copy)
        .env_remove("XDG_RUNTIME_DIR")
        .env("TMPDIR", folder.path())
        .current_dir("/")
        .args(["run", "--", "ls"])
        .output()
        .unwrap();
    assert!(stderr(&output).contains("under cached"), "{}", stderr(&output));
}

#[test]
fn hardening_is_enabled_on_request() {
    let folder = tempfile::tempdir().unwrap();
    let source =
        "#include <stdlib.h>\nchar *volatile p;\nint main(void) { p = malloc(8); p[8] = 0; free(p); return 0; }";
    let program = compiled(folder.path(), "over", source, &["-O0", "-w"]);
    let run = |options: &[&str]| heapwright().arg("run").args(options).arg("--").arg(&program).output().unwrap();
    for options in [&["--harden"], &["--harden=zero,canary"]] {
        let stopped = run(options);
        assert_eq!(stopped.status.signal(), Some(libc::SIGABRT), "{options:?}");
        assert!(stderr(&stopped).contains("heapwright: overflow: "), "{}", stderr(&stopped));
    }
    let with_statistics = run(&["--harden=guard", "--stats=json"]);
    let json: Value = serde_json::from_slice(&with_statistics.stderr).unwrap();
    assert_eq!((with_statistics.status.code(), &json["results"][0]["policy"]), (Some(0), &Value::from("cached")));
    assert!(json["results"][0]["counters"]["mallocs"].as_u64() > Some(0));
    let refused = run(&["--harden", "--policy", "first"]);
    assert!(refused.status.code() == Some(2) && stderr(&refused).contains("--policy"), "{}", stderr(&refused));
}

#[test]
fn a_seed_is_for_the_policy_that_draws() {
    for (options, is_refused) in [(&[][..], true), (&["-p", "first"], true), (&["-p", "random"], false)] {
        let output = run(&[&["--seed", "5"], options, &["--", "true"]].concat());
        assert_eq!(output.status.code(), Some(if is_refused { 2 } else { 0 }), "{options:?}: {}", stderr(&output));
        assert_eq!(stderr(&output).contains("--seed requires the policy random"), is_refused, "{}", stderr(&output));
    }
}

#[test]
fn inherited_variables_that_contradict_are_refused_by_name() {
    let run = |variable: &str, value: &str, options: &[&str]| {
        let output = heapwright().env(variable, value).arg("run").args(options).args(["--", "ls"]).output().unwrap();
        (output.status.code(), stderr(&output))
    };
    for (variable, value, options, cause) in [
        ("HEAPWRIGHT_HARDEN", "full", &["-p", "first"][..], "--policy first"),
        ("HEAPWRIGHT_HARDEN", "full", &["--granule", "8"], "the policy first of these rules"),
        ("HEAPWRIGHT_RULES", "granule=8", &["-p", "cached"], "--policy cached"),
        ("HEAPWRIGHT_RULES", "report002", &["-p", "best"], "--policy best"),
        ("HEAPWRIGHT_RULES", "report002", &["--harden"], "--harden"),
        ("HEAPWRIGHT_RULES", "granule=7", &[], "granule"),
    ] {
        let (code, said) = run(variable, value, options);
        assert_eq!(code, Some(2), "{variable}={value}: {said}");
        assert!(said.contains(cause) && !said.contains("HEAPWRIGHT_POLICY="), "{variable}={value}: {said}");
        assert!(!said.contains("exit handlers"), "{variable}={value}: {said}");
    }
    // What only the library can judge, it refuses itself, in one line.
    let (code, said) = run("HEAPWRIGHT_LIMIT", "zz", &[]);
    assert!(code == Some(2) && said.starts_with("heapwright: HEAPWRIGHT_LIMIT=zz is invalid: "), "{said}");
    assert_eq!(said.lines().count(), 1, "{said}");
    let (code, said) = run("HEAPWRIGHT_SEED", "1", &["--region", "4TiB", "-p", "first"]);
    assert!(
        code == Some(2) && said.starts_with("heapwright: the region of 4398046511104 bytes cannot be had"),
        "{said}"
    );
    assert_eq!(said.lines().count(), 1, "{said}");
    // Rules that contradict nothing are obeyed, by the policy that they belong to, the inherited one, or first fit.
    for (value, policy) in [("granule=8", "under first"), ("report002,limit=1MiB", "under buddy")] {
        let (code, said) = run("HEAPWRIGHT_RULES", value, &[]);
        assert!(code == Some(0) && said.contains(policy), "{value}: {said}");
    }
    let (code, said) = run("HEAPWRIGHT_RULES", "granule=8", &["-p", "best"]);
    assert!(code == Some(0) && said.contains("under best"), "{said}");
}

/// The kernel's own peak of a process is that of the command which started it, until then the same memory.
#[test]
fn the_peak_of_a_program_is_its_own() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("stats.json");
    let words = ["run", "--stats=json", "-o", file.to_str().unwrap(), "--", "true"];
    assert!(heapwright().args(words).status().unwrap().success());
    let said: serde_json::Value = serde_json::from_slice(&std::fs::read(&file).unwrap()).unwrap();
    let peak = said["results"][0]["counters"]["peak_resident"].as_u64().unwrap();
    assert!((512 << 10..8 << 20).contains(&peak), "{peak}");
}

/// The program that it starts then loads the library as another user.
#[test]
fn a_program_that_changes_its_user_has_the_library_too() {
    // SAFETY: the call has no preconditions.
    let is_root = unsafe { libc::geteuid() } == 0;
    if !is_root || !std::path::Path::new("/usr/bin/setpriv").exists() {
        eprintln!("skipped: only root can change the user, by setpriv");
        return;
    }
    let place = tempfile::tempdir().unwrap();
    fs::set_permissions(place.path(), std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let script = "setpriv --reuid 65534 --clear-groups grep -c libheapwright /proc/self/maps";
    let output = heapwright()
        .env("TMPDIR", place.path())
        .env_remove("XDG_RUNTIME_DIR")
        .args(["run", "--", "sh", "-c", script])
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    assert!(!stderr(&output).contains("preload"), "{}", stderr(&output));
    assert!(String::from_utf8(output.stdout).unwrap().trim() != "0");
}

/// `%p` stands for the number of a process in the path of its statistics.
#[test]
fn a_folder_whose_name_means_something_else_stops_it_before_the_program_starts() {
    let folder = tempfile::tempdir().unwrap();
    let place = folder.path().join("a%p");
    std::fs::create_dir(&place).unwrap();
    let output = heapwright().args(["run", "--", "echo", "started"]).env("TMPDIR", &place).output().unwrap();
    assert_eq!(output.status.code(), Some(125));
    assert!(output.stdout.is_empty() && stderr(&output).contains("TMPDIR"), "{}", stderr(&output));
}
