//! The command lines of real programs.

/// The command line of a program.
pub struct Recipe {
    /// The name in tables.
    pub name: &'static str,
    /// What it does.
    pub about: &'static str,
    /// The name of its executable.
    pub executable: &'static str,
    /// Its arguments, without files.
    pub arguments: &'static [&'static str],
    /// Additional environment variables.
    pub settings: &'static [(&'static str, &'static str)],
    /// Its input.
    pub extra: Extra,
    /// Number of runs per measurement, for programs that end too fast to be measured once.
    pub times: u32,
}

/// The input of a program.
#[derive(Clone, Copy)]
pub enum Extra {
    /// Nothing.
    Nothing,
    /// A file with this name and content, as its last argument.
    File(&'static str, &'static str),
    /// A file as in `File`, and a generated text on standard input.
    FileAndText(&'static str, &'static str),
    /// This text on standard input.
    Input(&'static str),
    /// A repository with a history, as its working folder.
    Repository,
    /// A client that sends requests and then shuts it down.
    RedisClient,
    /// A client that sets keys, deletes most of them, and then shuts it down.
    RedisDeletion,
}

/// Number of starts of tiny programs per measurement.
const TINY: u32 = 20;

const PLAIN: Recipe =
    Recipe { name: "", about: "", executable: "", arguments: &[], settings: &[], extra: Extra::Nothing, times: 1 };

/// Redis without a disk and a network.
const REDIS: [&str; 8] = ["--port", "0", "--save", "", "--appendonly", "no", "--unixsocket", super::redis::SOCKET];

/// All programs, in the order in which tables list them.
pub const RECIPES: [Recipe; 14] = [
    Recipe { name: "start/true", about: "a program that does nothing", executable: "true", times: TINY, ..PLAIN },
    Recipe { name: "start/ls", about: "a list of /", executable: "ls", arguments: &["-l", "/"], times: TINY, ..PLAIN },
    Recipe {
        name: "start/git",
        about: "git's version",
        executable: "git",
        arguments: &["--version"],
        times: TINY,
        ..PLAIN
    },
    Recipe {
        name: "python3",
        about: "Python, without its own allocator: dictionaries, JSON, regular expressions",
        executable: "python3",
        arguments: &["-s", "-B"],
        settings: &[("PYTHONMALLOC", "malloc"), ("PYTHONHASHSEED", "1")],
        extra: Extra::File("work.py", include_str!("inputs/work.py")),
        ..PLAIN
    },
    Recipe {
        name: "perl",
        about: "Perl: hashes, lists, strings",
        executable: "perl",
        settings: &[("PERL_HASH_SEED", "1")],
        extra: Extra::File("work.pl", include_str!("inputs/work.pl")),
        ..PLAIN
    },
    Recipe {
        name: "lua",
        about: "Lua: tables and strings",
        executable: "lua",
        extra: Extra::File("work.lua", include_str!("inputs/work.lua")),
        ..PLAIN
    },
    Recipe {
        name: "ruby",
        about: "Ruby: hashes and strings",
        executable: "ruby",
        extra: Extra::File("work.rb", include_str!("inputs/work.rb")),
        ..PLAIN
    },
    Recipe {
        name: "gawk",
        about: "awk: where each word of a text is",
        executable: "gawk",
        arguments: &["-f"],
        extra: Extra::FileAndText("work.awk", include_str!("inputs/work.awk")),
        ..PLAIN
    },
    Recipe {
        name: "sqlite3",
        about: "SQLite: a table in memory, indexed, joined, changed",
        executable: "sqlite3",
        arguments: &[":memory:"],
        extra: Extra::Input(include_str!("inputs/work.sql")),
        ..PLAIN
    },
    Recipe {
        name: "git",
        about: "git: every change of a history",
        executable: "git",
        arguments: &["--no-pager", "log", "-p", "--stat"],
        settings: &[("GIT_CONFIG_NOSYSTEM", "1"), ("GIT_CONFIG_GLOBAL", "/dev/null")],
        extra: Extra::Repository,
        ..PLAIN
    },
    Recipe {
        name: "g++",
        about: "a C++ compiler: containers and templates",
        executable: "g++",
        arguments: &["-std=c++17", "-O0", "-S", "-o", "/dev/null"],
        extra: Extra::File("work.cpp", include_str!("inputs/work.cpp")),
        ..PLAIN
    },
    Recipe {
        name: "z3",
        about: "a solver: the factors of a number, out of its bits",
        executable: "z3",
        extra: Extra::File("work.smt2", include_str!("inputs/work.smt2")),
        ..PLAIN
    },
    Recipe {
        name: "redis-server",
        about: "Redis: 200,000 commands of one client, without a disk",
        executable: "redis-server",
        arguments: &REDIS,
        extra: Extra::RedisClient,
        ..PLAIN
    },
    Recipe {
        name: "redis-server/deleted",
        about: "Redis: 100,000 keys of 8 to 2,000 bytes, of which nine in ten are deleted",
        executable: "redis-server",
        arguments: &REDIS,
        extra: Extra::RedisDeletion,
        ..PLAIN
    },
];
