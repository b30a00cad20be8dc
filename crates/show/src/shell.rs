//! Commands as a shell reads them.

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
