//! What README and the pages of docs say is run, and what they show is what is printed.
//!
//! A block of commands has a comment above it that says how it is run; without one the test fails:
//!
//! - `<!-- run -->`: every command exits with 0.
//! - `<!-- run: output is the same everywhere -->`: what is printed is what the page shows below `$ COMMAND`.
//! - `<!-- run: figures vary -->`: the same words, whatever figures, units and marks (`*`, `~`).
//! - `<!-- run: headings are the same -->`: the headings of the tables that the page shows are printed.
//! - `<!-- not run: REASON -->`: only names of subcommands and options are checked, as in every other command line.
//!
//! Further items, after semicolons: `exit code N` (of the last command); `needs PROGRAM, PROGRAM` (passed over where
//! one is missing); `in the same folder` as the block before; `` `A` is `B` `` (B is run where the page shows A, to
//! make it short). A line `…` in what a page shows stands for any lines.
//!
//! `HEAPWRIGHT_PAGE=search` runs only the pages whose path contains that.
//!
//! `HEAPWRIGHT_BLESS=1 cargo test -p heapwright-lab --test documents` writes what is printed into the pages, in blocks
//! that are the same everywhere. Blocks run in fresh folders: see `place.rs` of the crate `documents` for
//! what is there.

mod common;

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use common::heapwright;
use heapwright_documents::marker::{Check, Folder, Marker, Run};
use heapwright_documents::options::Helps;
use heapwright_documents::page::{Block, Page, Shown, pages, root};
use heapwright_documents::place::{Outcome, Place, is_here};
use heapwright_documents::shown::{blessed, difference, shape};

/// A block that is to be run, and what came of it.
struct Job<'a> {
    page: &'a Page,
    blocks: Vec<(&'a Block, Run)>,
}

/// New lines for those from one index of a page to another.
type Rewriting = (String, usize, usize, Vec<String>);

#[derive(Default)]
struct Findings {
    complaints: Vec<String>,
    rewritings: Vec<Rewriting>,
    passed_over: Vec<String>,
}

#[test]
fn commands_work_as_documented() {
    let pages = pages();
    let (jobs, mut complaints) = jobs(&pages);
    let (next, findings) = (AtomicUsize::new(0), Mutex::new(Findings::default()));
    std::thread::scope(|scope| {
        for _ in 0..std::thread::available_parallelism().map_or(1, usize::from) {
            scope.spawn(|| {
                while let Some(job) = jobs.get(next.fetch_add(1, Ordering::Relaxed)) {
                    job.run(&findings);
                }
            });
        }
    });
    let findings = findings.into_inner().unwrap();
    for line in &findings.passed_over {
        eprintln!("{line}");
    }
    if std::env::var_os("HEAPWRIGHT_BLESS").is_some() {
        rewrite(findings.rewritings);
    }
    complaints.extend(findings.complaints);
    assert!(complaints.is_empty(), "{} complaints:\n{}", complaints.len(), complaints.join("\n"));
}

/// The blocks to run, those that share a folder together; and what is wrong with markers.
fn jobs(pages: &[Page]) -> (Vec<Job<'_>>, Vec<String>) {
    let (mut jobs, mut complaints): (Vec<Job>, Vec<String>) = (Vec::new(), Vec::new());
    let only = std::env::var("HEAPWRIGHT_PAGE").unwrap_or_default();
    for page in pages.iter().filter(|page| page.name.contains(&only)) {
        for line in &page.stray {
            complaints.push(format!("{}:{line}: a marker without a block below it", page.name));
        }
        for block in &page.blocks {
            let marker = block.marker.as_deref().and_then(Marker::parsed);
            match marker {
                None if block.is_typed() => complaints.push(format!(
                    "{}:{}: a block of commands without `<!-- run ... -->` or `<!-- not run: REASON -->` above it",
                    page.name,
                    block.line()
                )),
                None | Some(Ok(Marker::NotRun(_))) => {}
                Some(Err(what)) => complaints.push(format!("{}:{}: {what}", page.name, block.line())),
                Some(Ok(Marker::Run(run))) => match jobs.last_mut() {
                    Some(job) if run.folder == Folder::Same && job.page.name == page.name => {
                        job.blocks.push((block, run))
                    }
                    _ => jobs.push(Job { page, blocks: vec![(block, run)] }),
                },
            }
        }
    }
    (jobs, complaints)
}

