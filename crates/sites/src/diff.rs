//! `heapwright diff`: two recordings compared by call site.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Result;
use clap::Args;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use heapwright_host::destination::{Contents, Destination};
use heapwright_host::names::Shown;
use heapwright_show::number::{bytes, counted, grouped};
use heapwright_show::table::{Cell, Side, Table};
use heapwright_show::terminal;
use serde::Serialize;

use crate::analysis::{Analysis, Query};
use crate::condition::Condition;
use crate::frame::Frame;
use crate::labels;
use crate::ledger::Moment;
use crate::matching::{Matched, matched};
use crate::rows::{Group, JsonAmount};
use crate::stacks::Kept;
use crate::table::{SNAPSHOT, width_of_names};
use crate::tally::{Measure, Tally};

/// The examples at the end of the help text.
pub const EXAMPLES: &str = "\
Examples:
  heapwright diff old.hwt new.hwt                    which functions hold more or less at the peak?
  heapwright diff old.hwt new.hwt --by leaked        ... never free more or less?
  heapwright diff old.hwt new.hwt --group stack      a row per call stack
  heapwright diff old.hwt new.hwt -o changes.html    a page with all measures
  heapwright diff old.hwt new.hwt --fail-if 'leaked > +1MiB' --fail-if 'peak > +5%'
                                                     for CI: exit code 1 when one of them holds

Rows are matched by the names of their functions, so that another build can be compared. Conditions are on the
totals of all blocks: peak (or held), leaked, temporary, calls, churn, rounding. A limit is a value (2GiB), a growth
(+1MiB, +5%) or a ratio (1.1x).

Exit code: 0; 1 when a condition holds or cannot be judged (of an incomplete recording, for example), or a
trace cannot be read or has no call sites.";

/// Arguments of `diff`.
#[derive(Args)]
pub struct Arguments {
    /// The earlier trace.
    #[arg(value_name = "BEFORE")]
    pub before: PathBuf,

    /// The later trace.
    #[arg(value_name = "AFTER")]
    pub after: PathBuf,

    /// The measure by whose change rows are sorted.
    #[arg(long, value_name = "MEASURE", default_value = "held",
          value_parser = PossibleValuesParser::new(Measure::ALL.map(Measure::name)).map(|name| Measure::from_name(&name)))]
    pub by: Measure,

    /// What the blocks of a row have in common.
    #[arg(long, value_enum, value_name = "WHAT", default_value_t)]
    pub group: Group,

    /// Exit with 1 if this holds or cannot be judged, as in 'leaked > +1MiB'. May be given several times.
    #[arg(long, value_name = "CONDITION", value_parser = Condition::parse)]
    pub fail_if: Vec<Condition>,

    /// Also write a page of all measures into this file.
    #[arg(long, short, value_name = "FILE")]
    pub output: Option<PathBuf>,

    /// Print one object with all rows.
    #[arg(long)]
    pub json: bool,

    /// Maximum number of rows; 0 is all.
    #[arg(long, value_name = "N", default_value_t = 20)]
    pub limit: usize,
}

/// Two recordings and what differs.
pub struct Comparison {
    /// The earlier recording.
    pub before: Analysis,
    /// The later recording.
    pub after: Analysis,
    /// The rows that changed, the largest change first.
    pub changes: Vec<Change>,
    /// What the rows are, as a heading.
    pub rows: &'static str,
    /// The measure by whose change rows are sorted.
    pub by: Measure,
    /// The conditions that hold, or cannot be judged.
    pub failures: Vec<String>,
}

impl Comparison {
    /// Reads both recordings.
    ///
    /// # Errors
    /// When a trace cannot be read or has no call sites.
    pub fn read(arguments: &Arguments) -> Result<Comparison> {
        let query = Query { moment: Moment::Peak, split: arguments.group.split(), kept: Kept::Callers };
        let read = |path: &Path| -> Result<Analysis> {
            let analysis = Analysis::read(path, query)?;
            analysis.warn(path);
            Ok(analysis)
        };
        let (mut before, mut after) = (read(&arguments.before)?, read(&arguments.after)?);
        before.stacks.complete_names_by(&after.stacks);
        after.stacks.complete_names_by(&before.stacks);
        let changes = changes(&before, &after, arguments);
        let failures = arguments.fail_if.iter().filter_map(|condition| failure(condition, &before, &after)).collect();
        Ok(Comparison { before, after, changes, rows: arguments.group.heading(), by: arguments.by, failures })
    }
}

