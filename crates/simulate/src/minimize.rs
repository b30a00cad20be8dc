//! `heapwright minimize`: the smallest part of a trace that still has a property of the whole.

use std::fs::{self, File};
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::slice;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use clap::Args;
use clap::builder::PossibleValuesParser;
use heapwright_placement::PolicyKind;
use heapwright_replay::{Lives, Minimized, Model, Recording};
use heapwright_trace::{About, Event, Writer};

use crate::choice::{HeapArguments, open};
use heapwright_host::destination::{Contents, Destination};
use heapwright_host::interruption::{self, Interruption};
use heapwright_host::names::Shown;
use heapwright_host::temporary::Folder;
use heapwright_show::number;
use heapwright_show::output::warn_of_part;
use heapwright_show::progress::Progress;
use heapwright_show::usage::Misuse;

/// The examples at the end of the help text.
pub const EXAMPLES: &str = "\
Examples:
  heapwright minimize gcc.hwt -o small.hwt --region 12000000 -p first     still refuses a request in 12 MB
  heapwright minimize gcc.hwt -o small.hwt --ratio 1.5 -p worst           still wastes half of what lives
  heapwright minimize bad.hwt -o small.hwt --command './my-allocator {}'  still makes a command fail
  heapwright minimize bad.hwt -o small.hwt --command 'timeout 5 ./my-allocator {}' --budget 1h

Blocks are left out (each with its resizes and its free) as long as what is looked for holds of
what is left; then resizes and frees are left out and sizes made smaller. When it ends, no single
block can go. Threads are left out, and requests that were refused when the trace was recorded.

A command is run by the shell, with the name of a trace in place of {}, and fails when it ends with
anything but 0. It should fail for one reason only: another failure is as good to this command. It
must not fail for a trace without events.

Exit code: 0; 1 when what is looked for does not hold of the whole trace, or holds of a trace without events, or the
trace cannot be read or written.";

/// The arguments of `minimize`.
#[derive(Args)]
pub struct Arguments {
    /// The trace, as written by `heapwright record` or `heapwright import`.
    #[arg(value_name = "TRACE")]
    pub trace: PathBuf,

    /// The smaller trace.
    #[arg(long, short, value_name = "FILE")]
    pub output: PathBuf,

    /// The policy under which requests are refused, or the ratio is reached.
    #[arg(long, short, value_name = "POLICY", default_value = "best",
          value_parser = PossibleValuesParser::new(PolicyKind::ALL.map(PolicyKind::name)))]
    pub policy: String,

    /// The rules of the simulated heap.
    #[command(flatten)]
    pub heap: HeapArguments,

    /// Look for a peak heap of at least this ratio to the peak of the bytes in blocks, rounding and headers included.
    #[arg(long, value_name = "X", conflicts_with_all = ["region", "command"])]
    pub ratio: Option<f64>,

    /// Look for a failure of this command; {} stands for the trace.
    #[arg(long, value_name = "COMMAND", conflicts_with_all = ["region", "ratio"])]
    pub command: Option<String>,

    /// Stop after this time, with the smallest trace so far.
    #[arg(long, value_name = "TIME", default_value = "5m", value_parser = number::parse_duration)]
    pub budget: Duration,
}

/// Minimizes a trace, and prints the result.
pub fn run(arguments: &Arguments) -> Result<ExitCode> {
    let condition = Condition::of(arguments)?;
    let destination = Destination::of(&arguments.output, Contents::Trace, &[&arguments.trace])?;
    let mut reader = open(&arguments.trace)?;
    let mut events = Vec::new();
    while let Some(event) = reader.next_event().with_context(|| arguments.trace.shown().into_owned())? {
        events.push(event);
    }
    warn_of_part(&arguments.trace, reader.damage(), reader.about().incomplete());
    let about = reader.about().clone();
    let (whole, lives) = (events.iter().filter(|event| event.is_call()).count(), Lives::of(events));
    ensure!(
        condition.holds(&lives)?,
        "{}: {} does not hold of the whole trace: there is nothing to make smaller",
        arguments.trace.shown(),
        condition.text
    );
    ensure!(
        !condition.holds(&Lives::of([]))?,
        "{}: {} holds of a trace without events, too: it does not depend on the trace",
        arguments.trace.shown(),
        condition.text
    );
    let blocks = lives.len();
    let small = minimize(lives, &condition, arguments.budget)?;
    let draft = condition.folder.path().join("small.hwt");
    write(&draft, about, &arguments.trace, &condition.text, &small.lives.events())?;
    ensure!(
        condition.holds_of_file(&draft)?,
        "{}: {} no longer holds of what would be written: it does not depend on the trace alone",
        arguments.output.shown(),
        condition.text
    );
    destination.write(&fs::read(&draft).with_context(|| draft.shown().into_owned())?)?;
    let summary = summary(arguments, &condition, whole, blocks, &small);
    if destination.is_open_already() {
        heapwright_show::eprintln!("{summary}");
    } else {
        heapwright_show::println!("{summary}");
    }
    Ok(if interruption::came() { interruption::exit_code() } else { ExitCode::SUCCESS })
}

fn minimize(lives: Lives, condition: &Condition, budget: Duration) -> Result<Minimized> {
    let until = Interruption::listen()?;
    let (start, all) = (Instant::now(), lives.len() as u64);
    let progress = Progress::new("minimize", 0);
    lives.minimize(|lives| {
        if start.elapsed() >= budget || until.came() {
            return Ok(None);
        }
        let left = budget.saturating_sub(start.elapsed()).as_secs();
        progress.at(&format!("{} blocks, at most {left} s more", number::grouped(lives.len() as u64)));
        progress.is_at(all - lives.len() as u64, all);
        let holds = condition.holds(lives)?;
        // Ctrl-C ends the command that is run, too: how it ended means nothing then.
        Ok((!until.came()).then_some(holds))
    })
}

