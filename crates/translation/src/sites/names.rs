//! Names of functions and source lines, from debug information where it is installed.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::fmt;
use std::fs::{self, File};
use std::hash::{Hash, Hasher};
use std::io::BufReader;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Arc, OnceLock};
use std::thread;

use addr2line::{Frame, Loader, gimli};
use heapwright_names::function as demangled;
use object::elf::FileHeader64;
use object::read::elf::ElfFile;
use object::{Endianness, Object, ReadCache};

use super::binary::Version;

/// Directory of debug information of installed files.
const DEBUG: &str = "/usr/lib/debug";

/// The most functions of one instruction, all but the last inlined there: innermost ones, and outermost ones. The
/// standard libraries of Rust and C++ alone are often ten deep. Without the outermost one, which is the function that
/// the program calls, its caller would seem to allocate.
const INNERMOST: usize = 16;
const OUTERMOST: usize = 16;

/// An instruction in a file.
#[derive(Clone, Debug, Eq)]
pub struct Place {
    /// The file.
    pub path: Arc<Path>,
    /// Its version; `None` if the file could not be read.
    pub version: Option<Version>,
    /// The address in the file.
    pub address: u64,
}

impl Place {
    /// Returns whether the file is what it was when its code was mapped.
    fn is_unchanged(&self) -> bool {
        self.version.is_some() && Version::of(&self.path) == self.version
    }
}

// Paths are compared byte by byte: part by part takes ten times as long, and a program has ten thousands of places.
impl PartialEq for Place {
    fn eq(&self, other: &Place) -> bool {
        (self.address, self.version, self.path.as_os_str()) == (other.address, other.version, other.path.as_os_str())
    }
}

impl Hash for Place {
    fn hash<H: Hasher>(&self, state: &mut H) {
        (self.address, self.version, self.path.as_os_str()).hash(state);
    }
}

/// Places by the texts of their stack frames.
pub type Places = HashMap<Arc<str>, Place, foldhash::fast::RandomState>;

/// Names of places. A thread of its own looks them up while the processes run, each name once for all processes of a
/// recording. It ends with the last copy of this value.
#[derive(Clone, Default)]
pub struct Names {
    thread: Arc<OnceLock<Option<Sender<Question>>>>,
}

/// Places of which the names are wanted.
struct Question {
    places: Vec<Place>,
    /// Where the names are waited for; `None` if that will be later.
    answer: Option<Sender<Vec<Option<String>>>>,
}

impl Names {
    /// Has the names of places looked up that [`Names::of`] will be asked for.
    pub fn expect(&self, places: Vec<Place>) {
        let question = Question { places, answer: None };
        // Without the thread they are looked up when they are asked for.
        self.ask(question).unwrap_or_default();
    }

    /// Returns the names of the places that have one, by the texts of the places.
    pub fn of<'t>(&self, places: &'t Places) -> Vec<(&'t str, String)> {
        let mut sorted: Vec<(&Arc<str>, &Place)> = places.iter().collect();
        sorted.sort_unstable_by_key(|(_, place)| (place.path.as_os_str(), place.address));
        let wanted = || -> Vec<Place> { sorted.iter().map(|&(_, place)| place.clone()).collect() };
        let (answer, answered) = mpsc::channel();
        let asked = self.ask(Question { places: wanted(), answer: Some(answer) });
        let names = asked.and_then(|()| answered.recv().ok()).unwrap_or_else(|| Known::default().names(&wanted()));
        sorted.iter().zip(names).filter_map(|(&(text, _), name)| Some((&**text, name?))).collect()
    }

    /// Passes a question to the thread; `None` if there is none.
    fn ask(&self, question: Question) -> Option<()> {
        let sender = self.thread.get_or_init(|| {
            let (sender, questions) = mpsc::channel();
            let spawned = thread::Builder::new().name("names".to_owned()).spawn(move || answer_all(&questions));
            spawned.is_ok().then_some(sender)
        });
        sender.as_ref()?.send(question).ok()
    }
}

fn answer_all(questions: &Receiver<Question>) {
    let mut known = Known::default();
    for Question { places, answer } in questions {
        let names = known.names(&places);
        if let Some(answer) = answer {
            // The process's reader may have failed meanwhile.
            answer.send(names).unwrap_or_default();
        }
    }
}