/// Returns why the command fails because of a condition: it holds, or cannot be judged by what these recordings know.
fn failure(condition: &Condition, before: &Analysis, after: &Analysis) -> Option<String> {
    let unknown = |analysis: &Analysis, of_a_part: bool| {
        let file = analysis.file.shown();
        if of_a_part && analysis.is_in_part() {
            Some(format!("`{condition}` cannot be judged: {file} is incomplete"))
        } else if analysis.is_snapshot && condition.measure() != Measure::Held {
            Some(format!("`{condition}` cannot be judged: {file} is a snapshot, which knows only what is held"))
        } else {
            None
        }
    };
    let holds = condition.holds(&before.ledger.total, &after.ledger.total);
    // Where a part has at most what the whole has, an excess stays one, and a growth over a part may be none.
    let may_shrink = !condition.measure().only_grows();
    let doubt = unknown(after, may_shrink || holds.is_none());
    let doubt_of_growth = || unknown(before, may_shrink || holds.is_some());
    doubt.or_else(|| condition.is_relative().then(doubt_of_growth).flatten()).or(holds)
}

impl Comparison {
    /// Returns what the figures do not say, a sentence for each recording of which there is something to say.
    pub fn notes(&self) -> Vec<String> {
        let notes_of = |analysis: &Analysis| {
            let damage = analysis.damage.iter().map(|damage| format!("{damage}, and used."));
            let incomplete = analysis.incomplete.iter().map(|why| format!("Incomplete, the program went on: {why}."));
            let notes = damage.chain(incomplete).chain(caveats(analysis));
            notes.map(|note| format!("{}: {note}", analysis.file)).collect::<Vec<_>>()
        };
        [&self.before, &self.after].into_iter().flat_map(notes_of).collect()
    }
}

/// Returns what figures of a recording that can be read do not say, in sentences.
fn caveats(analysis: &Analysis) -> impl Iterator<Item = String> {
    let lacking = analysis.lacking.iter().map(|lacking| format!("{lacking}."));
    lacking.chain(analysis.is_snapshot.then(|| SNAPSHOT.to_owned()))
}

/// A row in both recordings.
#[derive(Default)]
pub struct Change {
    /// What the blocks have in common.
    pub name: String,
    /// What names it, as of [`Row::named_by`]: what all its rows have in common.
    named_by: Vec<Frame>,
    /// The sums of the earlier recording.
    pub before: Tally,
    /// The sums of the later recording.
    pub after: Tally,
    /// For each of [`Measure::ALL`] the sum of the squared standard deviations of both; 0 unless a trace is sampled.
    variances: [f64; Measure::ALL.len()],
}

impl Change {
    fn between(rows: &Matched) -> Change {
        let mut change = Change::default();
        rows.before.iter().for_each(|row| change.before.merge(&row.tally));
        rows.after.iter().for_each(|row| change.after.merge(&row.tally));
        for (at, row) in rows.before.iter().chain(&rows.after).enumerate() {
            for (variance, measure) in change.variances.iter_mut().zip(Measure::ALL) {
                *variance += measure.deviation(&row.sampled, row.every).map_or(0.0, |deviation| deviation.powi(2));
            }
            if at == 0 {
                (change.name, change.named_by) = (row.name.clone(), row.named_by.clone());
            }
            change.named_by.iter_mut().zip(&row.named_by).for_each(|(frame, other)| frame.keep_common(other));
        }
        change
    }

    /// Returns the standard deviation of the change of each of [`Measure::ALL`]; 0 unless a trace is sampled.
    pub fn deviations(&self) -> [f64; Measure::ALL.len()] {
        self.variances.map(f64::sqrt)
    }

    fn deviation(&self, measure: Measure) -> f64 {
        let at = Measure::ALL.iter().position(|&other| other == measure);
        at.map_or(0.0, |at| self.deviations()[at])
    }

