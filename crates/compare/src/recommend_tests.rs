//! The rules of `docs/compare.md`, a row of the table for each; and trials with random figures.

use fastrand::Rng;

use super::super::comparison::Fidelity;
use super::super::confirmation::{Confirmation, Confirmed, ProgramRun};
use super::super::recorded::Recorded;
use super::super::row::Kind;
use super::super::synthetic::{Synthetic, row};
use super::*;
use heapwright_stats::enough_for;

/// A rule, figures to which it applies, the verdict and the choice, and what the text has to say.
type Rule = (&'static str, Comparison, Verdict, Option<&'static str>, &'static [&'static str]);

/// Figures of others beside the system's malloc: 12 rounds, 1 % noise, the harness known.
fn beside<const N: usize>(rows: [(String, f64, f64); N]) -> Synthetic {
    Synthetic::beside(rows).harness(0.0)
}

fn with(synthetic: Synthetic, change: impl FnOnce(&mut Comparison)) -> Comparison {
    let mut comparison = synthetic.build();
    change(&mut comparison);
    comparison
}

fn fidelity(replayed: u64) -> impl FnOnce(&mut Comparison) {
    move |comparison| comparison.fidelity = Some(Fidelity { recorded: 100 << 20, replayed })
}

/// Runs of the program itself under the system's malloc, `fast`, and the system's again, with `fast` at these ratios.
fn confirmed(rounds: u32, time: f64, memory: f64, noise: f64) -> impl FnOnce(&mut Comparison) {
    move |comparison| {
        let run = |round: u32, time: f64, memory: f64| ProgramRun {
            seconds: time,
            cpu_seconds: time * (1.0 + noise * f64::from(round * 7 % 5) / 4.0),
            peak_rss: (memory * 64e6) as u64,
        };
        let of = |name: &str, kind, time, memory, shift| Confirmed {
            name: name.to_owned(),
            kind,
            note: None,
            runs: (0..rounds).map(|round| run(round + shift, time, memory)).collect(),
        };
        let rows = vec![
            of("system", Kind::System, 1.0, 1.0, 0),
            of("fast", Kind::Allocator, time, memory, 1),
            of("system (A/A)", Kind::SystemAgain, 1.0, 1.0, 2),
        ];
        comparison.confirmation = Some(Confirmation { rounds, rows });
    }
}

fn threads(comparison: &mut Comparison) {
    comparison.trace.threads = 5;
}

/// A program that takes 4 s, a second of it in malloc, and 128 MB, half of it heap.
const PROGRAM: Recorded = Recorded {
    elapsed_seconds: Some(5.0),
    processor_seconds: Some(4.0),
    malloc_seconds: Some(1.0),
    peak_anonymous: Some(120_000_000),
    average_anonymous: None,
    resident_files: Some(8_000_000),
    recorder_bytes: None,
    faults: None,
};