impl Job<'_> {
    fn run(&self, findings: &Mutex<Findings>) {
        let place = Place::of(&heapwright);
        for (block, run) in &self.blocks {
            if let Some(missing) = run.needs.iter().find(|program| !is_here(program)) {
                let line = format!("{}:{}: passed over, there is no `{missing}` here", self.page.name, block.line());
                findings.lock().unwrap().passed_over.push(line);
                continue;
            }
            let shown = block.commands();
            let typed: Vec<String> = shown.iter().map(|shown| exchanged(&shown.command, run)).collect();
            let outcomes = place.run(&typed);
            let mut findings = findings.lock().unwrap();
            for (number, shown) in shown.iter().enumerate() {
                let expected = if number + 1 == typed.len() { run.code } else { 0 };
                match outcomes.get(number) {
                    None => findings.complaints.push(self.complaint(block, shown, &typed[number], "was not come to\n")),
                    Some(outcome) => self.judge(block, run, shown, &typed[number], expected, outcome, &mut findings),
                }
            }
        }
    }

    #[allow(clippy::too_many_arguments, reason = "one command, what was expected and what came of it")]
    fn judge(
        &self,
        block: &Block,
        run: &Run,
        shown: &Shown,
        typed: &str,
        expected: i32,
        outcome: &Outcome,
        findings: &mut Findings,
    ) {
        if outcome.code != Some(expected) {
            let what = format!("exit code {:?}, expected {expected}; it prints\n{}", outcome.code, outcome.printed);
            findings.complaints.push(self.complaint(block, shown, typed, &what));
        } else if let Some(what) = difference(&shown.output, &outcome.printed, run.check) {
            findings.complaints.push(self.complaint(block, shown, typed, &what));
            let lines = (run.check == Check::Exact).then(|| blessed(&shown.output, &outcome.printed)).flatten();
            if let Some(lines) = lines {
                let first = block.first + shown.end - shown.output.len();
                let blank = shown.output.iter().rev().take_while(|line| line.trim().is_empty()).count();
                let indent = " ".repeat(block.indent);
                let lines = lines.iter().map(|line| format!("{indent}{line}").trim_end().to_owned()).collect();
                findings.rewritings.push((self.page.name.clone(), first, block.first + shown.end - blank, lines));
            }
        }
    }

    fn complaint(&self, block: &Block, shown: &Shown, typed: &str, what: &str) -> String {
        format!("{}:{}: {typed}\n{what}", self.page.name, block.line() + shown.at)
    }
}

/// The command with what the marker says is run in place of what is shown.
fn exchanged(command: &str, run: &Run) -> String {
    run.exchanged.iter().fold(command.to_owned(), |command, (shown, run)| {
        assert!(command.contains(shown) || run.is_empty(), "`{shown}` of a marker is not in `{command}`");
        command.replace(shown, run)
    })
}

fn rewrite(mut rewritings: Vec<Rewriting>) {
    // From the ends of pages to their beginnings, so that what is written does not move what is still to be written.
    rewritings.sort_by(|one, other| (&other.0, other.1).cmp(&(&one.0, one.1)));
    let mut texts: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for (name, first, end, lines) in rewritings {
        let read = || fs::read_to_string(root().join(&name)).unwrap().lines().map(str::to_owned).collect();
        texts.entry(name.clone()).or_insert_with(read).splice(first..end, lines);
    }
    for (name, lines) in texts {
        fs::write(root().join(&name), lines.join("\n") + "\n").unwrap();
    }
}

#[test]
fn every_subcommand_and_option_exists() {
    let (mut helps, mut complaints) = (Helps::of(&heapwright), Vec::new());
    for page in pages() {
        for block in page.blocks.iter().filter(|block| block.is_typed() || block.marker.is_some()) {
            for (at, line) in block.code.join("\n").replace("\\\n", "  ").lines().enumerate() {
                for wrong in helps.unknown(line.strip_prefix("$ ").unwrap_or(line)) {
                    complaints.push(format!("{}:{}: {wrong}", page.name, block.line() + at));
                }
            }
        }
        for inline in &page.inline {
            let mut wrong = helps.unknown(&inline.code);
            let option = inline.code.split([' ', '=']).next().unwrap_or_default();
            if option.starts_with("--") && option.len() > 2 && !helps.somewhere(option) {
                wrong.push(format!("no subcommand has an option `{option}`"));
            }
            complaints.extend(wrong.iter().map(|wrong| format!("{}:{}: {wrong}", page.name, inline.line)));
        }
    }
    assert!(complaints.is_empty(), "{}", complaints.join("\n"));
}

