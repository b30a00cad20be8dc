//! Every command counts the events of a trace alike: calls of the program, as they were recorded. A change of threads,
//! which is an entry of a trace as well, is none.

mod common;

use std::fs::{self, File};
use std::path::Path;

use common::{compiled, heapwright};
use heapwright_show::number::{counted, grouped};
use heapwright_trace::{Event, Reader};
use serde_json::Value;

/// Returns the events of a trace, the changes of threads, and the allocations.
fn counts(trace: &Path) -> (u64, u64, u64) {
    let (mut events, mut changes, mut allocations) = (0, 0, 0);
    for event in Reader::new(File::open(trace).unwrap()).unwrap() {
        let event = event.unwrap();
        *(if event.is_call() { &mut events } else { &mut changes }) += 1;
        allocations += u64::from(matches!(event, Event::Allocate { .. }));
    }
    (events, changes, allocations)
}

/// Returns what a command, whose name is the first argument, writes of a trace to its standard output and error.
fn said(arguments: &[&str], trace: &Path) -> (String, String) {
    let output = heapwright().arg(arguments[0]).arg(trace).args(&arguments[1..]).output().unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let (printed, said) = (text(&output.stdout), text(&output.stderr));
    assert!(output.status.success(), "{arguments:?}: {said}");
    (printed, said)
}

fn json(arguments: &[&str], trace: &Path) -> Value {
    serde_json::from_str(&said(arguments, trace).0).unwrap()
}

#[test]
fn events_are_counted_alike_everywhere() {
    let folder = tempfile::tempdir().unwrap();
    let flags = ["-O1", "-w", "-pthread", "-fno-builtin"];
    let program = compiled(folder.path(), "threads", include_str!("programs/threads.c"), &flags);
    let trace = folder.path().join("t.hwt");
    let mut record = heapwright();
    record.args(["record", "--sites=1", "-o"]).arg(&trace).arg("--").arg(program).args(["brief", "50"]);
    let recorded = String::from_utf8_lossy(&record.output().unwrap().stderr).into_owned();
    let (events, changes, allocations) = counts(&trace);
    assert!(changes >= 50, "the threads take turns: {changes}");
    let (number, text) = (grouped(events), counted(events, "event"));

    let row = recorded.lines().find(|line| line.contains("t.hwt ")).unwrap();
    assert_eq!(row.split_whitespace().nth(2), Some(number.as_str()), "{recorded}");
    assert!(row.contains(" 51 "), "the first thread and those that it starts: {recorded}");
    for arguments in [&["sites"][..], &["replay"], &["compare", "--policies-only"]] {
        let (printed, said) = said(arguments, &trace);
        assert!(format!("{printed}{said}").contains(&text), "{arguments:?} does not say {text}: {printed}{said}");
    }
    assert_eq!(json(&["sites", "--json"], &trace)["trace"]["events"], events);
    for row in json(&["replay", "--json"], &trace)["results"].as_array().unwrap() {
        assert_eq!(row["events"], events, "{row}");
    }
    let compared = json(&["compare", "--policies-only", "--json"], &trace);
    assert_eq!((&compared["trace"]["events"], &compared["trace"]["threads"]), (&events.into(), &51.into()));
    let page = folder.path().join("page.html");
    said(&["report", "--no-real", "-o", page.to_str().unwrap()], &trace);
    let page = fs::read_to_string(page).unwrap();
    let (_, rest) = page.split_once(r#"<script type="application/json" id="data">"#).unwrap();
    let data: Value = serde_json::from_str(rest.split_once("</script>").unwrap().0).unwrap();
    assert_eq!(data["trace"]["events"], events);
    // What the page calls an event, `--at` takes for the same.
    let peak = &data["trace"]["peak_requested_at"];
    assert_eq!(&json(&["sites", "--json"], &trace)["at_event"], peak);
    let moments = data["holders"]["moments"]["rows"].as_array().unwrap();
    assert_eq!(moments.last().unwrap()["event"], events);
    for moment in moments {
        let at = moment["event"].to_string();
        let held = &json(&["sites", "--json", "--at", &at], &trace)["held"]["bytes"];
        assert_eq!(held, &moment["held"], "after event {at}");
    }
    for policy in data["policies"].as_array().unwrap() {
        assert_eq!(policy["events"], events, "{policy}");
    }
    // So does what is said of damage.
    let cut = folder.path().join("cut.hwt");
    let bytes = fs::read(&trace).unwrap();
    fs::write(&cut, &bytes[..bytes.len() - 30]).unwrap();
    let (printed, warning) = said(&["sites", "--json"], &cut);
    let counted_there = serde_json::from_str::<Value>(&printed).unwrap()["trace"]["events"].as_u64().unwrap();
    assert!(
        warning.contains(&format!("the {counted_there} events before it are intact")),
        "{counted_there}: {warning}"
    );
    // A search for regions counts requests, which are events.
    assert_eq!(json(&["fit", "--json"], &trace)["results"][0]["requests"], allocations);
}
