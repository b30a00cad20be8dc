//! Programs under the published rules: every statistic, and the place of every block against the reference.

mod common;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use common::{compiled, heapwright};
use heapwright_placement::{Engine, PolicyKind};
use heapwright_rules::{RuleSet, named};
use heapwright_testkit::Oracle;

/// Report 000's program: sizes and frees from `rand`, and the buffer of its output.
const REPORTED: &str = r#"
#include <stdlib.h>
static void *blocks[100001];
int main(void) {
    srand(0);
    for (int i = 0; i < 50000; i++)
        blocks[i] = malloc(rand() % 10 + 1 <= 4 ? 1024 : rand() % 5120 + 1024);
    for (int i = 0; i < 50000; i++)
        if (rand() % 10 + 1 > 6) free(blocks[i]);
    for (int i = 0; i < 50001; i++) blocks[50000 + i] = malloc(1024);
    return malloc(0) != NULL;
}
"#;

/// Allocates, resizes and frees as its arguments say, and writes where each block lies behind the first.
const PLACES: &str = r#"
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <unistd.h>
static char *live[64];
static int64_t places[100000];
int main(int count, char **arguments) {
    uint64_t state = 88172645463325252u;
    int steps = atoi(arguments[1]), longest = atoi(arguments[2]), written = 0;
    char *first = NULL;
    for (int step = 0; step < steps; step++) {
        state ^= state << 13; state ^= state >> 7; state ^= state << 17;
        char **slot = &live[state % 64];
        size_t bytes = 1 + (state >> 20) % longest;
        if (*slot && state >> 40 & 1) {
            char *resized = realloc(*slot, bytes);
            if (resized) *slot = resized;
            places[written++] = resized ? resized - first : -1;
            continue;
        }
        if (*slot) { free(*slot); *slot = NULL; continue; }
        *slot = malloc(bytes);
        if (!first) first = *slot;
        places[written++] = *slot ? *slot - first : -1;
    }
    int file = open(arguments[3], O_WRONLY | O_CREAT, 0600);
    return write(file, places, written * sizeof *places) != (ssize_t) (written * sizeof *places);
}
"#;

fn run(rules: &[&str], policy: &str, program: &Path, arguments: &[&str]) -> String {
    let output = heapwright()
        .args(["run", "--stats", "report", "--policy", policy])
        .args(rules)
        .arg("--")
        .arg(program)
        .args(arguments)
        .output()
        .unwrap();
    let text = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success(), "{rules:?} {policy}: {text}");
    text
}

#[test]
fn report_000s_program_counts_what_was_published() {
    let folder = tempfile::tempdir().unwrap();
    let program = compiled(folder.path(), "reported", REPORTED, &["-O1", "-fno-builtin"]);
    for policy in ["first", "next", "best", "worst"] {
        let text = run(&["--rules", "report000"], policy, &program, &[]);
        let figures: Vec<&str> = text.lines().skip(1).filter_map(|line| line.split_whitespace().last()).collect();
        // Coalesces: blocks = grows + splits - coalesces. Worst fit as defined counts what the others do.
        let published = ["100001", "19958", "45256", "54745", "41585", "7961", "88369", "179258508", "132109388"];
        assert_eq!(figures, published, "{policy}: {text}");
    }
}

/// Where the reference puts the blocks of the same requests.
fn reference(policy: PolicyKind, set: &RuleSet, steps: usize, longest: u64) -> Vec<i64> {
    let capacity = set.limit.unwrap_or(1 << 30) as usize;
    let mut heap = Oracle::create(policy, capacity, &set.rules).unwrap();
    let (mut live, mut places, mut first, mut state) = ([None; 64], Vec::new(), None, 88_172_645_463_325_252_u64);
    for _ in 0..steps {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        let slot = &mut live[(state % 64) as usize];
        let bytes = set.requests.bytes(1 + ((state >> 20) % longest) as usize).unwrap();
        let placed = match *slot {
            Some(offset) if state >> 40 & 1 == 0 => {
                heap.deallocate(offset).unwrap();
                *slot = None;
                continue;
            }
            Some(offset) if heap.resize(offset, heap.usable_size(offset).unwrap(), bytes).is_ok() => Some(offset),
            before => {
                let placed = heap.allocate(bytes, set.requests.align(1)).ok();
                if let (Some(before), Some(_)) = (before, placed) {
                    heap.deallocate(before).unwrap();
                }
                placed
            }
        };
        *slot = placed.or(*slot);
        first = first.or(*slot);
        places.push(placed.map_or(-1, |offset| offset as i64 - first.unwrap() as i64));
    }
    places
}