fn rules() -> Vec<Rule> {
    use Verdict::{Change, Depends, Keep, Unknown};
    let fast = || [row("fast", 0.8, 1.0)];
    let many = |rounds| beside(std::array::from_fn::<_, 8, _>(|at| row(&format!("a{at}"), 0.5, 1.0))).rounds(rounds);
    vec![
        (
            "faster, and as small",
            beside([row("fast", 0.82, 1.04), row("slow", 1.5, 1.0)]).build(),
            Change,
            Some("fast"),
            &[
                "Use fast: 18 % less time in malloc and free than the system's (95 % interval 1",
                "within 5 % (1.04 times)",
            ],
        ),
        (
            "smaller, and as fast",
            beside([row("small", 1.0, 0.7)]).build(),
            Change,
            Some("small"),
            &["Use small: 0.70 times the system's memory at the same time within 5 %"],
        ),
        (
            "of several, the least product",
            beside([row("fast", 0.70, 1.04), row("small", 0.98, 0.6), row("good", 0.9, 0.9)]).build(),
            Change,
            Some("small"),
            &["Use small"],
        ),
        (
            "an allocator that gains more at a price is named beside the choice, with the price first",
            beside([row("free", 0.85, 1.0), row("trade", 0.6, 1.3), row("small", 1.4, 0.6)]).build(),
            Change,
            Some("free"),
            &[
                "Use free: 15 % less",
                " If one thing matters more: at 1.30 times the system's memory, trade takes 40 % less time in malloc",
                "; at 40 % more time in malloc and free than the system's (95 % interval 39 to 41), small takes 0.60",
            ],
        ),
        (
            "an allocator that gains no more than the choice is not named",
            beside([row("free", 0.62, 1.0), row("trade", 0.6, 1.3)]).build(),
            Change,
            Some("free"),
            &["Use free: 38 % less time in malloc and free than the system's (95 % interval 38 to 38) at the same \
               memory within 5 % (1.00 times). Frag"],
        ),
        (
            "a policy is named as people name it",
            beside([row("best", 0.5, 1.0)]).policies().build(),
            Change,
            Some("best"),
            &["Use best fit: 50 % less", "To use it: `heapwright run --policy best -- PROGRAM`"],
        ),
        (
            "a few pages are no difference",
            beside([row("fast", 0.8, 1.4)]).peak(500_000.0).build(),
            Change,
            Some("fast"),
            &["Use fast: at 195 KiB more memory, 20 % less time"],
        ),
        (
            "equivalence is shown",
            beside([row("same", 0.99, 1.01)]).build(),
            Keep,
            Some("system"),
            &["no more than 5 %"],
        ),
        ("four percent are no reason", beside([row("same", 0.96, 1.0)]).noise(0.0).build(), Keep, Some("system"), &[]),
        (
            "worse in one is out, whatever the other may be",
            beside([row("slow", 1.4, 1.0), row("large", 1.0, 1.5)]).build(),
            Keep,
            Some("system"),
            &["to be worse in one of them", "a verdict about the allocator's calls and the heap alone"],
        ),
        (
            "a gain that is not decided is named beside what is worse",
            beside([row("large", 0.93, 1.5)]).noise(0.18).build(),
            Keep,
            Some("system"),
            &["rounds do not decide whether at that price large (time 0.", "compare --rounds 48"],
        ),
        (
            "no significance is no equivalence",
            beside([row("same", 0.97, 1.0)]).noise(0.09).build(),
            Unknown,
            None,
            &["12 rounds do not decide whether same (time 0.9", "`heapwright compare --rounds 48 ...`"],
        ),
        (
            "a price is named first",
            beside([row("fast", 0.5, 2.0), row("small", 3.0, 0.5), row("worse", 1.5, 1.5)]).build(),
            Depends,
            Some("system"),
            &[
                "unless one thing matters more: at 2.00 times the system's memory, fast takes 50 % less time",
                "at 3.0 times the system's time in malloc and free (95 % interval 3.0 to 3.0), small takes 0.50 times",
            ],
        ),
        (
            "a price of six percent, too",
            beside([row("fast", 0.7, 1.06)]).build(),
            Depends,
            Some("system"),
            &["more: at 1.06 times the system's memory, fast takes 30 % less"],
        ),
        (
            "a price that is not known is one",
            beside([row("small", 1.04, 0.5)]).noise(0.09).build(),
            Depends,
            Some("system"),
            &["more: at 5 % more time in malloc and free than the system's (95 % interval ", "small takes 0.50 times"],
        ),
        (
            "noise",
            beside(fast()).noise(0.3).build(),
            Unknown,
            None,
            &[
                "Nothing can be said: replays of the system's malloc differ by up to",
                "`heapwright compare --rounds 24 ...`",
            ],
        ),
        (
            "a difference of more than twice the noise is one",
            beside([row("fast", 0.3, 1.0), row("same", 1.0, 1.0)]).noise(0.3).build(),
            Change,
            Some("fast"),
            &["Use fast: 69 %"],
        ),
        (
            "a difference that noise could explain is none, and nor is equality",
            beside([row("fast", 0.85, 1.0), row("same", 1.0, 1.0)]).noise(0.3).build(),
            Unknown,
            None,
            &["with more than 10 % only differences of twice the noise are shown"],
        ),
        (
            "of several at a price, the best trade is named, and the fastest if it is much faster",
            beside([row("trade", 0.7, 1.3), row("near", 0.69, 2.9), row("fastest", 0.4, 2.9)]).build(),
            Depends,
            Some("system"),
            &[
                "at 1.30 times the system's memory, trade takes 30 % less",
                "; at 2.90 times the system's memory, fastest",
            ],
        ),
        (
            "of several at a price, one that is hardly faster is not named",
            beside([row("trade", 0.7, 1.3), row("near", 0.68, 2.9)]).build(),
            Depends,
            Some("system"),
            &["at 1.30 times the system's memory, trade takes 30 % less time in malloc and free than the system's \
                 (95 % interval 30 to 30). Frag"],
        ),
        (
            "an unfaithful replay",
            with(beside(fast()), fidelity(89 << 20)),
            Unknown,
            None,
            &["Nothing can be said: the replay is not like the recorded run", "-11.0 %"],
        ),
        ("a faithful one", with(beside(fast()), fidelity(91 << 20)), Change, Some("fast"), &[]),
        (
            "few rounds",
            beside([row("fast", 0.5, 1.0)]).rounds(3).build(),
            Unknown,
            None,
            &["so few rounds (3; it takes 6)", "--rounds 7"],
        ),
        (
            "six rounds cannot decide among eight",
            many(6).build(),
            Unknown,
            None,
            &["6 rounds cannot decide among 8 rivals, 10 can", "`heapwright compare --rounds 10 ...`"],
        ),
        ("ten can", many(10).build(), Change, Some("a3"), &[]),
        (
            "the program: faster and smaller",
            beside([row("fast", 0.5, 0.7)]).recorded(PROGRAM).build(),
            Change,
            Some("fast"),
            &[
                "Use fast: the program takes 13 % less processor time (95 % interval 12 to 13) and 15 % less memory",
                "memory (95 % interval 15 to 15), as predicted. ",
                "malloc and free are 25 % of this program's processor time: faster calls cannot save more, though fewer page faults can.",
            ],
        ),
        (
            "the program: faster at the same memory",
            beside([row("fast", 0.5, 1.04)]).recorded(PROGRAM).build(),
            Change,
            Some("fast"),
            &[
                "the program takes 13 % less processor time",
                "at the same memory within 5 % (1.02 times), as predicted.",
            ],
        ),
        (
            "the program: malloc is too small a share of it",
            beside([row("fast", 0.8, 1.0)]).recorded(Recorded { processor_seconds: Some(20.0), ..PROGRAM }).build(),
            Keep,
            Some("system"),
            &["malloc and free are 5 % of this program's"],
        ),
        (
            "the program: predictions do not show a twentieth",
            beside([row("fast", 0.76, 1.0)]).recorded(PROGRAM).build(),
            Unknown,
            None,
            &["predictions of time, which may be wrong by 7 %, do not decide whether fast (time 0.94 to 0.94)"],
        ),
        (
            "the program: a prediction of four percent is not equality",
            beside([row("fast", 0.84, 1.0)]).recorded(PROGRAM).build(),
            Unknown,
            None,
            &["predictions of time, which may be wrong by 7 %, do not decide whether fast (time 0.96 to 0.96)"],
        ),
        (
            "the program: one of a percent is",
            beside([row("fast", 0.96, 1.0)]).recorded(PROGRAM).build(),
            Keep,
            Some("system"),
            &["no more than 5 %"],
        ),
        (
            "the program: the noise of a time that is predicted to be the same is no promise",
            beside([row("same", 1.0, 1.0)]).noise(0.3).recorded(PROGRAM).build(),
            Keep,
            Some("system"),
            &["no more than 5 %"],
        ),
        (
            "the program: half as much heap again is a price",
            beside([row("fast", 0.5, 1.5)]).recorded(PROGRAM).build(),
            Depends,
            Some("system"),
            &["more: at 25 % more memory (95 % interval 25 to 25), the program takes 13 % less", "with fast"],
        ),
        (
            "the program: noise of replays that is little of the program's",
            beside([row("fast", 0.3, 1.0)]).noise(0.2).recorded(PROGRAM).build(),
            Change,
            Some("fast"),
            &["the program takes 18 % less processor time"],
        ),
        (
            "the program: its calls took much longer than replayed ones",
            beside(fast()).recorded(Recorded { malloc_seconds: Some(4.1), ..PROGRAM }).build(),
            Unknown,
            None,
            &[
                "Nothing can be said of time: malloc and free took 4.10 s when this was recorded, and 1.00 s in the",
                "not within 0.25 to 4 times. Of memory, no allocator is shown",
            ],
        ),
        (
            "the program: such calls, and memory",
            beside([row("small", 1.0, 0.5)])
                .recorded(Recorded { malloc_seconds: Some(0.2), processor_seconds: Some(3.0), ..PROGRAM })
                .build(),
            Unknown,
            None,
            &["Nothing can be said of time", "Of memory, small takes 25 % less memory of the program"],
        ),
        (
            "the program: such calls, and noise in their time",
            beside([row("small", 1.0, 0.5)])
                .noise(0.3)
                .recorded(Recorded { malloc_seconds: Some(0.2), processor_seconds: Some(3.0), ..PROGRAM })
                .build(),
            Unknown,
            None,
            &["Nothing can be said of time: malloc and free took", "Of memory, small takes 25 % less memory"],
        ),
        (
            "the program: less than its heap",
            beside([row("fast", 0.5, 1.0)]).recorded(Recorded { peak_anonymous: Some(50_000_000), ..PROGRAM }).build(),
            Unknown,
            None,
            &[
                "Nothing can be said of memory: the heap alone has 61.0 MiB in the replay of the system's malloc, 28 %",
                "Of time, fast takes 13 % less processor time",
            ],
        ),
        (
            "the program: neither",
            beside(fast())
                .recorded(Recorded { peak_anonymous: Some(50_000_000), malloc_seconds: Some(9.0), ..PROGRAM })
                .build(),
            Unknown,
            None,
            &["Nothing can be said: malloc and free took 9.00 s", "; and the heap alone has"],
        ),
        (
            "the program: an unfaithful replay",
            with(beside(fast()).recorded(PROGRAM), fidelity(89 << 20)),
            Unknown,
            None,
            &["Nothing can be said: the replay is not like the recorded run"],
        ),
        (
            "the program's memory, and its calls' time",
            beside([row("both", 0.8, 0.7)]).recorded(Recorded { processor_seconds: None, ..PROGRAM }).build(),
            Change,
            Some("both"),
            &[
                "Use both: 20 % less time in malloc and free than the system's (95 % interval 20 to 20)",
                " at 15 % less memory of the program (95",
                "The memory is that of the program; the time is that of the allocator's calls alone",
            ],
        ),
        (
            "the program, known by name",
            with(beside([row("fast", 0.5, 1.0)]).recorded(PROGRAM), |comparison| {
                comparison.trace.program = Some("jq".to_owned());
            }),
            Change,
            Some("fast"),
            &["caches. To measure the program itself: `heapwright compare --confirm -- jq`. To use it:"],
        ),
        (
            "the program itself decides: what replays found is not there",
            with(beside(fast()), confirmed(12, 1.0, 1.0, 0.01)),
            Keep,
            Some("system"),
            &["every other that was tried", "of the program itself"],
        ),
        (
            "the program itself decides: it is faster, whatever the fidelity of replays",
            with(beside(fast()), |comparison| {
                fidelity(200 << 20)(comparison);
                confirmed(12, 0.8, 1.0, 0.01)(comparison);
            }),
            Change,
            Some("fast"),
            &[
                "Use fast: the program takes 20 % less processor time",
                ", as measured.",
                "of the program itself",
                "To use it",
            ],
        ),
        (
            "the program itself decides: too noisy",
            with(beside(fast()), confirmed(12, 0.8, 1.0, 0.5)),
            Unknown,
            None,
            &["runs of the program under the system's malloc differ"],
        ),
        (
            "the program itself decides: too few rounds",
            with(beside(fast()), confirmed(3, 0.8, 1.0, 0.01)),
            Unknown,
            None,
            &["3; it takes 6"],
        ),
        (
            "one thread for several",
            with(beside(fast()), threads),
            Unknown,
            None,
            &[
                "One thread made the calls of 5 here, so nothing can be said of time. Of memory, no",
                "without --one-thread",
            ],
        ),
        (
            "one thread for several, and memory",
            with(beside([row("small", 0.5, 0.7)]), threads),
            Unknown,
            None,
            &["One thread made the calls of 5 here", "Of memory, small takes 0.70 times the system's memory"],
        ),
        (
            "one thread for several, and noise",
            with(beside(fast()).noise(0.3), threads),
            Unknown,
            None,
            &["One thread made the calls of 5 here", "nor of memory: replays of the system's malloc differ"],
        ),
        (
            "the harness was not subtracted",
            Synthetic::beside(fast()).build(),
            Change,
            Some("fast"),
            &["20 % less time in the replay than"],
        ),
        ("simulations alone", beside(fast()).rounds(0).build(), Unknown, None, &["nothing is known of time"]),
        (
            "no system to compare with",
            with(beside(fast()), |comparison| comparison.rows[0].note = Some("crashed".to_owned())),
            Unknown,
            None,
            &["the system's malloc could not be measured"],
        ),
        (
            "requests refused",
            with(beside([row("fast", 0.5, 1.0), row("same", 1.0, 1.0)]), |it| it.rows[1].refused = Some(1)),
            Keep,
            Some("system"),
            &[],
        ),
        (
            "failed",
            with(beside([row("broken", 0.4, 1.0), row("same", 1.0, 1.0)]), |comparison| {
                comparison.rows[1].note = Some("lost its contents".to_owned());
            }),
            Keep,
            Some("system"),
            &[],
        ),
        (
            "a known program, and a library",
            with(beside(fast()), |comparison| {
                comparison.trace.program = Some("jq".to_owned());
                comparison.rows[1].library = Some("/usr/lib/libfast.so".to_owned());
            }),
            Change,
            Some("fast"),
            &[
                "the program itself: `heapwright compare --confirm -- jq`.",
                "To use it: `LD_PRELOAD=/usr/lib/libfast.so jq`",
            ],
        ),
    ]
}

