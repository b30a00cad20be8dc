//! What a verdict claims: read from its words, as a user reads them.

use super::figures::Measure;
use super::predicted::{Compared, Recommended};

/// What a verdict says of one figure of an allocator, compared with the system's malloc.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Said {
    /// It is less.
    Less,
    /// It is the same within 5 %.
    Same,
    /// It is more: a price that is named.
    More,
    /// It is not mentioned.
    #[default]
    Nothing,
}

/// An allocator that a verdict offers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Claim {
    /// Its name.
    pub allocator: String,
    /// What is said of its time.
    pub time: Said,
    /// What is said of its memory.
    pub memory: Said,
}

impl Claim {
    /// Returns what is said of a figure.
    pub fn of(&self, measure: Measure) -> Said {
        match measure {
            Measure::Time => self.time,
            Measure::Memory => self.memory,
        }
    }
}

/// What a verdict advises.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Advice {
    /// Nothing can be said.
    Silence,
    /// To keep the system's malloc: no other is better.
    Keep,
    /// To use one of these allocators; with several, or a price, if one thing matters more.
    Use(Vec<Claim>),
    /// Nothing can be said of one figure; of the other, what this allocator takes.
    Partly(Claim),
    /// Its words have another form than this module knows.
    Unclear,
}

impl Advice {
    /// Returns what a comparison advises.
    pub fn of(compared: &Compared) -> Advice {
        let Some(recommended) = &compared.recommendation else { return Advice::Silence };
        match recommended.verdict.as_str() {
            "unknown" => part(compared, recommended).map_or(Advice::Silence, Advice::Partly),
            "keep" => Advice::Keep,
            "change" => change(compared, recommended).map_or(Advice::Unclear, Advice::Use),
            "depends" => depends(compared, recommended).map_or(Advice::Unclear, Advice::Use),
            _ => Advice::Unclear,
        }
    }

    /// Returns the allocators that are offered.
    pub fn names(&self) -> Vec<&str> {
        match self {
            Advice::Use(claims) => claims.iter().map(|claim| claim.allocator.as_str()).collect(),
            Advice::Partly(claim) => vec![&claim.allocator],
            Advice::Silence | Advice::Keep | Advice::Unclear => Vec::new(),
        }
    }
}

/// Reads "Use X: EVIDENCE. ..." and "... If one thing matters more: OFFERS. ..."
fn change(compared: &Compared, recommended: &Recommended) -> Option<Vec<Claim>> {
    let words = first_sentence(&recommended.text).split_once(": ")?.1;
    let choice = claim(recommended.choice.as_deref()?, words)?;
    let others = match recommended.text.split_once(". If one thing matters more: ") {
        Some((_, words)) => offers(compared, words)?,
        None => Vec::new(),
    };
    Some([choice].into_iter().chain(others).collect())
}

/// Reads "Keep the system's malloc unless one thing matters more: OFFERS. ..."
fn depends(compared: &Compared, recommended: &Recommended) -> Option<Vec<Claim>> {
    offers(compared, recommended.text.split_once(": ")?.1)
}

/// Reads "at PRICE, X takes GAIN; at PRICE, the program takes GAIN with Y. ..."
fn offers(compared: &Compared, words: &str) -> Option<Vec<Claim>> {
    first_sentence(words).split("; ").map(|words| claim(named(compared, words)?, words)).collect()
}

/// Reads "... Of memory, X takes GAIN." where nothing can be said of the other figure.
fn part(compared: &Compared, recommended: &Recommended) -> Option<Claim> {
    let text = &recommended.text;
    let words = ["Of memory, ", "Of time, "].into_iter().find_map(|start| Some(text.split_once(start)?.1))?;
    let words = first_sentence(words);
    claim(named(compared, words)?, words)
}

/// Returns the name of the allocator in "X takes ..." or "... with X".
fn named<'a>(compared: &'a Compared, words: &str) -> Option<&'a str> {
    let words = format!(" {}", words.trim_end_matches('.'));
    let is_named =
        |title: &str| words.contains(&format!(" {title} takes ")) || words.ends_with(&format!(" with {title}"));
    compared.results.iter().find(|row| is_named(&row.title())).map(|row| row.name.as_str())
}

