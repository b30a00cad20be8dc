//! CS:APP's `.rep`: two to four integers on lines of their own, then events. The meaning of the integers differs
//! between courses, so they are skipped.

use std::io::Write;

use super::ImportError;
use super::ledger::Ledger;
use super::lines::{Line, number};

/// The limit of integers in the header.
const HEADER: u32 = 4;

/// The state of the parser: the header lines read so far, and whether events have begun.
#[derive(Default)]
pub(super) struct Rep {
    header: u32,
    began: bool,
}

impl Rep {
    pub(super) fn read<W: Write>(&mut self, line: &str, ledger: &mut Ledger<'_, W>) -> Result<Line, ImportError> {
        let fields: Vec<&str> = line.split_whitespace().collect();
        match fields[..] {
            [] => return Ok(Line::PassedOver),
            [lone] if !self.began && self.header < HEADER && number(lone).is_some() => {
                self.header += 1;
                return Ok(Line::PassedOver);
            }
            _ => self.began = true,
        }
        match fields[..] {
            // A free of a null pointer.
            ["f", "-1"] => Ok(Line::PassedOver),
            ["f", id] => number(id).map_or(Ok(Line::NotUnderstood), |id| ledger.free(id)),
            [operation @ ("a" | "r"), id, size] => match (operation, number(id), number(size)) {
                ("a", Some(id), Some(size)) => ledger.malloc(id, size),
                ("r", Some(id), Some(size)) => ledger.resize(id, id, size),
                _ => Ok(Line::NotUnderstood),
            },
            _ => Ok(Line::NotUnderstood),
        }
    }
}
