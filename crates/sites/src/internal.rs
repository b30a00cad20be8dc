//! Frames that say only that memory was requested: allocators, and the standard libraries that call them.

use crate::frame::Frame;

/// Functions of C, and of the run-time library of C++, that allocate for their caller, in whatever file they are. Their
/// names are without leading underscores.
const C: [&str; 32] = [
    "malloc",
    "calloc",
    "realloc",
    "reallocarray",
    "aligned_alloc",
    "posix_memalign",
    "memalign",
    "valloc",
    "pvalloc",
    "strdup",
    "strndup",
    "wcsdup",
    "asprintf",
    "asprintf_chk",
    "vasprintf",
    "vasprintf_chk",
    "vasprintf_internal",
    "getline",
    "getdelim",
    "open_memstream",
    "open_wmemstream",
    "cxa_allocate_dependent_exception",
    "cxa_allocate_exception",
    "xmalloc",
    "xcalloc",
    "xrealloc",
    "xstrdup",
    "g_malloc",
    "g_malloc0",
    "g_realloc",
    "g_strdup",
    "prof_backtrace_impl",
];

/// Functions of the C library whose blocks are their caller's, and those that request them inside glibc. What the
/// library keeps for itself, as the buffers of streams, is its own.
const C_LIBRARY: [&str; 41] = [
    "alloc_dir",
    "argz_add",
    "argz_add_sep",
    "argz_append",
    "argz_create",
    "argz_create_sep",
    "argz_insert",
    "argz_replace",
    "backtrace_symbols",
    "canonicalize_file_name",
    "duplocale",
    "fdopen",
    "fdopendir",
    "fmemopen",
    "fopen",
    "fopen64",
    "fopen_internal",
    "gaih_inet",
    "get_current_dir_name",
    "getaddrinfo",
    "getcwd",
    "getifaddrs",
    "getifaddrs_internal",
    "glob",
    "glob64",
    "glob_in_dir",
    "if_nameindex",
    "newlocale",
    "opendir",
    "opendir_tail",
    "popen",
    "realpath",
    "realpath_stk",
    "regcomp",
    "tempnam",
    "tmpfile",
    "tmpfile64",
    "tsearch",
    "vfscanf_internal",
    "vfwscanf_internal",
    "wordexp",
];

/// How the names of more such functions of glibc begin, also without leading underscores: streams in memory (whose
/// block is final when they are closed), streams, what is read by formats (`%ms`), regular expressions, lists of
/// folders.
const C_LIBRARY_PREFIXES: [&str; 12] = [
    "IO_mem_",
    "IO_wmem_",
    "IO_str_",
    "IO_new_fclose",
    "IO_new_fopen",
    "IO_new_fdopen",
    "IO_fdopen",
    "IO_new_popen",
    "isoc99_",
    "isoc23_",
    "re_",
    "scandir",
];

/// How the names of such functions of C++, Rust and Python begin.
const PREFIXES: [&str; 22] = [
    "operator new",
    "std::",
    "__gnu_cxx::",
    "boost::container::",
    "__rust_alloc",
    "__rust_realloc",
    "__rdl_",
    "__rg_",
    "__rustc",
    "_rjem_",
    "PyMem_",
    "_PyMem_",
    "PyObject_Malloc",
    "PyObject_Calloc",
    "PyObject_Realloc",
    "_PyObject_Malloc",
    "_PyObject_Calloc",
    "_PyObject_Realloc",
    "_PyObject_New",
    "_PyObject_GC_",
    "PyType_GenericAlloc",
    "_PyType_AllocNoTrack",
];

/// The standard libraries of Rust. In C++ these are names like any other.
const RUST: [&str; 3] = ["alloc::", "core::", "hashbrown::"];

/// How functions of jemalloc go on behind `je_`: with a function of the malloc family, or with the name of their file.
const JEMALLOC: [&str; 18] = [
    "malloc",
    "calloc",
    "realloc",
    "rallocx",
    "aligned_alloc",
    "posix_memalign",
    "memalign",
    "valloc",
    "pvalloc",
    "arena",
    "base",
    "cache_bin",
    "edata",
    "ehooks",
    "extent",
    "large",
    "prof",
    "tcache",
];