/// The names that were looked up, and the files in which that was done last.
#[derive(Default)]
struct Known {
    names: HashMap<Place, Option<String>, foldhash::fast::RandomState>,
    /// The latest at the end.
    sources: Vec<(Arc<Path>, Option<Version>, Source)>,
}

impl Known {
    /// The most files that stay open: reading the debug information of one takes longer than finding a name in it.
    const OPEN: usize = 8;

    fn names(&mut self, places: &[Place]) -> Vec<Option<String>> {
        places.iter().map(|place| self.name(place)).collect()
    }

    fn name(&mut self, place: &Place) -> Option<String> {
        if let Some(known) = self.names.get(place) {
            return known.clone();
        }
        // A file that was made shorter must not be read through its mapping: that would end this process.
        let name = if place.is_unchanged() { self.source(place).name(place.address) } else { None };
        self.names.insert(place.clone(), name.clone());
        name
    }

    fn source(&mut self, place: &Place) -> &Source {
        let sources = &mut self.sources;
        match sources.iter().position(|(path, version, _)| (path, version) == (&place.path, &place.version)) {
            Some(index) => sources[index..].rotate_left(1),
            None => {
                sources.drain(..(sources.len() + 1).saturating_sub(Self::OPEN));
                sources.push((place.path.clone(), place.version, Source::of(&place.path)));
            }
        }
        &sources[sources.len() - 1].2
    }
}

/// The sources of a file's function names, best first.
struct Source {
    loaders: Vec<Loader>,
}

impl Source {
    fn of(path: &Path) -> Source {
        Source { loaders: loaders(path) }
    }

    fn name(&self, address: u64) -> Option<String> {
        self.loaders
            .iter()
            .find_map(|loader| by_debug_information(loader, address))
            .or_else(|| self.loaders.iter().find_map(|loader| by_symbol(loader, address)))
    }
}

fn by_debug_information(loader: &Loader, address: u64) -> Option<String> {
    let mut frames = loader.find_frames(address).ok()?;
    let mut functions = Vec::new();
    while let Some(frame) = frames.next().ok()? {
        // Code that the compiler has folded with other code may have lines without a function.
        let symbol = || by_symbol(loader, address).filter(|_| functions.is_empty());
        let function = Function::of(&frame).or_else(|| Some(Function::of_symbol(symbol()?, place_of(&frame))))?;
        functions.push(function);
        if functions.len() > INNERMOST + OUTERMOST {
            functions.remove(INNERMOST);
        }
    }
    // The symbol names the outermost function.
    if let Some(function) = functions.last_mut()
        && let Some(part) = &function.part
        && let Some(whole) = whole_by_symbol(loader, address, part)
    {
        function.name = whole;
    }
    let texts: Vec<String> = functions.iter().map(ToString::to_string).collect();
    (!texts.is_empty()).then(|| texts.join(" in "))
}

/// A function of an instruction, as in `function file.c:10`.
struct Function {
    name: String,
    /// The last part of the name, where debug information may have no more: GCC's of functions that are local to a file
    /// or have such a template argument, and of lambdas; clang's and Rust's that is only for lines.
    part: Option<String>,
    /// The source file without folders, and the line.
    place: Option<String>,
}

impl Function {
    fn of<R: gimli::Reader>(frame: &Frame<'_, R>) -> Option<Function> {
        let function = frame.function.as_ref()?;
        let raw = function.raw_name().ok()?;
        let path = frame.location.as_ref().and_then(|location| location.file);
        let place = place_of(frame);
        let name = demangled(&raw);
        let is_of_c = path.is_some_and(|path| path.ends_with(".c"));
        if is_mangled(&raw) || is_of_c {
            return Some(Function { name, part: None, place });
        }
        let name = match path.and_then(namespace_of) {
            Some(library) => format!("{library}::{name}"),
            None => name,
        };
        Some(Function { name, part: Some(raw.into_owned()), place })
    }

    fn of_symbol(name: String, place: Option<String>) -> Function {
        Function { name, part: None, place }
    }
}

/// Returns the source file of a frame without folders, and the line.
fn place_of<R: gimli::Reader>(frame: &Frame<'_, R>) -> Option<String> {
    let location = frame.location.as_ref()?;
    // A blank would end the name of the function.
    let file = location.file?.rsplit('/').next()?.replace(' ', "\u{a0}");
    Some(location.line.map_or_else(|| file.clone(), |line| format!("{file}:{line}")))
}