/// Returns the text up to the first period that ends a sentence.
pub fn first_sentence(text: &str) -> &str {
    text.split(". ").next().unwrap_or(text)
}

/// Reads what is said of an allocator's time and memory; `None` if nothing is understood.
fn claim(allocator: &str, words: &str) -> Option<Claim> {
    let mut claim = Claim { allocator: allocator.to_owned(), ..Claim::default() };
    let parts = words.split(" takes ").flat_map(|part| part.split(", ")).flat_map(|part| part.split(" at "));
    for part in parts.flat_map(|part| part.split(" and ")) {
        let about = if part.contains("memory") { &mut claim.memory } else { &mut claim.time };
        let said = said(part);
        if *about == Said::Nothing {
            *about = said;
        }
    }
    (claim.time != Said::Nothing || claim.memory != Said::Nothing).then_some(claim)
}

/// Reads one figure: "18 % less time", "the same memory within 5 %", "1.20 times the system's memory".
fn said(part: &str) -> Said {
    let words: Vec<&str> = part.split_whitespace().collect();
    let times = words.iter().position(|word| *word == "times").and_then(|at| words.get(at.checked_sub(1)?));
    let is_figure = part.contains("memory") || part.contains("time");
    match times.and_then(|number| number.trim_start_matches('(').parse::<f64>().ok()) {
        _ if !is_figure => Said::Nothing,
        _ if words.contains(&"same") => Said::Same,
        _ if words.contains(&"less") => Said::Less,
        _ if words.contains(&"more") => Said::More,
        Some(ratio) if ratio < 1.0 => Said::Less,
        Some(_) => Said::More,
        None => Said::Nothing,
    }
}

#[cfg(test)]
pub mod tests {
    use serde_json::json;

    use super::*;

    /// Returns a comparison with this verdict.
    pub fn compared(verdict: &str, choice: Option<&str>, text: &str) -> Compared {
        let row = |name: &str, kind: &str| json!({"name": name, "kind": kind});
        let rows = [row("system", "system"), row("x", "allocator"), row("y", "allocator"), row("good", "policy")];
        let recommendation = json!({"verdict": verdict, "choice": choice, "text": text});
        Compared::of(&json!({"recommendation": recommendation, "results": rows})).unwrap()
    }

    fn used(text: &str) -> Claim {
        match Advice::of(&compared("change", Some("x"), text)) {
            Advice::Use(mut claims) => claims.remove(0),
            other => panic!("{text}: {other:?}"),
        }
    }

    #[test]
    fn a_choice_is_read_from_its_words() {
        for (text, time, memory) in [
            (
                "Use x: 18 % less time in malloc and free than the system's (95 % interval 15 to 21) at the same \
                 memory within 5 % (1.04 times). Fragmentation need not be your problem: 1.2 times more memory.",
                Said::Less,
                Said::Same,
            ),
            (
                "Use x: at 300 KiB more memory, 2.1 times the system's time (95 % interval 2 to 3).",
                Said::More,
                Said::More,
            ),
            (
                "Use x: 0.80 times the system's memory (95 % interval 0.79 to 0.81) at 3 % more time than.",
                Said::More,
                Said::Less,
            ),
            ("Use x: 0.80 times the system's memory.", Said::Nothing, Said::Less),
            (
                "Use x: the program takes 13 % less processor time (95 % interval 12 to 13) and 15 % less memory (95 % \
                 interval 14 to 16), as predicted. Fragmentation costs you nothing.",
                Said::Less,
                Said::Less,
            ),
            ("Use x: at 300 KiB more memory, the program takes 2.5 times the processor time.", Said::More, Said::More),
        ] {
            let claim = used(text);
            assert_eq!((claim.allocator.as_str(), claim.time, claim.memory), ("x", time, memory), "{text}");
        }
    }

