//! `heapwright import`: traces that other tools wrote.

use std::fs::File;
use std::io::{BufReader, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result, anyhow};
use clap::Args;
use clap::builder::PossibleValuesParser;
use heapwright_trace::import::{Format, ImportError, LeftOut, Options, Summary, import};
use heapwright_trace::{About, Writer};

use crate::draft::Draft;
use crate::number;

pub const EXAMPLES: &str = "\
Examples:
  heapwright import amptjp.rep -o amptjp.hwt                 the malloc lab's
  heapwright import heaptrack.gcc.1234.zst -o gcc.hwt        heaptrack's, call sites included
  heapwright import snapshot.pickle --device 1 -o gpu.hwt    PyTorch's, of its second GPU
  heapwright import --from csv trace.txt -o t.hwt            lines like malloc,1,100 and free,1

What a source is packed with (gzip, zstd, zip) is seen from its first bytes, and mostly so is its format.
Lines that are not understood, and frees of what does not live, are counted and the first few are shown.

Exit code: 0, or 1 when the source cannot be read or the trace cannot be written.";

/// What `import` may be told.
#[derive(Args)]
pub struct Arguments {
    /// Whose form the source has, where its first bytes leave that open.
    #[arg(long, value_name = "FORMAT", value_parser = PossibleValuesParser::new(Format::ALL.map(Format::name)))]
    pub from: Option<String>,

    /// Of a snapshot of several devices: which, from 0.
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub device: usize,

    /// The source.
    #[arg(value_name = "SOURCE")]
    pub source: PathBuf,

    /// The trace to write.
    #[arg(long, short, value_name = "FILE")]
    pub output: PathBuf,
}

/// Imports a trace and says what became of it.
pub fn run(arguments: &Arguments) -> Result<ExitCode> {
    let Arguments { from, device, source, output } = arguments;
    let file = File::open(source).with_context(|| format!("{} cannot be opened", source.display()))?;
    let options = Options {
        format: from.as_deref().and_then(Format::from_name),
        name: source.file_name().unwrap_or_default().to_string_lossy().into_owned(),
        device: *device,
    };
    let mut about = About::default();
    about.set("source", &options.name);
    let mut trace = Draft::of(output)?;
    let mut writer = Writer::new(BufWriter::new(&mut trace), &about)?;
    let summary = import(&options, BufReader::new(file), &mut writer).map_err(|error| explain(error, source))?;
    let format = summary.format.map_or("", Format::name);
    writer.add_text("imported from", format)?;
    writer.finish()?.flush()?;
    trace.keep()?;
    if from.is_none() {
        anstream::println!("{} is taken for {format}", source.display());
    }
    print(&summary);
    Ok(ExitCode::SUCCESS)
}

/// Says what to do where the command can be told more.
fn explain(error: ImportError, source: &Path) -> anyhow::Error {
    let what_to_do = match error {
        ImportError::UnknownFormat => format!(" with --from: {}", Format::ALL.map(Format::name).join(", ")),
        ImportError::NoSuchDevice { .. } => " with --device".to_owned(),
        _ => String::new(),
    };
    anyhow!("{}: {error}{what_to_do}", source.display())
}

fn print(summary: &Summary) {
    anstream::println!(
        "{} events from {} lines; {} lines say nothing about blocks",
        number::grouped(summary.events),
        number::grouped(summary.lines),
        number::grouped(summary.passed_over)
    );
    if summary.before > 0 {
        anstream::println!("{} blocks lived before and are allocated first", number::grouped(summary.before));
    }
    if summary.sites_left_out > 0 {
        anstream::println!("{} call sites are left out: there are too many", number::grouped(summary.sites_left_out));
    }
    print_left_out("not understood", &summary.not_understood);
    print_left_out("of a block that does not live", &summary.unknown_blocks);
    print_left_out("at a place where a block still lived, which was taken as freed", &summary.reused_places);
}

fn print_left_out(what: &str, left_out: &LeftOut) {
    if left_out.count == 0 {
        return;
    }
    anstream::println!("{} lines {what}, such as", number::grouped(left_out.count));
    for (line, text) in &left_out.first {
        anstream::println!("  line {line}: {}", text.escape_debug());
    }
}
