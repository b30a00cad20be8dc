//! Files of rows: CSV or Parquet. Rows are written one by one to a CSV file beside the output, which can be continued
//! after an interruption.

use std::fs::{self, File, OpenOptions};
use std::io::{BufReader, BufWriter, ErrorKind, Seek, SeekFrom};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail, ensure};
use csv::StringRecord;

use super::parquet;
use super::row::{POINT, SWEEP, headings, whole};
use heapwright_host::destination::{Contents, Destination};
use heapwright_host::names::Shown;
use heapwright_show::usage::Misuse;

/// The form of a file, by its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    Csv,
    Parquet,
}

impl Form {
    /// The form that the name of `path` ends in.
    pub fn of(path: &Path) -> Result<Form> {
        match path.extension().and_then(|end| end.to_str()) {
            Some("csv") => Ok(Form::Csv),
            Some("parquet") => Ok(Form::Parquet),
            _ => {
                let name = path.shown();
                bail!(Misuse(format!("{name}: the name must end in .csv or .parquet, which says the form")))
            }
        }
    }
}

/// Where a sweep's rows go, one by one: to a CSV file beside the output, which becomes the output when it is complete.
pub struct Rows {
    output: PathBuf,
    partial: PathBuf,
    writer: csv::Writer<BufWriter<File>>,
}

impl Rows {
    /// Begins a sweep whose output does not exist yet, not even in part.
    pub fn begin(output: &Path) -> Result<Rows> {
        Form::of(output)?;
        let partial = partial(output);
        let exists = |path: &Path| {
            format!("{} exists: continue it with --resume, or remove it, or choose another name", path.shown())
        };
        ensure!(!output.exists(), exists(output));
        let file = match OpenOptions::new().write(true).create_new(true).open(&partial) {
            Err(error) if error.kind() == ErrorKind::AlreadyExists => bail!(exists(&partial)),
            file => file.with_context(|| format!("{} cannot be written", partial.shown()))?,
        };
        let mut rows = Rows { output: output.to_owned(), partial, writer: writer(file) };
        rows.put(&headings())?;
        Ok(rows)
    }

    /// Continues a sweep, if it was begun; an incomplete row at the end is removed. Returns the number of rows that
    /// exist, which must be those of `sweep` with the numbers in `expected`. `None` when all of them exist.
    pub fn resume(output: &Path, sweep: &str, expected: &[usize]) -> Result<Option<(Rows, usize)>> {
        Form::of(output)?;
        let partial = partial(output);
        if output.exists() {
            let rows = read(output)?;
            check(output, &rows, sweep, expected)?;
            ensure!(rows.len() == expected.len(), "{} has only {} rows: remove it", output.shown(), rows.len());
            return Ok(None);
        }
        if !partial.exists() {
            return Ok(Some((Rows::begin(output)?, 0)));
        }
        let cannot = || format!("{} cannot be continued", partial.shown());
        let mut file = OpenOptions::new().read(true).write(true).open(&partial).with_context(cannot)?;
        let (rows, length) = intact(&file).with_context(cannot)?;
        check(&partial, &rows, sweep, expected)?;
        file.set_len(length).with_context(cannot)?;
        file.seek(SeekFrom::End(0)).with_context(cannot)?;
        let mut continued = Rows { output: output.to_owned(), partial, writer: writer(file) };
        if length == 0 {
            continued.put(&headings())?;
        }
        Ok(Some((continued, rows.len())))
    }

    /// Writes a row, which outlives this process from now on.
    pub fn put(&mut self, row: &StringRecord) -> Result<()> {
        let cannot =
            || format!("{} cannot be written: free some room and continue with --resume", self.partial.shown());
        self.writer.write_record(row).with_context(cannot)?;
        self.writer.flush().with_context(cannot)
    }

    /// Makes the output of the rows, which are complete.
    pub fn finish(self) -> Result<()> {
        drop(self.writer);
        write(&self.output, &read_csv(&self.partial)?)?;
        fs::remove_file(&self.partial).with_context(|| format!("{} cannot be removed", self.partial.shown()))
    }
}