impl fmt::Display for Function {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.name)?;
        self.place.as_ref().map_or(Ok(()), |place| write!(out, " {place}"))
    }
}

/// Whether a name is one of C++ or Rust with all its parts.
fn is_mangled(name: &str) -> bool {
    name.starts_with("_Z") || name.starts_with("_R")
}

/// Returns the namespace or crate of the functions of a source file of a standard library.
fn namespace_of(path: &str) -> Option<&'static str> {
    if is_of_std(path) {
        return Some("std");
    }
    let (_, behind) = path.split_once("/rustc/").or_else(|| path.split_once("/rustlib/src/rust/"))?;
    ["alloc", "core", "std"].into_iter().find(|library| behind.contains(&format!("library/{library}/src/")))
}

/// Returns whether a source file is one of a standard library of C++, as in `/usr/include/c++/12/bits/stl_vector.h`,
/// `/usr/include/x86_64-linux-gnu/c++/12/bits/c++config.h` and `/usr/lib/llvm-14/include/c++/v1/vector`.
fn is_of_std(path: &str) -> bool {
    let Some((folder, file)) = path.rsplit_once("/c++/") else { return false };
    let mut parents = folder.rsplit('/');
    let is_included = parents.next() == Some("include") || parents.next() == Some("include");
    is_included && (file.starts_with("v1/") || file.starts_with(|c: char| c.is_ascii_digit()))
}

fn by_symbol(loader: &Loader, address: u64) -> Option<String> {
    let symbol = loader.find_symbol_info(address)?;
    Some(demangled(symbol.name()))
}

/// Returns the whole name of a function of which debug information has a part, if the symbol there has it.
fn whole_by_symbol(loader: &Loader, address: u64, part: &str) -> Option<String> {
    /// What compilers append to the names of parts and copies of a function.
    const COPIES: [&str; 6] = [".cold", ".constprop.", ".isra.", ".part.", ".lto_priv.", ".llvm."];
    let symbol = loader.find_symbol_info(address)?;
    let name = COPIES.iter().fold(symbol.name(), |name, copy| name.split(copy).next().unwrap_or(name));
    if name == part {
        return Some(name.to_owned());
    }
    let whole = is_mangled(name).then(|| demangled(name))?;
    has_part(&whole, part).then_some(whole)
}

/// Whether a whole name has such a last part. Closures of Rust are numbered in debug information only.
fn has_part(whole: &str, part: &str) -> bool {
    let own = part.split('<').next().filter(|own| !own.is_empty()).unwrap_or(part);
    let own = if own.starts_with("{closure") { "closure" } else { own };
    let is_of_a_word = |character: char| character.is_alphanumeric() || character == '_';
    whole.match_indices(own).any(|(at, _)| {
        let (before, behind) = (&whole[..at], &whole[at + own.len()..]);
        !before.ends_with(is_of_a_word) && !behind.starts_with(is_of_a_word)
    })
}

/// Returns readers of the file's debug information and of its symbols.
fn loaders(path: &Path) -> Vec<Loader> {
    let separate = debug_files(path).into_iter().find(|file| file.is_file());
    let files = separate.into_iter().chain([path.to_owned()]);
    // Without a supplement, if that is damaged.
    let load = |file: &PathBuf| Loader::new_with_sup(file, supplement_of(file)).or_else(|_| Loader::new(file));
    files.filter_map(|file| load(&file).ok()).collect()
}

type Elf<'f> = ElfFile<'f, FileHeader64<Endianness>, &'f ReadCache<BufReader<File>>>;

