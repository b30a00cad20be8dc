//! Settings by environment variables, and the statistics at exit.

mod support;

use std::fs;
use std::path::PathBuf;

use heapwright_testkit::library::tool;
use serde_json::Value;
use support::{POLICIES, code, compile, complaints, run};

fn leaver() -> PathBuf {
    compile("closes_stderr.c", &[])
}

/// An empty folder of this test's own.
fn folder(name: &str) -> PathBuf {
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("environment").join(name);
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).unwrap();
    folder
}

fn tables(said: &str) -> usize {
    said.lines().filter(|line| line.starts_with("heapwright: ") && line.contains(" under ")).count()
}

#[test]
fn a_value_that_means_nothing_stops_the_program_at_its_start() {
    for (name, value, valid) in [
        ("HEAPWRIGHT_POLICY", "worse", "cached, first, next, best, worst, random, buddy, good, mapped"),
        ("HEAPWRIGHT_POLICY", "First", "cached, first, next, best, worst, random, buddy, good, mapped"),
        ("HEAPWRIGHT_SEED", "-1", "a number"),
        ("HEAPWRIGHT_ON_BAD_FREE", "maybe", "abort or ignore"),
        ("HEAPWRIGHT_HARDEN", "guards", "guard, random, quarantine, zero, canary"),
        ("HEAPWRIGHT_DISSOLVE", "no", "0 or 1"),
        ("HEAPWRIGHT_HARDEN", "2", "0, 1, or some of"),
        ("HEAPWRIGHT_PURGE", "soon", "never, 0, a time such as 500ms"),
        ("HEAPWRIGHT_PURGE", "thread:5", "thread: and a time"),
        ("HEAPWRIGHT_LIMIT", "0", "a size such as 512MiB"),
        ("HEAPWRIGHT_LIMIT", "1.5G", "a size such as 512MiB"),
        ("HEAPWRIGHT_STATS", "yes", "0, 1 or json:PATH"),
        ("HEAPWRIGHT_STATS", "json:", "0, 1 or json:PATH"),
    ] {
        let output = run(&compile("bad_free.c", &[]), &["double"], &[(name, value)]);
        let said = complaints(&output);
        assert_eq!(code(&output), 2, "{name}={value}: {said}");
        assert_eq!(said.lines().count(), 1, "{said}");
        assert!(said.starts_with(&format!("heapwright: {name}={value} ")) && said.contains(valid), "{said}");
        assert!(output.stdout.is_empty());
    }
}

#[test]
fn values_are_shown_without_control_characters_and_a_cut_is_marked() {
    let long = "x".repeat(100);
    for (name, value, shown) in [
        ("HEAPWRIGHT_POLICY", "a\nb\u{1b}[31m", "=a\u{fffd}b\u{fffd}[31m is invalid".to_owned()),
        ("HEAPWRIGHT_RULES", "granule=\u{1b}[31m\r", ": granule=\u{fffd}[31m: ".to_owned()),
        ("HEAPWRIGHT_POLICY", &long, format!("={}... is invalid", &long[..64])),
    ] {
        let output = run(&leaver(), &["return"], &[(name, value)]);
        let said = complaints(&output);
        assert_eq!((code(&output), said.lines().count()), (2, 1), "{said:?}");
        assert!(said.contains(&shown), "{said:?}");
        assert!(!said.trim_end_matches('\n').contains(char::is_control), "{said:?}");
    }
}

