//! The page of a report works in a real browser. Skipped where there is none: `CHROME` names one that is not in the
//! path.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use heapwright_trace::{About, Kind, Writer};
use serde_json::Value;
use sha2::{Digest, Sha256};
use tempfile::TempDir;

const LOOK: &str = include_str!("report_browser/look.js");

/// A page around the page, as wide as a phone where windows cannot be, that writes down what it is told.
const FRAME: &str = r#"<!doctype html><meta name="color-scheme" content="light dark"><body>
<iframe src="looked-at.html" width="WIDTH" height="900" style="border: 0"></iframe><script>
addEventListener("message", ({ data }) => document.body.appendChild(document.createElement("output")).append(data));
</script></body>"#;

/// A browser of the Chromium family.
fn browser() -> Option<PathBuf> {
    let named = env::var_os("CHROME").map(PathBuf::from);
    let in_path = || {
        let names = ["chromium", "chromium-browser", "google-chrome"];
        env::split_paths(&env::var_os("PATH")?)
            .flat_map(|folder| names.map(|name| folder.join(name)))
            .find(|at| at.exists())
    };
    let found = named.or_else(in_path);
    if found.is_none() {
        eprintln!("skipped: no browser; install chromium, or name one in CHROME");
    }
    found
}

/// A page, and a browser to look at it with.
struct Looking {
    browser: PathBuf,
    folder: TempDir,
    page: String,
}

/// What the browser was told of the person in front of it.
struct Screen {
    width: u32,
    dark: bool,
}

const DESK: Screen = Screen { width: 1200, dark: false };

impl Looking {
    fn at_a_report() -> Option<Looking> {
        Looking::at_a_report_of(&torn())
    }

    fn at_a_report_of(bytes: &[u8]) -> Option<Looking> {
        let browser = browser()?;
        let folder = TempDir::new().unwrap();
        let (trace, page) = (folder.path().join("torn.hwt"), folder.path().join("report.html"));
        fs::write(&trace, bytes).unwrap();
        let arguments = ["report", "--no-real", "-p", "first", "-p", "best", "-p", "worst", "-o"];
        let mut report = assert_cmd::Command::new(assert_cmd::cargo_bin!("heapwright"));
        report.args(arguments).arg(&page).arg(&trace).assert().success();
        Some(Looking { browser, page: fs::read_to_string(page).unwrap(), folder })
    }

    fn write(&self, name: &str, contents: &str) -> PathBuf {
        let path = self.folder.path().join(name);
        fs::write(&path, contents).unwrap();
        path
    }

    /// What the browser makes of a page, and what it had to say about it.
    fn open(&self, page: &Path, dark: bool) -> (String, Vec<String>) {
        let output = Command::new(&self.browser)
            .args(["--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--enable-logging=stderr"])
            .args(["--virtual-time-budget=20000", "--dump-dom", "--hide-scrollbars", "--window-size=1400,1000"])
            .arg(format!("--blink-settings=preferredColorScheme={}", if dark { 0 } else { 1 }))
            .arg(format!("--user-data-dir={}", self.folder.path().join("profile").display()))
            .arg(format!("file://{}", page.display()))
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        let console = said.lines().filter(|line| line.contains("CONSOLE")).map(str::to_owned).collect();
        (String::from_utf8(output.stdout).unwrap(), console)
    }

    /// What is seen by a script that uses the page, after `before` has run.
    fn look(&self, before: &str, screen: &Screen) -> Value {
        let script = format!("{before}\n{LOOK}");
        let hash = BASE64_STANDARD.encode(Sha256::digest(&script));
        let page = self.page.replacen("script-src '", &format!("script-src 'sha256-{hash}' '"), 1).replacen(
            "</body>",
            &format!("<script>{script}</script></body>"),
            1,
        );
        self.write("looked-at.html", &page);
        let around = self.write("around.html", &FRAME.replace("WIDTH", &screen.width.to_string()));
        let (dom, console) = self.open(&around, screen.dark);
        assert_eq!(console, Vec::<String>::new());
        let (_, seen) = dom.split_once("<output>").expect("the page becomes ready");
        let bytes = BASE64_STANDARD.decode(seen.split_once('<').unwrap().0).unwrap();
        let seen: Value = serde_json::from_slice(&bytes).unwrap();
        assert_eq!((&seen["errors"], &seen["violations"]), (&Value::Array(vec![]), &Value::Array(vec![])));
        seen
    }
}

