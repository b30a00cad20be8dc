//! The shared libraries under test: built as they are shipped, and their symbols checked with binutils.
//!
//! The environment variable `HEAPWRIGHT_TEST_TOOLS` is the prefix of the compiler's and binutils' names, for libraries
//! of another machine.

use std::collections::BTreeSet;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::Write;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::{env, fs};

/// The folder of `check.h`, for test programs in C and C++.
pub const C_HEADERS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/c");

/// Returns an environment variable of the tests; `None` when it is empty or not set.
#[must_use]
pub fn setting(name: &str) -> Option<String> {
    env::var(name).ok().filter(|value| !value.is_empty())
}

/// Returns the output of one of the compiler's tools.
///
/// # Panics
/// When the tool is not installed or fails.
pub fn tool(name: &str, arguments: &[&str]) -> String {
    let prefix = setting("HEAPWRIGHT_TEST_TOOLS").unwrap_or_default();
    let output =
        Command::new(format!("{prefix}{name}")).args(arguments).output().expect("the compiler's tools are installed");
    assert!(output.status.success(), "{name} {arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("tools print text")
}

/// Compiles a C program (or with fitting arguments a library) in `folder`; returns its path.
///
/// # Panics
/// When there is no compiler, or it fails.
pub fn compiled(folder: &Path, name: &str, source: &str, arguments: &[&str]) -> PathBuf {
    let (code, program) = (folder.join(format!("{name}.c")), folder.join(name));
    fs::write(&code, source).expect("the folder can be written to");
    let status = Command::new("cc").args(arguments).arg("-o").arg(&program).arg(&code).status();
    assert!(status.expect("there is a compiler").success(), "cc failed");
    program
}

/// Writes a program, or a script, that this process or a child may execute at once.
///
/// Another process writes it. Were it this one, a child that a test beside it forks at that moment would have the file
/// open for writing, too, until it executes its own program, and the system refuses to execute the file until then.
///
/// # Panics
/// When it cannot be written.
pub fn place_program(place: &Path, contents: &[u8]) {
    let mut writer = Command::new("sh");
    writer.args(["-c", "cat > \"$0\" && chmod 755 \"$0\""]).arg(place).stdin(Stdio::piped());
    let mut writer = writer.spawn().expect("there is a shell");
    writer.stdin.take().expect("it is a pipe").write_all(contents).expect("the program can be written");
    assert!(writer.wait().expect("a child").success(), "{} cannot be written", place.display());
}

/// Returns a path by which a library can be preloaded: the dynamic linker splits `LD_PRELOAD` at spaces and colons,
/// which a path of a checkout may contain. There is one link for each such library.
fn preloadable(library: PathBuf) -> PathBuf {
    if !library.to_string_lossy().contains([' ', ':']) {
        return library;
    }
    let mut hasher = DefaultHasher::new();
    library.hash(&mut hasher);
    let folder = env::temp_dir().join(format!("heapwright-tested-{:016x}", hasher.finish()));
    fs::create_dir_all(&folder).expect("temporary files can be made");
    let link = folder.join(library.file_name().expect("a library has a name"));
    // Another test may have made it.
    let _ = symlink(&library, &link);
    assert_eq!(fs::read_link(&link).ok(), Some(library), "{} leads elsewhere: remove it", link.display());
    link
}

/// A shared library whose symbols are checked.
#[derive(Clone, Debug)]
pub struct Library {
    path: PathBuf,
}

impl Library {
    /// Builds `package` with the profile `preload` inside `folder` (the test's `CARGO_TARGET_TMPDIR`).
    ///
    /// # Panics
    /// When it does not build.
    #[must_use]
    pub fn build(package: &str, file: &str, folder: &str) -> Library {
        let target = Path::new(folder).join("library");
        let built = Command::new(env!("CARGO"))
            .args(["build", "--package", package, "--profile", "preload", "--target-dir"])
            .arg(&target)
            .current_dir(env!("CARGO_MANIFEST_DIR"))
            .env_remove("RUSTC_WORKSPACE_WRAPPER")
            .status()
            .expect("cargo runs");
        assert!(built.success(), "{package} does not build");
        Library { path: preloadable(target.join("preload").join(file)) }
    }

    /// The library at `path`.
    #[must_use]
    pub fn at(path: PathBuf) -> Library {
        Library { path }
    }

    /// Where the library is.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    fn tool(&self, name: &str, option: &[&str]) -> String {
        tool(name, &[option, &[self.path.to_str().expect("a path of text")]].concat())
    }

    /// The dynamic symbols that `nm` lists under `option`, each with the letter of its kind and without its version.
    fn symbols(&self, option: &str) -> Vec<(char, String)> {
        let text = self.tool("nm", &["-D", option]);
        let symbol = |line: &str| {
            let mut fields = line.split_whitespace().rev();
            let name = fields.next()?.split('@').next()?;
            Some((fields.next()?.chars().next()?, name.to_owned()))
        };
        text.lines().map(|line| symbol(line).unwrap_or_else(|| panic!("nm printed {line}"))).collect()
    }

    /// Returns the names that the library exports, sorted.
    #[must_use]
    pub fn exports(&self) -> BTreeSet<String> {
        self.symbols("--defined-only").into_iter().map(|(_, name)| name).collect()
    }

    /// Checks that the library needs nothing but the names in `needed` and, weakly, names that start as one of `weak`.
    ///
    /// # Panics
    /// When it needs another name.
    pub fn assert_needs_only(&self, needed: &BTreeSet<String>, weak: &[&str]) {
        for (kind, name) in self.symbols("--undefined-only") {
            match kind {
                'w' | 'v' => assert!(weak.iter().any(|weak| name.starts_with(weak)), "{name} is referred to weakly"),
                _ => assert!(needed.contains(&name), "{name} is needed"),
            }
        }
    }

    /// Checks that the library depends on no library but the C library, and that its `SONAME` is its file's name, by
    /// which a program linked with it finds it.
    ///
    /// # Panics
    /// When that is not so.
    pub fn assert_needs_only_the_c_library(&self) {
        let dynamic = self.tool("readelf", &["-d"]);
        let needed: Vec<&str> = dynamic.lines().filter(|line| line.contains("(NEEDED)")).collect();
        assert!(needed.iter().all(|line| line.contains("[libc.so.6]") || line.contains("[ld-linux")), "{needed:?}");
        let file = self.path.file_name().and_then(|file| file.to_str()).expect("a path of text");
        assert!(dynamic.contains(&format!("[{file}]")), "the library has another SONAME than {file}");
    }
}

/// The words of a text, as the tests list symbols.
#[must_use]
pub fn words(text: &str) -> BTreeSet<String> {
    text.split_whitespace().map(str::to_owned).collect()
}
