//! A report is one page that holds all that it shows, whatever the trace says.

use std::fs::{self, File};
use std::path::{Path, PathBuf};

use assert_cmd::Command;
use heapwright_trace::{About, Kind, Writer};
use serde_json::Value;
use tempfile::TempDir;

fn heapwright() -> Command {
    Command::new(assert_cmd::cargo_bin!("heapwright"))
}

/// A program with a hostile name and a torn heap.
fn torn(folder: &TempDir) -> PathBuf {
    let path = folder.path().join("torn.hwt");
    let mut about = About::of_program("</script><b>torn</b>");
    about.set("arguments", "<!--<script>\" {{data}} \u{2028}");
    let mut writer = Writer::new(File::create(&path).unwrap(), &about).unwrap();
    let mut random = fastrand::Rng::with_seed(1);
    let mut live = Vec::new();
    for _ in 0..5000 {
        if random.u8(..10) < 6 || live.is_empty() {
            live.push(writer.allocate(Kind::Malloc, random.u64(1..2000), 16).unwrap());
        } else {
            writer.free(live.swap_remove(random.usize(..live.len()))).unwrap();
        }
    }
    writer.finish().unwrap();
    path
}

/// The page of a trace, without real replays.
fn page(trace: &Path, more: &[&str]) -> String {
    let output = trace.with_extension("html");
    heapwright().args(["report", "--no-real", "-o"]).arg(&output).arg(trace).args(more).assert().success();
    fs::read_to_string(output).unwrap()
}

