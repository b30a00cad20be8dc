//! The verdict: what to do, with its evidence, and the command that does it. `docs/compare.md` states the rules.

use super::act;
use super::basis::{Basis, Evidence, percent};
use super::comparison::{Comparison, Recommendation, Verdict};
use super::confirmation::ProgramRun;
use super::fragmentation::fragmentation;
use super::pace::comparisons;
use super::rival::{MOST_NOISE, PREDICTED, Rival};
use super::row::Row;
use heapwright_show::number::counted;
use heapwright_stats::{FEWEST, fewest_for};

/// A verdict and its reasons.
struct Conclusion<'a> {
    verdict: Verdict,
    choice: Option<&'a Row>,
    text: String,
    /// What is said of fragmentation.
    memory: Option<String>,
    /// What to do next, in a sentence that ends with a command where there is one.
    next: String,
    command: Option<String>,
}

impl Conclusion<'_> {
    fn unknown(why: impl Into<String>, next: impl Into<String>) -> Self {
        let (text, next) = (why.into(), next.into());
        Conclusion { verdict: Verdict::Unknown, choice: None, text, memory: None, next, command: None }
    }
}

/// What is said first of a trace that is not whole.
const PART: &str = "This is about the recorded part alone: the program did more.";

/// Returns the recommendation of a comparison.
pub fn recommend(comparison: &Comparison) -> Recommendation {
    let Conclusion { verdict, choice, text, memory, next, command } = conclude(comparison);
    let part = comparison.trace.is_in_part().then(|| PART.to_owned());
    let sentences = [part, Some(text), memory, Some(next).filter(|next| !next.is_empty())];
    Recommendation {
        verdict,
        choice: choice.map(|row| row.name.clone()),
        text: sentences.into_iter().flatten().collect::<Vec<String>>().join(" "),
        command,
    }
}

fn conclude(comparison: &Comparison) -> Conclusion<'_> {
    if comparison.trace.events == 0 {
        return Conclusion::unknown("Nothing can be said: the trace has no calls.", "");
    }
    let rivals = comparison.rivals();
    if let Some(doubt) = doubt(comparison, &rivals) {
        return doubt;
    }
    let by_cost = |a: &&Rival, b: &&Rival| a.cost().total_cmp(&b.cost());
    if let Some(best) = rivals.iter().filter(|rival| rival.is_better()).min_by(by_cost) {
        return change(comparison, best, &offers(&rivals, Some(best)));
    }
    let offers = offers(&rivals, None);
    if !offers.is_empty() {
        return depends(comparison, &offers);
    }
    if let Some((why, next)) = noisy(comparison) {
        return Conclusion::unknown(format!("Nothing can be said: {why}."), next);
    }
    let open: Vec<&Rival> = rivals.iter().filter(|rival| !rival.is_out()).collect();
    if open.is_empty() { keep(comparison, &rivals) } else { undecided(comparison, &open) }
}

/// Returns why nothing can be said, if that is so whatever the figures are, and what to do about it.
fn doubt<'a>(comparison: &'a Comparison, rivals: &[Rival]) -> Option<Conclusion<'a>> {
    if comparison.confirmed().is_some() {
        let (why, next) = few_rounds(comparison, rivals)?;
        return Some(Conclusion::unknown(format!("Nothing can be said: {why}."), next));
    }
    let settings = &comparison.settings;
    if settings.rounds == 0 {
        let why = "There were no real replays, so nothing is known of time.";
        let next = match settings.only_simulated() {
            Some(rule) => format!("No program can run by these rules: {rule}. Real replays measure without this rule."),
            None => format!("To measure, with real replays: `{}`", act::replay(comparison)),
        };
        return Some(Conclusion { memory: fragmentation(comparison), ..Conclusion::unknown(why, next) });
    }
    if !comparison.system().is_some_and(|system| system.note.is_none() && !system.rounds.is_empty()) {
        let why = "Nothing can be said: the system's malloc could not be measured, and there is nothing to compare \
                   the others with.";
        return Some(Conclusion::unknown(why, ""));
    }
    let unreliable = few_rounds(comparison, rivals).or_else(|| comparison.unfaithful());
    if comparison.is_threaded_by_one() {
        let doubt = unreliable.or_else(|| noisy(comparison)).or_else(|| comparison.doubt_of_memory());
        return Some(one_thread(comparison, rivals, doubt));
    }
    if let Some((why, next)) = unreliable {
        return Some(Conclusion::unknown(format!("Nothing can be said: {why}."), next));
    }
    match (comparison.doubt_of_time(), comparison.doubt_of_memory()) {
        (None, None) => None,
        (Some((time, next)), Some((memory, _))) => {
            Some(Conclusion::unknown(format!("Nothing can be said: {time}; and {memory}."), next))
        }
        (Some((why, next)), None) => {
            Some(Conclusion::unknown(format!("Nothing can be said of time: {why}. {}", of_memory(rivals)), next))
        }
        (None, Some((why, next))) => {
            Some(Conclusion::unknown(format!("Nothing can be said of memory: {why}. {}", of_time(rivals)), next))
        }
    }
}