/// What is looked for.
struct Condition {
    text: String,
    test: Test,
    /// Where commands find traces.
    folder: Folder,
}

enum Test {
    Refuses(Model),
    Exceeds { model: Model, ratio: f64 },
    Fails { command: String },
}

impl Condition {
    fn of(arguments: &Arguments) -> Result<Condition> {
        let models = arguments.heap.models(slice::from_ref(&arguments.policy))?;
        let model = *models.first().context("there is no such policy")?;
        let policy = model.policy;
        let (text, test) = match (arguments.ratio, &arguments.command, arguments.heap.rules.region) {
            (Some(ratio), ..) => {
                if ratio.is_nan() || ratio <= 1.0 {
                    bail!(Misuse(format!(
                        "--ratio {ratio}: a heap is always at least as long as what lives in it; say more than 1"
                    )));
                }
                let text = format!("that the heap under {} fit grows to {ratio} times what lives", policy.name());
                (text, Test::Exceeds { model, ratio })
            }
            (_, Some(command), _) => {
                if !command.contains("{}") {
                    bail!(Misuse(format!(
                        "--command {command}: it must have {{}} where the name of a trace is to stand"
                    )));
                }
                (format!("that `{command}` fails"), Test::Fails { command: command.clone() })
            }
            (.., Some(region)) => {
                let text = format!(
                    "that a request is refused in {} bytes under {}",
                    number::grouped(region as u64),
                    policy.name()
                );
                (text, Test::Refuses(model))
            }
            _ => bail!(Misuse(
                "what is the trace to show? Say --region BYTES, --ratio X or --command 'COMMAND {}'".to_owned()
            )),
        };
        let folder = Folder::new("minimize")?;
        Ok(Condition { text, test, folder })
    }

    /// Whether it holds of these lives.
    fn holds(&self, lives: &Lives) -> Result<bool> {
        if let Test::Fails { .. } = self.test {
            let path = self.folder.path().join("trace.hwt");
            write_events(&path, &About::default(), &lives.events())?;
            return self.fails(&path);
        }
        self.holds_of(&Recording::of(lives.events()))
    }

    /// Returns whether it holds of the trace in a file.
    fn holds_of_file(&self, path: &Path) -> Result<bool> {
        if let Test::Fails { .. } = self.test {
            return self.fails(path);
        }
        self.holds_of(&Recording::open(path, usize::MAX).with_context(|| path.shown().into_owned())?)
    }

    fn holds_of(&self, recording: &Recording) -> Result<bool> {
        match &self.test {
            Test::Refuses(model) => Ok(!recording.fits(model)?),
            Test::Exceeds { model, ratio } => {
                let outcome = recording.replay(model)?;
                Ok(outcome.peak_live > 0 && outcome.peak_heap as f64 >= ratio * outcome.peak_live as f64)
            }
            Test::Fails { .. } => Ok(false),
        }
    }

    fn fails(&self, trace: &Path) -> Result<bool> {
        let Test::Fails { command } = &self.test else { return Ok(false) };
        let quoted = format!("'{}'", trace.to_string_lossy().replace('\'', "'\\''"));
        let status = Command::new("sh")
            .args(["-c", &command.replace("{}", &quoted)])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status()
            .context("there is no shell to run the command")?;
        ensure!(
            !matches!(status.code(), Some(126 | 127)),
            "`{command}` cannot be run: the shell ends with {}",
            status.code().unwrap_or_default()
        );
        Ok(!status.success())
    }
}

/// Writes the small trace, with the description of the long one and where it comes from.
fn write(path: &Path, mut about: About, source: &Path, condition: &str, events: &[Event]) -> Result<()> {
    about.set("minimized from", &source.file_name().unwrap_or(source.as_os_str()).to_string_lossy());
    about.set("minimized for", condition);
    write_events(path, &about, events)
}

fn write_events(path: &Path, about: &About, events: &[Event]) -> Result<()> {
    let cannot = || format!("{} cannot be written", path.shown());
    let file = File::create(path).with_context(cannot)?;
    let mut writer = Writer::new(BufWriter::new(file), about).with_context(cannot)?;
    for event in events {
        match *event {
            Event::Allocate { kind, size, align, .. } => drop(writer.allocate(kind, size, align).with_context(cannot)?),
            Event::Resize { block, size, .. } => drop(writer.resize(block, size).with_context(cannot)?),
            Event::Free { block } => writer.free(block).with_context(cannot)?,
            _ => {}
        }
    }
    writer.finish().with_context(cannot)?.flush().with_context(cannot)
}

fn summary(arguments: &Arguments, condition: &Condition, events: usize, blocks: usize, small: &Minimized) -> String {
    let counted = |number: usize, thing| number::counted(number as u64, thing);
    let result = format!(
        "{}: {} of {}; it was {} of {}. It still holds {}.",
        arguments.output.shown(),
        counted(small.lives.events().len(), "event"),
        counted(small.lives.len(), "block"),
        counted(events, "event"),
        counted(blocks, "block"),
        condition.text
    );
    let asked = number::counted(small.asked, "trace");
    let end = if small.is_minimal {
        format!("No block more can be left out: it would not hold any more. Tried: {asked}.")
    } else if interruption::came() {
        format!("It is not minimal: the search was interrupted after {asked}.")
    } else {
        format!("It is not minimal: there was no time left after {asked}. Give it more with --budget.")
    };
    format!("{result}\n{end}")
}
