//! A trace, read for its call sites.

use std::path::Path;

use anyhow::{Context, Result, bail};
use heapwright_recording::sampling::{LACKING, MARKED, Sampling};
use heapwright_simulate::choice::open;
use heapwright_trace::import::{IMPORTED_FROM, SNAPSHOT};
use heapwright_trace::{About, SiteId};
use serde::Serialize;

use crate::ledger::{Ledger, Moment, Split};
use crate::pinned;
use crate::rows::{Group, JsonAmount, JsonRow, Row, rows};
use crate::stacks::{Kept, Stacks};
use crate::tally::{Measure, Tally};
use heapwright_host::names::Shown;
use heapwright_show::number;
use heapwright_show::output::warn_of_part;

/// What to read of a trace.
#[derive(Clone, Copy, Debug, Default)]
pub struct Query {
    /// The moment at which held memory is counted.
    pub moment: Moment,
    /// What else tells blocks of one site apart.
    pub split: Split,
    /// Which frames stacks keep.
    pub kept: Kept,
}

/// The call sites of a trace and what their blocks take.
pub struct Analysis {
    /// The name of the trace's file.
    pub file: String,
    /// The sums.
    pub ledger: Ledger,
    /// The stacks.
    pub stacks: Stacks,
    /// Whether the trace is a snapshot: the live blocks of one moment, without what was freed before.
    pub is_snapshot: bool,
    /// What the call sites lack, in sentences without the last full stop, if they lack something.
    pub lacking: Option<String>,
    /// What is wrong with the trace: why it was read in part only, or what follows its end.
    pub damage: Option<String>,
    /// Whether it was read to its end.
    is_whole: bool,
    /// Why the recording ended before the program did, if it did so: at the limit of `record --max-size`, for example.
    pub incomplete: Option<String>,
}

/// Describes a trace without call sites, read up to the damage if there is any.
fn without_sites(path: &Path, about: &About, damage: Option<String>) -> String {
    if let Some(damage) = damage {
        return format!("{} has no call sites in the part that can be read: {damage}", path.shown());
    }
    if let Some(why) = about.incomplete() {
        return format!("{} has no call sites in the part that was recorded: {why}", path.shown());
    }
    if let Some(format) = about.get(IMPORTED_FROM) {
        return format!("{} was imported from {format}, and its source tells no call sites", path.shown());
    }
    // A program's trace is a temporary file, whose folder means nothing.
    let file = path.file_name().map_or_else(|| path.shown(), Shown::shown);
    if let Some(lacking) = about.get(LACKING) {
        return format!("{file} has no call sites: {lacking}");
    }
    let every = Sampling::of(about).every;
    if every == 1 && Sampling::is_told(about) {
        let marked = if about.get(MARKED).is_some() { " within the marked blocks" } else { "" };
        return format!("{} has no call sites: nothing was requested{marked}", path.shown());
    }
    if every == 1 {
        return format!("{} has no call sites: record it with `heapwright record --sites=1`", path.shown());
    }
    format!(
        "{file} has no call sites: one request in {} was to have one, and chance chose none. Record more of them, or \
         all with `record --sites=1` or `sites --every 1`",
        number::grouped(every)
    )
}

impl Analysis {
    /// Reads a trace, up to damage if there is any.
    ///
    /// # Errors
    /// When the trace cannot be read, or has no call sites.
    pub fn read(path: &Path, query: Query) -> Result<Analysis> {
        let name = || path.shown().into_owned();
        let trace = open(path)?.with_sites();
        let mut trace = if matches!(query.moment, Moment::Time(_)) { trace.with_times() } else { trace };
        let ledger = Ledger::read(&mut trace, query.moment, query.split).with_context(name)?;
        if ledger.with_site == 0 && query.split == Split::Nothing {
            bail!(without_sites(path, trace.about(), trace.damage().map(ToString::to_string)));
        }
        if matches!(query.moment, Moment::Time(_)) && trace.time().is_none() && ledger.events > 0 {
            bail!("{} has no times: record it with `--times`, or name an event", path.shown());
        }
        Ok(Analysis {
            file: path.file_name().map_or_else(String::new, |name| name.to_string_lossy().into_owned()),
            stacks: Stacks::of(&trace, query.kept),
            is_snapshot: trace.about().get(SNAPSHOT).is_some(),
            lacking: trace.about().get(LACKING).map(str::to_owned),
            damage: trace.damage().map(ToString::to_string),
            is_whole: trace.is_finished(),
            incomplete: trace.about().incomplete().map(str::to_owned),
            ledger,
        })
    }

    /// Prints to standard error what the figures do not say: that only a part of the trace can be read, or that the
    /// recording ended before the program.
    pub fn warn(&self, path: &Path) {
        warn_of_part(path, self.damage.as_ref(), self.incomplete.as_deref());
    }

    /// Whether the figures are those of a part of what the program did.
    pub fn is_in_part(&self) -> bool {
        !self.is_whole || self.incomplete.is_some()
    }

    /// Returns each site with its sums, scaled if the trace is sampled. Blocks without a site are left out then,
    /// because sampled ones stand for them.
    pub fn sites(&self) -> impl Iterator<Item = (Option<SiteId>, Tally)> {
        self.ledger.estimates().into_iter().map(|(site, estimate)| (site, estimate.whole))
    }

    /// Simulates the trace under first fit, for the holes that each site pins. Only the pins of sampled blocks have a
    /// site, and they are not scaled.
    ///
    /// # Errors
    /// When the trace cannot be read or simulated.
    pub fn find_pinned(&mut self, path: &Path) -> Result<()> {
        let mut pinned = pinned::by_site(path)?;
        for (key, tally) in &mut self.ledger.tallies {
            tally.pinned = pinned.remove(&key.site).unwrap_or(0);
        }
        Ok(())
    }

    /// Returns the rows of the table, those with most of the measure first.
    pub fn rows(&self, group: Group, measure: Measure) -> Vec<Row> {
        rows(&self.ledger, &self.stacks, group, measure)
    }

    /// Returns what `--json` writes: `rows` are the results, sorted by a measure.
    pub fn json(&self, rows: &[Row], by: Measure) -> Json<'_> {
        let total = &self.ledger.total;
        Json {
            schema: 1,
            trace: JsonTrace {
                file: &self.file,
                damage: self.damage.as_deref(),
                incomplete: self.incomplete.as_deref(),
                sites_lacking: self.lacking.as_deref(),
                events: self.ledger.events,
                sampled_one_in: self.ledger.sampling.every,
            },
            at_event: self.ledger.moment.0,
            held: JsonAmount::from(&total.held),
            leaked: JsonAmount::from(&total.live),
            temporary: JsonAmount::from(&total.temporary),
            churn: JsonAmount::from(&total.churn),
            results: rows.iter().map(|row| JsonRow::of(row, by)).collect(),
        }
    }
}

/// What `--json` writes of the trace itself.
#[derive(Serialize)]
struct JsonTrace<'a> {
    file: &'a str,
    damage: Option<&'a str>,
    incomplete: Option<&'a str>,
    sites_lacking: Option<&'a str>,
    events: u64,
    sampled_one_in: u64,
}

/// All that `--json` writes. Sums are those of all blocks, exact in sampled traces too.
#[derive(Serialize)]
pub struct Json<'a> {
    schema: u32,
    trace: JsonTrace<'a>,
    /// Held memory is counted after this many events.
    at_event: u64,
    held: JsonAmount,
    leaked: JsonAmount,
    temporary: JsonAmount,
    churn: JsonAmount,
    results: Vec<JsonRow>,
}