/// Returns why there are too few rounds, if there are, and the command for more.
fn few_rounds(comparison: &Comparison, rivals: &[Rival]) -> Option<(String, String)> {
    let rounds = comparison.decisive_rounds();
    let needed = fewest_for(comparisons(rivals.len()));
    let more = format!("Allow more time with --budget, or set the number: `{}`", act::rounds(needed, comparison));
    if rivals.is_empty() {
        Some(("no other allocator could be measured".to_owned(), String::new()))
    } else if rounds < FEWEST {
        let why = format!("there are no intervals from so few rounds ({rounds}; it takes {FEWEST})");
        Some((why, more))
    } else if rounds < needed {
        let why =
            format!("{rounds} rounds cannot decide among {}, {needed} can", counted(rivals.len() as u64, "rival"));
        Some((why, more))
    } else {
        None
    }
}

/// Returns by how much replays of the same allocator differ, if that is too much.
fn noisy(comparison: &Comparison) -> Option<(String, String)> {
    let runs = comparison.confirmed();
    let noise = |metric, figure| runs.map_or_else(|| comparison.noise_of(metric), |runs| runs.noise(figure));
    let of = |metric, figure, what| match noise(metric, figure) {
        Some(noise) if noise <= MOST_NOISE => None,
        Some(noise) => Some(format!("differ by up to {} % in {what}", percent(noise))),
        None => Some(format!("were to show the noise in {what}, and failed")),
    };
    let basis = comparison.basis();
    // Where nothing is said of a figure, its noise does not matter.
    let is_open = |doubt: Option<_>| runs.is_some() || doubt.is_none();
    let time = || of(basis.time_metric(), ProgramRun::PROCESSOR, "time");
    let memory = || of(basis.memory_metric(), ProgramRun::PEAK, "memory");
    let time = is_open(comparison.doubt_of_time()).then(time).flatten();
    let how = time.or_else(|| is_open(comparison.doubt_of_memory()).then(memory).flatten())?;
    let why = format!(
        "{} the system's malloc {how}; with more than {} % only differences of twice the noise are shown",
        if comparison.confirmed().is_some() { "runs of the program under" } else { "replays of" },
        percent(MOST_NOISE)
    );
    let more = act::rounds(2 * comparison.decisive_rounds(), comparison);
    Some((why, format!("Repeat it on an idle machine, or with more rounds: `{more}`")))
}

/// Nothing of time, since one thread made the calls of several. Of memory, what is shown.
fn one_thread<'a>(comparison: &'a Comparison, rivals: &[Rival], doubt: Option<(String, String)>) -> Conclusion<'a> {
    let threads = comparison.trace.threads;
    let first = format!("One thread made the calls of {threads} here, so nothing can be said of time");
    let command = act::replay(comparison);
    let next = format!("To replay each thread's calls in a thread of its own, without --one-thread: `{command}`");
    let text = match doubt {
        Some((why, _)) => format!("{first}; nor of memory: {why}."),
        None => format!("{first}. {}", of_memory(rivals)),
    };
    Conclusion::unknown(text, next)
}

