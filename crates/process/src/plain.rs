//! Text of others in messages: values of variables, and names of programs.

use core::fmt::{self, Display, Formatter, Write};

use heapwright_os::Line;

/// The bytes of a value that a message shows.
const MOST: usize = 64;

/// Bytes as a message shows them: a replacement character stands for each control character and for what is no UTF-8,
/// and `...` for what is left out of a long text.
pub(crate) struct Plain<'t>(pub(crate) &'t [u8]);

impl Display for Plain<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let (shown, rest) = self.0.split_at(end_of_shown(self.0));
        for chunk in shown.utf8_chunks() {
            write_plain(f, chunk.valid())?;
            if !chunk.invalid().is_empty() {
                f.write_char(char::REPLACEMENT_CHARACTER)?;
            }
        }
        f.write_str(if rest.is_empty() { "" } else { "..." })
    }
}

/// Returns where the part of a text ends that is shown: not within a character.
fn end_of_shown(text: &[u8]) -> usize {
    if text.len() <= MOST {
        return text.len();
    }
    let continues = |at: &usize| text[*at] & 0xc0 == 0x80;
    (MOST - 3..=MOST).rev().find(|at| !continues(at)).unwrap_or(MOST)
}

/// A line to which text is added without its control characters.
pub(crate) struct PlainLine<'l, const N: usize>(pub(crate) &'l mut Line<N>);

impl<const N: usize> Write for PlainLine<'_, N> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        write_plain(self.0, text)
    }
}

fn write_plain(out: &mut impl Write, text: &str) -> fmt::Result {
    let mut parts = text.split(char::is_control);
    out.write_str(parts.next().unwrap_or_default())?;
    parts.try_for_each(|part| {
        out.write_char(char::REPLACEMENT_CHARACTER)?;
        out.write_str(part)
    })
}

#[cfg(test)]
mod tests {
    use std::string::ToString;

    use super::*;

    #[test]
    fn control_characters_are_replaced_and_a_cut_is_marked() {
        for (value, shown) in [
            (&b"first"[..], "first"),
            (b"a\nb\x1b[31m", "a\u{fffd}b\u{fffd}[31m"),
            (b"\xff\xc2\x85\x7f", "\u{fffd}\u{fffd}\u{fffd}"),
            ("\u{e4}".repeat(32).as_bytes(), &"\u{e4}".repeat(32)),
            ("\u{e4}".repeat(33).as_bytes(), &("\u{e4}".repeat(32) + "...")),
            (
                ("a".to_string() + &"\u{20ac}".repeat(30)).as_bytes(),
                &("a".to_string() + &"\u{20ac}".repeat(21) + "..."),
            ),
        ] {
            assert_eq!(Plain(value).to_string(), shown);
        }
    }
}