/// The C library's `getcwd` allocates where the path of the current directory is too long for the system.
#[test]
fn a_path_that_is_too_long_stops_the_program_at_its_start() {
    let deep = folder("deep");
    let script = format!(
        "cd '{}' && for i in $(seq 25); do mkdir {name} && cd -P {name} || exit 9; done; exec \"$@\"",
        deep.display(),
        name = "d".repeat(200)
    );
    let long = format!("/tmp/{}", "a".repeat(5000));
    // The process's number, too, comes into these.
    let just = format!("/tmp/{}", "a/".repeat(2040));
    let program = leaver();
    for (variable, path, is_refused) in [
        ("HEAPWRIGHT_STATS=json:", "st.json", true),
        ("HEAPWRIGHT_STATS=json:", &long, true),
        ("HEAPWRIGHT_STATS=json:", &format!("{just}%p%p"), true),
        ("HEAPWRIGHT_STATS=json:", "/dev/null", false),
        ("HEAPWRIGHT_WATCH=", "w", true),
        ("HEAPWRIGHT_WATCH=", &just, true),
        ("HEAPWRIGHT_WATCH=", "/nowhere", false),
    ] {
        let assignment = format!("{variable}{path}");
        let (name, _) = assignment.split_once('=').unwrap();
        let _ = fs::remove_dir_all(&deep);
        fs::create_dir(&deep).unwrap();
        let shell = ["-c", &script, "sh", "env", &assignment, program.to_str().unwrap(), "return"];
        let output = run("/bin/sh".as_ref(), &shell, &[]);
        let said = complaints(&output);
        assert_eq!(code(&output), if is_refused { 2 } else { 0 }, "{variable}: {said}");
        assert_eq!(said.lines().count(), usize::from(is_refused), "{variable}: {said}");
        assert!(!is_refused || said.starts_with(&format!("heapwright: {name}: the path ")), "{said}");
    }
    fs::remove_dir_all(&deep).unwrap();
}

#[test]
fn a_fixed_region_that_cannot_be_had_stops_the_program_at_its_start() {
    let output = run(&leaver(), &["return"], &[("HEAPWRIGHT_RULES", "growth=fixed,limit=4TiB")]);
    let said = complaints(&output);
    assert_eq!(code(&output), 2, "{said}");
    assert!(said.starts_with("heapwright: the region of 4398046511104 bytes cannot be had: "), "{said}");
    assert_eq!(said.lines().count(), 1, "{said}");
}

#[test]
fn measures_are_for_the_heap_that_knows_them() {
    let program = compile("operators.cc", &[]);
    for (policy, fault) in [("", None), ("cached", None), ("first", Some("HEAPWRIGHT_POLICY=first "))] {
        let output = run(&program, &[], &[("HEAPWRIGHT_POLICY", policy), ("HEAPWRIGHT_HARDEN", "zero")]);
        let said = complaints(&output);
        assert_eq!(code(&output), if fault.is_some() { 2 } else { 0 }, "{policy}: {said}");
        assert!(fault.is_none_or(|fault| said.contains(fault) && said.contains("must be cached")), "{policy}: {said}");
    }
}

#[test]
fn the_default_is_the_cached_heap_without_statistics() {
    let output = run(&leaver(), &[], &[("HEAPWRIGHT_POLICY", "")]);
    assert_eq!((code(&output), complaints(&output)), (0, String::new()));
    let output = run(&leaver(), &[], &[("HEAPWRIGHT_STATS", "1")]);
    assert!(complaints(&output).lines().next().unwrap().ends_with(" under cached"), "{}", complaints(&output));
}

#[test]
fn little_address_space_is_enough_and_room_is_left_in_it() {
    let program = compile("two_threads.c", &[]);
    for policy in ["cached", "best"] {
        let shell = ["-c", "ulimit -v 98304 && ulimit -s 8192 && exec \"$0\"", program.to_str().unwrap()];
        let output = run("/bin/sh".as_ref(), &shell, &[("HEAPWRIGHT_POLICY", policy)]);
        assert_eq!((code(&output), complaints(&output)), (0, String::new()), "{policy}");
        assert_eq!(String::from_utf8_lossy(&output.stdout), "two threads\n");
    }
}

/// When the system refuses memory, all that is free serves blocks of any length, under every level.
#[test]
fn memory_that_was_freed_serves_other_lengths_where_there_is_no_more() {
    let program = compile("other_lengths.c", &[]);
    for (bytes, others) in [(300, 100), (100, 300), (5000, 15_000), (300, 100_000)] {
        for level in ["0", "light", "full"] {
            let script = format!("ulimit -v 300000 && exec \"$0\" {bytes} {others}");
            let output =
                run("/bin/sh".as_ref(), &["-c", &script, program.to_str().unwrap()], &[("HEAPWRIGHT_HARDEN", level)]);
            let said = String::from_utf8_lossy(&output.stdout).into_owned();
            let filled: Vec<usize> = said.split_whitespace().map(|number| number.parse().unwrap()).collect();
            let [first, second] = filled[..] else { panic!("{said}, {}", complaints(&output)) };
            assert!(first >= 50 && second * 10 >= first * 7, "{level}, {bytes} then {others} bytes: {said}");
        }
    }
}