/// Calls `ask` with the ELF file at `path`, if it is one.
fn ask<R>(path: &Path, ask: impl FnOnce(&Elf<'_>) -> Option<R>) -> Option<R> {
    let file = ReadCache::new(BufReader::new(File::open(path).ok()?));
    let elf = Elf::parse(&file).ok()?;
    ask(&elf)
}

/// Returns the paths where separate debug information of a file may be, likeliest first.
fn debug_files(path: &Path) -> Vec<PathBuf> {
    let by_contents = ask(path, |elf| by_hash(elf.build_id().ok()??));
    let by_name = ask(path, |elf| {
        let (name, sum) = elf.gnu_debuglink().ok()??;
        let (name, folder) = (OsStr::from_bytes(name), path.parent()?);
        let beside = [folder.join(name), folder.join(".debug").join(name)];
        let apart = Path::new(DEBUG).join(folder.strip_prefix("/").ok()?).join(name);
        Some(beside.into_iter().chain([apart]).filter(|file| has_sum(file, sum)).collect::<Vec<_>>())
    });
    by_contents.into_iter().chain(by_name.into_iter().flatten()).collect()
}

/// Returns whether the file's contents have this checksum, by which a `.gnu_debuglink` identifies its target.
fn has_sum(file: &Path, sum: u32) -> bool {
    fs::read(file).is_ok_and(|contents| crc32fast::hash(&contents) == sum)
}

/// Returns the path of the supplementary file that several files with debug information share, as `dwz -m` makes it:
/// its name begins in the folder of the file, not of a link to it.
fn supplement_of(path: &Path) -> Option<PathBuf> {
    let (name, hash) = ask(path, |elf| {
        let (name, hash) = elf.gnu_debugaltlink().ok()??;
        Some((PathBuf::from(OsStr::from_bytes(name)), by_hash(hash)))
    })?;
    let named = fs::canonicalize(path).ok().and_then(|file| Some(file.parent()?.join(name)));
    named.into_iter().chain(hash).find(|file| file.is_file())
}

/// Returns the path where the debug information of the file with this hash is installed.
fn by_hash(hash: &[u8]) -> Option<PathBuf> {
    let digits: String = hash.iter().map(|byte| format!("{byte:02x}")).collect();
    let (folder, name) = digits.split_at_checked(2)?;
    Some(PathBuf::from(format!("{DEBUG}/.build-id/{folder}/{name}.debug")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fmt::Write as _;
    use std::process::Command;

    use object::ObjectSymbol as _;

    /// Compiles a library of which the function `real` has `depth` functions inlined, one in another.
    fn library_of(depth: usize, folder: &Path) -> Arc<Path> {
        let (source, library) = (folder.join(format!("{depth}.c")), folder.join(format!("{depth}.so")));
        let mut text = "#define INLINE static inline __attribute__((always_inline))\n".to_owned();
        text += "volatile int sink;\nINLINE void inlined1(void) { sink++; }\n";
        for number in 2..=depth {
            writeln!(text, "INLINE void inlined{number}(void) {{ inlined{}(); }}", number - 1).unwrap();
        }
        writeln!(text, "void real(void) {{ inlined{depth}(); }}").unwrap();
        fs::write(&source, text).unwrap();
        assert!(build("cc", &source, &library));
        library.into()
    }

    /// Returns whether the compiler is installed and makes a library.
    fn build(compiler: &str, source: &Path, library: &Path) -> bool {
        let mut compiler = Command::new(compiler);
        compiler.args(["-O2", "-g", "-shared", "-fPIC", "-o"]).arg(library).arg(source);
        compiler.status().is_ok_and(|status| status.success())
    }

    /// Returns the places of the instructions of `real`.
    fn places_in(library: &Arc<Path>) -> Places {
        let symbol = |elf: &Elf<'_>| {
            let symbols = elf.dynamic_symbols();
            symbols
                .into_iter()
                .find(|symbol| symbol.name() == Ok("real"))
                .map(|symbol| symbol.address()..symbol.address() + symbol.size())
        };
        let version = Version::of(library);
        let place = |address| Place { path: library.clone(), version, address };
        ask(library, symbol).unwrap().map(|address| (address.to_string().into(), place(address))).collect()
    }

    /// Returns the functions of the instruction of `real` at which most calls are inlined, of `depth` in all.
    fn deepest(depth: usize) -> Vec<String> {
        let folder = tempfile::tempdir().unwrap();
        let places = places_in(&library_of(depth, folder.path()));
        let names = Names::default().of(&places).into_iter().map(|(_, name)| name);
        let functions =
            |name: String| name.split(" in ").map(|one| one.split(' ').next().unwrap().to_owned()).collect();
        names.map(functions).max_by_key(Vec::len).unwrap()
    }

    #[test]
    fn the_outermost_function_is_named_however_many_calls_are_inlined() {
        for depth in [1, 7, 8, 20, 40] {
            let functions = deepest(depth);
            assert_eq!(functions.first().map(String::as_str), Some("inlined1"), "{functions:?}");
            assert_eq!(functions.last().map(String::as_str), Some("real"), "{functions:?}");
            assert_eq!(functions.len(), (depth + 1).min(INNERMOST + OUTERMOST), "{functions:?}");
        }
        let expected: Vec<String> = (1..=16).chain(26..=40).map(|number| format!("inlined{number}")).collect();
        assert_eq!(deepest(40)[..31], expected);
    }

    /// Debian's packages have such files beside separate debug information.
    #[test]
    fn what_dwz_has_moved_to_a_file_for_several_libraries_is_found_there_also_through_a_link() {
        let folder = tempfile::tempdir().unwrap();
        let libraries = [4, 5].map(|depth| library_of(depth, folder.path()));
        let moved = Command::new("dwz").current_dir(folder.path()).args(["-m", "shared", "4.so", "5.so"]).status();
        if !moved.is_ok_and(|status| status.success()) {
            eprintln!("skipped: no dwz");
            return;
        }
        let has_supplement = |elf: &Elf<'_>| elf.gnu_debugaltlink().ok()?.map(|_| ());
        ask(&libraries[0], has_supplement).expect("there was something to share");
        fs::create_dir(folder.path().join("links")).unwrap();
        let link: Arc<Path> = folder.path().join("links/l.so").into();
        std::os::unix::fs::symlink(&libraries[0], &link).unwrap();
        for library in [&libraries[0], &link] {
            let places = places_in(library);
            let names = Names::default().of(&places);
            assert!(names.iter().any(|(_, name)| name.ends_with(" in real 4.c:7")), "{names:?}");
        }
    }

    #[test]
    fn functions_of_the_standard_library_of_cplusplus_are_known_by_their_files() {
        let folder = tempfile::tempdir().unwrap();
        let (source, library) = (folder.path().join("l.cpp"), folder.path().join("l.so"));
        // GCC's debug information has no namespace of a function with a local type as template argument. The function
        // of the program has a statement in the library's file, as a macro would put it there.
        let text = "volatile int sink;\nnamespace { struct Item {}; }\n# 1 \"/usr/include/c++/12/grow.h\"\n\
            namespace std { template <class T> inline __attribute__((always_inline)) void grow(T) { sink++; } }\n\
            # 5 \"l.cpp\"\nextern \"C\" void real() { std::grow(Item());\n\
            # 9 \"/usr/include/c++/12/grow.h\"\nsink--; }\n";
        fs::write(&source, text).unwrap();
        if !build("c++", &source, &library) {
            eprintln!("skipped: no compiler of C++");
            return;
        }
        let places = places_in(&library.into());
        let names: Vec<String> = Names::default().of(&places).into_iter().map(|(_, name)| name).collect();
        let inlined = |name: &&String| name.ends_with(" in real l.cpp:5");
        assert!(names.iter().any(|name| inlined(&name)), "{names:?}");
        for name in names.iter().filter(inlined) {
            assert!(name.contains("std::grow<(anonymous namespace)::Item>"), "{name}");
        }
        assert!(names.iter().any(|name| name == "real grow.h:9"), "{names:?}");
    }

    #[test]
    fn functions_that_are_local_to_a_file_have_their_whole_names() {
        let folder = tempfile::tempdir().unwrap();
        let (source, library) = (folder.path().join("l.cpp"), folder.path().join("l.so"));
        let text = "volatile int sink; extern \"C\" void real();\n\
            namespace { struct B { void go(); }; }\nvoid B::go() { sink--; }\n\
            extern \"C\" __attribute__((flatten)) void real() { sink++; B().go(); }\n\
            namespace A { static __attribute__((noinline, used)) void go() { sink++; } }\n";
        fs::write(&source, text).unwrap();
        if !build("c++", &source, &library) {
            eprintln!("skipped: no compiler of C++");
            return;
        }
        let library: Arc<Path> = library.into();
        let is_go = |elf: &Elf<'_>| {
            let symbols = elf.symbols();
            let go = symbols.into_iter().find(|symbol| symbol.name().is_ok_and(|name| name.contains("1AL2goEv")));
            go.map(|symbol| symbol.address())
        };
        let address = ask(&library, is_go).unwrap();
        let place = Place { path: library.clone(), version: Version::of(&library), address };
        let names = Names::default();
        let found = Places::from_iter([("go".into(), place)]);
        assert_eq!(names.of(&found), [("go", "A::go() l.cpp:5".to_owned())]);
        // What a symbol does not have is not replaced.
        let real: Vec<String> = names.of(&places_in(&library)).into_iter().map(|(_, name)| name).collect();
        assert!(real.iter().all(|name| name.ends_with("real l.cpp:4")), "{real:?}");
    }

    #[test]
    fn a_part_is_a_whole_word_of_a_name() {
        for (whole, part, expected) in [
            ("A::go()", "go", true),
            ("A::go_all()", "go", false),
            ("A::ago(int)", "go", false),
            ("void fill<(anonymous namespace)::X>()", "fill<(anonymous namespace)::X>", true),
            ("main::{lambda(int)#1}::operator()(int) const", "operator()", true),
            ("ga::one::{{closure}}", "{closure#0}", true),
            ("B::operator<(B const&)", "operator<", true),
            ("B::go()", "<", false),
        ] {
            assert_eq!(has_part(whole, part), expected, "{whole} {part}");
        }
    }

    #[test]
    fn files_of_the_standard_library_of_rust_are_told_by_their_folders() {
        let sources = "/home/me/.rustup/toolchains/stable/lib/rustlib/src/rust";
        for (path, expected) in [
            ("/rustc/59807616e1fa/library/alloc/src/raw_vec/mod.rs".to_owned(), Some("alloc")),
            ("/rustc/59807616e1fa/library/core/src/ops/function.rs".to_owned(), Some("core")),
            (format!("{sources}/library/std/src/rt.rs"), Some("std")),
            ("/home/me/library/alloc/src/mine.rs".to_owned(), None),
            ("/rustc/59807616e1fa/compiler/x.rs".to_owned(), None),
            ("src/main.rs".to_owned(), None),
        ] {
            assert_eq!(namespace_of(&path), expected, "{path}");
        }
    }

    #[test]
    fn files_of_the_standard_library_of_cplusplus_are_told_by_their_folders() {
        for path in [
            "/usr/include/c++/12/bits/new_allocator.h",
            "/usr/bin/../lib/gcc/x86_64-linux-gnu/12/../../../../include/c++/12/thread",
            "/usr/include/x86_64-linux-gnu/c++/12.2.0/bits/gthr-default.h",
            "/opt/cross/x86_64-linux-musl/include/c++/14/vector",
            "/usr/lib/llvm-14/include/c++/v1/vector",
        ] {
            assert!(is_of_std(path), "{path}");
        }
        for path in [
            "vector",
            "/usr/include/stdio.h",
            "/home/me/c++/12/main.cpp",
            "/home/me/include/c++/parser.h",
            "/home/me/c++/v1/include/parser.h",
            "/usr/include/c++",
        ] {
            assert!(!is_of_std(path), "{path}");
        }
    }

    #[test]
    fn names_do_not_depend_on_when_they_are_asked_for_and_in_how_many_files() {
        let folder = tempfile::tempdir().unwrap();
        let files = Known::OPEN + 3;
        let places: Vec<_> = (1..=files).map(|depth| places_in(&library_of(depth, folder.path()))).collect();
        let (expected, unexpected) = (Names::default(), Names::default());
        let copy = expected.clone();
        for _ in 0..2 {
            // Later ones first, then in turns.
            places.iter().rev().flat_map(HashMap::values).for_each(|place| copy.expect(vec![place.clone()]));
            for (index, places) in places.iter().enumerate() {
                let names = expected.of(places);
                assert_eq!(names, unexpected.of(places));
                assert_eq!(names.len(), places.len());
                let outer = format!("real {}.c:", index + 1);
                assert!(names.iter().all(|(_, name)| name.contains(&outer)), "{names:?}");
            }
        }
    }

    #[test]
    fn a_file_that_becomes_shorter_is_not_read() {
        let folder = tempfile::tempdir().unwrap();
        let library = library_of(1, folder.path());
        let places = places_in(&library);
        let names = Names::default();
        let (text, place) = places.iter().next().unwrap();
        let first = Places::from_iter([(text.clone(), place.clone())]);
        let known = names.of(&first);
        assert_eq!(known.len(), 1);
        File::options().write(true).open(&library).unwrap().set_len(10).unwrap();
        assert_eq!(names.of(&places), known);
        assert_eq!(Names::default().of(&places), []);
    }
}