/// How the names begin of the functions by which Rust calls a program's global allocator.
const RUST_ALLOCATION: [&str; 4] = ["__rust_alloc", "__rust_realloc", "__rustc::__rust_", "__rg_"];

/// Returns the frames of a stack, the innermost first, without the innermost ones that say only that memory was
/// requested; all if there are no others.
pub fn callers(stack: &[Frame]) -> &[Frame] {
    &stack[first_caller(stack, is_allocation, |frame| !is_internal(frame))..]
}

/// Returns where the callers of a stack begin, the innermost frame first: behind the outermost allocation, at the first
/// caller; 0 if there is none.
pub fn first_caller<F>(stack: &[F], is_allocation: impl Fn(&F) -> bool, is_caller: impl Fn(&F) -> bool) -> usize {
    let behind = stack.iter().rposition(is_allocation).map_or(0, |at| at + 1);
    stack[behind..].iter().position(is_caller).map_or(0, |at| behind + at)
}

/// Returns whether a function is one by which a language requests memory, and which programs replace by their own:
/// whatever it calls belongs to an allocator, also where that is the program's.
pub fn is_allocation(frame: &Frame) -> bool {
    let function = &frame.function;
    function.contains("operator new") || RUST_ALLOCATION.iter().any(|name| function.starts_with(name))
}

/// Returns whether a function belongs to an allocator or to a standard library.
pub fn is_internal(frame: &Frame) -> bool {
    match frame.is_nameless_address() {
        true => frame.module.as_deref().is_some_and(is_library_of_cplusplus),
        false => is_internal_name(&frame.function, frame),
    }
}

fn is_internal_name(function: &str, frame: &Frame) -> bool {
    if let Some((of_type, of_trait)) = function.strip_prefix('<').and_then(of_impl)
        && is_standard_type(of_type)
    {
        return of_trait.is_none_or(|of_trait| is_internal_name(of_trait, frame));
    }
    let path = path(function);
    let begins_with = |prefixes: &[&str]| prefixes.iter().any(|prefix| path.starts_with(prefix));
    let is_of_jemalloc =
        |path: &str| path.strip_prefix("je_").is_some_and(|rest| JEMALLOC.iter().any(|part| rest.starts_with(part)));
    C.contains(&plain(&path))
        || begins_with(&PREFIXES)
        || is_of_jemalloc(&path)
        || (begins_with(&RUST) && is_of_rust(function, frame))
        || (is_of_c_library(&path, frame) && returns_a_block(plain(&path)))
}

/// Whether a function is one of Rust, by its file, or else by its name, which has no parameters.
fn is_of_rust(function: &str, frame: &Frame) -> bool {
    let Some(file) = &frame.file else {
        let mut depth = 0_usize;
        return !function.chars().any(|c| {
            match c {
                '<' => depth += 1,
                '>' => depth = depth.saturating_sub(1),
                _ => {}
            }
            c == '(' && depth == 0
        });
    };
    file.ends_with(".rs")
}

/// Whether a function is one of the C library: by its module, or in a static program by a name that programs must not
/// have.
fn is_of_c_library(name: &str, frame: &Frame) -> bool {
    let module = frame.module.as_deref().unwrap_or_default();
    name.starts_with("__") || name.starts_with("_IO_") || module.starts_with("libc.") || module.starts_with("libc-")
}

fn returns_a_block(name: &str) -> bool {
    C_LIBRARY.contains(&name) || C_LIBRARY_PREFIXES.iter().any(|prefix| name.starts_with(prefix))
}

/// Whether a module is a standard library of C++, whose functions have no names where it is stripped.
fn is_library_of_cplusplus(module: &str) -> bool {
    ["libstdc++.so", "libc++.so", "libc++abi.so", "libsupc++.so"].iter().any(|name| module.starts_with(name))
}