/// A program with a hostile name and a torn heap, of which all is known.
fn torn() -> Vec<u8> {
    let about = About::of_program("</script><b>torn</b>");
    let mut writer = Writer::new(Vec::new(), &about).unwrap();
    let sites = ["<b>torn</b> ← main", "other"].map(|frame| writer.define_site(&[frame, "outside"]).unwrap());
    let mut random = fastrand::Rng::with_seed(1);
    let mut live = Vec::new();
    for event in 0..20_000_u64 {
        // Nine tenths of the calls come in the first second of ten.
        writer.at(if event < 18_000 { event * 55_555 } else { 1_000_000_000 + (event - 18_000) * 4_500_000 });
        if random.u8(..10) < 6 || live.is_empty() {
            writer.from_site(sites[random.usize(..2)]).unwrap();
            live.push(writer.allocate(Kind::Malloc, random.u64(1..2000), 16).unwrap());
        } else {
            writer.free(live.swap_remove(random.usize(..live.len()))).unwrap();
        }
    }
    writer.finish().unwrap()
}

fn numbers(list: &Value) -> Vec<u64> {
    list.as_array().unwrap().iter().filter_map(Value::as_u64).collect()
}

#[test]
fn the_page_runs_without_console_messages() {
    let Some(looking) = Looking::at_a_report() else { return };
    let (dom, console) = looking.open(&looking.write("as-it-is.html", &looking.page), false);
    assert!(dom.contains("data-ready") && console.is_empty(), "{console:?}");
}

#[test]
fn the_page_of_two_recordings_runs_without_console_messages() {
    let Some(looking) = Looking::at_a_report() else { return };
    let (before, after, page) = (looking.write("a.hwt", ""), looking.folder.path().join("torn.hwt"), "diff.html");
    fs::write(&before, recording_of("old")).unwrap();
    let mut diff = assert_cmd::Command::new(assert_cmd::cargo_bin!("heapwright"));
    diff.arg("diff").args([&before, &after]).arg("-o").arg(looking.folder.path().join(page)).assert().success();
    let (dom, console) = looking.open(&looking.folder.path().join(page), false);
    assert!(dom.contains("data-ready") && console.is_empty(), "{console:?}");
    assert!(dom.contains("aria-label=\"old: 1.00 KiB → 0 B, −1.00 KiB, gone\""));
    assert!(dom.contains("&lt;b&gt;torn&lt;/b&gt; ← main: 0 B → "), "what is new has no markup of its own");
}

/// A trace in which a function requests 1 KiB.
fn recording_of(function: &str) -> Vec<u8> {
    let mut writer = Writer::new(Vec::new(), &About::default()).unwrap();
    let site = writer.define_site(&[function]).unwrap();
    writer.from_site(site).unwrap();
    writer.allocate(Kind::Malloc, 1024, 16).unwrap();
    writer.finish().unwrap()
}

#[test]
fn nearly_empty_traces_have_pages_that_run() {
    let empty = Writer::new(Vec::new(), &About::default()).unwrap();
    let mut one = Writer::new(Vec::new(), &About::default()).unwrap();
    one.allocate(Kind::Malloc, 0, 16).unwrap();
    for (writer, said) in [(empty, "This trace holds no events."), (one, "At most")] {
        let Some(looking) = Looking::at_a_report_of(&writer.finish().unwrap()) else { return };
        let (dom, console) = looking.open(&looking.write("as-it-is.html", &looking.page), false);
        assert!(dom.contains("data-ready") && dom.contains(said) && console.is_empty(), "{console:?}");
    }
}

#[test]
fn everything_is_drawn_and_answers() {
    let Some(looking) = Looking::at_a_report() else { return };
    let seen = looking.look("", &DESK);
    assert_eq!(seen["title"], "</script><b>torn</b>");
    assert_eq!(seen["injected"], Value::Array(vec![]));
    // Three plots, the map, and a small map per policy; one histogram per policy, and four of blocks.
    assert_eq!(numbers(&seen["canvases"]).len(), 7);
    assert!(numbers(&seen["canvases"]).iter().all(|&colours| colours > 8), "{}", seen["canvases"]);
    assert_eq!(numbers(&seen["bars"]).len(), 7);
    assert!(numbers(&seen["bars"]).iter().all(|&bars| bars > 2), "{}", seen["bars"]);
    let [ascending, descending] = [0, 1].map(|at| seen["orders"][at].as_array().unwrap().clone());
    assert_eq!(ascending.last().unwrap(), "worst");
    assert!(ascending.iter().rev().eq(&descending));
    assert_eq!(seen["sorted"], serde_json::json!(["descending"]));
    let both = serde_json::json!([true, true]);
    assert_eq!((&seen["zoomed"], &seen["back"]), (&both, &both));
    assert!(seen["readout"].as_str().unwrap().contains("event"));
    assert_eq!(seen["toggled"], true);
    assert_eq!(seen["axes"], serde_json::json!([["false", "true"], ["false", "true"]]));
    assert_eq!((&seen["timed"], &seen["untimed"]), (&both, &both));
    let readout = seen["timedReadout"].as_str().unwrap();
    assert!(readout.starts_with("event 18,8") && readout.contains(" s"), "{readout}");
    assert_eq!(seen["colourings"], serde_json::json!(["size", "age", "site"]));
    assert_eq!(seen["recoloured"], both);
    assert_eq!(seen["sites"], serde_json::json!(["other ← outside", "<b>torn</b> ← main ← outside"]));
    assert_eq!(seen["unnamed"], 0);
    parts_are_drawn(&seen);
    flames_are_drawn(&seen);
    moments_are_chosen(&seen);
}

