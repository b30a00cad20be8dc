//! Names of functions and classes, demangled and short.
//!
//! A mangled C++ name of a few hundred bytes can stand for one of gigabytes, because it refers to its own parts. Here
//! only as much of a name is written as is shown.

mod perf_map;

use std::fmt::{self, Write};

use cpp_demangle::{BorrowedSymbol, DemangleOptions};

pub use self::perf_map::PerfMap;

/// Characters of the longest name. Of what is longer its first ones stand, `…`, and a hash of the whole in eight
/// hexadecimal digits, which keeps names with one beginning apart.
pub const LONGEST: usize = 200;

/// The most characters of a name that its hash is of. Names that are equal up to there have one name.
const MOST_HASHED: usize = 64 << 10;

/// The longest mangled name that is read; longer ones are shown as they are.
const LONGEST_MANGLED: usize = 64 << 10;

/// Returns the name of the function with this symbol, of Rust, C++ or C. Where the types of a C++ function cannot be
/// read, they are left out: `std::make_shared<T>`.
///
/// # Examples
/// ```
/// use heapwright_names::function;
///
/// assert_eq!(function("_ZN3foo3barEi"), "foo::bar(int)");
/// assert_eq!(function("_ZN4core3fmt5Write9write_fmt17h0123456789abcdefE"), "core::fmt::Write::write_fmt");
/// assert_eq!(function("malloc"), "malloc");
/// ```
pub fn function(symbol: &str) -> String {
    rust(symbol).or_else(|| cplusplus_function(symbol)).unwrap_or_else(|| Short::of(symbol))
}

/// Returns the C++ class with this name in its type information.
///
/// # Examples
/// ```
/// use heapwright_names::class;
///
/// assert_eq!(class("N6shapes6CircleE").as_deref(), Some("shapes::Circle"));
/// assert_eq!(class("Circle"), None);
/// ```
pub fn class(type_name: &str) -> Option<String> {
    let symbol = format!("_ZTI{type_name}");
    let (symbol, unread) = cplusplus(&symbol)?;
    if unread.is_empty() { written(&symbol, &DemangleOptions::default(), "typeinfo for ") } else { None }
}

fn rust(symbol: &str) -> Option<String> {
    let name = rustc_demangle::try_demangle(symbol).ok().filter(|_| symbol.len() <= LONGEST_MANGLED)?;
    let mut short = Short::behind("");
    // Without the hash. It fails when there is no room for more.
    let _ = write!(short, "{name:#}");
    short.finish()
}

fn cplusplus_function(symbol: &str) -> Option<String> {
    let (symbol, unread) = cplusplus(symbol)?;
    let options = DemangleOptions::default();
    // The library refuses types that GCC mangles as `sr` and a type of `std`, as in the return types of function
    // templates. The types that precede them were read, but do not stand for all.
    written(&symbol, &if unread.is_empty() { options } else { options.no_return_type().no_params() }, "")
}

/// Reads a mangled name; returns it, and the part behind it that could not be read.
fn cplusplus(symbol: &str) -> Option<(BorrowedSymbol<'_>, &[u8])> {
    // The library also reads types, which have no prefix: `f` would be `float`.
    let is_mangled = symbol.starts_with('_') && symbol.len() <= LONGEST_MANGLED;
    if is_mangled { BorrowedSymbol::with_tail(symbol.as_bytes()).ok() } else { None }
}

/// Returns what stands behind `prefix` in a demangled name.
fn written(symbol: &BorrowedSymbol<'_>, options: &DemangleOptions, prefix: &str) -> Option<String> {
    let mut short = Short::behind(prefix);
    let written = symbol.structured_demangle(&mut short, options);
    if written.is_err() && short.unread > 0 {
        return None;
    }
    // The library writes a comma in front of an empty argument pack.
    short.finish().map(|name| name.replace(", >", ">"))
}

/// The start of a name, and a hash of the whole.
struct Short<'p> {
    text: String,
    prefix: &'p str,
    /// Characters that may follow in `text`.
    room: usize,
    /// Characters that may still be hashed.
    unread: usize,
    hash: u64,
}

impl Short<'_> {
    /// Returns a name that will be written behind `prefix`, which must be ASCII.
    fn behind(prefix: &str) -> Short<'_> {
        let room = prefix.len() + LONGEST + 1;
        Short { text: String::new(), prefix, room, unread: MOST_HASHED, hash: FNV_START }
    }

    fn of(name: &str) -> String {
        let mut short = Short::behind("");
        let _ = short.write_str(name);
        short.finish().unwrap_or_default()
    }

    fn finish(self) -> Option<String> {
        let name = self.text.strip_prefix(self.prefix)?;
        Some(match name.char_indices().nth(LONGEST) {
            Some((end, _)) => format!("{}…{:08x}", &name[..end], (self.hash >> 32) ^ (self.hash & 0xffff_ffff)),
            None => name.to_owned(),
        })
    }
}

/// The FNV-1a hash: the same in every version and on every machine, so that names of two recordings can be compared.
const FNV_START: u64 = 0xcbf2_9ce4_8422_2325;
const FNV_FACTOR: u64 = 0x0000_0100_0000_01b3;