fn written(file: &PathBuf) -> Vec<i64> {
    let bytes = fs::read(file).unwrap();
    fs::remove_file(file).unwrap();
    bytes.as_chunks().0.iter().map(|place| i64::from_le_bytes(*place)).collect()
}

#[test]
fn every_block_lies_where_the_reference_puts_it() {
    let folder = tempfile::tempdir().unwrap();
    let program = compiled(folder.path(), "places", PLACES, &["-O1", "-fno-builtin"]);
    let file = folder.path().join("places.bin");
    let mine = folder.path().join("mine.rules");
    fs::write(&mine, "# a file of one's own\nreport000\nheader = 8\nmin-remainder = 64, growth = extend\n").unwrap();
    let of_file = RuleSet::from_text(&fs::read_to_string(&mine).unwrap(), RuleSet::USUAL).unwrap();
    let region = |bytes| RuleSet { limit: Some(bytes), ..named("report001").unwrap() };
    let raised = RuleSet::from_text("align=64,least=112", RuleSet::USUAL).unwrap();
    let limited = |text| RuleSet::from_text(text, RuleSet::USUAL).unwrap();
    let sets: [(&[&str], RuleSet, u64); 8] = [
        // Limits that end within a page, and within a step.
        (&["--limit", "19000", "--growth", "extend"], limited("limit=19000,growth=extend"), 1500),
        (&["--limit", "19008", "--growth", "pages:3008"], limited("limit=19008,growth=pages:3008"), 1500),
        (&["--rules", "report000"], named("report000").unwrap(), 2000),
        (&["--rules", "report001", "--region", "20000"], region(20_000), 1500),
        (
            &["--rules", "report003", "--region", "16KiB"],
            RuleSet { limit: Some(16 << 10), ..named("report003").unwrap() },
            700,
        ),
        (&["--rules", mine.to_str().unwrap()], of_file, 2000),
        (&["--rules", "report003"], named("report003").unwrap(), 60),
        (&["--align", "64", "--least", "112"], raised, 300),
    ];
    for (rules, set, longest) in &sets {
        for policy in [PolicyKind::First, PolicyKind::Next, PolicyKind::Best, PolicyKind::Worst, PolicyKind::Random] {
            let arguments = ["20000", &longest.to_string(), file.to_str().unwrap()];
            run(rules, policy.name(), &program, &arguments);
            let (ours, expected) = (written(&file), reference(policy, set, 20_000, *longest));
            let different = ours.iter().zip(&expected).position(|(ours, expected)| ours != expected);
            assert_eq!((different, ours.len()), (None, expected.len()), "{rules:?} {policy:?}");
            let refused = expected.iter().filter(|place| **place < 0).count();
            assert!(set.limit.is_none() || refused > 0, "{rules:?} {policy:?}: nothing was refused");
        }
    }
    run(&["--rules", "report002"], "buddy", &program, &["20000", "4096", file.to_str().unwrap()]);
    assert_eq!(written(&file), reference(PolicyKind::Buddy, &named("report002").unwrap(), 20_000, 4096));
}