/// Blocks of all lengths in turns: where no slab of a class can be had any more, those of other classes serve it. What
/// is left when the first request fails is little.
#[test]
fn a_limit_is_reached_before_a_block_of_any_length_is_refused() {
    let program = compile("many_lengths.c", &["-pthread"]);
    let named = [
        ("-d 30000", "1", 90),
        ("-v 8000", "1", 70),
        ("-d 20000", "4", 75),
        ("-d 60000", "16", 80),
        ("-d 40000", "64", 80),
    ];
    // Not at some limits only: what the heap takes last must not be what it needs to use the rest.
    let steps = (6000..20_000).step_by(700);
    let in_steps = steps.flat_map(|kib| [(format!("-v {kib}"), "1", 70), (format!("-d {kib}"), "1", 85)]);
    for (limit, threads, least_part) in
        named.map(|(limit, threads, part)| (limit.to_owned(), threads, part)).into_iter().chain(in_steps)
    {
        let script = format!("ulimit -s 256 && ulimit {limit} && exec \"$0\" {threads}");
        let requested = |variables: &[(&str, &str)]| {
            let output = run("/bin/sh".as_ref(), &["-c", &script, program.to_str().unwrap()], variables);
            let said = String::from_utf8_lossy(&output.stdout).into_owned();
            said.trim().parse::<usize>().unwrap_or_else(|_| panic!("{limit}: {said}{}", complaints(&output)))
        };
        let (here, of_the_c_library) = (requested(&[]), requested(&[("LD_PRELOAD", "")]));
        assert!(
            here * 100 >= of_the_c_library * least_part,
            "{limit}, {threads} threads: {here} KiB, {of_the_c_library} without the library"
        );
    }
}

/// The tables of slabs grow while the pages keep all addresses that the limit allows: a block at their end is in use.
#[test]
fn long_blocks_that_were_freed_serve_short_ones_under_every_level() {
    let program = compile("other_lengths.c", &[]);
    for (limit, bytes, others) in [
        ("-v 300000", 1 << 20, 1000),
        ("-v 300000", 1 << 20, 100),
        ("-v 300000", 100_000, 1000),
        ("-v 300000", 100_000_000, 1000),
        ("-d 200000", 1 << 20, 1000),
    ] {
        for (level, least_part) in [("light", 80), ("quarantine", 80), ("full", 30)] {
            let script = format!("ulimit {limit} && exec \"$0\" {bytes} {others}");
            let shell = ["-c", &script, program.to_str().unwrap()];
            let second_of = |variables: &[(&str, &str)]| {
                let output = run("/bin/sh".as_ref(), &shell, variables);
                let said = String::from_utf8_lossy(&output.stdout).into_owned();
                let second = said.split_whitespace().last().and_then(|number| number.parse::<usize>().ok());
                second.unwrap_or_else(|| panic!("{said}, {}", complaints(&output)))
            };
            let hardened = second_of(&[("HEAPWRIGHT_HARDEN", level)]);
            let of_the_c_library = second_of(&[("LD_PRELOAD", "")]);
            assert!(
                hardened * 100 >= of_the_c_library * least_part,
                "{limit}, {level}, {bytes} then {others} bytes: {hardened} MiB, {of_the_c_library} without the library"
            );
        }
    }
}

#[test]
fn the_table_comes_at_every_exit_even_with_standard_error_closed() {
    for policy in POLICIES {
        for (way, count) in [("return", 1), ("exit", 1), ("_exit", 0), ("fork", 2), ("exec", 1)] {
            let output = run(&leaver(), &[way], &[("HEAPWRIGHT_POLICY", policy), ("HEAPWRIGHT_STATS", "1")]);
            let said = complaints(&output);
            assert_eq!(code(&output), 0);
            assert_eq!(tables(&said), count, "{way} under {policy}: {said}");
            for figure in ["mallocs", "frees", "reuses", "grows", "splits", "coalesces", "blocks", "max heap bytes"] {
                assert_eq!(said.matches(&format!("\n  {figure} ")).count(), count, "{figure}: {said}");
            }
        }
    }
}

