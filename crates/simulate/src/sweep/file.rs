//! Files of rows: CSV, which is written row by row and can be resumed; Parquet, made from the CSV at the end.

use std::fs::{self, File, OpenOptions};
use std::io::{BufReader, BufWriter, ErrorKind, Seek, SeekFrom};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail, ensure};
use csv::StringRecord;

use super::parquet;
use super::row::{POINT, SWEEP, headings, whole};
use heapwright_host::destination::{Contents, Destination};

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
            _ => bail!("{}: the name must end in .csv or .parquet, which says the form", path.display()),
        }
    }
}

/// Where a sweep's rows go, one by one.
pub struct Rows {
    /// What is asked for, and where rows are until all of them are there.
    output: PathBuf,
    form: Form,
    growing: PathBuf,
    writer: csv::Writer<BufWriter<File>>,
}

impl Rows {
    /// Begins a file, which must not be there yet.
    pub fn begin(output: &Path) -> Result<Rows> {
        let (form, growing) = (Form::of(output)?, growing(output)?);
        let known = |path: &Path| {
            format!(
                "{} is there already: take it up again with --resume, or remove it, or choose another name",
                path.display()
            )
        };
        ensure!(form == Form::Csv || !output.exists(), known(output));
        let file = match OpenOptions::new().write(true).create_new(true).open(&growing) {
            Err(error) if error.kind() == ErrorKind::AlreadyExists => bail!(known(&growing)),
            file => file.with_context(|| format!("{} cannot be written", growing.display()))?,
        };
        let mut rows = Rows { output: output.to_owned(), form, growing, writer: writer(file) };
        rows.put(&headings())?;
        Ok(rows)
    }

    /// Takes up a file again, if it is there: what was torn off at its end goes. Returns how many rows it has, which
    /// must be those of `sweep` with the numbers that `expected` gives. `None` when nothing is left to do.
    pub fn resume(output: &Path, sweep: &str, expected: &[usize]) -> Result<Option<(Rows, usize)>> {
        let (form, growing) = (Form::of(output)?, growing(output)?);
        if form == Form::Parquet && output.exists() {
            let rows = read(output)?;
            check(output, &rows, sweep, expected)?;
            ensure!(
                rows.len() == expected.len(),
                "{} is finished, but has only {} rows: remove it",
                output.display(),
                rows.len()
            );
            return Ok(None);
        }
        if !growing.exists() {
            return Ok(Some((Rows::begin(output)?, 0)));
        }
        let cannot = || format!("{} cannot be taken up again", growing.display());
        let mut file = OpenOptions::new().read(true).write(true).open(&growing).with_context(cannot)?;
        let (rows, length) = intact(&file).with_context(cannot)?;
        check(&growing, &rows, sweep, expected)?;
        file.set_len(length).with_context(cannot)?;
        file.seek(SeekFrom::End(0)).with_context(cannot)?;
        let mut taken_up = Rows { output: output.to_owned(), form, growing, writer: writer(file) };
        if length == 0 {
            taken_up.put(&headings())?;
        }
        Ok(Some((taken_up, rows.len())))
    }

    /// Writes a row, so that it is there whatever happens to this process.
    pub fn put(&mut self, row: &StringRecord) -> Result<()> {
        let cannot = || {
            format!("{} cannot be written: free some room and take it up again with --resume", self.growing.display())
        };
        self.writer.write_record(row).with_context(cannot)?;
        self.writer.flush().with_context(cannot)
    }

    /// All rows are there.
    pub fn finish(self) -> Result<()> {
        drop(self.writer);
        if self.form == Form::Parquet {
            write(&self.output, &read_csv(&self.growing)?)?;
            fs::remove_file(&self.growing).with_context(|| format!("{} cannot be removed", self.growing.display()))?;
        }
        Ok(())
    }
}

fn writer(file: File) -> csv::Writer<BufWriter<File>> {
    csv::Writer::from_writer(BufWriter::new(file))
}

/// Where rows are until all of them are there.
fn growing(output: &Path) -> Result<PathBuf> {
    Ok(match Form::of(output)? {
        Form::Csv => output.to_owned(),
        Form::Parquet => output.with_extension("parquet.part"),
    })
}

/// The rows of a file that may have been torn off, and the length of what is whole.
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
        path.display()
    );
    let in_order =
        rows.iter().map(|row| whole(row, POINT)).eq(expected.iter().take(rows.len()).map(|&point| Some(point)));
    ensure!(
        in_order,
        "{} holds rows of another shard of this sweep: choose another name, or remove it",
        path.display()
    );
    Ok(())
}

/// All rows of a file.
pub fn read(path: &Path) -> Result<Vec<StringRecord>> {
    match Form::of(path)? {
        Form::Csv => read_csv(path),
        Form::Parquet => parquet::read(path).with_context(|| path.display().to_string()),
    }
}

fn read_csv(path: &Path) -> Result<Vec<StringRecord>> {
    let cannot = || format!("{} cannot be read", path.display());
    let file = File::open(path).with_context(cannot)?;
    let mut reader = csv::Reader::from_reader(BufReader::new(file));
    ensure!(
        *reader.headers().with_context(cannot)? == headings(),
        "{} is no file of a sweep by this version",
        path.display()
    );
    reader.records().collect::<Result<_, _>>().with_context(cannot)
}

/// Writes a file, as a whole or not at all.
pub fn write(path: &Path, rows: &[StringRecord]) -> Result<()> {
    let cannot = || format!("{} cannot be written", path.display());
    let mut file = Destination::of(path, Contents::Other, &[])?.draft()?;
    match Form::of(path)? {
        Form::Csv => {
            let mut writer = csv::Writer::from_writer(BufWriter::new(&mut file));
            writer.write_record(&headings()).with_context(cannot)?;
            rows.iter().try_for_each(|row| writer.write_record(row)).with_context(cannot)?;
            writer.flush().with_context(cannot)?;
        }
        Form::Parquet => parquet::write(file.as_file_mut(), rows).with_context(cannot)?,
    }
    file.keep()
}
