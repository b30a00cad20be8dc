//! A program with its figures and verdicts: what the page is made of.

use anyhow::{Context, Result};

use super::claims::{Advice, first_sentence};
use super::evidence::Evidence;
use super::figures::{Figures, Measure};
use super::predicted::Compared;
use super::programs::Program;
use super::verdicts::{Finding, Judgement, Reality};

/// A program that was measured.
pub struct Case {
    /// The program.
    pub program: &'static Program,
    /// Its figures.
    pub reality: Reality,
    /// The verdict of the replays.
    pub verdict: Judged,
    /// The verdict with `--confirm`, if it was asked for.
    pub confirmed: Option<Judged>,
    /// Why figures of allocators are missing.
    pub notes: Vec<String>,
    /// Names and versions of the allocators.
    pub versions: Vec<(String, Option<String>)>,
    /// The most rounds of any allocator.
    pub rounds: usize,
    /// The machine, as the comparison states it.
    pub machine: Option<String>,
}

/// A verdict, judged.
pub struct Judged {
    /// What it advises, in a word or two.
    pub advice: String,
    /// Its first sentence, as users read it.
    pub text: String,
    /// What reality says.
    pub judgement: Judgement,
    /// Whether it found what is really much better.
    pub finding: Finding,
}

impl Case {
    /// Returns the case of a program.
    ///
    /// # Errors
    /// When the comparison has another form.
    pub fn of(program: &'static Program, evidence: &Evidence) -> Result<Case> {
        let compared = Compared::of(&evidence.compared).with_context(|| program.name)?;
        let figures = |measure| Figures::of(evidence, &compared, measure);
        let reality = Reality { memory: figures(Measure::Memory), time: figures(Measure::Time) };
        let confirmed = evidence.confirmed.as_ref().map(Compared::of).transpose().with_context(|| program.name)?;
        let notes = evidence.real.iter().filter_map(|row| Some(format!("{}: {}", row.name, row.note.as_ref()?)));
        Ok(Case {
            program,
            verdict: judged(&reality, &compared),
            confirmed: confirmed.map(|compared| judged(&reality, &compared)),
            notes: notes.collect(),
            versions: evidence.real.iter().map(|row| (row.name.clone(), row.version.clone())).collect(),
            rounds: evidence.real.iter().map(|row| row.runs.len()).max().unwrap_or_default(),
            machine: machine(evidence),
            reality,
        })
    }

    /// Returns a measure of it.
    pub fn figures(&self, measure: Measure) -> &Figures {
        match measure {
            Measure::Memory => &self.reality.memory,
            Measure::Time => &self.reality.time,
        }
    }
}

fn judged(reality: &Reality, compared: &Compared) -> Judged {
    let advice = Advice::of(compared);
    let names = advice.names().join(" or ");
    let words = match &advice {
        Advice::Silence => "nothing can be said".to_owned(),
        Advice::Keep => "keep the system's".to_owned(),
        Advice::Use(_) if compared.recommendation.as_ref().is_some_and(|it| it.verdict == "depends") => {
            format!("{names}, at a price")
        }
        Advice::Use(_) => format!("use {names}"),
        Advice::Partly(_) => format!("nothing of one figure; of the other, {names}"),
        Advice::Unclear => "not understood".to_owned(),
    };
    let text = compared.recommendation.as_ref().map_or("", |recommended| first_sentence(&recommended.text));
    Judged {
        judgement: reality.judge(&advice),
        finding: reality.finding(&advice),
        advice: words,
        text: text.trim_end_matches('.').to_owned(),
    }
}

fn machine(evidence: &Evidence) -> Option<String> {
    let machine = serde_json::from_value::<heapwright_host::machine::Machine>(evidence.compared["machine"].clone());
    Some(machine.ok()?.describe())
}
