//! Everybody in rounds: each case under each contender once per round, in another order every time, so that whatever disturbs
//! the machine disturbs all alike.

use fastrand::Rng;

use super::case::{Case, Stage};
use super::contender::Contender;
use super::figures::{Cell, Row};
use crate::compare::Interruption;
use crate::progress::Progress;

/// The same on every run: what differs then is not the order.
const SEED: u64 = 1;

/// What is run, under whom, and who may end it.
pub struct Rounds<'a> {
    /// What.
    pub cases: &'a [Case],
    /// Under whom.
    pub contenders: &'a [Contender],
    /// Where.
    pub stage: &'a Stage,
    /// How often.
    pub rounds: u16,
    /// Whether cases that mostly sleep are run once only.
    pub sleepers_once: bool,
    /// Who may end it.
    pub until: &'a Interruption,
}

impl Rounds<'_> {
    /// Runs all of it and returns a row for each that the cases have. Who fails in a case is not run in it again. What somebody interrupts
    /// has the runs until then.
    pub fn hold(&self) -> Vec<Row> {
        let mut rows: Vec<Vec<Row>> = self.cases.iter().map(|case| self.empty_rows(case)).collect();
        let mut rng = Rng::with_seed(SEED);
        let runs: usize = (0..self.rounds).map(|round| self.cases_of(round).count()).sum();
        let progress = Progress::new("bench malloc", runs * self.contenders.len());
        for round in 0..self.rounds {
            for (at, case) in self.cases_of(round) {
                self.everybody(case, &mut rows[at], &mut rng, &progress);
            }
        }
        rows.into_iter().flatten().collect()
    }

    /// What is run in that round, each with its place.
    fn cases_of(&self, round: u16) -> impl Iterator<Item = (usize, &Case)> {
        self.cases.iter().enumerate().filter(move |(_, case)| round == 0 || !(self.sleepers_once && case.sleeps()))
    }

    /// Runs a case under every contender, in some order, unless somebody interrupts.
    fn everybody(&self, case: &Case, rows: &mut [Row], rng: &mut Rng, progress: &Progress) {
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
            // It was ended with this command.
            Err(_) if self.until.came() => {}
            Err(error) => rows.iter_mut().for_each(|row| row.cells[at].failure = Some(format!("{error:#}"))),
        }
    }
}
