//! glibc's mtrace: `@ where sign address [size]`. Signs: `+` allocation, `-` free, `<` and `>` old and new place of a
//! realloc, `!` failed realloc.

use std::io::Write;

use super::ImportError;
use super::ledger::Ledger;
use super::lines::{Line, address};
use crate::event::DEFAULT_ALIGN;

pub(super) fn read<W: Write>(line: &str, ledger: &mut Ledger<'_, W>) -> Result<Line, ImportError> {
    let mut fields: Vec<&str> = line.split_whitespace().collect();
    if fields.is_empty() || fields[0] == "=" {
        return Ok(Line::PassedOver);
    }
    if fields[0] == "@" {
        // The caller may contain spaces, so the fields are counted from the last sign.
        let sign = fields.iter().rposition(|field| matches!(*field, "+" | "-" | "<" | ">" | "!"));
        let Some(sign) = sign else { return Ok(Line::NotUnderstood) };
        fields.drain(..sign);
    }
    let numbers: Option<Vec<u64>> = fields[1..].iter().map(|field| address(field)).collect();
    match (fields[0], numbers.as_deref()) {
        ("+" | ">", Some(&[0, size])) | ("!", Some(&[_, size])) => ledger.fail(size, DEFAULT_ALIGN),
        ("+", Some(&[address, size])) => ledger.malloc(address, size),
        ("-", Some(&[address])) => ledger.free(address),
        ("<", Some(&[address])) => Ok(ledger.begin_move(address)),
        (">", Some(&[address, size])) => ledger.end_move(address, size),
        _ => Ok(Line::NotUnderstood),
    }
}