/// What the page carries.
fn data(page: &str) -> Value {
    let (_, rest) = page.split_once(r#"<script type="application/json" id="data">"#).unwrap();
    serde_json::from_str(rest.split_once("</script>").unwrap().0).unwrap()
}

#[test]
fn the_page_has_the_figures_of_a_replay() {
    let folder = TempDir::new().unwrap();
    let trace = torn(&folder);
    let data = data(&page(&trace, &[]));
    let replay = heapwright().args(["replay", "--json"]).arg(&trace).assert().success();
    let replay: Value = serde_json::from_slice(&replay.get_output().stdout).unwrap();
    let (policies, rows) = (data["policies"].as_array().unwrap(), replay["results"].as_array().unwrap());
    assert_eq!((policies.len(), rows.len()), (7, 7));
    for (policy, row) in policies.iter().zip(rows) {
        for figure in ["policy", "events", "peak_heap", "peak_requested", "holes", "splits", "external_fragmentation"] {
            assert_eq!(policy[figure], row[figure], "{figure}");
        }
        let most = |line: &Value| line["max"].as_array().unwrap().iter().filter_map(Value::as_u64).max();
        assert_eq!(most(&policy["lines"]["heap"]), policy["peak_heap"].as_u64());
        assert_eq!(policy["at_end"]["holes"], policy["holes"]);
        assert_eq!(policy["at_peak"]["heap"], policy["peak_heap"]);
    }
}

#[test]
fn what_a_trace_says_stays_text() {
    let folder = TempDir::new().unwrap();
    let page = page(&torn(&folder), &["--title", "a <i>title</i> & \"more\""]);
    assert!(page.contains("<title>a &lt;i&gt;title&lt;/i&gt; &amp; &quot;more&quot;"));
    assert!(!page.contains("<b>torn") && !page.contains("<i>title"));
    assert_eq!(page.matches("<script").count(), 2);
    assert_eq!(page.matches("</script>").count(), 2);
    let data = data(&page);
    let about = data["trace"]["about"].as_array().unwrap();
    assert!(about.contains(&serde_json::json!(["program", "</script><b>torn</b>"])));
    assert!(about.contains(&serde_json::json!(["arguments", "<!--<script>\" {{data}} \u{2028}"])));
}

#[test]
fn the_page_needs_nothing_else() {
    let folder = TempDir::new().unwrap();
    let page = page(&torn(&folder), &["-p", "first"]);
    assert!(page.contains("default-src 'none'") && !page.contains("unsafe-inline"));
    for outside in ["https://", "http://", "src=\"", "href=\"", "@import", "url("] {
        let namespace = page.matches("http://www.w3.org/2000/svg").count();
        let expected = if outside == "http://" { namespace } else { 0 };
        assert_eq!(page.matches(outside).count(), expected, "{outside}");
    }
}

#[test]
fn what_pins_holes_is_what_fragments_the_heap() {
    let folder = TempDir::new().unwrap();
    let data = data(&page(&torn(&folder), &["-p", "best", "-p", "first"]));
    for policy in data["policies"].as_array().unwrap() {
        let (pins, peak) = (&policy["pins"], &policy["at_peak"]);
        let figure = |value: &Value| value.as_u64().unwrap();
        assert_eq!(figure(&pins["kept_apart"]), figure(&peak["free"]) - figure(&peak["longest_hole"]));
        let rows = pins["rows"].as_array().unwrap();
        assert!(
            !rows.is_empty()
                && rows.windows(2).all(|two| two[0]["kept_apart"].as_u64() >= two[1]["kept_apart"].as_u64())
        );
        for row in rows {
            assert_eq!(figure(&row["joined"]), figure(&row["before"]) + figure(&row["bytes"]) + figure(&row["behind"]));
            assert!(figure(&row["born"]) < figure(&peak["events"]), "it is there at the peak");
            assert!(row["died"].as_u64().is_none_or(|died| died >= figure(&peak["events"])), "and not gone yet");
        }
    }
}

#[test]
fn real_replays_have_lines_too() {
    let folder = TempDir::new().unwrap();
    let output = folder.path().join("real.html");
    heapwright().args(["report", "-p", "best", "-o"]).arg(&output).arg(torn(&folder)).assert().success();
    let data = data(&fs::read_to_string(output).unwrap());
    let real = data["real"].as_array().unwrap();
    let named = |name: &str| real.iter().find(|row| row["allocator"] == name);
    let [system, best] = ["system", "best"].map(|name| &named(name).unwrap()["figures"]);
    assert!(named("first").is_none() && named("mapped").is_none() && named("no-op").is_none());
    for figures in [system, best] {
        let most = figures["line"]["max"].as_array().unwrap().iter().filter_map(Value::as_u64).max();
        assert_eq!(most, figures["peak_rss"].as_u64());
        assert!(most > data["trace"]["peak_requested"].as_u64().map(|bytes| bytes / 2));
    }
}

#[test]
fn pictures_for_papers_are_sound() {
    let folder = TempDir::new().unwrap();
    let plots = folder.path().join("plots");
    page(&torn(&folder), &["-p", "best", "--svg", plots.to_str().unwrap()]);
    let mut names = Vec::new();
    for file in fs::read_dir(&plots).unwrap().map(Result::unwrap) {
        let text = fs::read_to_string(file.path()).unwrap();
        let picture = roxmltree::Document::parse(&text).unwrap();
        let said: Vec<&str> =
            picture.descendants().filter(|node| node.is_text()).filter_map(|node| node.text()).collect();
        assert!(said.iter().any(|text| text.contains("</script><b>torn</b>")), "the title is text");
        assert!(picture.descendants().any(|node| matches!(node.tag_name().name(), "path" | "image" | "rect")));
        assert!(said.len() > 6, "axes have marks: {said:?}");
        names.push(file.file_name().into_string().unwrap());
    }
    names.sort();
    let expected =
        ["heap", "hole-sizes-best", "holes", "lifetimes-in-bytes", "lifetimes", "map-best", "sizes-in-bytes", "sizes"];
    assert_eq!(names, expected.map(|name| format!("{name}.svg")));
}

#[test]
fn a_program_is_recorded_first() {
    let folder = TempDir::new().unwrap();
    let ls = ["report", "--no-real", "-p", "best", "--", "ls", "-l", "/"];
    heapwright().args(ls).current_dir(&folder).assert().success();
    let data = data(&fs::read_to_string(folder.path().join("ls.html")).unwrap());
    assert_eq!(data["title"], "ls");
    assert!(data["trace"]["events"].as_u64().is_some_and(|events| events > 100));
    assert_eq!(fs::read_dir(&folder).unwrap().count(), 1, "the trace is not kept");
    heapwright().args(["report", "a.hwt", "--", "ls"]).assert().code(2);
    heapwright().arg("report").assert().code(2);
}

#[test]
fn what_cannot_be_read_or_written_is_an_error() {
    let folder = TempDir::new().unwrap();
    let missing = heapwright().arg("report").arg(folder.path().join("none.hwt")).assert().code(1);
    assert!(String::from_utf8_lossy(&missing.get_output().stderr).contains("none.hwt"));
    let nowhere = folder.path().join("no/folder.html");
    let unwritten = heapwright().arg("report").arg(torn(&folder)).arg("-o").arg(nowhere).assert().code(1);
    assert!(String::from_utf8_lossy(&unwritten.get_output().stderr).contains("folder.html"));
}

#[test]
fn a_trace_of_nothing_has_a_page_too() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("empty.hwt");
    Writer::new(File::create(&path).unwrap(), &About::default()).unwrap().finish().unwrap();
    let data = data(&page(&path, &[]));
    assert_eq!((&data["title"], &data["trace"]["events"]), (&"empty.hwt".into(), &0.into()));
    assert_eq!(data["policies"][0]["at_peak"], Value::Null);
}