#[test]
fn every_rule_holds() {
    for (rule, comparison, verdict, choice, says) in rules() {
        let recommendation = recommend(&comparison);
        let text = &recommendation.text;
        assert_eq!((recommendation.verdict, recommendation.choice.as_deref()), (verdict, choice), "{rule}: {text}");
        says.iter().for_each(|part| assert!(text.contains(part), "{rule}: {text}\nlacks {part}"));
    }
}

#[test]
fn the_command_comes_last() {
    for (rule, comparison, verdict, ..) in rules() {
        let Recommendation { text, command, .. } = recommend(&comparison);
        assert_eq!(command.is_some(), verdict == Verdict::Change, "{rule}: {text}");
        assert!(command.is_none_or(|command| text.ends_with(&format!("To use it: `{command}`"))), "{rule}: {text}");
    }
}

/// A comparison of `rivals` allocators that take `time` and the same memory: lognormal noise, rounds that drift as a
/// whole, and a run out of fifty that takes half as long again.
fn random(rng: &mut Rng, rivals: &[f64], noise: f64, rounds: u32) -> Comparison {
    let rows = rivals.iter().enumerate().map(|(at, _)| row(&format!("a{at}"), 1.0, 1.0));
    let mut comparison = Synthetic::beside(rows).rounds(rounds).build();
    let drifts: Vec<f64> = (0..rounds).map(|_| (0.05 * normal(rng)).exp()).collect();
    for (at, row) in comparison.rows.iter_mut().enumerate() {
        let own = if row.kind == Kind::Allocator { rivals[at - 1] } else { 1.0 };
        for (round, drift) in row.rounds.iter_mut().zip(&drifts) {
            let outlier = if rng.u8(..50) == 0 { 1.5 } else { 1.0 };
            round.cpu_seconds = own * drift * outlier * (noise * normal(rng)).exp();
            round.peak_rss = (64e6 * (0.01 * normal(rng)).exp()) as u64;
        }
    }
    comparison.settle();
    comparison
}

