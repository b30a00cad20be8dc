//! `heapwright merge`: the shards of a sweep in one file.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result, ensure};
use clap::Args;
use csv::StringRecord;

use super::file::{self, Form};
use super::row::{POINT, POINTS, SWEEP, whole};
use heapwright_host::destination::{Contents, Destination};
use heapwright_host::names::Shown;
use heapwright_show::number;

/// The examples at the end of the help text.
pub const EXAMPLES: &str = "\
Examples:
  heapwright merge part-*.csv -o all.parquet
  heapwright merge monday.csv tuesday.parquet -o all.csv

Nothing is written unless all shards are of one sweep (the same parameters, traces and version), no
point is missing and none is there twice. Rows are sorted by point.

Exit code: 0, or 1 when that is not so, or a file cannot be read or written.";

/// The arguments of `merge`.
#[derive(Args)]
pub struct Arguments {
    /// The shards, as written by `heapwright sweep`, as CSV or Parquet.
    #[arg(value_name = "SHARD", required = true)]
    pub shards: Vec<PathBuf>,

    /// The file to write; its name ends in .csv or .parquet.
    #[arg(long, short, value_name = "FILE")]
    pub output: PathBuf,
}

/// How many points are named where something is wrong with them.
const NAMED: usize = 8;

/// Puts shards together.
pub fn run(arguments: &Arguments) -> Result<ExitCode> {
    Form::of(&arguments.output)?;
    let shards: Vec<&Path> = arguments.shards.iter().map(PathBuf::as_path).collect();
    Destination::of(&arguments.output, Contents::Other, &shards)?;
    let mut merged = Merged::default();
    for shard in &arguments.shards {
        let rows = file::read(shard)?;
        merged.add(rows, &shard.shown())?;
    }
    let rows = merged.whole()?;
    file::write(&arguments.output, &rows)?;
    heapwright_show::println!(
        "{}: {} of {}",
        arguments.output.shown(),
        number::counted(rows.len() as u64, "row"),
        number::counted(arguments.shards.len() as u64, "shard")
    );
    Ok(ExitCode::SUCCESS)
}

/// Rows by point, and from which file.
#[derive(Default)]
struct Merged {
    sweep: Option<(String, usize, String)>,
    rows: BTreeMap<usize, (StringRecord, usize)>,
    files: Vec<String>,
    doubled: Vec<(usize, usize, usize)>,
}

impl Merged {
    fn add(&mut self, rows: Vec<StringRecord>, file: &str) -> Result<()> {
        let number = self.files.len();
        self.files.push(file.to_owned());
        for row in rows {
            let strange = || format!("{file}: a row does not say to which sweep it belongs");
            let sweep = row.get(SWEEP).with_context(strange)?.to_owned();
            let (points, point) =
                (whole(&row, POINTS).with_context(strange)?, whole(&row, POINT).with_context(strange)?);
            let (known, total, first) = self.sweep.get_or_insert_with(|| (sweep.clone(), points, file.to_owned()));
            ensure!(
                *known == sweep && *total == points && point < points,
                "{file} is of another sweep than {first}: its parameters, traces or version differ"
            );
            if let Some((_, before)) = self.rows.insert(point, (row, number)) {
                self.doubled.push((point, before, number));
            }
        }
        Ok(())
    }

    /// All rows in order, if each is there once.
    fn whole(self) -> Result<Vec<StringRecord>> {
        let points =
            self.sweep.as_ref().map(|(_, points, _)| *points).context("there are no rows in any of the shards")?;
        let doubled: Vec<String> = self
            .doubled
            .iter()
            .take(NAMED)
            .map(|&(point, a, b)| {
                if a == b {
                    format!("{point} (twice in {})", self.files[a])
                } else {
                    format!("{point} (in {} and {})", self.files[a], self.files[b])
                }
            })
            .collect();
        ensure!(
            doubled.is_empty(),
            "{} points are there twice: {}",
            self.doubled.len(),
            list(&doubled, self.doubled.len())
        );
        let missing = points - self.rows.len();
        let named: Vec<String> = (0..points)
            .filter(|point| !self.rows.contains_key(point))
            .take(NAMED)
            .map(|point| point.to_string())
            .collect();
        ensure!(
            missing == 0,
            "{missing} of {points} points are missing: {}. Point i is in shard i mod N: take that one up again with \
             --resume",
            list(&named, missing)
        );
        Ok(self.rows.into_values().map(|(row, _)| row).collect())
    }
}

fn list(named: &[String], all: usize) -> String {
    named.join(", ") + if named.len() < all { " and more" } else { "" }
}
