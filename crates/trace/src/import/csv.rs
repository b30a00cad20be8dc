//! CSV: `op,id,size[,align[,thread]]`.

use std::io::Write;

use super::ImportError;
use super::ledger::Ledger;
use super::lines::{Line, number};
use crate::event::{DEFAULT_ALIGN, Kind};

/// The columns after the operation; `None` for an empty or missing column.
struct Columns {
    id: Option<u64>,
    size: Option<u64>,
    align: Option<u64>,
    thread: Option<u64>,
}

impl Columns {
    fn parse<'l>(fields: impl Iterator<Item = &'l str>) -> Option<Columns> {
        let mut columns = [None; 4];
        for (at, field) in fields.enumerate() {
            let column = columns.get_mut(at)?;
            *column = if field.is_empty() { None } else { Some(number(field)?) };
        }
        let [id, size, align, thread] = columns;
        Some(Columns { id, size, align, thread })
    }
}

pub(super) fn read<W: Write>(line: &str, ledger: &mut Ledger<'_, W>) -> Result<Line, ImportError> {
    if line.is_empty() || line.starts_with('#') || line.starts_with("op,") {
        return Ok(Line::PassedOver);
    }
    let mut fields = line.split(',').map(str::trim);
    let operation = fields.next().unwrap_or_default();
    let Some(Columns { id, size, align, thread }) = Columns::parse(fields) else { return Ok(Line::NotUnderstood) };
    ledger.in_thread(thread.unwrap_or(0));
    match (operation, id, size, align) {
        ("malloc" | "alloc" | "a", Some(id), Some(size), None) => ledger.malloc(id, size),
        ("calloc", Some(id), Some(size), None) => ledger.allocate(id, Kind::Calloc, size, DEFAULT_ALIGN),
        ("aligned" | "memalign", Some(id), Some(size), Some(align)) => ledger.allocate(id, Kind::Aligned, size, align),
        ("realloc" | "r", Some(id), Some(size), None) => ledger.resize(id, id, size),
        ("free" | "f", Some(id), None, None) => ledger.free(id),
        ("failed", None, Some(size), align) => ledger.fail(size, align.unwrap_or(DEFAULT_ALIGN)),
        _ => Ok(Line::NotUnderstood),
    }
}
