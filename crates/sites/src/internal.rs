//! Frames that say only that memory was requested: allocators, and the standard libraries that call them.

/// Functions of C libraries that allocate for their caller.
const C: [&str; 21] = [
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
    "__strdup",
    "strndup",
    "__strndup",
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
    C.contains(&path.as_str()) || PREFIXES.iter().any(|prefix| path.starts_with(prefix))
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

/// Returns the path of a function: without its return type, parameters and template arguments. The path of a method in
/// a Rust `impl`, `<alloc::vec::Vec<T> as Clone>::clone`, is that of the type.
fn path(function: &str) -> String {
    if let Some(name) = function.find("operator new").map(|at| &function[at..]) {
        return name.to_owned();
    }
    let function = function.strip_prefix('<').unwrap_or(function);
    let (mut path, mut depth) = (String::new(), 0_usize);
    for c in function.chars() {
        match c {
            '<' => depth += 1,
            '>' if depth == 0 => break,
            '>' => depth -= 1,
            '(' if depth == 0 => break,
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
            "",
        ] {
            assert!(!is_internal(function), "{function}: {}", path(function));
        }
    }
}