/// Returns the type of a Rust method, and its trait with what follows: of `<u8 as alloc::slice::Concat>::concat`
/// without its first character, or of an inherent method, `<str>::repeat`.
fn of_impl(rest: &str) -> Option<(&str, Option<&str>)> {
    let mut depth = 0_usize;
    let mut before = ' ';
    for (at, c) in rest.char_indices() {
        match c {
            '<' | '[' | '(' => depth += 1,
            // That of `fn() -> u8` closes nothing.
            '>' if before == '-' => {}
            '>' if depth == 0 => return Some((&rest[..at], None)),
            '>' | ']' | ')' => depth = depth.saturating_sub(1),
            ' ' if depth == 0 => {
                if let Some(of_trait) = rest[at..].strip_prefix(" as ") {
                    return Some((&rest[..at], Some(of_trait)));
                }
            }
            _ => {}
        }
        before = c;
    }
    None
}

/// Whether a type is one that a Rust program finds: its methods are those of the standard libraries, but the methods of
/// the program's own traits.
fn is_standard_type(name: &str) -> bool {
    let name = name.trim_start_matches(['&', '*']);
    let name = ["mut ", "const ", "dyn "].iter().fold(name, |name, word| name.strip_prefix(word).unwrap_or(name));
    let is_number = name.strip_prefix(['u', 'i', 'f']).is_some_and(|bits| bits == "size" || bits.parse::<u8>().is_ok());
    is_number
        || matches!(name, "str" | "bool" | "char" | "T" | "!")
        || name.starts_with(['[', '('])
        || ["fn(", "unsafe ", "extern ", "std::"].iter().chain(&RUST).any(|start| name.starts_with(start))
}

/// Returns the name by which a program calls a function of a C library. In the library itself, glibc's `strdup` is
/// `__strdup`, and `__GI___strdup` where the library calls it.
fn plain(name: &str) -> &str {
    name.strip_prefix("__GI_").unwrap_or(name).trim_start_matches('_')
}

/// Returns the path of a function: without its return type, parameters and template arguments. The path of a method in
/// a Rust `impl`, `<alloc::vec::Vec<T> as Clone>::clone`, is that of the type.
pub fn path(function: &str) -> String {
    if let Some(name) = function.find("operator new").map(|at| &function[at..]) {
        return name.to_owned();
    }
    let function = function.strip_prefix('<').unwrap_or(function);
    let (mut path, mut depth) = (String::new(), 0_usize);
    let mut rest = function.chars();
    while let Some(c) = rest.next() {
        match c {
            '<' => depth += 1,
            '>' if depth == 0 => break,
            '>' => depth -= 1,
            '(' if depth == 0 => match behind_parentheses(rest.as_str(), &path) {
                Some(behind) => rest = behind.chars(),
                None => break,
            },
            '{' if depth == 0 => rest = behind_group(rest.as_str()).chars(),
            ' ' if depth == 0 && path.ends_with("operator") => break,
            ' ' if depth == 0 => {
                // `T as Trait`: the type is what counts. `void f`: the return type goes.
                if function[..].starts_with(&format!("{path} as ")) {
                    break;
                }
                path.clear();
            }
            c if depth == 0 => path.push(c),
            _ => {}
        }
    }
    path.trim_start_matches(['&', '*']).to_owned()
}

/// Returns what follows parentheses that do not end the function's name, from behind the opening one: those of
/// `(anonymous namespace)::T`, of `decltype (x)`, and of a type in a function, `f(int) const::T`.
fn behind_parentheses<'n>(inside: &'n str, path: &str) -> Option<&'n str> {
    let behind = behind_group(inside);
    let of_function = behind.strip_prefix(" const").unwrap_or(behind);
    if of_function.starts_with("::") {
        return Some(of_function);
    }
    matches!(path, "" | "decltype").then_some(behind)
}