/// Close to normal.
fn normal(rng: &mut Rng) -> f64 {
    (0..12).map(|_| rng.f64()).sum::<f64>() - 6.0
}

#[test]
fn of_200_comparisons_of_an_allocator_with_itself_at_most_4_recommend_one() {
    let mut rng = Rng::with_seed(1);
    for (noise, rounds) in [(0.02, 12), (0.10, 30)] {
        let advises = |rng: &mut Rng| {
            let verdict = recommend(&random(rng, &[1.0; 8], noise, rounds)).verdict;
            matches!(verdict, Verdict::Change | Verdict::Depends)
        };
        let advised = (0..200).filter(|_| advises(&mut rng)).count();
        assert!(advised <= 4, "{advised} with noise of {noise}");
    }
}

#[test]
fn a_difference_of_10_percent_is_found_in_4_of_5_comparisons() {
    let mut rng = Rng::with_seed(2);
    let mut rivals = [1.0; 8];
    rivals[3] = 0.9;
    let finds = |rng: &mut Rng, rounds| recommend(&random(rng, &rivals, 0.02, rounds)).choice.as_deref() == Some("a3");
    for rounds in [enough_for(comparisons(rivals.len())) as u32, 30] {
        let found = (0..100).filter(|_| finds(&mut rng, rounds)).count();
        assert!(found >= 80, "{found} of 100 with {rounds} rounds");
    }
}