/// What lies between such blocks is not used, and counts where addresses are limited.
#[test]
fn blocks_far_apart_take_no_addresses_between_them_where_these_are_limited() {
    let program = compile("far_apart.c", &[]);
    for limit in ["ulimit -v 80000", "ulimit -d 40000"] {
        let limited = format!("{limit} && exec \"$0\"");
        let output = run("sh".as_ref(), &["-c", &limited, program.to_str().unwrap()], &[]);
        assert_eq!((code(&output), complaints(&output)), (0, String::new()), "{limit}");
    }
}

#[test]
fn the_table_is_not_written_into_a_file_that_has_the_number_of_standard_error_by_now() {
    let file = folder("reused").join("records");
    for policy in POLICIES {
        let path = file.to_str().unwrap();
        let output = run(&leaver(), &["reuses", path], &[("HEAPWRIGHT_POLICY", policy), ("HEAPWRIGHT_STATS", "1")]);
        assert_eq!((code(&output), complaints(&output)), (0, String::new()), "{policy}");
        assert_eq!(fs::read_to_string(&file).unwrap(), "record\n", "{policy}");
        fs::remove_file(&file).unwrap();
    }
}

/// The system's answer to such a write is a signal that ends the process.
#[test]
fn what_the_library_writes_does_not_end_the_program() {
    let statistics = ("HEAPWRIGHT_STATS", "1");
    for variables in [&[statistics][..], &[("HEAPWRIGHT_POLICY", "best"), statistics]] {
        let output = run(&leaver(), &["unread"], variables);
        assert_eq!((code(&output), complaints(&output)), (0, String::new()), "{variables:?}");
    }
    let folder = folder("refused");
    let (file, pipe) = (folder.join("limited"), folder.join("pipe"));
    let program = compile("operators.cc", &[]);
    tool("mkfifo", &[pipe.to_str().unwrap()]);
    for (limits, path) in [("ulimit -f 0", &file), (":", &pipe)] {
        let limited = format!("{limits} && exec \"$0\"");
        let path = path.to_str().unwrap();
        let variables = [("HEAPWRIGHT_STATS", &*format!("json:{path}"))];
        // The shell has the library too.
        let output = run("sh".as_ref(), &["-c", &limited, program.to_str().unwrap()], &variables);
        let said = complaints(&output);
        assert_eq!(code(&output), 0, "{limits}: {said}");
        assert!(said.contains(&format!("could not be written to {path}: ")), "{limits}: {said}");
    }
}

/// The peak of the process may be that of the program which started it.
#[test]
fn the_peak_is_not_known_without_the_system_s_files() {
    let without = "mount -t tmpfs none /proc && exec \"$0\" return";
    let unshared = ["-rm", "sh", "-c", without, leaver().to_str().unwrap()].map(str::to_owned);
    let unshared: Vec<&str> = unshared.iter().map(String::as_str).collect();
    let output = run("unshare".as_ref(), &unshared, &[("HEAPWRIGHT_STATS", "1")]);
    let said = complaints(&output);
    // Where the system allows no such namespace, `unshare` fails.
    if code(&output) == 0 {
        let line = said.lines().rfind(|line| line.contains("peak resident bytes")).unwrap();
        assert!(line.ends_with(" -"), "{said}");
    }
}

fn json_of(policy: &str, seed: &str, path: &str) -> Value {
    let stats = format!("json:{path}");
    let variables = [("HEAPWRIGHT_POLICY", policy), ("HEAPWRIGHT_SEED", seed), ("HEAPWRIGHT_STATS", &stats)];
    let output = run(&compile("operators.cc", &[]), &[], &variables);
    assert_eq!((code(&output), complaints(&output)), (0, String::new()));
    serde_json::from_slice(&fs::read(path).unwrap()).expect("the file is JSON")
}

