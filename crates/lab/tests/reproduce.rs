//! `heapwright reproduce`: the published counts come out, and every figure is there.

mod common;

use std::sync::OnceLock;

use common::heapwright;
use serde_json::Value;

fn reproduce(arguments: &[&str]) -> Vec<Value> {
    let output = heapwright().args(["reproduce", "--json"]).args(arguments).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(output.stderr.is_empty(), "progress is for terminals");
    let json: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(json["schema"], 1);
    json["results"].as_array().unwrap().clone()
}

/// Report 003's rows, which take a while to compute.
fn report_003() -> &'static [Value] {
    static ROWS: OnceLock<Vec<Value>> = OnceLock::new();
    ROWS.get_or_init(|| reproduce(&["003"]))
}

/// The cell of a table.
fn cell<'r>(rows: &'r [Value], table: &str, row: &str, column: &str) -> &'r Value {
    let found = rows.iter().find(|cell| cell["table"] == table && cell["row"] == row && cell["column"] == column);
    found.unwrap_or_else(|| panic!("no cell {table}, {row}, {column}"))
}

#[test]
fn report_000_counts_to_the_digit() {
    const NAMES: [&str; 8] = ["mallocs", "frees", "reuses", "grows", "splits", "blocks", "requested", "max heap"];
    const THREE_FITS: [u64; 8] = [100_001, 19_958, 45_256, 54_745, 41_585, 88_369, 179_258_508, 132_109_388];
    const WORST: [u64; 8] = [100_001, 19_958, 41_847, 58_154, 41_585, 91_778, 179_258_508, 135_600_204];
    let rows = reproduce(&["000", "--no-times"]);
    for (at, name) in NAMES.into_iter().enumerate() {
        for fit in ["next", "first", "best"] {
            let cell = cell(&rows, "Figure 8: counts", name, fit);
            assert_eq!((&cell["ours"], &cell["verdict"]), (&THREE_FITS[at].into(), &"exact".into()), "{fit} {name}");
        }
        let programmed = cell(&rows, "Figure 8: counts", name, "worst, as programmed");
        assert_eq!((&programmed["ours"], &programmed["verdict"]), (&WORST[at].into(), &"exact".into()), "{name}");
        let defined = cell(&rows, "Figure 8: counts", name, "worst");
        assert_eq!((&defined["published"], &defined["ours"]), (&WORST[at].into(), &THREE_FITS[at].into()), "{name}");
        let verdict = if WORST[at] == THREE_FITS[at] { "exact" } else { "defect" };
        assert_eq!(defined["verdict"], verdict, "{name}");
    }
}

#[test]
fn report_003_comes_out_to_the_digit() {
    const TABLE: &str = "Free lists: one program, four fits";
    const COLUMNS: [&str; 6] = ["holes", "min hole", "max hole", "mean hole", "sd of holes", "failures"];
    const PUBLISHED: [(&str, [&str; 6]); 4] = [
        ("first", ["3", "2", "10", "5.3333", "3.3993", "0"]),
        ("next, as programmed", ["2", "22", "72", "47.0000", "25.0000", "2"]),
        ("best", ["1", "56", "56", "56.0000", "0.0000", "0"]),
        ("worst", ["3", "2", "18", "10.0000", "6.5320", "0"]),
    ];
    let rows = report_003();
    for (fit, figures) in PUBLISHED {
        for (column, figure) in COLUMNS.into_iter().zip(figures) {
            let cell = cell(rows, TABLE, fit, column);
            let ours = match cell["ours"].as_u64() {
                Some(count) => count.to_string(),
                None => format!("{:.4}", cell["ours"].as_f64().unwrap()),
            };
            assert_eq!((ours.as_str(), &cell["verdict"]), (figure, &"exact".into()), "{fit} {column}");
        }
    }
    let next = |column| &cell(rows, TABLE, "next", column)["ours"];
    assert_eq!((next("holes"), next("max hole"), next("failures")), (&1.into(), &28.into(), &0.into()));
}

#[test]
fn random_fit_is_reproduced_in_distribution() {
    let rows = report_003();
    let averages: Vec<&Value> = rows.iter().filter(|row| row["row"] == "random, as programmed").collect();
    assert_eq!(averages.len(), 6);
    assert!(averages.iter().all(|row| row["verdict"] == "within"), "{averages:#?}");
    let percentiles = rows.iter().filter_map(|row| row["percentile"].as_f64());
    assert_eq!(percentiles.filter(|percentile| (0.0..=100.0).contains(percentile)).count(), 2 * 10 * 6);
}

#[test]
fn times_are_measured_under_every_policy() {
    let rows = reproduce(&["004", "--rounds", "1"]);
    for name in ["system", "system again", "first", "next", "best", "worst", "random", "buddy", "good", "mapped"] {
        for column in ["untouched", "touched", "untouched, over system", "touched, over system"] {
            let cell = cell(&rows, "Allocate and free 128 bytes: time of a pair", name, column);
            assert!(cell["ours"].as_f64().is_some_and(|ours| ours > 0.0), "{cell:#}");
        }
    }
}

#[test]
fn report_002_is_reproduced_in_distribution() {
    let rows = reproduce(&["002", "--no-times", "--seeds", "100"]);
    let of = |table: &'static str| rows.iter().filter(move |row| row["table"].as_str().unwrap().starts_with(table));
    for table in ["Table 1: nothing freed", "Table 2: 99 % freed"] {
        let ranges: Vec<&Value> = of(table).filter(|row| row["column"] == "user bytes").collect();
        assert_eq!(ranges.len(), 10, "five ranges, with the report's blocks and with ours");
        for row in of(table) {
            assert_eq!(row["verdict"], "within", "{row:#}");
            assert!(row["theory"].is_number() && row["published"].is_null() == row["percentile"].is_null(), "{row:#}");
        }
    }
    let cell = cell(&rows, "Table 1: nothing freed", "128-4096, no header", "internal");
    let lost = cell["theory"].as_f64().unwrap();
    assert!((24.9..25.1).contains(&lost), "a quarter, as the report guessed for blocks without headers: {lost}");
    assert!(of("Table 2, read otherwise").all(|row| row["column"] != "real bytes" || row["verdict"] == "differs"));
}

#[test]
fn report_002_is_timed_in_a_real_segment() {
    let rows = reproduce(&["002", "--rounds", "1", "--seeds", "100"]);
    for size in [200, 400, 800, 1600, 3200, 6400, 12_800].map(|bytes| format!("{bytes} bytes")) {
        for contender in ["malloc again", "worst case", "best case"] {
            let time = cell(&rows, "Experiment 2: 100,000 x (allocate + free)", &size, contender);
            assert!(time["ours"].as_f64().is_some_and(|seconds| seconds > 0.0), "{time:#}");
            let ratio = cell(&rows, "Experiment 2: the same, over malloc of the same round", &size, contender);
            assert!(ratio["ours"].as_f64().is_some_and(|ratio| ratio > 0.0), "{ratio:#}");
            assert_eq!(ratio["published"].is_number(), contender != "malloc again", "{ratio:#}");
        }
    }
}

#[test]
fn experiments_without_counts_say_so() {
    let output = heapwright().args(["reproduce", "001", "--no-times"]).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success());
    assert!(text.contains("--no-times leaves out"), "{text}");
}
