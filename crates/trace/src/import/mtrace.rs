//! glibc's mtrace: `@ where sign address [size]`, `+` an allocation, `-` a free, `<` and `>` the two sides of a realloc, `!` one that failed.

use std::io::Write;

use super::book::Book;
use super::lines::address;
use super::{ImportError, Line};
use crate::event::USUAL_ALIGN;

pub(super) fn read<W: Write>(line: &str, book: &mut Book<'_, W>) -> Result<Line, ImportError> {
    let mut fields: Vec<&str> = line.split_whitespace().collect();
    if fields.is_empty() || fields[0] == "=" {
        return Ok(Line::PassedOver);
    }
    if fields[0] == "@" {
        // The place in the program, which may contain blanks, ends where the sign stands.
        let sign = fields.iter().rposition(|field| matches!(*field, "+" | "-" | "<" | ">" | "!"));
        let Some(sign) = sign else { return Ok(Line::NotUnderstood) };
        fields.drain(..sign);
    }
    let numbers: Option<Vec<u64>> = fields[1..].iter().map(|field| address(field)).collect();
    match (fields[0], numbers.as_deref()) {
        ("+" | ">", Some(&[0, size])) | ("!", Some(&[_, size])) => book.fail(size, USUAL_ALIGN),
        ("+", Some(&[address, size])) => book.malloc(address, size),
        ("-", Some(&[address])) => book.free(address),
        ("<", Some(&[address])) => Ok(book.leave(address)),
        (">", Some(&[address, size])) => book.come_back(address, size),
        _ => Ok(Line::NotUnderstood),
    }
}