#[test]
fn rules_that_contradict_are_refused_with_what_to_do() {
    let folder = tempfile::tempdir().unwrap();
    let written = |name: &str, text: &str| {
        let file = folder.path().join(name);
        fs::write(&file, text).unwrap();
        file.to_str().unwrap().to_owned()
    };
    let (bad, twice) = (written("bad.rules", "header=x\n"), written("twice.rules", "granule=4\ngranule=8\n"));
    let marked = written("marked.rules", "\u{feff}granule=8\r\nzero=null\r\n");
    let short = written("short.rules", "# a pool\nheader=16\nlimit=30\nzero=null\n");
    for (code, arguments, message) in [
        (2, &["--rules", &short][..], "short.rules: line 3: the heap is too short: the least that holds a block is 32"),
        (2, &["--rules", &short, "--header", "32"], "error: the heap is too short: the least that holds"),
        (0, &["--rules", &short, "--limit", "64MiB"], ""),
        (2, &["--rules", "report001"], "these rules have a fixed region: give its length, as in --region 64KiB"),
        (2, &["--rules", "report002", "-p", "best"], "these rules belong to the policy buddy: leave out --policy"),
        (2, &["--rules", "report009"], "--rules report009: no such file, and no set of rules: there are report000,"),
        (2, &["--granule", "8", "-p", "cached"], "cached has no rules to choose: give a policy, as in --policy first"),
        (2, &["--granule", "3"], "granule"),
        (2, &["--growth", "append", "--region", "64KiB"], "leave out --growth append, or give --limit"),
        (0, &["--growth", "fixed", "--region", "1MiB"], ""),
        (0, &["--rules", &marked], ""),
        (2, &["--growth", "slowly"], "the value must be append, extend, fixed or pages:BYTES"),
        (2, &["--rules", "/dev/null/x"], "no such file"),
        (2, &["-p", "first", "--region", "15"], "error: --region 15: the heap is too short: the least that"),
        (2, &["--rules", "report000", "--limit", "27"], "--limit 27: the heap is too short: the least that holds"),
        (125, &["--rules", "/"], "/ cannot be read"),
        (2, &["--rules", &bad], "bad.rules: line 1: header=x: the value must be a number of bytes"),
        (
            2,
            &["--rules", &twice],
            "twice.rules: line 2: granule=8: an earlier item sets this rule: leave one of them out",
        ),
    ] {
        let output = heapwright().arg("run").args(arguments).args(["--", "true"]).output().unwrap();
        let text = String::from_utf8(output.stderr).unwrap();
        assert_eq!((output.status.code(), text.contains(message)), (Some(code), true), "{arguments:?}: {text}");
    }
}

const TRACE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../corpus/ripgrep.hwt");

/// A device and a pipe have no length: no more is read of them than rules can have.
#[test]
fn rules_without_an_end_are_refused() {
    let replay = |rules: &str| format!("ulimit -v 2000000; exec \"$0\" replay corpus/lua.hwt -p first --rules {rules}");
    for script in [replay("/dev/zero"), format!("yes '#' | {{ {}; }}", replay("/dev/stdin"))] {
        let mut shell = Command::new("sh");
        shell.current_dir(Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).unwrap());
        let output = shell.arg("-c").arg(script).arg(heapwright().get_program()).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!output.status.success() && said.contains("more than 65536 bytes"), "{said}");
    }
}

fn output(arguments: &[&str]) -> (bool, String) {
    let output = heapwright().args(arguments).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap() + &String::from_utf8_lossy(&output.stderr);
    (output.status.success(), text)
}

fn json(arguments: &[&str]) -> serde_json::Value {
    let output = heapwright().args(arguments).output().unwrap();
    serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{}", String::from_utf8_lossy(&output.stderr)))
}

/// Every command that simulates has the figures of replay, under rules of all kinds.
#[test]
fn compare_and_fit_and_watch_simulate_what_replay_does() {
    for rules in [&["--rules", "report000"][..], &["--merging", "deferred", "--split", "high"], &["--least", "200"]] {
        let replayed = json(&[&["replay", TRACE, "--json", "-p", "best"], rules].concat());
        let replayed = &replayed["results"][0];
        let compared = json(&[&["compare", TRACE, "--policies-only", "--json", "-p", "best"], rules].concat());
        let row = &compared["results"][0];
        assert_eq!(row["figures"]["heap"]["median"].as_f64(), replayed["peak_heap"].as_f64(), "{rules:?}");
        assert_eq!(row["reference_engine"].is_string(), replayed["engine"] == "reference", "{rules:?}");
        let text = compared["settings"]["rules"].as_str().unwrap();
        let set = RuleSet::from_text(text, RuleSet::SIMULATED).unwrap();
        assert_ne!(set, RuleSet::SIMULATED, "{text}");
        let (_, watched) = output(&[&["watch", "--once", TRACE, "-p", "best"], rules].concat());
        let heap = heapwright_show::number::bytes(replayed["heap"].as_u64().unwrap());
        assert!(watched.contains(&format!("heap {heap},")), "{rules:?} {heap}: {watched}");
    }
    let fitted = json(&["fit", TRACE, "--json", "-p", "first", "--merging", "deferred", "--samples", "1"]);
    let row = &fitted["results"][0];
    assert_eq!((&row["engine"], &row["premises_hold"]), (&"reference".into(), &false.into()));
    assert!(row["always_enough"].is_null(), "holes that are not merged are more than the bound counts");
    let (_, fitted) = output(&["fit", TRACE, "-p", "first", "-p", "best", "--merging", "deferred", "--samples", "1"]);
    let fitted = fitted.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(fitted.contains("Here merging is deferred: programs may need more."), "{fitted}");
    let region = row["region"].as_u64().unwrap();
    for (bytes, refused) in [(region, false), (region - 16, true)] {
        let region = bytes.to_string();
        let row = json(&["replay", TRACE, "--json", "-p", "first", "--merging", "deferred", "--region", &region]);
        assert_eq!(row["results"][0]["refused"] != 0, refused, "{region}");
    }
}

