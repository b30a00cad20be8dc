//! Frames that say only that memory was requested: allocators, and the standard libraries that call them.

/// Functions of C libraries, and of the run-time library of C++, that allocate for their caller. Their names are
/// without leading underscores.
const C: [&str; 30] = [
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
    "cxa_allocate_exception",
    "xmalloc",
    "xcalloc",
    "xrealloc",
    "xstrdup",
    "g_malloc",
    "g_malloc0",
    "g_realloc",
    "g_strdup",
];

/// How the names of such functions of C++, Rust and Python begin.
const PREFIXES: [&str; 27] = [
    "operator new",
    "std::",
    "__gnu_cxx::",
    "boost::container::",
    "alloc::",
    "core::",
    "hashbrown::",
    "__rust_alloc",
    "__rust_realloc",
    "__rdl_",
    "__rg_",
    "__rustc",
    "je_",
    "_rjem_",
    "prof_backtrace_impl",
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

/// Returns whether a function belongs to an allocator or to a standard library.
pub fn is_internal(function: &str) -> bool {
    if let Some(rest) = function.strip_prefix('<')
        && let Some(implemented) = of_primitive(rest)
    {
        return implemented.is_none_or(is_internal);
    }
    let path = path(function);
    C.contains(&plain(&path)) || PREFIXES.iter().any(|prefix| path.starts_with(prefix))
}

/// Returns the trait of a Rust method of a primitive type, as in `<u8 as alloc::slice::Concat>::concat` without its
/// first character; `Some(None)` for an inherent method, as in `<str>::repeat`.
fn of_primitive(rest: &str) -> Option<Option<&str>> {
    let end = rest.find([' ', '>']).unwrap_or(rest.len());
    let (name, behind) = rest.split_at(end);
    let is_integer =
        name.strip_prefix(['u', 'i', 'f']).is_some_and(|bits| bits == "size" || bits.parse::<u8>().is_ok());
    let is_primitive = is_integer || matches!(name, "str" | "bool" | "char" | "T") || name.starts_with(['[', '(']);
    is_primitive.then(|| behind.strip_prefix(" as "))
}

/// Returns the name by which a program calls a function of a C library. In the library itself, glibc's `strdup` is
/// `__strdup`, and `__GI___strdup` where the library calls it.
fn plain(name: &str) -> &str {
    name.strip_prefix("__GI_").unwrap_or(name).trim_start_matches('_')
}

/// Returns the path of a function: without its return type, parameters and template arguments. The path of a method in
/// a Rust `impl`, `<alloc::vec::Vec<T> as Clone>::clone`, is that of the type.
fn path(function: &str) -> String {
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
            assert!(is_internal(function), "{function}: {}", path(function));
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
            assert!(!is_internal(function), "{function}: {}", path(function));
        }
    }
}