#[test]
fn json_has_every_figure_and_they_agree() {
    let folder = folder("figures");
    for policy in POLICIES {
        let json = json_of(policy, "7", folder.join(policy).to_str().unwrap());
        assert_eq!((&json["schema"], &json["policy"]), (&Value::from(1), &Value::from(policy)));
        let count = |name: &str| json["counters"][name].as_u64().unwrap_or_else(|| panic!("{name} is there: {json}"));
        assert_eq!(count("mallocs"), count("reuses") + count("grows"));
        let used = count("mallocs") - count("frees");
        let holes = json["holes"]["count"].as_u64().unwrap();
        assert_eq!(count("blocks"), used + holes, "{policy}");
        assert!(count("live") <= count("peak_live") && count("peak_live") <= count("peak_heap_size"));
        assert_eq!(count("heap_size") - count("live"), json["holes"]["total"].as_u64().unwrap());
        let histogram = json["holes"]["histogram"].as_array().unwrap();
        assert_eq!(histogram.iter().map(|entry| entry.as_u64().unwrap()).sum::<u64>(), holes);
        assert!(json["counters"]["live_requested"].is_null(), "plain frees were made");
        assert_eq!(json["returns"].is_null(), policy == "mapped");
    }
}

#[test]
fn the_classes_of_the_cached_heap_add_up_to_its_counters() {
    let folder = folder("classes");
    let json = json_of("cached", "0", folder.join("cached").to_str().unwrap());
    let count = |name: &str| json["counters"][name].as_u64().unwrap_or_else(|| panic!("{name} is there: {json}"));
    let classes = json["classes"].as_array().unwrap();
    let sum = |name: &str| classes.iter().map(|class| class[name].as_u64().unwrap_or(0)).sum::<u64>();
    assert_eq!([sum("allocated"), sum("freed"), sum("blocks")], ["mallocs", "frees", "blocks"].map(count));
    assert!(count("mallocs") > 100 && classes.len() > 1);
    assert!(count("live") <= count("peak_live") && count("peak_live") <= count("peak_heap_size"));
    let sizes: Vec<Option<u64>> = classes.iter().map(|class| class["size"].as_u64()).collect();
    assert!(sizes.iter().flatten().is_sorted_by(|a, b| a < b), "{sizes:?}");
    for class in classes.iter().filter(|class| !class["size"].is_null()) {
        let [size, slabs, blocks, free] =
            ["size", "slabs", "blocks", "free_bytes"].map(|name| class[name].as_u64().unwrap());
        assert_eq!(free, (slabs * (65_536 / size) - blocks) * size, "{class}");
    }
}

/// Sparse slabs are dissolved unless that is turned off; figures add up either way, and all of them show it.
#[test]
fn dissolved_slabs_are_reported_and_can_be_turned_off() {
    let folder = folder("dissolved");
    for (value, are_dissolved) in [("1", true), ("0", false)] {
        let path = folder.join(value);
        let statistics = [format!("json:{}", path.display()), "1".to_owned()];
        for (statistics, figure) in statistics.iter().zip(["json", "table"]) {
            let variables = [("HEAPWRIGHT_DISSOLVE", value), ("HEAPWRIGHT_STATS", statistics)];
            let output = run(&compile("figures.c", &[]), &["phases"], &variables);
            let said = complaints(&output);
            assert_eq!(code(&output), 0, "{figure}: {said}");
            let expected = if are_dissolved { "figures: dissolved\n" } else { "figures: not dissolved\n" };
            assert_eq!(String::from_utf8_lossy(&output.stdout), expected);
        }
        let json: Value = serde_json::from_slice(&fs::read(path).unwrap()).unwrap();
        assert_eq!(json["dissolved"], serde_json::json!({"slabs": 0, "blocks": 0, "free_bytes": 0}), "all was freed");
    }
}

