//! Commands as a shell reads them.

use std::ffi::OsStr;

/// Returns a word as a shell reads it.
///
/// ```
/// use heapwright_show::shell::quoted;
/// assert_eq!(quoted("it's"), "'it'\\''s'");
/// assert_eq!(quoted("/usr/lib/libx.so.2"), "/usr/lib/libx.so.2");
/// ```
#[must_use]
pub fn quoted(word: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "/._-+=:,@%".contains(c);
    match !word.is_empty() && word.chars().all(is_plain) {
        true => word.to_owned(),
        false => format!("'{}'", word.replace('\'', "'\\''")),
    }
}

/// Returns words as a shell reads them; `None` when one cannot be shown, because it is not UTF-8 or has control
/// characters.
///
/// ```
/// use heapwright_show::shell::words;
/// use std::ffi::OsStr;
/// assert_eq!(words(["grep", "a b", "c"].map(OsStr::new)).unwrap(), "grep 'a b' c");
/// assert_eq!(words(["two\nlines"].map(OsStr::new)), None);
/// ```
#[must_use]
pub fn words<'w>(words: impl IntoIterator<Item = &'w OsStr>) -> Option<String> {
    let shown = |word: &'w OsStr| word.to_str().filter(|word| !word.chars().any(char::is_control)).map(quoted);
    let words: Option<Vec<String>> = words.into_iter().map(shown).collect();
    words.map(|words| words.join(" "))
}