fn writer(file: File) -> csv::Writer<BufWriter<File>> {
    csv::Writer::from_writer(BufWriter::new(file))
}

/// Returns the path of the rows until all of them exist.
pub fn partial(output: &Path) -> PathBuf {
    let mut path = output.as_os_str().to_owned();
    path.push(".partial");
    path.into()
}

/// The rows of a file whose last row may be incomplete, and the length of what is complete.
fn intact(file: &File) -> Result<(Vec<StringRecord>, u64)> {
    let mut reader = csv::ReaderBuilder::new().has_headers(false).flexible(true).from_reader(BufReader::new(file));
    let (mut rows, mut row, mut length) = (Vec::new(), StringRecord::new(), 0);
    let end = file.metadata()?.len();
    while reader.read_record(&mut row).unwrap_or(false) {
        let position = reader.position().byte();
        // Whether the last line is whole is known only by its end.
        if row.len() != headings().len() || (position == end && !ends_a_line(file, end)?) {
            break;
        }
        if length == 0 && row != headings() {
            break;
        }
        length = position;
        rows.push(row.clone());
    }
    if rows.is_empty() {
        ensure!(begins_headings(file, end)?, "it is no file of a sweep by this version");
    } else {
        rows.remove(0);
    }
    Ok((rows, length))
}

/// Whether a file holds nothing but headings that were torn off: whatever else it holds is not ours to remove.
fn begins_headings(file: &File, end: u64) -> Result<bool> {
    let mut line = headings().iter().collect::<Vec<_>>().join(",").into_bytes();
    line.push(b'\n');
    let mut start = vec![0; line.len().min(usize::try_from(end)?)];
    file.read_exact_at(&mut start, 0)?;
    Ok(end <= line.len() as u64 && line.starts_with(&start))
}

fn ends_a_line(file: &File, end: u64) -> Result<bool> {
    let mut last = [0];
    file.read_exact_at(&mut last, end.saturating_sub(1))?;
    Ok(last == *b"\n")
}

/// Whether these rows are the first of those that a sweep writes.
fn check(path: &Path, rows: &[StringRecord], sweep: &str, expected: &[usize]) -> Result<()> {
    let ours = |row: &StringRecord| row.get(SWEEP) == Some(sweep);
    ensure!(
        rows.iter().all(ours),
        "{} holds rows of another sweep (other parameters, traces or version): choose another name, or remove it",
        path.shown()
    );
    let in_order =
        rows.iter().map(|row| whole(row, POINT)).eq(expected.iter().take(rows.len()).map(|&point| Some(point)));
    ensure!(in_order, "{} holds rows of another shard of this sweep: choose another name, or remove it", path.shown());
    Ok(())
}

/// All rows of a file.
pub fn read(path: &Path) -> Result<Vec<StringRecord>> {
    match Form::of(path)? {
        Form::Csv => read_csv(path),
        Form::Parquet => parquet::read(path).with_context(|| path.shown().into_owned()),
    }
}

fn read_csv(path: &Path) -> Result<Vec<StringRecord>> {
    let cannot = || format!("{} cannot be read", path.shown());
    let file = File::open(path).with_context(cannot)?;
    let mut reader = csv::Reader::from_reader(BufReader::new(file));
    ensure!(
        *reader.headers().with_context(cannot)? == headings(),
        "{} is no file of a sweep by this version",
        path.shown()
    );
    reader.records().collect::<Result<_, _>>().with_context(cannot)
}

/// Writes a file, as a whole or not at all.
pub fn write(path: &Path, rows: &[StringRecord]) -> Result<()> {
    let mut file = Destination::of(path, Contents::Other, &[])?.draft()?;
    match Form::of(path)? {
        Form::Csv => {
            let mut writer = csv::Writer::from_writer(BufWriter::new(&mut file));
            writer.write_record(&headings())?;
            rows.iter().try_for_each(|row| writer.write_record(row))?;
            writer.flush()?;
        }
        Form::Parquet => {
            parquet::write(file.as_file_mut(), rows).with_context(|| format!("{} cannot be written", path.shown()))?
        }
    }
    file.keep()
}
