//! The output of `--json`.

use std::io::{self, BufWriter, Write};

use serde::Serialize;

use crate::output::failure;

/// The version of the form below.
const SCHEMA: u32 = 1;

#[derive(Serialize)]
struct Results<'a, R> {
    schema: u32,
    results: &'a [R],
}

/// Prints one object to standard output: `{"schema": 1, "results": [ … ]}`, a row per measurement.
pub fn print<R: Serialize>(rows: &[R]) -> io::Result<()> {
    let mut out = BufWriter::new(io::stdout().lock());
    write(&mut out, rows).and_then(|()| out.flush()).map_err(|error| failure(&error))
}

/// As [`print()`], to `out`.
pub fn write<R: Serialize>(out: &mut impl Write, rows: &[R]) -> io::Result<()> {
    serde_json::to_writer_pretty(&mut *out, &Results { schema: SCHEMA, results: rows })?;
    writeln!(out)
}