    /// Returns how much the measure has grown.
    fn of(&self, measure: Measure) -> i128 {
        i128::from(measure.of(&self.after)) - i128::from(measure.of(&self.before))
    }

    /// Returns "new" or "gone" where only one recording has the row.
    pub fn state(&self) -> &'static str {
        match (self.before.churn.blocks, self.after.churn.blocks) {
            (0, _) => "new",
            (_, 0) => "gone",
            _ => "",
        }
    }
}

/// Prints what changed, writes the page that `page` makes of it if one is asked for, and fails if a condition holds or
/// cannot be judged.
///
/// # Errors
/// When a trace cannot be read or has no call sites, or the page cannot be written.
pub fn run(arguments: &Arguments, page: impl FnOnce(&Comparison) -> Result<String>) -> Result<ExitCode> {
    let sources = [arguments.before.as_path(), arguments.after.as_path()];
    let place =
        arguments.output.as_deref().map(|place| Destination::of(place, Contents::Other, &sources)).transpose()?;
    let comparison = Comparison::read(arguments)?;
    match &place {
        Some(place) if place.is_open_already() => place.write(page(&comparison)?.as_bytes())?,
        Some(place) => {
            let page = page(&comparison)?;
            place.write(page.as_bytes())?;
            print(&comparison, arguments)?;
            heapwright_show::eprintln!("heapwright: {}: {}", place.path().shown(), bytes(page.len() as u64));
        }
        None => print(&comparison, arguments)?,
    }
    let failures = &comparison.failures;
    failures.iter().for_each(|failure| heapwright_show::eprintln!("heapwright: {failure}"));
    Ok(if failures.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Prints what changed.
fn print(comparison: &Comparison, arguments: &Arguments) -> Result<()> {
    let Comparison { before, after, changes, failures, .. } = comparison;
    let all = changes.len();
    let changes = if arguments.limit > 0 { &changes[..all.min(arguments.limit)] } else { &changes[..] };
    let (old, new) = (&before.ledger.total, &after.ledger.total);
    if arguments.json {
        let json = Json {
            schema: 1,
            before: Recording::of(before, old),
            after: Recording::of(after, new),
            results: changes.iter().map(JsonChange::of).collect(),
            failures,
        };
        heapwright_show::println!("{}", serde_json::to_string_pretty(&json)?);
    } else {
        heapwright_show::println!("{}", totals(old, new));
        if changes.is_empty() {
            heapwright_show::println!("No row has changed.");
        } else {
            heapwright_show::print!("{}", table(changes, arguments));
        }
        for analysis in [before, after] {
            for caveat in caveats(analysis) {
                let note = format!("{}: {caveat}", analysis.file.shown());
                heapwright_show::println!("\n{}", terminal::wrapped(&note, terminal::width()));
            }
        }
        if changes.len() < all {
            let more = counted((all - changes.len()) as u64, "more row");
            let note = format!("{more} changed: `--limit 0` shows all.");
            heapwright_show::println!("\n{}", terminal::fitted(&note));
        }
    }
    Ok(())
}

/// Returns the rows that changed, the largest change first.
fn changes(before: &Analysis, after: &Analysis, arguments: &Arguments) -> Vec<Change> {
    let (by, group) = (arguments.by, arguments.group);
    let rows = matched(before.rows(group, by), after.rows(group, by), group);
    let mut changes: Vec<Change> = rows.iter().map(Change::between).collect();
    let names = labels::of(changes.iter().map(|change| change.named_by.as_slice()));
    for (change, name) in changes.iter_mut().zip(names).filter(|(change, _)| !change.named_by.is_empty()) {
        change.name = name;
    }
    let is_changed = |change: &Change| Measure::ALL.into_iter().any(|measure| change.of(measure) != 0);
    changes.retain(is_changed);
    changes.sort_by(|one, other| {
        let size = |change: &Change| change.of(by).unsigned_abs();
        size(other).cmp(&size(one)).then_with(|| one.name.cmp(&other.name))
    });
    changes
}

/// The table of totals.
fn totals(before: &Tally, after: &Tally) -> Table {
    let mut table = Table::new(["all blocks", "before", "after", "change"]);
    for (measure, name) in
        Measure::ALL.into_iter().zip(["peak", "never freed", "temporary", "calls", "churn", "rounding"])
    {
        let (old, new) = (measure.of(before), measure.of(after));
        table.row([
            name.to_owned(),
            show(measure, old),
            show(measure, new),
            growth(measure, i128::from(new) - i128::from(old)),
        ]);
    }
    table
}

fn show(measure: Measure, value: u64) -> String {
    if measure.is_bytes() { bytes(value) } else { grouped(value) }
}

/// Shows a change with its sign.
fn growth(measure: Measure, change: i128) -> String {
    let size = show(measure, u64::try_from(change.unsigned_abs()).unwrap_or(u64::MAX));
    match change {
        0 => "0".to_owned(),
        1.. => format!("+{size}"),
        _ => format!("-{size}"),
    }
}

/// The table of rows.
fn table(changes: &[Change], arguments: &Arguments) -> Table {
    let by = arguments.by;
    let others =
        [Measure::Held, Measure::Leaked, Measure::Calls, Measure::Churn].into_iter().filter(|&other| other != by);
    let others: Vec<Measure> = others.collect();
    let right = |heading: String| (heading, Side::Right);
    let mut columns = vec![right("before".to_owned()), right("after".to_owned())];
    columns.push(right(format!("{} change", by.name())));
    columns.push(right("±".to_owned()));
    columns.extend(others.iter().map(|other| right(other.name().to_owned())));
    columns.push(("".to_owned(), Side::Left));
    columns.push((arguments.group.heading().to_owned(), Side::Left));
    let mut table = Table::aligned(columns).named_by(0);
    let width = width_of_names();
    for change in changes {
        let deviation = change.deviation(by);
        let mut row: Vec<Cell> = vec![
            show(by, by.of(&change.before)).into(),
            show(by, by.of(&change.after)).into(),
            growth(by, change.of(by)).into(),
            if deviation > 0.0 { show(by, deviation as u64).into() } else { Cell::missing() },
        ];
        row.extend(others.iter().map(|&other| Cell::from(growth(other, change.of(other)))));
        row.push(change.state().into());
        row.push(terminal::shortened(&change.name, width).into());
        table.row(row);
    }
    table
}

/// All that `--json` writes.
#[derive(Serialize)]
struct Json<'a> {
    schema: u32,
    before: Recording<'a>,
    after: Recording<'a>,
    results: Vec<JsonChange>,
    /// The conditions that hold, or cannot be judged.
    failures: &'a [String],
}

/// The totals of one recording.
#[derive(Serialize)]
struct Recording<'a> {
    trace: &'a str,
    damage: Option<&'a str>,
    incomplete: Option<&'a str>,
    events: u64,
    sampled_one_in: u64,
    #[serde(flatten)]
    totals: Sums,
}

