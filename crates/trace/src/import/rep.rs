//! CS:APP's `.rep`: two to four integers, a line each, then events. Which integers there are differs between courses; all that
//! matters is that they come first.

use std::io::Write;

use super::book::Book;
use super::lines::number;
use super::{ImportError, Line};

/// How many integers there may be in front.
const HEADER: u32 = 4;

/// How far the header has been read.
#[derive(Default)]
pub(super) struct Rep {
    header: u32,
    began: bool,
}

impl Rep {
    pub(super) fn read<W: Write>(&mut self, line: &str, book: &mut Book<'_, W>) -> Result<Line, ImportError> {
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
            // A free of nothing.
            ["f", "-1"] => Ok(Line::PassedOver),
            ["f", id] => number(id).map_or(Ok(Line::NotUnderstood), |id| book.free(id)),
            [operation @ ("a" | "r"), id, size] => match (operation, number(id), number(size)) {
                ("a", Some(id), Some(size)) => book.malloc(id, size),
                ("r", Some(id), Some(size)) => book.resize(id, id, size),
                _ => Ok(Line::NotUnderstood),
            },
            _ => Ok(Line::NotUnderstood),
        }
    }
}