/// A bar for each policy; the longest is as wide as there is room.
fn parts_are_drawn(seen: &Value) {
    let parts: Vec<&str> = seen["parts"].as_array().unwrap().iter().filter_map(Value::as_str).collect();
    assert_eq!(parts.len(), 3);
    assert!(parts[0].starts_with("first, ") && parts[0].contains(" asked for, ") && parts[0].contains(" holes"));
    let widths = seen["partWidths"].as_array().unwrap().iter().map(|bar| numbers(bar).iter().sum::<u64>());
    assert!((98..=102).contains(&widths.max().unwrap()), "{}", seen["partWidths"]);
    assert_eq!(seen["nextStep"], serde_json::json!(["heapwright compare torn.hwt"]));
    assert_eq!(seen["badges"], serde_json::json!([]), "nothing was measured");
}

/// A click on a plot over time changes what the icicle shows.
fn moments_are_chosen(seen: &Value) {
    let moments: Vec<&str> = seen["moments"].as_array().unwrap().iter().filter_map(Value::as_str).collect();
    assert!(moments[0].starts_with("Held at the peak, after event "), "{moments:?}");
    assert!(moments[1].starts_with("Held after event 209, "), "{moments:?}");
    assert!(moments[2].contains("after event 20,000, "), "{moments:?}");
    assert!(moments[3].contains(" in the whole recording: "), "another measure than what is held: {moments:?}");
    assert_ne!(seen["firstFlames"], seen["flames"], "shares differ");
    assert_eq!(seen["peakFlames"], seen["flames"]);
}

/// The icicle of two functions that a third one calls.
fn flames_are_drawn(seen: &Value) {
    let names = |parts: &Value| -> Vec<String> {
        let names = parts.as_array().unwrap().iter().map(|part| part[0].as_str().unwrap().to_owned());
        names.collect()
    };
    let mut outside = names(&seen["flames"]);
    assert_eq!(outside[..2], ["all", "outside"]);
    outside[2..].sort();
    assert_eq!(outside[2..], ["<b>torn</b> ← main", "other"]);
    assert_eq!(names(&seen["fromInside"]).iter().filter(|name| *name == "outside").count(), 2);
    assert!(seen["zoomedFlames"].as_u64() >= Some(3), "{}", seen["zoomedFlames"]);
    assert_eq!(seen["allFlames"], 5);
    assert_eq!(seen["found"][0], serde_json::json!(["other"]));
    assert!(seen["found"][1].as_str().unwrap().starts_with("“other” is in 1 stack part with "), "{}", seen["found"]);
    assert_eq!(seen["byMeasure"][0].as_array().unwrap().len(), 2);
    assert_eq!(seen["drawnFlames"], true);
}

#[test]
fn it_has_a_dark_mode_and_fits_a_phone() {
    let Some(looking) = Looking::at_a_report() else { return };
    let phone = looking.look("", &Screen { width: 360, dark: true });
    assert_eq!((&phone["window"], &phone["width"]), (&360.into(), &360.into()));
    assert_eq!(phone["papers"], serde_json::json!(["rgb(19, 21, 25)", "rgb(250, 249, 246)"]));
}

#[test]
fn without_its_unpacker_the_rest_is_there() {
    let Some(looking) = Looking::at_a_report() else { return };
    let seen = looking.look("delete globalThis.DecompressionStream;", &DESK);
    assert_eq!(seen["fallback"].as_array().unwrap().len(), 1);
    assert_eq!(numbers(&seen["canvases"]).len(), 3);
}