/// Blocks of Rust are run by rustdoc, where a page is included, and those of C by the tests of the C API.
#[test]
fn other_languages_are_tested_where_they_are_compiled() {
    let root = root();
    let read = |name: &str| fs::read_to_string(root.join(name)).unwrap();
    let (library, capi) = (read("crates/heapwright/src/lib.rs"), read("crates/capi/tests/compiled.rs"));
    for page in pages() {
        let has = |language: &str| page.blocks.iter().any(|block| block.language == language);
        assert!(!has("rust") || library.contains(&page.name), "rustdoc does not see {}", page.name);
        assert!(!has("c") || capi.contains(&page.name), "{} is not compiled", page.name);
    }
}

#[test]
fn packages_tests_and_files_that_pages_name_exist() {
    let root = root();
    let mut complaints = Vec::new();
    for page in pages() {
        let here = root.join(&page.name);
        for (at, line) in page.lines.iter().enumerate() {
            let mut complain = |what: String| complaints.push(format!("{}:{}: {what}", page.name, at + 1));
            for link in line.split("](").skip(1).filter_map(|rest| rest.split_once(')')) {
                let path = link.0.split('#').next().unwrap_or_default();
                if !link.0.contains("://") && !path.is_empty() && !here.parent().unwrap().join(path).exists() {
                    complain(format!("there is no {path} to link to"));
                }
            }
            let words: Vec<&str> = line.split([' ', '`', '(', ')', '|']).filter(|word| !word.is_empty()).collect();
            for path in words.iter().filter(|word| word.starts_with("crates/") || word.starts_with(".ci/")) {
                let path = path.trim_end_matches(['.', ',', ';', ':']);
                if !path.contains(['*', '_']) && !root.join(path).exists() {
                    complain(format!("there is no {path}"));
                }
            }
            if let Some(cargo) = words.iter().position(|word| *word == "cargo") {
                let value = |names: [&str; 2]| {
                    words[cargo..].windows(2).find(|pair| names.contains(&pair[0])).map(|pair| pair[1])
                };
                let package = value(["-p", "--package"]).unwrap_or("heapwright-lab");
                let folder = root.join("crates").join(package.strip_prefix("heapwright-").unwrap_or(package));
                if !folder.join("Cargo.toml").exists() {
                    complain(format!("there is no package {package}"));
                }
                for (option, under) in [("--test", "tests"), ("--example", "examples")] {
                    let Some(name) = value([option, option]) else { continue };
                    let files = [format!("{under}/{name}.rs"), format!("{under}/{name}/main.rs")];
                    if !files.iter().any(|file| folder.join(file).exists()) {
                        complain(format!("{package} has no `{option} {name}`"));
                    }
                }
            }
        }
    }
    assert!(complaints.is_empty(), "{}", complaints.join("\n"));
}

#[test]
fn environment_variables_that_pages_name_exist() {
    let sources = sources(&root().join("crates"));
    let mut complaints = Vec::new();
    for page in pages() {
        for (at, line) in page.lines.iter().enumerate() {
            for found in line.split("HEAPWRIGHT_").skip(1) {
                let end =
                    found.find(|letter: char| !letter.is_ascii_uppercase() && letter != '_').unwrap_or(found.len());
                let name = format!("HEAPWRIGHT_{}", &found[..end]);
                if !sources.contains(&format!("\"{name}")) {
                    complaints.push(format!("{}:{}: no source reads {name}", page.name, at + 1));
                }
            }
        }
    }
    assert!(complaints.is_empty(), "{}", complaints.join("\n"));
}

/// The text of all Rust sources below a folder, but those of tests.
fn sources(folder: &Path) -> String {
    let mut text = String::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() && !path.ends_with("tests") {
            text += &sources(&path);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            text += &fs::read_to_string(&path).unwrap();
        }
    }
    text
}

#[test]
fn a_figure_that_changed_is_noticed() {
    let lines = |text: &str| text.lines().map(str::to_owned).collect::<Vec<_>>();
    let shown = lines(" policy   region\n────────────────\n first      2,293\n");
    let printed = " policy   region\n────────────────\n first      2,294\n";
    let differs = |shown: &[String], check| difference(shown, printed, check).is_some();
    assert!(differs(&shown, Check::Exact) && !differs(&shown, Check::Shape));
    assert!(!differs(&lines("…\n first      2,294"), Check::Exact));
    assert!(differs(&lines("…\n first      2,293"), Check::Exact));
    assert!(differs(&lines(" policy   length\n───\n first   2,294"), Check::Headings));
    assert!(differs(&lines("a policy   region\n───\n first   2,294"), Check::Shape));
    assert_eq!(shape("mimalloc  13.8 ms~ 0.71x [0.70, 0.72]* 8.53 MiB"), "mimalloc # # [#, #] #");
    assert_eq!(shape("peak live   1.69 MiB, p50 at 0x7f80."), "peak live #, p50 at #.");
}
