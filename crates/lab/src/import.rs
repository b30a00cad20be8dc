//! `heapwright import`: converts traces that other tools wrote.

use std::fs::File;
use std::io::{BufReader, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::{Result, anyhow, bail};
use clap::Args;
use clap::builder::PossibleValuesParser;
use heapwright_trace::import::{Format, IMPORTED_FROM, ImportError, LeftOut, Options, Summary, import};
use heapwright_trace::{About, Reader, WriteError, Writer};

use heapwright_host::destination::{Contents, Destination};
use heapwright_host::files::{self, path_for_process};
use heapwright_host::names::Shown;
use heapwright_show::number;
use heapwright_translation::InstalledFiles;

/// The examples at the end of the help text.
pub const EXAMPLES: &str = "\
Examples:
  heapwright import amptjp.rep -o amptjp.hwt                 the malloc lab's
  heapwright import heaptrack.gcc.1234.zst -o gcc.hwt        heaptrack's, call sites included
  heapwright import jeprof.1.0.f.heap -o t.hwt               jemalloc's heap profile: what is live, by call site
  heapwright import peak.csv -o job.hwt                      memray's table: memray transform csv job.bin -o peak.csv
  heapwright import snapshot.pickle --device 1 -o gpu.hwt    PyTorch's, of its second GPU
  heapwright import --from csv trace.txt -o t.hwt            lines like malloc,1,100 and free,1
  heapwright import firefox.log -o firefox.hwt               logalloc's; further processes in firefox.PID.hwt

The compression of a source (gzip, zstd, zip) and usually its format are detected from its first bytes.
Lines that are not understood, and frees of blocks that are not live, are counted; the first few are shown.

Exit code: 0; 3 when lines were not understood and the trace holds the others; 1 when nothing was understood, the
source cannot be read or the trace cannot be written. With 1, no trace is written.";

/// Exit code when a part of the source was not understood.
const IN_PART: u8 = 3;

/// Arguments of `import`.
#[derive(Args)]
pub struct Arguments {
    /// Format of the source, if its first bytes do not identify it.
    #[arg(long, value_name = "FORMAT", value_parser = PossibleValuesParser::new(Format::ALL.map(Format::name)))]
    pub from: Option<String>,

    /// Device whose trace to import, from 0, in a snapshot of several.
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub device: usize,

    /// The source.
    #[arg(value_name = "SOURCE")]
    pub source: PathBuf,

    /// The trace to write.
    #[arg(long, short, value_name = "FILE")]
    pub output: PathBuf,
}

/// Imports a trace and prints a summary. A source with several processes becomes a trace for each.
pub fn run(arguments: &Arguments) -> Result<ExitCode> {
    let first = import_process(arguments, None, &arguments.output)?;
    if arguments.from.is_none() {
        let format = first.format.map_or("", Format::name);
        heapwright_show::println!("{} is read as {format}", arguments.source.shown());
    }
    print(&first);
    let others = first.processes.get(1..).unwrap_or_default();
    let is_read_once = !arguments.source.is_file();
    if is_read_once && !others.is_empty() {
        let (output, all) = (arguments.output.shown(), first.processes.len());
        heapwright_show::eprintln!(
            "heapwright: {output} has the first of {all} processes; a trace of each needs a source that is a file"
        );
        return Ok(ExitCode::from(IN_PART));
    }
    for &process in others {
        let output = path_for_process(&arguments.output, &process.to_string());
        let summary = import_process(arguments, Some(process), &output)?;
        let events = number::counted(summary.events, "event");
        heapwright_show::println!("{}: process {process}, {events}", output.shown());
    }
    if first.not_understood.count > 0 {
        heapwright_show::eprintln!("heapwright: a part of {} was not understood", arguments.source.shown());
        return Ok(ExitCode::from(IN_PART));
    }
    Ok(ExitCode::SUCCESS)
}

/// Imports one process, the first if none is named.
fn import_process(arguments: &Arguments, process: Option<u64>, output: &Path) -> Result<Summary> {
    let Arguments { from, device, source, .. } = arguments;
    let file = files::open(source)?;
    let options = Options {
        format: from.as_deref().and_then(Format::from_name),
        name: source.file_name().unwrap_or_default().to_string_lossy().into_owned(),
        device: *device,
        process,
        files: Some(Arc::new(InstalledFiles::default())),
    };
    let mut about = About::default();
    about.set("source", &options.name);
    let mut trace = Destination::of(output, Contents::Trace, &[source])?.draft()?;
    let mut writer = Writer::new(BufWriter::new(&mut trace), &about)?;
    let summary = import(&options, BufReader::new(file), &mut writer).map_err(|error| explain(error, source))?;
    let format = summary.format.map_or("", Format::name);
    writer.add_text(IMPORTED_FROM, format)?;
    if summary.events == 0 && process.is_none() {
        print_left_out("not understood", &summary.not_understood);
        bail!("{}: nothing of it was understood as {format}: is it in another format? See --from", source.shown());
    }
    writer.finish()?.flush()?;
    trace.keep()?;
    Ok(summary)
}

/// Adds the option that resolves the error, if there is one.
fn explain(error: ImportError, source: &Path) -> anyhow::Error {
    if matches!(error, ImportError::UnknownFormat) && is_trace(source) {
        return anyhow!("{} is a trace of Heapwright already: it need not be imported", source.shown());
    }
    let what_to_do = match &error {
        ImportError::UnknownFormat => format!(" with --from: {}", Format::ALL.map(Format::name).join(", ")),
        ImportError::NoSuchDevice { .. } => " with --device".to_owned(),
        _ => String::new(),
    };
    match error {
        // It names the destination.
        ImportError::Write(WriteError::Io(error)) => error.into(),
        error => anyhow!("{}: {error}{what_to_do}", source.shown()),
    }
}

/// Returns whether the file is a trace of Heapwright.
fn is_trace(path: &Path) -> bool {
    path.is_file() && File::open(path).is_ok_and(|file| Reader::new(file).is_ok())
}

fn print(summary: &Summary) {
    heapwright_show::println!(
        "{} from {}{}",
        number::counted(summary.events, "event"),
        number::counted(summary.lines, "line"),
        // All lines of such a profile are about stacks.
        match summary.format {
            Some(Format::Jemalloc) => String::new(),
            _ => format!("; {} not about blocks", number::counted(summary.passed_over, "line")),
        }
    );
    if let Some(Format::Memray | Format::Jemalloc) = summary.format {
        heapwright_show::println!(
            "it is a snapshot, without order and times: `heapwright sites` shows what is held; what was freed before is \
             not in it"
        );
    }
    if summary.of_other_processes > 0 {
        let lines = number::counted(summary.of_other_processes, "line");
        heapwright_show::println!("of other processes: {lines}");
    }
    if summary.before > 0 {
        heapwright_show::println!(
            "live before the trace, and allocated first: {}",
            number::counted(summary.before, "block")
        );
    }
    if summary.sites_left_out > 0 {
        heapwright_show::println!(
            "left out, because there are too many: {}",
            number::counted(summary.sites_left_out, "call site")
        );
    }
    print_left_out("not understood", &summary.not_understood);
    print_left_out("of a block that is not live", &summary.unknown_blocks);
    print_left_out("at the address of a live block, which is then taken as freed", &summary.reused_places);
}

fn print_left_out(what: &str, left_out: &LeftOut) {
    if left_out.count == 0 {
        return;
    }
    heapwright_show::println!("{} {what}, such as", number::counted(left_out.count, "line"));
    for (line, text) in &left_out.first {
        heapwright_show::println!("  line {line}: {}", text.escape_debug());
    }
}