#[test]
fn classes_whose_slabs_have_gone_are_counted_all_the_same() {
    let variables = [("HEAPWRIGHT_POLICY", "cached"), ("HEAPWRIGHT_STATS", "1")];
    let output = run(&compile("figures.c", &[]), &[], &variables);
    let said = complaints(&output);
    assert_eq!((code(&output), tables(&said)), (0, 1), "{said}");
    let gone = |line: &str| line.split_whitespace().skip(3).eq(["0", "0", "0"]);
    assert!(said.lines().any(gone), "{said}");
}

/// What there is needs no counting; what there was is missing.
#[test]
fn malloc_stats_tells_of_the_cached_heap_what_was_not_counted() {
    let output = run(&compile("figures.c", &[]), &["stats"], &[("HEAPWRIGHT_POLICY", "cached")]);
    let said = complaints(&output);
    assert_eq!((code(&output), tables(&said)), (0, 1), "{said}");
    let cells = |name: &str| {
        let line =
            said.lines().find(|line| line.trim_start().starts_with(name)).unwrap_or_else(|| panic!("{name}: {said}"));
        line.split_whitespace().map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(cells("mallocs "), ["mallocs", "-"]);
    let class = cells("304 ");
    // The first eight are in slabs of 320 bytes: a class has its own when there is use for them.
    assert_eq!(class, ["304", "-", "-", "992", "5", &((5 * 215 - 992) * 304).to_string()], "{said}");
    assert!(cells("live bytes ")[2].parse::<u64>().unwrap() > 304_000, "{said}");
    assert_eq!(cells("longer "), ["longer", "-", "-", "1", "-", "-"]);
}

#[test]
fn processes_share_a_json_file_or_have_one_each() {
    let folder = folder("processes");
    let shared = folder.join("shared");
    let output = run(&leaver(), &["fork"], &[("HEAPWRIGHT_STATS", &format!("json:{}", shared.display()))]);
    assert_eq!((code(&output), complaints(&output)), (0, String::new()));
    serde_json::from_slice::<Value>(&fs::read(&shared).unwrap()).expect("the last to exit wrote all of it");
    fs::remove_file(&shared).unwrap();

    run(&leaver(), &["fork"], &[("HEAPWRIGHT_STATS", &format!("json:{}/of-%p", folder.display()))]);
    let files: Vec<PathBuf> = fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    assert_eq!(files.len(), 2, "{files:?}");
    for file in files {
        let json: Value = serde_json::from_slice(&fs::read(&file).unwrap()).unwrap();
        assert_eq!(file.file_name().unwrap().to_str().unwrap(), format!("of-{}", json["pid"]));
    }
}

#[test]
fn a_json_file_that_cannot_be_written_is_complained_about() {
    let output = run(&compile("operators.cc", &[]), &[], &[("HEAPWRIGHT_STATS", "json:/nowhere/at/all")]);
    assert_eq!(code(&output), 0);
    assert!(complaints(&output).contains("/nowhere/at/all"), "{}", complaints(&output));
}

#[test]
fn a_full_disk_is_reported_and_changes_nothing_else() {
    let variables = [("HEAPWRIGHT_STATS", "json:/dev/full")];
    let output = run(&compile("operators.cc", &[]), &[], &variables);
    let said = complaints(&output);
    assert_eq!(code(&output), 0, "{said}");
    assert_eq!(said.lines().count(), 1, "{said}");
    assert!(said.contains("could not be written to /dev/full") && said.contains("room on its disk"), "{said}");
}

#[test]
fn the_same_seed_gives_the_same_heap() {
    let folder = folder("seeds");
    let heap = |file: &str, seed: &str| {
        let stats = format!("json:{}", folder.join(file).display());
        let variables = [("HEAPWRIGHT_POLICY", "random"), ("HEAPWRIGHT_SEED", seed), ("HEAPWRIGHT_STATS", &stats)];
        assert_eq!(code(&run(&compile("shuffle.c", &[]), &[], &variables)), 0);
        let json: Value = serde_json::from_slice(&fs::read(folder.join(file)).unwrap()).unwrap();
        json["holes"].clone()
    };
    let first = heap("a", "1");
    assert_eq!(first, heap("b", "1"));
    assert!((2..6).any(|seed| heap("c", &seed.to_string()) != first), "some other seed gives another heap");
}
