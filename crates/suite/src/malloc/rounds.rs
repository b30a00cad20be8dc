//! Interleaved rounds: each case under each contender once per round, in random order, so that a disturbance of the
//! machine affects all of them alike.

use fastrand::Rng;

use super::case::{Case, Stage};
use super::contender::Contender;
use super::figures::{Cell, Row};
use heapwright_host::interruption::Interruption;
use heapwright_show::progress::Progress;

/// The seed of the order, the same on every run.
const SEED: u64 = 1;

/// What is run under which contenders.
pub struct Rounds<'a> {
    /// The cases.
    pub cases: &'a [Case],
    /// The contenders.
    pub contenders: &'a [Contender],
    /// The files and folders of the cases.
    pub stage: &'a Stage,
    /// Number of rounds.
    pub rounds: u16,
    /// Whether cases that mostly sleep are run once only.
    pub sleepers_once: bool,
    /// Ends the rounds after Ctrl-C.
    pub until: &'a Interruption,
}

impl Rounds<'_> {
    /// Runs all rounds and returns the rows of all cases. A contender that failed in a case is not run in it again.
    /// After Ctrl-C, the rows have the runs until then.
    pub fn hold(&self) -> Vec<Row> {
        let mut rows: Vec<Vec<Row>> = self.cases.iter().map(|case| self.empty_rows(case)).collect();
        let mut rng = Rng::with_seed(SEED);
        let runs: usize = (0..self.rounds).map(|round| self.cases_of(round).count()).sum();
        let progress = Progress::new("bench malloc", runs * self.contenders.len());
        for round in 0..self.rounds {
            for (at, case) in self.cases_of(round) {
                self.run_all(case, &mut rows[at], &mut rng, &progress);
            }
        }
        rows.into_iter().flatten().collect()
    }

    /// Returns the cases of a round, each with its index.
    fn cases_of(&self, round: u16) -> impl Iterator<Item = (usize, &Case)> {
        self.cases.iter().enumerate().filter(move |(_, case)| round == 0 || !(self.sleepers_once && case.sleeps()))
    }

    /// Runs a case under every contender, in random order, until Ctrl-C.
    fn run_all(&self, case: &Case, rows: &mut [Row], rng: &mut Rng, progress: &Progress) {
        let mut order: Vec<usize> = (0..self.contenders.len()).collect();
        rng.shuffle(&mut order);
        for at in order {
            if self.until.came() {
                return;
            }
            progress.at(&format!("{} under {}", rows[0].name, self.contenders[at].name));
            self.run(case, at, rows);
            progress.step();
        }
    }

    fn empty_rows(&self, case: &Case) -> Vec<Row> {
        let cells = vec![Cell::default(); self.contenders.len()];
        case.rows().into_iter().map(|name| Row { name, cells: cells.clone() }).collect()
    }

    /// Runs a case under the contender `at`, unless it has failed there.
    fn run(&self, case: &Case, at: usize, rows: &mut [Row]) {
        if rows.iter().any(|row| row.cells[at].failure.is_some()) {
            return;
        }
        match case.run(self.stage, &self.contenders[at].allocator) {
            Ok(figures) => {
                rows.iter_mut().zip(figures).for_each(|(row, figures)| row.cells[at].runs.push(figures));
            }
            // Ctrl-C has ended the run, too.
            Err(_) if self.until.came() => {}
            Err(error) => rows.iter_mut().for_each(|row| row.cells[at].failure = Some(format!("{error:#}"))),
        }
    }
}
