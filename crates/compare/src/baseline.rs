//! An earlier comparison, and the changes since.

use std::fs::File;
use std::io::BufReader;
use std::path::Path;

use anyhow::{Context, Result, ensure};

use super::comparison::{Comparison, SCHEMA};
use super::figures::LITTLE_BYTES;
use super::metric::{Metric, Origin};
use super::row::Row;
use heapwright_host::machine::Machine;
use heapwright_host::names::Shown;
use heapwright_stats::Estimate;

/// Reads what `compare --json` wrote.
///
/// # Errors
/// When it cannot be read, or is nothing of the kind.
pub fn read(path: &Path) -> Result<Comparison> {
    let read = || -> Result<Comparison> {
        let text = BufReader::new(File::open(path)?);
        let json: serde_json::Value = serde_json::from_reader(text).context("it is not JSON")?;
        let schema = json.get("schema").and_then(serde_json::Value::as_u64);
        ensure!(schema == Some(u64::from(SCHEMA)), "it is not of schema {SCHEMA}: another version wrote it");
        let mut comparison: Comparison =
            serde_json::from_value(json).context("it was not written by `heapwright compare --json`")?;
        // Figures follow from rounds by the rules of this version.
        comparison.settle();
        Ok(comparison)
    };
    read().with_context(|| format!("cannot use the baseline {}", path.shown()))
}

/// Fails if the baseline was measured on another machine than this comparison will be.
///
/// # Errors
/// Names both machines.
pub fn ensure_of_this_machine(before: &Comparison) -> Result<()> {
    let this = Machine::this();
    ensure!(
        before.settings.rounds == 0 || this.is_like(&before.machine),
        "the baseline was measured on another machine ({}; this is {}): its times and memory say nothing about this \
         one. Measure a new one here, or use it all the same with --baseline-of-another-machine",
        before.machine.describe(),
        this.describe()
    );
    Ok(())
}

/// A figure now over what it was; `None` when either is not known.
pub fn change(now: &Comparison, before: &Comparison, row: &Row, metric: Metric) -> Option<Estimate> {
    let earlier = before.row(&row.name)?;
    if metric.origin() == Origin::Simulated {
        let (now, before) = (row.median(metric)?, earlier.median(metric)?);
        return (before > 0.0).then(|| Estimate::exact(now / before));
    }
    let ratio = Estimate::of_ratio(&now.in_each_round(row, metric), &before.in_each_round(earlier, metric))?;
    match metric {
        // Each has a recording of its own, or measured anew what its recorder took.
        Metric::ProgramPeak => Some(ratio.widened(LITTLE_BYTES / earlier.median(metric)?)),
        _ => Some(ratio),
    }
}

/// Returns why the two may not be alike, if they may not.
pub fn differences(now: &Comparison, before: &Comparison) -> Vec<String> {
    let mut differences = Vec::new();
    if !now.machine.is_like(&before.machine) {
        differences.push(format!("The baseline is from another machine ({}).", before.machine.describe()));
    }
    if now.trace.crc32 != before.trace.crc32 {
        let (events, earlier) = (now.trace.events, before.trace.events);
        differences.push(format!("The baseline is of another trace ({earlier} events; now {events})."));
    }
    if now.settings.rules != before.settings.rules {
        let rules = before.settings.rules.as_deref().unwrap_or("the usual ones");
        differences.push(format!("The baseline's policies had other rules: {rules}."));
    }
    differences
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::super::recorded::Recorded;
    use super::super::synthetic::{Synthetic, row};
    use super::*;

    #[test]
    fn changes_are_ratios_with_their_intervals() {
        let comparison = |peak, heap| {
            Synthetic::beside([row("mine", 1.0, 1.0)]).peak(peak).over_asked(1.0).simulated(&[("best", heap)]).build()
        };
        let (before, now) = (comparison(10e6, 1.0), comparison(12e6, 1.1));
        let of = |name: &str, metric| change(&now, &before, now.row(name).unwrap(), metric);
        assert_eq!(of("mine", Metric::Peak), Some(Estimate { median: 1.2, interval: Some([1.2, 1.2]) }));
        assert!((of("best", Metric::HeapOverAsked).unwrap().median - 1.1).abs() < 1e-9);
        assert_eq!(of("best", Metric::Peak), None);
        assert!(of("mine", Metric::Time).unwrap().low() < 1.0);
    }

    /// Each comparison measures anew what the recorder took, by what the kernel counts approximately.
    #[test]
    fn a_small_program_is_not_said_to_have_changed_by_the_error_of_its_recorder() {
        let comparison = |recorder_bytes| {
            let recorded = Recorded {
                peak_anonymous: Some(3 << 20),
                resident_files: Some(1 << 20),
                recorder_bytes: Some(recorder_bytes),
                ..Recorded::default()
            };
            Synthetic::beside([]).noise(0.0).recorded(recorded).build()
        };
        let (before, now) = (comparison(368_640), comparison(167_936));
        let changed = change(&now, &before, now.row("system").unwrap(), Metric::ProgramPeak).unwrap();
        assert!(changed.median > 1.05 && changed.low() < 1.0 && changed.high() < 1.2, "{changed:?}");
    }

    #[test]
    fn a_baseline_of_another_machine_is_refused_if_it_was_measured() {
        let baseline = |rounds| {
            let mut comparison = Synthetic::beside([]).rounds(rounds).build();
            comparison.machine.cpu = Some("none that there is".to_owned());
            comparison
        };
        let error = ensure_of_this_machine(&baseline(6)).unwrap_err().to_string();
        assert!(error.contains("none that there is") && error.contains("--baseline-of-another-machine"), "{error}");
        assert!(ensure_of_this_machine(&baseline(0)).is_ok(), "simulations are the same everywhere");
    }

    #[test]
    fn what_was_written_is_read_again() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("base.json");
        let comparison = Synthetic::beside([row("mine", 1.0, 1.0)]).build();
        fs::write(&path, serde_json::to_vec(&comparison).unwrap()).unwrap();
        let again = read(&path).unwrap();
        assert_eq!(again.trace, comparison.trace);
        assert_eq!(again.row("mine").unwrap().rounds.len(), 12);
        assert_eq!(again.row("mine").unwrap().median(Metric::Peak), Some(64e6));
        for (text, says) in
            [("{}", "another version"), ("nothing", "not JSON"), ("{\"schema\":1}", "was not written by")]
        {
            fs::write(&path, text).unwrap();
            let error = format!("{:#}", read(&path).unwrap_err());
            assert!(error.contains(says) && error.contains("base.json"), "{error}");
        }
    }
}