/// Real replays run the policies by the rules.
#[test]
fn real_replays_have_the_rules() {
    let peak = |rules: &[&str]| {
        let replayed = json(&[&["replay", "--real", "--one-thread", TRACE, "--json", "-p", "first"], rules].concat());
        let rows = replayed["results"].as_array().unwrap().clone();
        let row = rows.iter().find(|row| row["allocator"] == "first").unwrap().clone();
        assert!(row["error"].is_null(), "{row}");
        assert!(rows.iter().all(|row| row["allocator"] != "best"), "{rows:?}");
        row["heap_rss"].as_u64().or(row["peak_rss"].as_u64()).unwrap_or_else(|| panic!("{row}"))
    };
    // A header of a page makes every block one.
    assert!(peak(&["--granule", "4096", "--header", "4096"]) > 4 * peak(&["--granule", "16"]));
    let (succeeded, text) = output(&["replay", "--real", TRACE, "--merging", "forward"]);
    assert!(!succeeded && text.contains("no program can run by this rule"), "{text}");
}

#[test]
fn what_belongs_to_no_program_is_said_before_anything_runs() {
    for command in [&["compare", TRACE][..], &["compare", "--", "true"]] {
        let (front, program) = command.split_at(command.iter().position(|word| *word == "--").unwrap_or(command.len()));
        let (succeeded, text) = output(&[front, &["--rover", "freed"], program].concat());
        assert!(!succeeded && text.contains("add --policies-only, or leave this rule out: the rover"), "{text}");
    }
    let (succeeded, text) = output(&["compare", TRACE, "--policies-only", "--rover", "freed", "-p", "next"]);
    assert!(succeeded && text.contains("No program can run by these rules: the rover moves"), "{text}");
    assert!(!text.contains("To measure, with real replays"), "{text}");
    let folder = tempfile::tempdir().unwrap();
    let page = folder.path().join("page.html");
    let report = ["report", TRACE, "-o", page.to_str().unwrap(), "--worst", "never-exact", "-p", "worst"];
    let (succeeded, text) = output(&report);
    assert!(!succeeded && text.contains("add --no-real, or leave this rule out: worst fit"), "{text}");
    let (succeeded, text) = output(&[&report[..], &["--no-real"]].concat());
    assert!(succeeded, "{text}");
    let page = fs::read_to_string(page).unwrap();
    assert!(page.contains("worst: worst fit never takes an exact hole"));
}

#[test]
fn programs_are_watched_by_their_rules() {
    let folder = tempfile::tempdir().unwrap();
    let program = compiled(folder.path(), "places", PLACES, &["-O1", "-fno-builtin"]);
    let file = folder.path().join("places.bin");
    let program = ["--", program.to_str().unwrap(), "20000", "2000", file.to_str().unwrap()];
    let (succeeded, text) =
        output(&[&["watch", "--once", "--after", "60s", "--rules", "report000", "-p", "best"], &program[..]].concat());
    assert!(succeeded, "{text}");
    assert_eq!(written(&file), reference(PolicyKind::Best, &named("report000").unwrap(), 20_000, 2000));
}

#[test]
fn odd_rules_select_the_reference_engine_for_simulations_only() {
    let replay = |rules: &[&str]| output(&[&["replay", TRACE], rules].concat());
    let (succeeded, text) = replay(&["-p", "next", "-p", "first", "--rover", "freed"]);
    assert!(succeeded && text.contains("next: reference engine, because the rover moves to freed holes"), "{text}");
    assert!(!text.contains("first: reference engine"), "{text}");
    let (succeeded, text) = replay(&["-p", "buddy", "--merging", "forward"]);
    assert!(!succeeded && text.contains("buddies have no such rules: leave out -p buddy"), "{text}");
    let only = "merging is forward only: no program can run by this rule, only simulations can";
    for command in
        [&["run", "--merging", "forward", "--", "true"][..], &["watch", "--once", "--merging", "forward", "--", "true"]]
    {
        let output = heapwright().args(command).output().unwrap();
        let text = String::from_utf8(output.stderr).unwrap();
        assert!(!output.status.success() && text.contains(only), "{command:?}: {text}");
    }
}
