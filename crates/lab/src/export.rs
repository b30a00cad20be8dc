//! `heapwright export`: converts traces to the formats of other tools.

use std::io::BufWriter;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result};
use clap::Args;
use clap::builder::PossibleValuesParser;
use heapwright_trace::export::{self, Clock, ExportError, Exported, Extent, Timeline};
use heapwright_trace::import::Format;

use heapwright_host::destination::{Contents, Destination};
use heapwright_host::files::ensure_rereadable;
use heapwright_host::names::Shown;
use heapwright_show::number;
use heapwright_show::output::warn_of_part;
use heapwright_simulate::choice::open;
use heapwright_sites::{Analysis, Query, pprof};

/// The examples at the end of the help text.
pub const EXAMPLES: &str = "\
Examples:
  heapwright export --to csv gcc.hwt | head          op,id,size,align,thread
  heapwright export --to rep gcc.hwt -o gcc.rep      for CS:APP's malloc lab
  heapwright export --to pprof t.hwt -o t.pb.gz      call sites, for `go tool pprof` and its like
  heapwright export --to perfetto t.hwt -o t.json    counters over time, for Perfetto and Chrome
  heapwright export --to memory-replay gcc.hwt -o gcc.txt

What a format cannot express (threads, alignments, zeroed blocks, refused requests) is counted on standard error.
A damaged trace is converted up to the damage.

Exit code: 0, or 1 when the trace cannot be read or the file cannot be written.";

/// Arguments of `export`.
#[derive(Args)]
pub struct Arguments {
    /// The output format.
    #[arg(long, value_name = "FORMAT", value_parser = PossibleValuesParser::new(formats()))]
    pub to: String,

    /// The trace.
    #[arg(value_name = "TRACE")]
    pub trace: PathBuf,

    /// The file to write; - is standard output.
    #[arg(long, short, value_name = "FILE", default_value = "-")]
    pub output: PathBuf,
}

/// The format of call sites.
const PPROF: &str = "pprof";

/// The format of counters over time.
const PERFETTO: &str = "perfetto";

/// Returns the names of all formats.
fn formats() -> impl Iterator<Item = &'static str> {
    export::FORMATS.map(Format::name).into_iter().chain([PPROF, PERFETTO])
}

/// Exports the call sites of a trace as a profile of pprof.
fn export_profile(trace: &Path, destination: &Destination) -> Result<ExitCode> {
    let analysis = Analysis::read(trace, Query::default())?;
    analysis.warn(trace);
    let mut draft = destination.draft()?;
    let stacks = pprof::write(&analysis, BufWriter::new(&mut draft))?;
    draft.keep()?;
    heapwright_show::eprintln!("heapwright: {} as {PPROF}", number::counted(stacks, "stack"));
    Ok(ExitCode::SUCCESS)
}

/// Exports a trace as counters over time.
fn export_timeline(trace: &Path, destination: &Destination) -> Result<ExitCode> {
    ensure_rereadable(trace)?;
    let name = || trace.shown().into_owned();
    let mut reader = open(trace)?.with_times();
    Extent::of(&mut reader).with_context(name)?;
    warn_of_part(trace, reader.damage(), reader.about().incomplete());
    let timeline = Timeline::of(&reader, open(trace)?).with_context(name)?;
    let mut draft = destination.draft()?;
    let points = export::export_timeline(&timeline, open(trace)?, BufWriter::new(&mut draft));
    let points = points.map_err(|error| explain(error, trace))?;
    draft.keep()?;
    heapwright_show::eprintln!("heapwright: {} as {PERFETTO}", number::counted(points, "point"));
    let note = match timeline.clock() {
        Clock::Recorded => return Ok(ExitCode::SUCCESS),
        Clock::Sampled => "times between two samples of the process are interpolated; `record --times` records them",
        Clock::Events => "the trace has no times: one event is shown as 1 us",
    };
    heapwright_show::eprintln!("  {note}");
    Ok(ExitCode::SUCCESS)
}

/// Exports a trace and prints what the format could not express.
pub fn run(arguments: &Arguments) -> Result<ExitCode> {
    let Arguments { to, trace, output } = arguments;
    if to == PPROF {
        return export_profile(trace, &Destination::of(output, Contents::Other, &[trace])?);
    }
    if to == PERFETTO {
        return export_timeline(trace, &Destination::of(output, Contents::Other, &[trace])?);
    }
    let format = Format::from_name(to).context("there is no such format")?;
    let name = || trace.shown().into_owned();
    ensure_rereadable(trace)?;
    let destination = Destination::of(output, Contents::Other, &[trace])?;
    // The exporter reads times and sites, too: what is damaged for it is damaged for the extent.
    let mut reader = open(trace)?.with_times().with_sites();
    let extent = Extent::of(&mut reader).with_context(name)?;
    warn_of_part(trace, reader.damage(), reader.about().incomplete());
    let mut draft = destination.draft()?;
    let exported = export::export(format, &extent, open(trace)?, BufWriter::new(&mut draft));
    let exported = exported.map_err(|error| explain(error, trace))?;
    draft.keep()?;
    say(&exported, format);
    Ok(ExitCode::SUCCESS)
}

/// Names the trace, unless the error is one of the destination, which it names.
fn explain(error: ExportError, trace: &Path) -> anyhow::Error {
    match error {
        ExportError::Write(error) => error.into(),
        error => anyhow::Error::new(error).context(trace.shown().into_owned()),
    }
}

fn say(exported: &Exported, format: Format) {
    let operations = number::counted(exported.operations, "operation");
    heapwright_show::eprintln!("heapwright: {operations} as {}", format.name());
    let lost = [
        (exported.threads, "changes of the thread"),
        (exported.alignments, "alignments"),
        (exported.zeroed, "blocks that are zeroed"),
        (exported.failures, "requests that were refused"),
        (exported.beside, "times and call sites of events"),
        (exported.unknown, "frees and resizes of blocks that are not live"),
    ];
    for (count, what) in lost.iter().filter(|(count, _)| *count > 0) {
        heapwright_show::eprintln!("  left out: {} {what}", number::grouped(*count));
    }
}