/// Returns what is shown of memory alone.
fn of_memory(rivals: &[Rival]) -> String {
    let by_memory = |a: &&Rival, b: &&Rival| a.memory.median.total_cmp(&b.memory.median);
    match rivals.iter().filter(|rival| rival.is_smaller()).min_by(by_memory) {
        Some(least) => format!("Of memory, {} takes {}.", least.row.title(), least.memory_in_words()),
        None => "Of memory, no allocator is shown to take less than the system's malloc.".to_owned(),
    }
}

/// Returns what is shown of time alone.
fn of_time(rivals: &[Rival]) -> String {
    let by_time = |a: &&Rival, b: &&Rival| a.time.median.total_cmp(&b.time.median);
    match rivals.iter().filter(|rival| rival.is_faster()).min_by(by_time) {
        Some(least) => format!("Of time, {} takes {}.", least.row.title(), least.time_in_words()),
        None => "Of time, no allocator is shown to take less than the system's malloc.".to_owned(),
    }
}

fn change<'a>(comparison: &'a Comparison, best: &Rival<'a>, offers: &[&Rival]) -> Conclusion<'a> {
    let command = act::under(best.row, comparison);
    let act = command.as_ref().map(|command| format!("To use it: `{command}`"));
    let choice = format!("Use {}: {}.", best.row.title(), best.evidence());
    Conclusion {
        verdict: Verdict::Change,
        choice: Some(best.row),
        text: match offers.is_empty() {
            true => choice,
            false => format!("{choice} If one thing matters more: {}.", in_words(offers)),
        },
        memory: fragmentation(comparison),
        next: [Some(about(comparison)), act].into_iter().flatten().collect::<Vec<String>>().join(" "),
        command,
    }
}

/// Returns the offers with their prices, separated by semicolons.
fn in_words(offers: &[&Rival]) -> String {
    offers.iter().map(|rival| rival.offer()).collect::<Vec<String>>().join("; ")
}

fn depends<'a>(comparison: &'a Comparison, offers: &[&Rival]) -> Conclusion<'a> {
    let commands = offers.iter().filter_map(|rival| act::under(rival.row, comparison));
    let commands: Vec<String> = commands.map(|command| format!("`{command}`")).collect();
    Conclusion {
        verdict: Verdict::Depends,
        choice: comparison.system(),
        text: format!("Keep the system's malloc unless one thing matters more: {}.", in_words(offers)),
        memory: fragmentation(comparison),
        next: format!("{} To use one of them: {}", about(comparison), commands.join(" or ")),
        command: None,
    }
}

fn keep<'a>(comparison: &'a Comparison, rivals: &[Rival]) -> Conclusion<'a> {
    let text = "Keep the system's malloc: every other that was tried is shown to be no more than 5 % better in time \
                and memory, or to be worse in one of them.";
    let open = open_gains(comparison, rivals);
    Conclusion {
        verdict: Verdict::Keep,
        choice: comparison.system(),
        text: open.map_or_else(|| text.to_owned(), |open| format!("{text} {open}")),
        memory: fragmentation(comparison),
        next: about(comparison),
        command: None,
    }
}

/// Returns what is not decided of those that are worse in one thing: whether they are better in the other, as they seem
/// to be. More rounds may make offers of them.
fn open_gains(comparison: &Comparison, rivals: &[Rival]) -> Option<String> {
    const LISTED: usize = 3;
    let open: Vec<String> = rivals.iter().filter_map(Rival::open_gain).collect();
    let more = if open.len() > LISTED { " and others" } else { "" };
    let rounds = comparison.decisive_rounds();
    let again = act::rounds(4 * rounds, comparison);
    let listed = open.iter().take(LISTED).map(String::as_str).collect::<Vec<_>>().join(", ");
    (!open.is_empty()).then(|| {
        format!(
            "{rounds} rounds do not decide whether at that price {listed}{more} would be better in the other: \
             `{again}`."
        )
    })
}

