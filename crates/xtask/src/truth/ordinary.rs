//! Real programs of Debian, with inputs that are files of this crate or made from them.

use super::programs::{Executable, Group, Program};

const PLAIN: Program = Program {
    name: "",
    about: "",
    group: Group::Real,
    executable: Executable::Compiled(""),
    arguments: &[],
    settings: &[],
    files: &[],
    prepare: "",
};

const PYTHON: Executable = Executable::Installed("python3", "python3");

/// Without Python's own allocator, and with the same order of dictionaries each time.
const PYTHON_MALLOC: &[(&str, &str)] = &[("PYTHONMALLOC", "malloc"), ("PYTHONHASHSEED", "1")];

/// As users run it: small objects come from Python's own allocator.
const PYTHON_USUAL: &[(&str, &str)] = &[("PYTHONHASHSEED", "1")];

/// A file of the folder `inputs`, with its name.
macro_rules! input {
    ($name:literal) => {
        ($name, include_str!(concat!("inputs/", $name)))
    };
}

/// The programs.
pub const ORDINARY: [Program; 20] = [
    Program {
        name: "python-json",
        about: "Python without its own allocator: JSON written and read",
        executable: PYTHON,
        arguments: &["-s", "-B", "records.py"],
        settings: PYTHON_MALLOC,
        files: &[input!("records.py")],
        ..PLAIN
    },
    Program {
        name: "python-dicts",
        about: "Python with its own allocator: large dictionaries",
        executable: PYTHON,
        arguments: &["-s", "-B", "dicts.py"],
        settings: PYTHON_USUAL,
        files: &[input!("dicts.py")],
        ..PLAIN
    },
    Program {
        name: "python-threads",
        about: "Python without its own allocator: four threads that compress",
        executable: PYTHON,
        arguments: &["-s", "-B", "threads.py"],
        settings: PYTHON_MALLOC,
        files: &[input!("threads.py")],
        ..PLAIN
    },
    Program {
        name: "perl",
        about: "Perl: hashes, lists, strings",
        executable: Executable::Installed("perl", "perl"),
        arguments: &["words.pl"],
        settings: &[("PERL_HASH_SEED", "1")],
        files: &[input!("words.pl")],
        ..PLAIN
    },
    Program {
        name: "ruby",
        about: "Ruby: hashes and strings",
        executable: Executable::Installed("ruby", "ruby"),
        arguments: &["--disable-gems", "words.rb"],
        files: &[input!("words.rb")],
        ..PLAIN
    },
    Program {
        name: "php",
        about: "PHP without its own allocator: arrays and strings",
        executable: Executable::Installed("php", "php-cli"),
        arguments: &["-n", "words.php"],
        settings: &[("USE_ZEND_ALLOC", "0")],
        files: &[input!("words.php")],
        ..PLAIN
    },
    Program {
        name: "gawk",
        about: "awk: where each word of a text is",
        executable: Executable::Installed("gawk", "gawk"),
        arguments: &["-f", "words.awk", "text"],
        files: &[input!("words.awk"), input!("text.awk")],
        prepare: "awk -v lines=15000 -f text.awk > text",
        ..PLAIN
    },
    Program {
        name: "lua",
        about: "Lua: tables and strings",
        executable: Executable::Installed("lua5.4", "lua5.4"),
        arguments: &["words.lua"],
        files: &[input!("words.lua")],
        ..PLAIN
    },
    Program {
        name: "sqlite3",
        about: "SQLite: a table in memory, indexed, grouped, changed",
        executable: Executable::Installed("sqlite3", "sqlite3"),
        arguments: &[":memory:", ".read table.sql"],
        files: &[input!("table.sql")],
        ..PLAIN
    },
    Program {
        name: "cc1plus",
        about: "the C++ compiler proper, -O1: containers and templates",
        executable: Executable::CompilerProper,
        arguments: &["-quiet", "-fpreprocessed", "-O1", "-std=c++17", "containers.ii", "-o", "/dev/null"],
        files: &[input!("containers.cc")],
        prepare: "g++ -std=c++17 -E -o containers.ii containers.cc",
        ..PLAIN
    },
    Program {
        name: "gs",
        about: "Ghostscript: pages of text as pictures",
        executable: Executable::Installed("gs", "ghostscript"),
        arguments: &["-q", "-dNOPAUSE", "-dBATCH", "-sDEVICE=png16m", "-r60", "-sOutputFile=/dev/null", "pages.ps"],
        files: &[input!("pages.ps")],
        ..PLAIN
    },
    Program {
        name: "pdftotext",
        about: "poppler: the text of a PDF file",
        executable: Executable::Installed("pdftotext", "poppler-utils"),
        arguments: &["-layout", "pages.pdf", "/dev/null"],
        files: &[input!("pages.ps")],
        prepare: "gs -q -dNOPAUSE -dBATCH -sDEVICE=pdfwrite -sOutputFile=pages.pdf pages.ps pages.ps pages.ps",
        ..PLAIN
    },
    Program {
        name: "dot",
        about: "Graphviz: the layout of a graph",
        executable: Executable::Installed("dot", "graphviz"),
        arguments: &["-Tsvg", "-o", "/dev/null", "graph.dot"],
        files: &[input!("graph.awk")],
        prepare: "awk -f graph.awk > graph.dot",
        ..PLAIN
    },
    Program {
        name: "git-log",
        about: "git: every change of a history",
        executable: Executable::Installed("git", "git"),
        arguments: &["-C", "history", "--no-pager", "log", "-p", "--stat"],
        settings: &[("GIT_CONFIG_NOSYSTEM", "1"), ("GIT_CONFIG_GLOBAL", "/dev/null")],
        files: &[input!("history.awk")],
        prepare: "git init -q -b main history; awk -f history.awk | git -C history fast-import --quiet",
        ..PLAIN
    },
    Program {
        name: "jq",
        about: "jq: 2 MB of JSON, grouped",
        executable: Executable::Installed("jq", "jq"),
        arguments: &["group_by(.tags[0]) | map(length)", "items.json"],
        files: &[input!("items.awk")],
        prepare: "awk -v items=14000 -v form=json -f items.awk > items.json",
        ..PLAIN
    },
    Program {
        name: "xmllint",
        about: "libxml2: a tree of 1 MB of XML, searched",
        executable: Executable::Installed("xmllint", "libxml2-utils"),
        arguments: &["--xpath", "count(//item[tag/@n = 3])", "items.xml"],
        files: &[input!("items.awk")],
        prepare: "awk -v items=12000 -v form=xml -f items.awk > items.xml",
        ..PLAIN
    },
    Program {
        name: "z3",
        about: "a solver: the factors of a number, out of its bits",
        executable: Executable::Installed("z3", "z3"),
        arguments: &["factors.smt2"],
        files: &[input!("factors.smt2")],
        ..PLAIN
    },
    Program {
        name: "sort",
        about: "sort with two threads; hardly any calls",
        executable: Executable::Installed("sort", "coreutils"),
        arguments: &["--parallel=2", "-S", "64M", "-k3", "-o", "/dev/null", "text"],
        settings: &[("LC_ALL", "C")],
        files: &[input!("text.awk")],
        prepare: "awk -v lines=200000 -f text.awk > text",
        ..PLAIN
    },
    Program {
        name: "xz",
        about: "xz with two threads; a few long blocks",
        executable: Executable::Installed("xz", "xz-utils"),
        arguments: &["-T2", "-1", "--block-size=256KiB", "-k", "-c", "text"],
        files: &[input!("text.awk")],
        prepare: "awk -v lines=20000 -f text.awk > text",
        ..PLAIN
    },
    Program {
        name: "bc",
        about: "bc: digits of pi, in numbers of many short blocks",
        executable: Executable::Installed("bc", "bc"),
        arguments: &["-l", "-q", "digits.bc"],
        files: &[("digits.bc", "scale = 600\n4 * a(1)\ne(1)\n")],
        ..PLAIN
    },
];