impl Recording<'_> {
    fn of<'a>(analysis: &'a Analysis, totals: &Tally) -> Recording<'a> {
        Recording {
            trace: &analysis.file,
            damage: analysis.damage.as_deref(),
            incomplete: analysis.incomplete.as_deref(),
            events: analysis.ledger.events,
            sampled_one_in: analysis.ledger.sampling.every,
            totals: Sums::of(totals),
        }
    }
}

/// The sums of a row or of all blocks.
#[derive(Serialize)]
struct Sums {
    held: JsonAmount,
    leaked: JsonAmount,
    temporary: JsonAmount,
    churn: JsonAmount,
}

impl Sums {
    fn of(tally: &Tally) -> Sums {
        Sums {
            held: JsonAmount::from(&tally.held),
            leaked: JsonAmount::from(&tally.live),
            temporary: JsonAmount::from(&tally.temporary),
            churn: JsonAmount::from(&tally.churn),
        }
    }
}

/// A row as `--json` writes it.
#[derive(Serialize)]
struct JsonChange {
    name: String,
    state: &'static str,
    before: Sums,
    after: Sums,
}

impl JsonChange {
    fn of(change: &Change) -> JsonChange {
        JsonChange {
            name: change.name.clone(),
            state: change.state(),
            before: Sums::of(&change.before),
            after: Sums::of(&change.after),
        }
    }
}