    #[test]
    fn every_offer_is_read() {
        let text = "Keep the system's malloc unless one thing matters more: at 1.30 times the system's memory (95 % \
                    interval 1.28 to 1.31), y takes 40 % less time in malloc and free than the system's (95 % interval \
                    30 to 50); at 20 % more time than the system's (95 % interval 15 to 21), good fit takes 0.70 times \
                    the system's memory (95 % interval 0.69 to 0.71). This is about the allocator's calls.";
        let y = Claim { allocator: "y".to_owned(), time: Said::Less, memory: Said::More };
        let good = Claim { allocator: "good".to_owned(), time: Said::More, memory: Said::Less };
        let advice = Advice::of(&compared("depends", Some("system"), text));
        assert_eq!(advice, Advice::Use(vec![y.clone(), good.clone()]));
        assert_eq!(advice.names(), ["y", "good"]);
        let text = "Keep the system's malloc unless one thing matters more: at 30 % more memory (95 % interval 28 to \
                    31), the program takes 20 % less processor time (95 % interval 19 to 21) with y; at 2.0 times the \
                    processor time (95 % interval 1.9 to 2.1), the program takes 9 % less memory with good fit.";
        assert_eq!(Advice::of(&compared("depends", Some("system"), text)), Advice::Use(vec![y, good]));
    }

    #[test]
    fn offers_beside_a_choice_are_read() {
        let text = "Use x: the program takes 11 % less processor time (95 % interval 5 to 14) at the same memory \
                    within 5 % (1.04 times), as predicted. If one thing matters more: at 28 % more memory (95 % \
                    interval 27 to 29), the program takes 40 % less processor time (95 % interval 38 to 42) with y. \
                    Fragmentation need not be your problem.";
        let x = Claim { allocator: "x".to_owned(), time: Said::Less, memory: Said::Same };
        let y = Claim { allocator: "y".to_owned(), time: Said::Less, memory: Said::More };
        assert_eq!(Advice::of(&compared("change", Some("x"), text)), Advice::Use(vec![x, y]));
    }

    #[test]
    fn one_figure_may_be_all_that_is_said() {
        let text = "Nothing can be said of time: it differs. Of memory, x takes 25 % less memory of the program (95 % \
                    interval 24 to 26). To measure the program itself: `heapwright compare --confirm -- x`.";
        let claim = Claim { allocator: "x".to_owned(), time: Said::Nothing, memory: Said::Less };
        assert_eq!(Advice::of(&compared("unknown", None, text)), Advice::Partly(claim));
        let text = "Nothing can be said of time: it differs. Of memory, no allocator is shown to take less than the \
                    system's malloc.";
        assert_eq!(Advice::of(&compared("unknown", None, text)), Advice::Silence);
    }

    #[test]
    fn a_name_that_another_begins_with_is_not_taken_for_it() {
        let row = |name: &str| json!({"name": name, "kind": "allocator"});
        let rows = [row("tcmalloc"), row("tcmalloc-google"), row("malloc")];
        let compared = Compared::of(&json!({"recommendation": null, "results": rows})).unwrap();
        assert_eq!(
            named(&compared, "at 3 % more memory, the program takes 9 % less with tcmalloc-google"),
            Some("tcmalloc-google")
        );
        assert_eq!(named(&compared, "tcmalloc-google takes less"), Some("tcmalloc-google"));
        assert_eq!(named(&compared, "at a price, tcmalloc takes less"), Some("tcmalloc"));
    }

    #[test]
    fn silence_is_no_advice_and_other_words_are_not_guessed() {
        assert_eq!(Advice::of(&compared("unknown", None, "Nothing can be said.")), Advice::Silence);
        assert_eq!(Advice::of(&compared("keep", Some("system"), "Keep the system's malloc: so.")), Advice::Keep);
        assert_eq!(Advice::of(&compared("change", Some("x"), "Use x: it is good.")), Advice::Unclear);
        assert_eq!(
            Advice::of(&compared("depends", Some("system"), "It depends: z takes 3 % less time.")),
            Advice::Unclear
        );
        assert_eq!(Advice::of(&compared("other", None, "")), Advice::Unclear);
    }
}
