//! `heapwright record` notes what the program used: memory, faults and processor time over time, and how long its calls
//! took.

mod common;

use std::fs::{self, File};
use std::path::{Path, PathBuf};

use common::{compiled, heapwright};
use heapwright_trace::{Reader, Sample, Totals};
use tempfile::TempDir;

const MIB: u64 = 1 << 20;
const MILLISECOND: u64 = 1_000_000;

/// What a trace says of its process.
struct Used {
    samples: Vec<Sample>,
    totals: Totals,
    events: u64,
}

impl Used {
    fn at(path: &Path) -> Used {
        let mut reader = Reader::new(File::open(path).unwrap()).unwrap();
        let mut events = 0;
        while reader.next_event().unwrap().is_some() {
            events += 1;
        }
        let totals = Totals::of(reader.about());
        let mut samples = Vec::new();
        Reader::new(File::open(path).unwrap()).unwrap().each_sample(|sample| samples.push(sample)).unwrap();
        for pair in samples.windows(2) {
            assert!(pair[0].event <= pair[1].event && pair[0].nanoseconds <= pair[1].nanoseconds, "{pair:?}");
        }
        Used { samples, totals, events }
    }

    /// Returns the estimated share of malloc and its kin in the processor time.
    fn share(&self) -> f64 {
        let whole = self.totals.program_nanoseconds().unwrap();
        self.totals.malloc_nanoseconds(self.events).unwrap() as f64 / whole as f64
    }
}

/// Records `usage HOW`; returns its trace, what it printed, and what the command printed.
fn recorded(folder: &TempDir, how: &str) -> (Used, String, String) {
    let program = compiled(folder.path(), "usage", include_str!("programs/usage.c"), &["-O1", "-w"]);
    let trace = folder.path().join("t.hwt");
    let mut command = heapwright();
    command.args(["record", "--min-events", "0", "-o"]).arg(&trace).arg("--").arg(program).arg(how);
    let output = command.output().unwrap();
    let [out, said] = [output.stdout, output.stderr].map(|text| String::from_utf8(text).unwrap());
    assert!(trace.exists(), "{said}");
    (Used::at(&trace), out, said)
}

/// Checks the samples of a program that touches 64 MiB, pauses, computes and frees them.
fn check_work(used: &Used, printed: &str) {
    let samples = &used.samples;
    assert_eq!(samples[0].event, 0, "there is one before the first event");
    let peak = samples.iter().map(|sample| sample.resident).max().unwrap();
    assert!((64 * MIB..80 * MIB).contains(&peak), "{peak}");
    assert_eq!(used.totals.peak_anonymous, Some(peak));
    // It rises step by step, and falls at the end.
    let between = |least, most| samples.iter().filter(|sample| (least..most).contains(&sample.resident)).count();
    assert!(between(8 * MIB, 24 * MIB) > 0 && between(24 * MIB, 40 * MIB) > 0 && between(40 * MIB, 56 * MIB) > 0);
    assert!(samples.last().unwrap().resident < 16 * MIB, "{:?}", samples.last());
    // In the pause no event happens and no processor time passes.
    let calm = |pair: &&[Sample]| {
        let passed = pair[1].nanoseconds - pair[0].nanoseconds;
        pair[1].event == pair[0].event && pair[1].processor_nanoseconds - pair[0].processor_nanoseconds < passed / 5
    };
    let at_peak = |pair: &&[Sample]| pair[0].resident > 60 * MIB;
    let pause: u64 =
        samples.windows(2).filter(at_peak).filter(calm).map(|pair| pair[1].nanoseconds - pair[0].nanoseconds).sum();
    assert!((200 * MILLISECOND..5000 * MILLISECOND).contains(&pause), "{pause}");
    // The same as the system said at the end.
    let said: Vec<u64> = printed.split_whitespace().map(|number| number.parse().unwrap()).collect();
    let within = |found: u64, said: u64, slack: u64| found + slack >= said && found <= said + said / 5 + slack;
    let Totals { processor_nanoseconds, faults, elapsed_nanoseconds, .. } = used.totals;
    assert!(within(processor_nanoseconds.unwrap(), said[0], 20 * MILLISECOND), "{processor_nanoseconds:?} of {said:?}");
    assert!(within(faults.unwrap(), said[1], 500), "{faults:?} of {said:?}");
    assert!(elapsed_nanoseconds.unwrap() >= 330 * MILLISECOND + said[0] / 2, "{elapsed_nanoseconds:?}");
}

