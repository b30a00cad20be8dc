//! What blocks contain: of a live process, compared with what its program is known to put there.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use heapwright_inspect::peek::{Contents, Figures};
use heapwright_inspect::{Meanwhile, Wanted, picture_of};

/// A running program that waits; it is ended when this is dropped.
struct Shapes(Child);

impl Drop for Shapes {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn compiled(folder: &Path, options: &[&str]) -> PathBuf {
    let program = folder.join("shapes");
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/shapes.cpp");
    let mut compiler = Command::new("c++");
    assert!(compiler.args(["-O1", "-s", "-o"]).arg(&program).arg(source).args(options).status().unwrap().success());
    program
}

fn contents(options: &[&str], meanwhile: Meanwhile) -> Contents {
    let folder = tempfile::tempdir().unwrap();
    let mut command = Command::new(compiled(folder.path(), options));
    let mut child = Shapes(command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap());
    let mut line = String::new();
    BufReader::new(child.0.stdout.take().unwrap()).read_line(&mut line).unwrap();
    assert_eq!(line, "ready\n");
    picture_of(child.0.id(), meanwhile, Wanted::Contents).unwrap().contents.unwrap()
}

fn number(figures: &[Figures], name: &str) -> u64 {
    figures.iter().find(|one| one.name == name).map_or(0, |one| one.size.blocks)
}

#[test]
fn classes_and_texts_are_recognised_without_symbols() {
    for options in [&[][..], &["-no-pie"], &["-static"], &["-static-pie"]] {
        for meanwhile in [Meanwhile::Runs, Meanwhile::IsStopped] {
            let contents = contents(options, meanwhile);
            let case = format!("{options:?} {contents:#?}");
            assert_eq!(contents.looked_at, contents.blocks, "{case}");
            assert_eq!(number(&contents.kinds, "class shapes::Circle"), 1000, "{case}");
            assert_eq!(number(&contents.kinds, "class shapes::Box<double>"), 500, "{case}");
            assert_eq!(number(&contents.kinds, "class (anonymous namespace)::Hidden"), 300, "{case}");
            assert_eq!(number(&contents.texts, "customer 0 of this shop,"), 100, "{case}");
            assert_eq!(number(&contents.texts, "customer 1 of this shop,"), 100, "{case}");
            assert!(number(&contents.kinds, "zeroes") >= 100, "{case}");
            // Some of the C library begin with one, too.
            assert!((50..80).contains(&number(&contents.kinds, "first a pointer to a block")), "{case}");
            let long = contents.texts.iter().find(|text| text.name == "a long text in a mapping").unwrap();
            assert!(long.size.bytes >= 4 << 20, "{case}");
        }
    }
}

#[test]
fn nothing_is_looked_at_unless_asked_for() {
    let picture = picture_of(std::process::id(), Meanwhile::Runs, Wanted::Totals).unwrap();
    assert!(picture.contents.is_none());
    let json = serde_json::to_value(&picture).unwrap();
    assert!(json["contents"].is_null() && !json["rss"].is_null());
}
