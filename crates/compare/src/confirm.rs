//! `--confirm`: runs the program itself under the finalists of the replays.
//!
//! A replay makes the program's calls and nothing else. It cannot show what the placement of blocks does to the
//! program's caches, nor what share of the program's time malloc takes. Runs of the program can.

use std::ffi::OsString;
use std::process::{ExitStatus, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use fastrand::Rng;
use heapwright_allocators::allocator::Allocator;
use heapwright_allocators::launcher::{Launch, Launcher};
use heapwright_host::interruption::Interruption;
use heapwright_host::names::Shown;
use heapwright_host::temporary::Folder;
use heapwright_run::program;
use heapwright_show::number;
use heapwright_show::progress::Progress;
use heapwright_stats::FEWEST;

use super::comparison::Comparison;
use super::confirmation::{Confirmation, Confirmed, ProgramRun};
use super::pace::{Pace, Stage, comparisons};
use super::recorded::Recorded;
use super::row::{Kind, Row};
use super::subject::Subject;

/// The most finalists besides the system's malloc.
const FINALISTS: usize = 4;

/// A run that takes this many times the recorded time, and at least [`LEAST_LIMIT`], is ended.
const LIMIT: u32 = 20;
const LEAST_LIMIT: Duration = Duration::from_secs(60);

/// Runs that take less than this share of the recorded processor time or memory do other work.
const LEAST_SHARE: f64 = 1.0 / 3.0;

/// What takes less of both than this is not held against its recording: the start of a program is most of it.
const LITTLE_TIME: f64 = 0.030;
const LITTLE_MEMORY: u64 = 8 << 20;

/// The program to be run.
#[derive(Clone, Debug)]
pub struct Program {
    /// The program and its arguments.
    pub command: Vec<OsString>,
    /// How long the recorded run took.
    pub elapsed: Duration,
    /// How it ended: the others must end alike.
    pub status: ExitStatus,
}

impl Program {
    /// Runs the program under the finalists of `comparison`, interleaved in random order. `pace` determines the number
    /// of rounds. After an interruption, the whole rounds until then count.
    ///
    /// # Errors
    /// When the program cannot be started at all.
    pub fn confirm(
        &self,
        comparison: &Comparison,
        subjects: &[Subject],
        pace: Pace,
        until: &Interruption,
    ) -> Result<Confirmation> {
        let finalists = finalists(comparison);
        let subject = |row: &&Row| subjects.iter().find(|subject| subject.name() == row.name);
        let subjects: Vec<&Subject> = finalists.iter().filter_map(subject).collect();
        self.announce(&subjects);
        let runs = Runs::of(self)?;
        let confirmed = |row: &&Row| Confirmed { name: row.name.clone(), kind: row.kind, note: None, runs: Vec::new() };
        let mut confirmation = Confirmation { rounds: 0, rows: finalists.iter().map(confirmed).collect() };
        let (start, mut each, mut rng) =
            (Instant::now(), self.elapsed * subjects.len() as u32, Rng::with_seed(comparison.settings.seed));
        let rivals = finalists.iter().filter(|row| row.kind.is_a_rival()).count();
        let progress = Progress::new("confirm", 0);
        loop {
            let noise = confirmation.noise(ProgramRun::PROCESSOR);
            let stage = Stage { done: confirmation.rounds, elapsed: start.elapsed(), each, noise };
            let planned = pace.rounds(comparisons(rivals), stage);
            progress.expect(planned as usize * subjects.len());
            if confirmation.rounds >= planned {
                break;
            }
            let began = Instant::now();
            if !runs.round(&mut confirmation, &subjects, &mut rng, &progress, until) {
                break;
            }
            each = began.elapsed();
            if confirmation.refuse_other_work(&comparison.recorded) {
                break;
            }
        }
        Ok(confirmation)
    }

    /// Says what will be run, how often, and about how long it takes.
    fn announce(&self, subjects: &[&Subject]) {
        let names: Vec<&str> = subjects.iter().map(|subject| subject.name()).collect();
        let least = self.elapsed * (subjects.len() * FEWEST) as u32;
        heapwright_show::eprintln!(
            "heapwright: running {} at least {} times, without input or output, under {}: {} or more",
            self.command.first().map_or_else(String::new, |name| name.shown().into_owned()),
            subjects.len() * FEWEST,
            names.join(", ").shown(),
            number::seconds(least.as_secs_f64())
        );
    }
}

impl Confirmation {
    /// Notes of the latest run under the system's malloc if it did much less than the recorded run, as programs do that
    /// find their work done, or no input. Returns whether it did.
    fn refuse_other_work(&mut self, recorded: &Recorded) -> bool {
        let system = self.rows.iter_mut().find(|row| row.kind == Kind::System);
        let Some((system, run)) = system.and_then(|row| row.runs.last().copied().map(|run| (row, run))) else {
            return false;
        };
        system.note = less_work(recorded, &run);
        system.note.is_some()
    }
}

/// Returns how much less a run took than the recorded one, if that was other work.
fn less_work(recorded: &Recorded, run: &ProgramRun) -> Option<String> {
    let time = recorded.processor_seconds.filter(|&time| time > LITTLE_TIME && run.cpu_seconds < LEAST_SHARE * time);
    let peak =
        recorded.peak().filter(|&peak| peak > LITTLE_MEMORY && (run.peak_rss as f64) < LEAST_SHARE * peak as f64);
    let seconds = number::seconds;
    let time =
        time.map(|time| format!("{} of processor time, recorded were {}", seconds(run.cpu_seconds), seconds(time)));
    let peak =
        peak.map(|peak| format!("{} of memory, recorded were {}", number::bytes(run.peak_rss), number::bytes(peak)));
    let less: Vec<String> = time.into_iter().chain(peak).collect();
    (!less.is_empty()).then(|| {
        format!(
            "it does not do the same work again: it took {}; runs have no input, and find what earlier ones left: name \
             a command that does all of the work each time",
            less.join(", and ")
        )
    })
}

/// Returns the rows to confirm: the system's malloc, the recommended row, the rows with the least time, the least
/// memory and the least product of both, and the system's malloc again.
fn finalists(comparison: &Comparison) -> Vec<&Row> {
    let is_open = |row: &&Row| matches!(row.kind, Kind::Policy | Kind::Allocator) && row.note.is_none();
    let open: Vec<&Row> = comparison.rows.iter().filter(is_open).collect();
    let basis = comparison.basis();
    let time = |row: &Row| row.median(basis.time_metric());
    let memory = |row: &Row| row.median(basis.memory_metric());
    let product = |row: &Row| Some(time(row)? * memory(row)?);
    let ranked = |by: &dyn Fn(&Row) -> Option<f64>| {
        let mut ranked: Vec<(f64, &Row)> = open.iter().filter_map(|row| Some((by(row)?, *row))).collect();
        ranked.sort_by(|a, b| a.0.total_cmp(&b.0));
        ranked.into_iter().map(|(_, row)| row).collect::<Vec<_>>()
    };
    let choice = comparison.recommendation.as_ref().and_then(|found| found.choice.as_deref());
    let chosen = open.iter().copied().filter(|row| choice == Some(row.name.as_str()));
    let (fast, small, both) = (ranked(&time), ranked(&memory), ranked(&product));
    let best = both.iter().take(1).chain(fast.first()).chain(small.first()).chain(both.iter().skip(1)).copied();
    let mut picked: Vec<&Row> = Vec::new();
    for row in chosen.chain(best) {
        if picked.len() < FINALISTS && picked.iter().all(|other| other.name != row.name) {
            picked.push(row);
        }
    }
    let of_kind = |kind: Kind| comparison.rows.iter().filter(move |row| row.kind == kind);
    of_kind(Kind::System).chain(picked).chain(of_kind(Kind::SystemAgain)).collect()
}

/// The program, and the launcher that runs it.
struct Runs {
    launcher: Launcher,
    /// Its path and its arguments.
    command: Vec<OsString>,
    /// Time limit of a run, in seconds.
    seconds: u32,
    /// How a run must end.
    ends_as: ExitStatus,
    _folder: Folder,
}

impl Runs {
    fn of(program: &Program) -> Result<Runs> {
        let (name, arguments) = program.command.split_first().context("there is no program")?;
        let path = program::find(name).with_context(|| format!("there is no program {}", name.shown()))?;
        let path = std::path::absolute(path).context("there is no current directory")?;
        let folder = Folder::new("confirm")?;
        let limit = program.elapsed.saturating_mul(LIMIT).max(LEAST_LIMIT);
        Ok(Runs {
            launcher: Launcher::new(folder.path())?,
            command: [path.into_os_string()].into_iter().chain(arguments.iter().cloned()).collect(),
            seconds: u32::try_from(limit.as_secs()).unwrap_or(u32::MAX),
            // A program that was ended by a signal may be ended sooner by the next one: that is no measurement.
            ends_as: if program.status.code().is_some() { program.status } else { ExitStatus::default() },
            _folder: folder,
        })
    }

    /// Runs every subject once; returns `false` when interrupted, and the round does not count.
    fn round(
        &self,
        confirmation: &mut Confirmation,
        subjects: &[&Subject],
        rng: &mut Rng,
        progress: &Progress,
        until: &Interruption,
    ) -> bool {
        let mut order: Vec<usize> = (0..subjects.len()).filter(|&at| confirmation.rows[at].note.is_none()).collect();
        rng.shuffle(&mut order);
        let mut runs = Vec::new();
        for at in order {
            progress.at(subjects[at].name());
            let run = self.run(&subjects[at].allocator);
            if until.came() {
                return false;
            }
            runs.push((at, run));
            progress.step();
        }
        for (at, run) in runs {
            match run {
                Ok(run) => confirmation.rows[at].runs.push(run),
                Err(error) => confirmation.rows[at].note = Some(format!("{error:#}").trim().to_owned()),
            }
        }
        // Without the system's malloc there is nothing to compare with.
        let is_broken = confirmation.rows.iter().any(|row| row.kind == Kind::System && row.note.is_some());
        confirmation.rounds += u32::from(!is_broken);
        !is_broken
    }

    fn run(&self, allocator: &Allocator) -> Result<ProgramRun> {
        let launch =
            Launch { command: &self.command, settings: &[], times: 1, seconds: self.seconds, ends_as: self.ends_as };
        let spent = self.launcher.run(&launch, allocator, |launcher| {
            launcher.stdin(Stdio::null()).stdout(Stdio::null());
        })?;
        let run = spent.first().context("there was no run")?;
        Ok(ProgramRun {
            seconds: run.elapsed_ns as f64 / 1e9,
            cpu_seconds: run.cpu_us as f64 / 1e6,
            peak_rss: run.peak_kib * 1024,
        })
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::ExitStatusExt;

    use super::super::synthetic::{Synthetic, row};
    use super::*;

    fn names(rows: &[&Row]) -> Vec<String> {
        rows.iter().map(|row| row.name.clone()).collect()
    }

    #[test]
    fn finalists_are_the_best_in_anything_between_the_system_and_itself() {
        let rows = [
            row("fast", 0.5, 2.0),
            row("small", 2.0, 0.5),
            row("both", 0.8, 0.8),
            row("second", 0.9, 0.9),
            row("bad", 3.0, 3.0),
        ];
        let comparison = Synthetic::beside(rows).build();
        let found = names(&finalists(&comparison));
        assert_eq!(found[0], "system");
        assert_eq!(found.last().map(String::as_str), Some("system (A/A)"));
        let mut middle = found[1..found.len() - 1].to_vec();
        middle.sort();
        assert_eq!(middle, ["both", "fast", "second", "small"]);
    }

    #[test]
    fn runs_that_do_less_than_the_recorded_one_confirm_nothing() {
        let recorded = Recorded {
            processor_seconds: Some(1.5),
            peak_anonymous: Some(24 << 20),
            resident_files: Some(1 << 20),
            ..Recorded::default()
        };
        let run = |cpu_seconds, peak_rss| ProgramRun { seconds: cpu_seconds, cpu_seconds, peak_rss };
        assert_eq!(less_work(&recorded, &run(1.0, 20 << 20)), None);
        let less = less_work(&recorded, &run(0.01, 20 << 20)).unwrap();
        assert!(less.contains("10.0 ms of processor time, recorded were 1.50 s;"), "{less}");
        let less = less_work(&recorded, &run(0.01, 2 << 20)).unwrap();
        assert!(less.contains("1.50 s, and 2.00 MiB of memory, recorded were 25.0 MiB;"), "{less}");
        assert_eq!(less_work(&Recorded::default(), &run(0.0, 0)), None, "nothing is known of the recorded run");
        let small = Recorded { processor_seconds: Some(0.02), peak_anonymous: Some(4 << 20), ..recorded };
        assert_eq!(less_work(&small, &run(0.001, 1 << 20)), None);
        let of = |kind, run| Confirmed { name: String::new(), kind, note: None, runs: vec![run] };
        let rows = vec![of(Kind::System, run(0.01, 2 << 20)), of(Kind::Policy, run(1.0, 20 << 20))];
        let mut confirmation = Confirmation { rounds: 1, rows };
        assert!(confirmation.refuse_other_work(&recorded) && confirmation.failure().is_some());
    }

    #[test]
    fn who_failed_in_replay_is_no_finalist() {
        let mut comparison = Synthetic::beside([row("broken", 0.1, 0.1), row("fine", 1.0, 1.0)]).build();
        comparison.rows[1].note = Some("lost its contents".to_owned());
        assert!(!names(&finalists(&comparison)).contains(&"broken".to_owned()));
    }

    fn launched(command: &[&str], status: ExitStatus) -> Result<ProgramRun> {
        let command: Vec<OsString> = command.iter().map(OsString::from).collect();
        Runs::of(&Program { command, elapsed: Duration::ZERO, status })?.run(&Allocator::System)
    }

    #[test]
    fn a_run_is_measured() {
        let run =
            launched(&["sh", "-c", "i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done"], ExitStatus::default()).unwrap();
        assert!(run.cpu_seconds > 0.0 && run.seconds >= run.cpu_seconds * 0.5, "{run:?}");
        assert!(run.peak_rss > 100 << 10, "{run:?}");
    }

    #[test]
    fn a_run_that_fails_says_why() {
        let failing = ["sh", "-c", "echo alas >&2; exit 3"];
        let error = launched(&failing, ExitStatus::default()).unwrap_err().to_string();
        assert!(error.contains("exit status: 3") && error.contains("alas"), "{error}");
        assert!(launched(&["/nowhere/program"], ExitStatus::default()).is_err());
    }

    #[test]
    fn runs_must_end_as_the_recorded_one_did() {
        let failed = ExitStatus::from_raw(3 << 8);
        assert!(launched(&["sh", "-c", "exit 3"], failed).is_ok());
        let error = launched(&["true"], failed).unwrap_err().to_string();
        assert!(error.contains("exit status: 0") && error.contains("exit status: 3"), "{error}");
        let killed = ExitStatus::from_raw(9);
        assert!(launched(&["sh", "-c", "kill -KILL $$"], killed).is_err());
    }
}