impl Write for Short<'_> {
    fn write_str(&mut self, part: &str) -> fmt::Result {
        for letter in part.chars() {
            self.unread = self.unread.checked_sub(1).ok_or(fmt::Error)?;
            let with = |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(FNV_FACTOR);
            self.hash = letter.encode_utf8(&mut [0; 4]).as_bytes().iter().fold(self.hash, with);
            if let Some(room) = self.room.checked_sub(1) {
                self.room = room;
                self.text.push(letter);
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A function whose arguments' types are pairs of the one before, so that each name is twice as long.
    fn doubling(steps: usize) -> String {
        // S_ is std::pair's name, S0_ the first type, S1_ the second, ...
        let number = |step: usize| char::from_digit(step as u32, 36).unwrap().to_ascii_uppercase();
        let doubled = |step: usize| format!("S_IS{0}_S{0}_E", number(step));
        format!("_Z1fSt4pairIiiE{}", (0..steps).map(doubled).collect::<String>())
    }

    #[test]
    fn names_that_stand_for_gigabytes_are_cut() {
        assert_eq!(
            function(&doubling(2)),
            "f(std::pair<int, int>, std::pair<std::pair<int, int>, std::pair<int, int> >, \
             std::pair<std::pair<std::pair<int, int>, std::pair<int, int> >, std::pair<std::pair<int, int>, \
             std::pair<int, int> > >)"
        );
        // Written out, 23 steps are 550 million characters.
        for steps in [23, 35] {
            assert_eq!(function(&doubling(steps)).chars().count(), LONGEST + 1 + 8);
        }
    }

    #[test]
    fn names_of_all_languages() {
        for (symbol, expected) in [
            ("_ZNSt6vectorIiSaIiEE9push_backEOi", "std::vector<int, std::allocator<int> >::push_back(int&&)"),
            ("_RNvC6_123foo3bar", "123foo::bar"),
            ("_Z", "_Z"),
            ("", ""),
            ("PyObject_Malloc", "PyObject_Malloc"),
            // In C++, these are the types `float` and `unsigned long long*`.
            ("f", "f"),
            ("Py", "Py"),
            ("_Z3oneI1TJEEvv", "void one<T>()"),
        ] {
            assert_eq!(function(symbol), expected);
        }
        assert_eq!(class("N12_GLOBAL__N_13FooE").as_deref(), Some("(anonymous namespace)::Foo"));
        for none in ["", "not mangled", "999999999999a", "\u{1b}[2J", &"N".repeat(100_000)] {
            assert_eq!(class(none), None);
        }
    }

    #[test]
    fn a_function_whose_types_cannot_be_read_has_its_name() {
        // As g++ 12 mangles them.
        for (symbol, expected) in [
            (
                "_ZSt11make_sharedI1TJEESt10shared_ptrINSt9enable_ifIXntsrSt8is_arrayIT_E5valueES4_E4typeEDpOT0_",
                "std::make_shared<T>",
            ),
            (
                "_ZNKSt14default_deleteIA_iEclIiEENSt9enable_ifIXsrSt14is_convertibleIPA_T_PS0_E5valueEvE4typeEPS5_",
                "std::default_delete<int []>::operator()<int>",
            ),
            (
                "_ZNSt6chrono13duration_castINS_8durationIlSt5ratioILl1ELl1000EEEElS2_ILl1ELl1EEEENSt9enable_ifIXsrNS_\
                 13__is_durationIT_EE5valueES8_E4typeERKNS1_IT0_T1_EE",
                "std::chrono::duration_cast<std::chrono::duration<long, std::ratio<(long)1, (long)1000> >, long, \
                 std::ratio<(long)1, (long)1> >",
            ),
            (
                "_ZSt4swapI1TENSt9enable_ifIXsrSt6__and_IJSt6__not_ISt15__is_tuple_likeIT_EESt21is_move_constructibleI\
                 S5_ESt18is_move_assignableIS5_EEE5valueEvE4typeERS5_SF_.cold",
                "std::swap<T>",
            ),
        ] {
            assert_eq!(function(symbol), expected);
        }
        assert_eq!(class("N6shapes6CircleEi"), None);
    }

    #[test]
    fn long_names_end_with_an_ellipsis_and_a_hash() {
        let name = "ü".repeat(LONGEST + 1);
        let (start, hash) = function(&name).split_once('…').map(|(a, b)| (a.to_owned(), b.to_owned())).unwrap();
        assert_eq!((start, hash.len()), ("ü".repeat(LONGEST), 8));
        assert_eq!(function(&name[..LONGEST * 2]), "ü".repeat(LONGEST));
        assert_eq!(class(&format!("300{}", "x".repeat(300))).unwrap().chars().count(), LONGEST + 1 + 8);
    }

    #[test]
    fn long_names_with_one_beginning_stay_apart() {
        let names = ["a", "b"].map(|end| function(&format!("{}{end}", "x".repeat(300))));
        assert_ne!(names[0], names[1]);
        // The symbols of `f<T, A>` and `f<T, B>`, where `T` is long.
        let symbols = ["1A", "1B"].map(|last| function(&format!("_Z1fI300{}{last}Evv", "t".repeat(300))));
        assert_ne!(symbols[0], symbols[1]);
        assert_eq!(function(&"x".repeat(300)), function(&"x".repeat(300)), "always the same");
    }
}