/// The second program of a process may end before anything but its beginning was seen.
#[test]
fn what_is_not_known_of_a_program_is_not_zero() {
    let folder = tempfile::tempdir().unwrap();
    let script = "exec sh -c 'kill -9 $$'";
    for _ in 0..5 {
        let mut command = heapwright();
        command.args(["record", "-o"]).arg(folder.path().join("t.hwt")).args(["--", "sh", "-c", script]);
        let said = String::from_utf8(command.output().unwrap().stderr).unwrap();
        assert!(!said.contains("took 0 ns") && !said.contains("with 0 page faults"), "{said}");
    }
}

#[test]
fn memory_pauses_and_processor_time_are_sampled() {
    let folder = tempfile::tempdir().unwrap();
    let (used, printed, said) = recorded(&folder, "exit");
    check_work(&used, &printed);
    assert!(used.totals.resident_files.unwrap() > 100 << 10);
    assert!(!used.totals.huge_pages_off);
    assert_eq!(used.samples.last().unwrap().event, used.events, "there is one at the end");
    assert!(said.contains("of processor time") && said.contains("of anonymous memory at its peak"), "{said}");
}

#[test]
fn a_program_that_is_cut_short_has_its_samples_up_to_then() {
    for how in ["_exit", "kill"] {
        let folder = tempfile::tempdir().unwrap();
        let (used, printed, _) = recorded(&folder, how);
        check_work(&used, &printed);
        assert_eq!(used.totals.resident_files, None, "only a program that exits says that");
    }
}

#[test]
fn a_forked_child_has_samples_of_its_own() {
    let folder = tempfile::tempdir().unwrap();
    let (parent, ..) = recorded(&folder, "fork");
    let mut paths = fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().path());
    let is_childs = |path: &PathBuf| path.to_str().unwrap().ends_with(".hwt") && !path.ends_with("t.hwt");
    let child = Used::at(&paths.find(is_childs).expect("the child has a trace"));
    let peak = |used: &Used| used.totals.peak_anonymous.unwrap();
    assert!((8 * MIB..24 * MIB).contains(&peak(&parent)), "{}", peak(&parent));
    assert!((32 * MIB..56 * MIB).contains(&peak(&child)), "{}", peak(&child));
    assert!(child.totals.elapsed_nanoseconds < parent.totals.elapsed_nanoseconds);
}

#[test]
fn the_share_of_malloc_is_estimated() {
    let folder = tempfile::tempdir().unwrap();
    let (pairs, _, said) = recorded(&folder, "pairs");
    assert!(pairs.share() > 0.2 && pairs.share() < 1.01, "{}", pairs.share());
    let timed = pairs.totals.timed_calls.unwrap();
    assert!((6_000_000 / 700..6_000_000 / 400).contains(&timed), "{timed}");
    assert!(said.contains("in malloc and free"), "{said}");
    // Of its 24,000 calls some 47 are timed: one that loses its processor counts for 5 ms, of more than a second.
    let mut shares = Vec::new();
    let says_little = (0..5).any(|_| {
        let (sums, _, said) = recorded(&folder, "sums");
        assert!(sums.share() < 0.05, "{}", sums.share());
        shares.push(sums.share());
        said.contains(", less than 1 % of it in malloc and free")
    });
    assert!(says_little, "{shares:?}");
}

#[test]
fn the_programs_own_time_is_what_is_left_of_short_calls() {
    /// Other jobs of the machine disturb some runs, and now and then most of a group. An error of the estimate would be
    /// in the median of every group.
    const GROUPS: usize = 4;
    let folder = tempfile::tempdir().unwrap();
    // The processor overlaps such calls with the work between them.
    let share = |_| {
        let (used, printed, _) = recorded(&folder, "between");
        let work: f64 = printed.trim().parse().unwrap();
        let Used { totals, events, .. } = used;
        let malloc = totals.malloc_nanoseconds(events).unwrap();
        totals.program_nanoseconds().unwrap().saturating_sub(malloc) as f64 / work
    };
    let mut groups = Vec::new();
    let is_right = (0..GROUPS).any(|_| {
        let mut shares = [0; 5].map(share);
        shares.sort_by(f64::total_cmp);
        groups.push(shares);
        (0.85..1.3).contains(&shares[2])
    });
    assert!(is_right, "of its real time: {groups:?}");
}

#[test]
fn calls_for_long_blocks_are_all_timed() {
    let folder = tempfile::tempdir().unwrap();
    let (long, ..) = recorded(&folder, "long");
    assert!(long.totals.timed_calls.unwrap() >= 600, "{:?}", long.totals);
    assert!(long.share() < 1.01, "{}", long.share());
}
