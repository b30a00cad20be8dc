//! `heapwright export`: traces in the form of other tools.

use std::fs::File;
use std::io::{self, BufReader, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Error, Result};
use clap::Args;
use clap::builder::PossibleValuesParser;
use heapwright_trace::Reader;
use heapwright_trace::export::{self, Exported, Extent};
use heapwright_trace::import::Format;

use crate::draft::Draft;
use crate::number;

pub const EXAMPLES: &str = "\
Examples:
  heapwright export --to csv gcc.hwt | head          op,id,size,align,thread
  heapwright export --to rep gcc.hwt -o gcc.rep      for CS:APP's malloc lab
  heapwright export --to memory-replay gcc.hwt -o gcc.txt

What a format cannot say (threads, alignments, zeroed blocks, refused requests) is counted on standard error.
Of a damaged trace what is before the damage is written.

Exit code: 0, or 1 when the trace cannot be read to its end or the file cannot be written.";

/// What `export` may be told.
#[derive(Args)]
pub struct Arguments {
    /// The form to write.
    #[arg(long, value_name = "FORMAT", value_parser = PossibleValuesParser::new(export::FORMATS.map(Format::name)))]
    pub to: String,

    /// The trace.
    #[arg(value_name = "TRACE")]
    pub trace: PathBuf,

    /// The file to write; - is standard output.
    #[arg(long, short, value_name = "FILE", default_value = "-")]
    pub output: PathBuf,
}

/// Exports a trace and says what was lost.
pub fn run(arguments: &Arguments) -> Result<ExitCode> {
    let Arguments { to, trace, output } = arguments;
    let format = Format::from_name(to).context("there is no such format")?;
    let name = || trace.display().to_string();
    let extent = Extent::of(open(trace)?).with_context(name)?;
    let exported = if output.as_os_str() == "-" {
        export::export(format, &extent, open(trace)?, BufWriter::new(io::stdout().lock())).map_err(Error::from)
    } else {
        let mut draft = Draft::of(output)?;
        let exported = export::export(format, &extent, open(trace)?, BufWriter::new(&mut draft));
        exported.map_err(Error::from).and_then(|exported| draft.keep().map(|()| exported))
    }
    .with_context(name)?;
    say(&exported, format)?;
    Ok(ExitCode::SUCCESS)
}

fn open(trace: &Path) -> Result<Reader<BufReader<File>>> {
    let file = File::open(trace).with_context(|| format!("{} cannot be opened", trace.display()))?;
    Reader::new(BufReader::new(file)).with_context(|| trace.display().to_string())
}

fn say(exported: &Exported, format: Format) -> io::Result<()> {
    let mut out = anstream::stderr().lock();
    writeln!(out, "heapwright: {} operations as {}", number::grouped(exported.operations), format.name())?;
    let lost = [
        (exported.threads, "changes of the thread"),
        (exported.alignments, "alignments"),
        (exported.zeroed, "blocks that are zeroed"),
        (exported.failures, "requests that were refused"),
        (exported.beside, "times and call sites of events"),
        (exported.unknown, "frees and resizes of blocks that do not live"),
    ];
    lost.iter()
        .filter(|(count, _)| *count > 0)
        .try_for_each(|(count, what)| writeln!(out, "  left out: {} {what}", number::grouped(*count)))
}
