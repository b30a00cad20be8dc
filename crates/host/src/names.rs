//! Names of files, programs and allocators, which are any bytes, as text that does nothing to a terminal or a table.

use std::borrow::Cow;
use std::ffi::OsStr;
use std::path::Path;

/// Names that messages and tables show.
pub trait Shown {
    /// Returns the name as text in which a replacement character (U+FFFD) stands for each control character, newlines
    /// and tabs among them, for each character that changes the direction of what follows, and for what is no UTF-8.
    fn shown(&self) -> Cow<'_, str>;
}

impl Shown for str {
    fn shown(&self) -> Cow<'_, str> {
        if self.contains(acts) { self.replace(acts, "\u{fffd}").into() } else { self.into() }
    }
}

/// Whether a character does something instead of being shown: Unicode's controls, separators of lines, and formatting
/// of bidirectional text (UAX 9), which would show a row in another order.
fn acts(character: char) -> bool {
    let is_of_direction =
        matches!(character, '\u{61c}' | '\u{200e}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    character.is_control() || is_of_direction
}

impl Shown for OsStr {
    fn shown(&self) -> Cow<'_, str> {
        match self.to_string_lossy() {
            Cow::Borrowed(text) => text.shown(),
            Cow::Owned(text) => text.shown().into_owned().into(),
        }
    }
}

impl Shown for Path {
    fn shown(&self) -> Cow<'_, str> {
        self.as_os_str().shown()
    }
}

/// The name that stands for standard output.
pub const STANDARD_OUTPUT: &str = "-";

/// Returns a name that a program has given as text that does nothing to a terminal. The newline at its end is the
/// system's.
pub fn printable(name: &[u8]) -> String {
    let name = name.strip_suffix(b"\n").unwrap_or(name);
    String::from_utf8_lossy(name).shown().into_owned()
}

#[cfg(test)]
mod tests {
    use std::os::unix::ffi::OsStrExt;

    use super::*;

    #[test]
    fn what_acts_is_replaced_and_nothing_else() {
        assert_eq!("a\u{202e}b\u{2066}c\u{2028}\u{200f}".shown(), "a\u{fffd}b\u{fffd}c\u{fffd}\u{fffd}");
        assert_eq!("a|b\nc\td\u{1b}[0m\u{85}".shown(), "a|b\u{fffd}c\u{fffd}d\u{fffd}[0m\u{fffd}");
        assert!(matches!(Path::new("ä/b c").shown(), Cow::Borrowed("ä/b c")));
        assert_eq!(OsStr::from_bytes(b"\xff\r").shown(), "\u{fffd}\u{fffd}");
    }
}
