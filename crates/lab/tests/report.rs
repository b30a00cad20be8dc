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
fn text_of_a_trace_is_escaped() {
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
fn the_page_is_self_contained() {
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
fn printed_tables_are_whole() {
    let folder = TempDir::new().unwrap();
    let page = page(&torn(&folder), &["-p", "first"]);
    let (screen, print) = page.split_once("@media print {").unwrap();
    // Tall tables scroll on a screen; paper does not scroll.
    assert!(screen.contains(".scroll.tall { max-height: 460px"));
    assert!(print.split_once("\n}").unwrap().0.contains(".scroll.tall { max-height: none; overflow: visible; }"));
}

/// A program whose requests come from ten places, and whose calls have times.
fn with_sites_and_times(folder: &TempDir) -> PathBuf {
    let path = folder.path().join("sites.hwt");
    let mut writer = Writer::new(File::create(&path).unwrap(), &About::of_program("sites")).unwrap();
    let sites: Vec<_> = (0..10).map(|at| writer.define_site(&["malloc", &format!("lib.so+{at}")]).unwrap()).collect();
    // Another way to the first place.
    let again = writer.define_site(&["lib.so+0"]).unwrap();
    let mut random = fastrand::Rng::with_seed(1);
    let mut live = Vec::new();
    for event in 0..4000 {
        writer.at(5_000_000 + 1000 * event);
        if random.u8(..10) < 6 || live.is_empty() {
            let at = random.usize(..11);
            sites.get(at).into_iter().chain([&again]).take(1).for_each(|&site| writer.from_site(site).unwrap());
            live.push(writer.allocate(Kind::Malloc, 100 * (11 - at as u64 % 10), 16).unwrap());
        } else {
            writer.free(live.swap_remove(random.usize(..live.len()))).unwrap();
        }
    }
    writer.name_frame("lib.so+0", "</script><b>first</b> a.c:1").unwrap();
    writer.finish().unwrap();
    path
}

#[test]
fn the_sites_with_most_live_bytes_are_distinguished() {
    let folder = TempDir::new().unwrap();
    let page =
        page(&with_sites_and_times(&folder), &["-p", "best", "--svg", folder.path().join("plots").to_str().unwrap()]);
    assert!(!page.contains("<b>first"));
    let data = data(&page);
    let rows = data["sites"]["rows"].as_array().unwrap();
    let names: Vec<&str> = rows.iter().filter_map(|row| row["name"].as_str()).collect();
    // What is asked for in less than the others has no colour.
    assert_eq!((names.len(), names[0], rows[0]["sites"].as_u64()), (8, "</script><b>first</b> a.c:1", Some(2)));
    assert!(!names.contains(&"lib.so+8") && !names.contains(&"lib.so+9"), "{names:?}");
    let others = &data["sites"]["others"];
    assert_eq!((others["name"].as_str(), others["sites"].as_u64()), (Some(""), Some(2)));
    let sum = |field: &str| {
        rows.iter().chain([others, &data["sites"]["unknown"]]).map(|held| held[field].as_f64().unwrap()).sum::<f64>()
    };
    let blocks = data["trace"]["blocks"].as_u64().unwrap();
    let asked: u64 = data["sizes"]["bytes"].as_array().unwrap().iter().filter_map(Value::as_u64).sum();
    assert_eq!((sum("blocks") as u64, sum("bytes") as u64), (blocks, asked));
    let requested = data["trace"]["requested"]["last"].as_array().unwrap();
    let mean = requested.iter().filter_map(Value::as_f64).sum::<f64>() / requested.len() as f64;
    assert!((sum("mean_bytes") / mean - 1.0).abs() < 0.01, "{mean}");
    assert_eq!(data["policies"][0]["map"]["layers"], serde_json::json!(["size", "age", "site"]));
    let picture = fs::read_to_string(folder.path().join("plots/map-sites-best.svg")).unwrap();
    let picture = roxmltree::Document::parse(&picture).unwrap();
    let texts = picture.descendants().filter(|node| node.is_text()).filter_map(|node| node.text());
    let said: Vec<&str> = texts.map(str::trim).collect();
    assert!(said.contains(&"</script><b>first</b> a.c:1") && said.contains(&"all others"), "{said:?}");
}

#[test]
fn without_sites_there_is_no_colouring_by_site() {
    let folder = TempDir::new().unwrap();
    let data = data(&page(&torn(&folder), &["-p", "best"]));
    assert_eq!((&data["sites"], &data["trace"]["clock"]), (&Value::Null, &Value::Null));
    assert_eq!(data["policies"][0]["map"]["layers"], serde_json::json!(["size", "age"]));
}

#[test]
fn blocks_that_pin_holes_are_those_that_fragment_the_heap() {
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
    let report = ["report", "-p", "best", "--rounds", "1", "-o"];
    heapwright().args(report).arg(&output).arg(torn(&folder)).assert().success();
    let data = data(&fs::read_to_string(output).unwrap());
    let real = data["real"]["rows"].as_array().unwrap();
    let named = |name: &str| real.iter().find(|row| row["allocator"] == name);
    let [system, best] = ["system", "best"].map(|name| &named(name).unwrap()["figures"]);
    assert!(named("first").is_none() && named("mapped").is_none() && named("no-op").is_none());
    for figures in [system, best] {
        let most = figures["line"]["max"].as_array().unwrap().iter().filter_map(Value::as_u64).max();
        assert_eq!(most.map(|most| most as f64), figures["peak_rss"].as_f64());
        assert!(most > data["trace"]["peak_requested"].as_u64().map(|bytes| bytes / 2));
        let parts = ["asked", "rounding", "holes", "kept"].map(|part| figures["parts"][part].as_f64().unwrap_or(0.0));
        assert_eq!(Some(parts.iter().sum()), figures["peak_rss"].as_f64(), "{parts:?}");
    }
    assert!(real.iter().all(|row| row["predicted"].is_null()), "this trace knows nothing of its program");
    // One round says nothing, and the page says so.
    assert_eq!((data["real"]["rounds"].as_u64(), &data["real"]["noise"]), (Some(1), &Value::Null));
    let recommendation = &data["real"]["recommendation"];
    assert_eq!(recommendation["verdict"], "unknown");
    assert!(recommendation["text"].as_str().unwrap().contains("so few rounds (1; it takes 6)"), "{recommendation}");
}

#[test]
fn a_recording_of_a_whole_program_has_predictions() {
    let folder = TempDir::new().unwrap();
    let output = folder.path().join("predicted.html");
    let trace = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../corpus/default.hwt");
    let report = ["report", "-p", "best", "--rounds", "1", "-o"];
    heapwright().args(report).arg(&output).arg(trace).assert().success();
    let data = data(&fs::read_to_string(output).unwrap());
    let rows = data["real"]["rows"].as_array().unwrap();
    let median = |name: &str, figure: &str| {
        let row = rows.iter().find(|row| row["allocator"] == name).unwrap();
        row["predicted"][figure]["median"].as_f64().unwrap()
    };
    assert_eq!((median("system", "time_over_system"), median("system", "peak_over_system")), (1.0, 1.0));
    assert!(median("best", "peak") > data["trace"]["peak_requested"].as_f64().unwrap());
    assert!(median("best", "seconds") > 0.0);
}

#[test]
fn enough_rounds_are_judged() {
    let folder = TempDir::new().unwrap();
    let output = folder.path().join("judged.html");
    let report = ["report", "-p", "best", "--rounds", "6", "-o"];
    heapwright().args(report).arg(&output).arg(torn(&folder)).assert().success();
    let real = &data(&fs::read_to_string(output).unwrap())["real"];
    assert!(real["rounds"] == 6 && real["noise"].as_f64().is_some_and(|noise| noise > 0.0), "{}", real["noise"]);
    assert!(!real["recommendation"]["text"].as_str().unwrap().contains("so few rounds"), "{real}");
    let interval = &real["rows"].as_array().unwrap().iter().find(|row| row["allocator"] == "best").unwrap()["figures"]
        ["time_over_system"]["interval"];
    assert!(interval[0].as_f64().unwrap() <= interval[1].as_f64().unwrap());
}

#[test]
fn the_recommendation_agrees_with_compare() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("large.hwt");
    let mut writer = Writer::new(File::create(&path).unwrap(), &About::of_program("large")).unwrap();
    // Holes that are too short for what comes later.
    let blocks: Vec<u64> = (0..4000).map(|_| writer.allocate(Kind::Malloc, 1000, 16).unwrap()).collect();
    blocks.iter().step_by(2).for_each(|&block| writer.free(block).unwrap());
    for _ in 0..1000 {
        writer.allocate(Kind::Malloc, 2000, 16).unwrap();
    }
    writer.finish().unwrap();
    let mut compare = heapwright();
    compare.args(["compare", "large.hwt", "--policies-only", "--json"]).current_dir(&folder);
    let compare = compare.assert().success();
    let compare: Value = serde_json::from_slice(&compare.get_output().stdout).unwrap();
    let real = &data(&page(&path, &["-p", "first", "-p", "best", "-p", "next", "-p", "worst"]))["real"];
    assert_eq!((&real["rounds"], &real["rows"]), (&0.into(), &serde_json::json!([])));
    assert_eq!(real["recommendation"], compare["recommendation"]);
    assert!(real["recommendation"]["text"].as_str().unwrap().contains("Every policy that was simulated is fragmented"));
}

#[test]
fn times_are_shown_where_recorded() {
    let folder = TempDir::new().unwrap();
    let plots = folder.path().join("plots");
    let data = data(&page(&with_sites_and_times(&folder), &["-p", "best", "--svg", plots.to_str().unwrap()]));
    let clock = &data["trace"]["clock"];
    let width = clock["width"].as_u64().unwrap();
    let ends: Vec<u64> = clock["ends"].as_array().unwrap().iter().filter_map(Value::as_u64).collect();
    assert_eq!((clock["start"].as_u64(), ends.last()), (Some(5_000_000), Some(&8_999_000)));
    let expected = (0..4000 / width).map(|at| 5_000_000 + 1000 * ((at + 1) * width - 1));
    assert!(ends.into_iter().eq(expected), "one bucket after the other");
    let picture = fs::read_to_string(plots.join("heap-by-time.svg")).unwrap();
    assert!(picture.contains("\n5 ms\n") && picture.contains("\n8 ms\n") && picture.contains("\ntime\n"));
    assert!(!fs::read_to_string(plots.join("heap.svg")).unwrap().contains(" ms\n"));
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
fn unreadable_and_unwritable_files_are_errors() {
    let folder = TempDir::new().unwrap();
    let missing = heapwright().arg("report").arg(folder.path().join("none.hwt")).assert().code(1);
    assert!(String::from_utf8_lossy(&missing.get_output().stderr).contains("none.hwt"));
    let nowhere = folder.path().join("no/folder.html");
    let unwritten = heapwright().arg("report").arg(torn(&folder)).arg("-o").arg(nowhere).assert().code(1);
    assert!(String::from_utf8_lossy(&unwritten.get_output().stderr).contains("folder.html"));
}

#[test]
fn an_empty_trace_has_a_page() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("empty.hwt");
    Writer::new(File::create(&path).unwrap(), &About::default()).unwrap().finish().unwrap();
    let data = data(&page(&path, &[]));
    assert_eq!((&data["title"], &data["trace"]["events"]), (&"empty.hwt".into(), &0.into()));
    assert_eq!(data["policies"][0]["at_peak"], Value::Null);
}

/// The long options that a text names.
fn options(text: &str) -> Vec<String> {
    let words = text.split(|letter: char| !(letter.is_ascii_alphanumeric() || letter == '-'));
    words.filter(|word| word.starts_with("--") && word.len() > 2).map(str::to_owned).collect()
}

/// The help of a command.
fn help(command: &str) -> String {
    String::from_utf8(heapwright().args([command, "--help"]).assert().success().get_output().stdout.clone()).unwrap()
}

#[test]
fn the_verdict_names_only_options_of_the_command_that_it_speaks_of() {
    let folder = TempDir::new().unwrap();
    let data = data(&page(&torn(&folder), &["-p", "first"]));
    let text = data["real"]["recommendation"]["text"].as_str().unwrap();
    // What stands between back-ticks are whole commands.
    for (at, part) in text.split('`').enumerate() {
        let command = if at % 2 == 1 { part.split(' ').nth(1).unwrap() } else { "report" };
        let known = options(&help(command));
        for option in options(part) {
            assert!(known.contains(&option), "{command} has no option {option}: {text}");
        }
    }
}
