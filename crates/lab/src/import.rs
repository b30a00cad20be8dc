//! `heapwright import`: traces that other tools wrote.

use std::fs::File;
use std::io::{BufReader, BufWriter};
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, Result};
use clap::Args;
use clap::builder::PossibleValuesParser;
use heapwright_trace::import::{Format, LeftOut, Summary, import};
use heapwright_trace::{About, Writer};

use crate::number;

pub const EXAMPLES: &str = "\
Examples:
  heapwright import --from rep amptjp.rep -o amptjp.hwt      the malloc lab's
  heapwright import --from mtrace mtrace.log -o t.hwt        glibc's
  heapwright import --from csv trace.csv -o t.hwt            lines like malloc,1,100 and free,1

Lines that are not understood, and frees of what does not live, are counted and the first few are shown.

Exit code: 0, or 1 when the source cannot be read or the trace cannot be written.";

/// What `import` may be told.
#[derive(Args)]
pub struct Arguments {
    /// Whose form the source has.
    #[arg(long, value_name = "FORMAT", value_parser = PossibleValuesParser::new(Format::ALL.map(Format::name)))]
    pub from: String,

    /// The source.
    #[arg(value_name = "SOURCE")]
    pub source: PathBuf,

    /// The trace to write.
    #[arg(long, short, value_name = "FILE")]
    pub output: PathBuf,
}

/// Imports a trace and says what became of it.
pub fn run(arguments: &Arguments) -> Result<ExitCode> {
    let format = Format::from_name(&arguments.from).context("there is no such format")?;
    let source =
        File::open(&arguments.source).with_context(|| format!("{} cannot be opened", arguments.source.display()))?;
    let output =
        File::create(&arguments.output).with_context(|| format!("{} cannot be written", arguments.output.display()))?;
    let mut about = About::default();
    about.set("imported from", format.name());
    about.set("source", &arguments.source.to_string_lossy());
    let mut writer = Writer::new(BufWriter::new(output), &about)?;
    let summary =
        import(format, BufReader::new(source), &mut writer).with_context(|| arguments.source.display().to_string())?;
    writer.finish()?;
    print(&summary);
    Ok(ExitCode::SUCCESS)
}

fn print(summary: &Summary) {
    anstream::println!(
        "{} events from {} lines; {} lines say nothing about blocks",
        number::grouped(summary.events),
        number::grouped(summary.lines),
        number::grouped(summary.passed_over)
    );
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
