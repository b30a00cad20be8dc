//! `op,id,size[,align]`.

use std::io::Write;

use super::book::Book;
use super::lines::number;
use super::{ImportError, Line};
use crate::event::{Kind, USUAL_ALIGN};

pub(super) fn read<W: Write>(line: &str, book: &mut Book<'_, W>) -> Result<Line, ImportError> {
    if line.is_empty() || line.starts_with('#') || line.starts_with("op,") {
        return Ok(Line::PassedOver);
    }
    let mut fields = line.split(',').map(str::trim);
    let operation = fields.next().unwrap_or_default();
    let numbers: Option<Vec<u64>> = fields.map(number).collect();
    match (operation, numbers.as_deref()) {
        ("malloc" | "alloc" | "a", Some(&[id, size])) => book.malloc(id, size),
        ("calloc", Some(&[id, size])) => book.allocate(id, Kind::Calloc, size, USUAL_ALIGN),
        ("aligned" | "memalign", Some(&[id, size, align])) => book.allocate(id, Kind::Aligned, size, align),
        ("realloc" | "r", Some(&[id, size])) => book.resize(id, id, size),
        ("free" | "f", Some(&[id])) => book.free(id),
        _ => Ok(Line::NotUnderstood),
    }
}