fn undecided<'a>(comparison: &'a Comparison, open: &[&Rival]) -> Conclusion<'a> {
    const LISTED: usize = 3;
    let rounds = comparison.decisive_rounds();
    let listed: Vec<String> = open.iter().take(LISTED).map(|rival| rival.open_question()).collect();
    let more = if open.len() > LISTED { " and others" } else { "" };
    let question = format!("whether {}{more} would be better", listed.join(", "));
    let (why, next) = match open.iter().all(|rival| rival.is_beyond_predictions()) {
        true => {
            let why = format!(
                "predictions of time, which may be wrong by {} %, do not decide {question}",
                percent(PREDICTED)
            );
            (why, comparison.to_measure_the_program())
        }
        false => {
            let next = format!("Four times the rounds halve the intervals: `{}`", act::rounds(4 * rounds, comparison));
            (format!("{rounds} rounds do not decide {question}"), next)
        }
    };
    Conclusion {
        memory: fragmentation(comparison),
        ..Conclusion::unknown(format!("Nothing can be said: {why}."), next)
    }
}

/// Returns, of the faster ones, that of the least product of time and memory, and the fastest if it is faster by more
/// than a twentieth; and the smallest one. Beside a `choice`, only those that gain more than it by more than a
/// twentieth.
fn offers<'r, 'a>(rivals: &'r [Rival<'a>], choice: Option<&Rival>) -> Vec<&'r Rival<'a>> {
    let by_time = |a: &&Rival, b: &&Rival| a.time.median.total_cmp(&b.time.median);
    let by_memory = |a: &&Rival, b: &&Rival| a.memory.median.total_cmp(&b.memory.median);
    let by_cost = |a: &&Rival, b: &&Rival| a.cost().total_cmp(&b.cost());
    let faster = || {
        let faster = rivals.iter().filter(|rival| rival.is_faster());
        faster.filter(|rival| choice.is_none_or(|choice| rival.is_faster_than(choice)))
    };
    let smaller = rivals.iter().filter(|rival| rival.is_smaller());
    let smallest = smaller.filter(|rival| choice.is_none_or(|choice| rival.is_smaller_than(choice))).min_by(by_memory);
    let cheapest = faster().min_by(by_cost);
    let fastest = faster().min_by(by_time).filter(|rival| cheapest.is_some_and(|other| rival.is_faster_than(other)));
    let mut named: Vec<&Rival> = Vec::new();
    for rival in [cheapest, fastest, smallest].into_iter().flatten() {
        if !named.iter().any(|other| std::ptr::eq(*other, rival)) {
            named.push(rival);
        }
    }
    named
}

/// Returns what the figures of a verdict are, and how to measure the program itself.
fn about(comparison: &Comparison) -> String {
    if comparison.confirmed().is_some() {
        return "These are the times and the memory of the program itself.".to_owned();
    }
    let Basis { time, memory, .. } = comparison.basis();
    let what = match (time, memory) {
        (Evidence::Replays, Evidence::Replays) => {
            "This is a verdict about the allocator's calls and the heap alone, not about the program's time: this \
             trace does not contain what the program did."
        }
        (Evidence::Replays, _) => {
            "The memory is that of the program; the time is that of the allocator's calls alone, since this trace does \
             not contain what the program's own took."
        }
        (_, Evidence::Replays) => {
            "The time is that of the program; the memory is that of the heap alone, since this trace does not contain \
             what the program had."
        }
        _ => "Predictions know nothing of the program's caches.",
    };
    let share = comparison.malloc_share().map(|share| {
        let share = if share < 0.005 { "less than 1".to_owned() } else { percent(share) };
        format!(
            "malloc and free are {share} % of this program's processor time: faster calls cannot save more, though fewer \
             page faults can."
        )
    });
    let sentences = [share, Some(what.to_owned()), Some(comparison.to_measure_the_program())];
    sentences.into_iter().flatten().filter(|text| !text.is_empty()).collect::<Vec<String>>().join(" ")
}

impl Comparison {
    /// Returns the number of rounds on which the verdict rests: of runs of the program itself, or of replays.
    fn decisive_rounds(&self) -> usize {
        self.confirmed().map_or(self.settings.rounds, |runs| runs.rounds) as usize
    }

    /// Returns how to measure the program itself; empty where it is not known which one it is, or that was tried.
    pub fn to_measure_the_program(&self) -> String {
        if self.confirmation.is_some() {
            return String::new();
        }
        let command = act::confirm(self);
        command.map_or_else(String::new, |command| format!("To measure the program itself: `{command}`."))
    }
}

#[cfg(test)]
#[path = "recommend_tests.rs"]
mod tests;
