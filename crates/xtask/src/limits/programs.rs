//! The programs: each has 50 MB or more live at its peak, and frees a part of what it allocated before.

use std::fmt::Write;
use std::fs;
use std::path::Path;

use anyhow::Result;

/// A program of the system with what it works on.
pub struct Program {
    /// Its name in the table.
    pub name: &'static str,
    /// The executables of that name, the first that exists is run, and its arguments.
    pub executables: &'static [&'static str],
    pub arguments: &'static [&'static str],
    /// The file that is its standard input, if any.
    pub input: Option<&'static str>,
    /// A variable, if it needs one to use malloc.
    pub variable: Option<&'static str>,
}

const PLAIN: Program = Program { name: "", executables: &[], arguments: &[], input: None, variable: None };

/// The programs.
pub const PROGRAMS: [Program; 8] = [
    Program {
        name: "python3",
        executables: &["/usr/bin/python3", "python3"],
        arguments: &["work.py"],
        variable: Some("PYTHONMALLOC=malloc"),
        ..PLAIN
    },
    Program { name: "sqlite3", executables: &["sqlite3"], arguments: &[":memory:"], input: Some("work.sql"), ..PLAIN },
    Program { name: "perl", executables: &["perl"], arguments: &["work.pl"], ..PLAIN },
    Program { name: "gawk", executables: &["gawk"], arguments: &["-f", "work.awk", "words.txt"], ..PLAIN },
    Program { name: "lua", executables: &["lua5.4", "lua"], arguments: &["work.lua"], ..PLAIN },
    Program { name: "ruby", executables: &["ruby"], arguments: &["work.rb"], ..PLAIN },
    Program { name: "jq", executables: &["jq"], arguments: &["map(.o.b)|length", "items.json"], ..PLAIN },
    Program {
        name: "xmllint",
        executables: &["xmllint"],
        arguments: &["--noout", "--xpath", "count(//item)", "items.xml"],
        ..PLAIN
    },
];

/// The scripts that the programs run.
const SCRIPTS: [(&str, &str); 6] = [
    ("work.py", include_str!("scripts/work.py")),
    ("work.sql", include_str!("scripts/work.sql")),
    ("work.pl", include_str!("scripts/work.pl")),
    ("work.awk", include_str!("scripts/work.awk")),
    ("work.lua", include_str!("scripts/work.lua")),
    ("work.rb", include_str!("scripts/work.rb")),
];

/// Writes the scripts and their data into a folder.
///
/// # Errors
/// When a file cannot be written.
pub fn write_inputs(folder: &Path) -> Result<()> {
    for (name, text) in SCRIPTS {
        fs::write(folder.join(name), text)?;
    }
    fs::write(folder.join("words.txt"), words())?;
    fs::write(folder.join("items.json"), json())?;
    fs::write(folder.join("items.xml"), xml())?;
    Ok(())
}

fn words() -> String {
    let mut random = fastrand::Rng::with_seed(7);
    let mut text = String::new();
    for number in 0..400_000 {
        let (key, length) = (random.u32(0..150_000), random.usize(0..80));
        let _ = writeln!(text, "key{key} value{number} {}", "y".repeat(length));
    }
    text
}

fn json() -> String {
    let item = |number: u32| {
        let (name, [a, b, c]) = (number * 7919 % 100_003, [3, 17, 91].map(|modulus| number % modulus));
        format!(
            r#"{{"id":{number},"name":"n{name}","tags":["t{a}","t{b}","t{c}"],"v":{number}.5,"o":{{"a":{number},"b":"{number}{number}"}}}}"#
        )
    };
    format!("[{}]", (0..60_000).map(item).collect::<Vec<_>>().join(","))
}

fn xml() -> String {
    let item = |number: usize| {
        let (kind, name, text) = (number % 17, number * 7919 % 100_003, "x".repeat(number % 60));
        format!("<item id=\"{number}\" k=\"{kind}\"><name>n{name}</name><v>{text}</v></item>\n")
    };
    format!("<r>{}</r>\n", (0..90_000).map(item).collect::<String>())
}