/// Returns what follows the end of a group in parentheses or braces, from behind its opening one.
fn behind_group(inside: &str) -> &str {
    let mut depth = 1_usize;
    let end = inside.find(|c| {
        match c {
            '(' | '{' => depth += 1,
            ')' | '}' => depth -= 1,
            _ => {}
        }
        depth == 0
    });
    end.map_or("", |end| &inside[end + 1..])
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A function whose file and module are not known.
    fn is_internal_named(function: &str) -> bool {
        is_internal(&Frame { function: function.to_owned(), ..Frame::default() })
    }

    #[test]
    fn names_of_rust_are_names_like_any_other_in_other_languages() {
        let is_internal = |name: &str| is_internal(&Frame::of("p+0x1", Some(name))[0]);
        for name in [
            "core::Texture::load(int) core.cpp:7",
            "core::Texture::load(int)",
            "core::load<(lambda)>(int)",
            "alloc::make(char const*) const a.cc:7",
            "hashbrown::f() a.h",
        ] {
            assert!(!is_internal(name), "{name}");
        }
        for name in ["core::ops::f mod.rs:7", "alloc::vec::Vec<(u8, u8)>::push", "<(A,B) as core::clone::Clone>::clone"]
        {
            assert!(is_internal(name), "{name}");
        }
    }

    #[test]
    fn functions_of_c_that_return_a_block_are_internal_in_the_c_library() {
        let is_internal = |text: &str, name: &str| is_internal(&Frame::of(text, Some(name))[0]);
        for name in [
            "realpath_stk canonicalize.c:7",
            "__GI___getcwd",
            "_IO_mem_finish memstream.c:7",
            "__alloc_dir",
            "opendir_tail opendir.c:63",
            "__GI__IO_str_overflow strops.c:81",
            "_IO_new_fclose iofclose.c:53",
            "__GI___isoc99_sscanf",
            "__fopen_internal",
            "__vfscanf_internal",
            "__scandir64_tail",
            "tempnam",
            "__argz_append",
            "re_compile_internal",
        ] {
            assert!(is_internal("libc.so.6+0x1", name), "{name}");
        }
        for name in ["_IO_file_doallocate", "_nl_load_locale", "qsort_r", "__tzfile_read"] {
            assert!(!is_internal("libc.so.6+0x1", name), "{name}");
        }
        for name in ["realpath a.c:7", "glob", "re_read", "scandir_all"] {
            assert!(!is_internal("program+0x1", name), "{name}");
        }
        assert!(is_internal("program+0x1", "__alloc_dir"), "of a static program");
    }

    #[test]
    fn functions_without_a_name_are_internal_in_a_library_of_cplusplus() {
        let is_internal = |text: &str| is_internal(&Frame::of(text, None)[0]);
        assert!(is_internal("libstdc++.so.6.0.30+0xce473"));
        assert!(is_internal("libc++.so.1+0x10"));
        assert!(!is_internal("libc.so.6+0x10"));
        assert!(!is_internal("libmine.so+0x10"));
    }

    #[test]
    fn only_parts_of_jemalloc_are_jemalloc() {
        for name in ["je_malloc_default", "je_arena_malloc_hard", "je_prof_backtrace", "_rjem_je_prof_backtrace"] {
            assert!(is_internal_named(name), "{name}");
        }
        for name in ["je_suis", "je_", "je_main", "prof_backtrace_impl_of_mine"] {
            assert!(!is_internal_named(name), "{name}");
        }
    }

    #[test]
    fn allocators_and_standard_libraries_are_internal() {
        for function in [
            "malloc",
            "operator new(unsigned long)",
            "void* operator new[](unsigned long)",
            "void std::vector<my::T, std::allocator<my::T> >::_M_realloc_insert<int>(int&&)",
            "std::__cxx11::basic_string<char>::_M_create(unsigned long&, unsigned long)",
            "__gnu_cxx::new_allocator<int>::allocate(unsigned long, void const*)",
            "alloc::raw_vec::RawVec<T,A>::grow_one",
            "<alloc::vec::Vec<T> as alloc::vec::spec_from_iter::SpecFromIter<T,I>>::from_iter",
            "<alloc::alloc::Global as core::alloc::Allocator>::allocate",
            "<u8 as alloc::vec::spec_from_elem::SpecFromElem>::from_elem",
            "<str>::repeat",
            "<[T]>::to_vec",
            "<[u8; 4] as core::clone::Clone>::clone",
            "<alloc::vec::Vec<my::T> as core::iter::traits::collect::Extend<my::T>>::extend",
            "<dyn core::any::Any>::of",
            "<alloc::boxed::Box<dyn core::ops::FnOnce() -> my::T> as core::ops::FnOnce<()>>::call_once",
            "_PyObject_Malloc",
            "PyMem_RawMalloc",
            // glibc's own names, as its debug information has them.
            "__GI___strdup",
            "__GI___strndup",
            "__strdup",
            "wcsdup",
            "___asprintf",
            "__asprintf_chk",
            "__vasprintf_internal",
            "__GI___getdelim",
            "getline",
            "__GI___open_memstream",
            "__cxa_allocate_exception",
            "__cxa_allocate_dependent_exception",
            // Return types in anonymous namespaces and in functions.
            "(anonymous namespace)::Item& std::vector<(anonymous namespace)::Item>::emplace_back<int>(int&&)",
            "void std::vector<(anonymous namespace)::Item>::_M_realloc_insert<int>(int&&)",
            "my::load(int)::Local& std::vector<my::load(int)::Local>::emplace_back<int>(int&&)",
            "my::A::load(int) const::Local* std::__relocate_a<my::A::load(int) const::Local>(int*)",
            "load(int)::{lambda(int)#1}& std::vector<load(int)::{lambda(int)#1}>::emplace_back<int>(int&&)",
            "f()::{unnamed type#1}& std::vector<f()::{unnamed type#1}>::emplace_back<int>(int&&)",
            "decltype ({parm#1}.get()) std::get<int>(int)",
            "std::call_once<void (&)()>(std::once_flag&)::{lambda()#1}::operator()() const",
            "std::A::f(int) const::{unnamed type#1}::g()",
        ] {
            assert!(is_internal_named(function), "{function}: {}", path(function));
        }
    }

    #[test]
    fn functions_of_the_program_are_not() {
        for function in [
            "main",
            "malloc_things",
            "std_main",
            "std::vector<int> my::make(std::allocator<int>)",
            "my::Parser<std::string>::parse(char const*)",
            "<my::Thing as core::clone::Clone>::clone",
            "my::module::alloc",
            "<u8 as my::Encode>::encode",
            // A program's own traits, for types that it finds.
            "<[u8; 4] as my::Load>::load",
            "<(u64, u8) as my::Load>::load",
            "<&[u8] as my::Load>::load",
            "<*const u8 as my::Load>::load",
            "<fn(u8) -> u8 as my::Load>::load",
            "<alloc::string::String as my::Load>::load",
            "<alloc::vec::Vec<alloc::string::String> as my::Load<core::option::Option<u8>>>::load",
            "<std::path::PathBuf as my::Load>::load::{{closure}}",
            "<dyn core::fmt::Debug as my::Load>::load",
            "PyList_New",
            "__GI__IO_file_doallocate",
            "(anonymous namespace)::malloc_things()",
            "(anonymous namespace)::Item& my::add<std::string>(std::vector<(anonymous namespace)::Item>&)",
            "std::vector<(anonymous namespace)::Item> (anonymous namespace)::make(int)",
            "std::string my::load(int)::{lambda(int)#1}::operator()(int) const",
            "std::string my::A::load(int) const::{lambda()#1}::operator()() const",
            "decltype ({parm#1}) my::get<std::string>(std::string)",
            "void (*my::handler(std::string))()",
            "",
            "(",
            "f({",
        ] {
            assert!(!is_internal_named(function), "{function}: {}", path(function));
        }
    }
}
