//! The list of tests: the short form, and the full form, which is ignored unless asked for.

use std::time::Instant;

use heapwright_shared::{Place, PolicyKind, SharedHeap, SmallBlocks};
use libtest_mimic::Failed;

use crate::corruption::{Damage, Rest, Specimen};
use crate::creation::Creation;
use crate::heap::HeapOperation;
use crate::random::{Homes, are_homes_permitted, kill_at_random};
use crate::recovery_time::{self, MOMENTS};
use crate::scenario::{Action, SCENARIOS, SLAB_SCENARIOS, Scenario};
use crate::stepping::{Findings, Trial};
use crate::subject::{Record, Subject, Survivor};
use crate::toy::Toy;

const BOTH: [Survivor; 2] = [Survivor::Attached, Survivor::Newcomer];
const SHORT: [PolicyKind; 2] = [PolicyKind::Buddy, PolicyKind::Best];

const SHORT_STRIDES: Strides = Strides { states: 31, attached: 2999, newcomer: 4999 };
const WORD_STRIDES: Strides = Strides { states: 1, attached: 499, newcomer: 1999 };
const FULL_STRIDES: Strides = Strides { states: 1, attached: 1, newcomer: 10 };
/// Slabs are the same under any policy but for where they lie: they are killed at every instruction under one.
const OF_SLABS: PolicyKind = PolicyKind::Buddy;
const THIN_STRIDES: Strides = Strides { states: 1, attached: 20, newcomer: 200 };
/// In the short form, so many states of an operation get recoverers that are killed.
const RECOVERED_STATES: usize = 2;
/// In the short form, one operation of so many is stepped through; which, is drawn in each run.
const SHORT_SHARE: usize = 8;

pub type Outcome = Result<(), Failed>;

/// A test, which is done in a process that has a single thread.
pub struct Test {
    pub name: String,
    /// Whether it is part of the full form only.
    pub is_full: bool,
    pub processors: Processors,
    pub work: Box<dyn FnOnce() -> Outcome + Send>,
}

/// What a test needs of the machine.
#[derive(Clone, Copy)]
pub enum Processors {
    /// Others may run meanwhile.
    Some,
    /// It measures times: nothing else may run.
    All,
}

impl Test {
    fn of(name: impl Into<String>, work: impl FnOnce() -> Outcome + Send + 'static) -> Test {
        Test { name: name.into(), is_full: false, processors: Processors::Some, work: Box::new(work) }
    }
}

/// All tests.
pub fn all() -> Vec<Test> {
    let short = SHORT.into_iter().flat_map(short_form);
    let full = PolicyKind::ALL.into_iter().flat_map(full_form).map(|test| Test { is_full: true, ..test });
    let toy = Test::of("the toy: its record is needed, and enough", toy);
    let made = Test::of("each operation can be done under each policy", every_operation_can_be_done);
    [toy, made].into_iter().chain(short).chain(short_form_with_slabs(PolicyKind::Best)).chain(full).collect()
}

fn short_form(policy: PolicyKind) -> Vec<Test> {
    let named = |what: &str| format!("{}: {what}", policy.name());
    vec![
        Test::of(named("states of one operation in eight"), move || some_operations(policy, SCENARIOS)),
        Test::of(named("states of creating, and of one operation of those that open first or close last"), move || {
            alone(policy, &[drawn(&opening_or_closing())], SHORT_STRIDES)
        }),
        Test::of(named("killed recoverers of one operation"), move || {
            killed_recoverers(policy, &[drawn(&thorough())], RECOVERED_STATES)
        }),
        Test::of(named("without the record the steps do break"), move || erased_record(policy)),
        Test::of(named("100 kills at random"), move || random_kills(policy, SmallBlocks::Placed, 100)),
        Test::of(named("200 kills at random across namespaces"), move || random_kills_across_namespaces(policy, 200)),
        Test::of(named("each byte damaged"), move || each_byte(policy, SmallBlocks::Placed)),
        Test::of(named("1,000 random damages"), move || random_damage(policy, SmallBlocks::Placed, 1000)),
    ]
}

fn short_form_with_slabs(policy: PolicyKind) -> Vec<Test> {
    let named = |what: &str| format!("with slabs, {}: {what}", policy.name());
    vec![
        Test::of(named("states of one operation in eight"), move || some_operations(policy, SLAB_SCENARIOS)),
        Test::of(named("every state of the operations on words"), move || every_state_of_words(policy)),
        Test::of(named("100 kills at random"), move || random_kills(policy, SmallBlocks::Slabs, 100)),
        Test::of(named("1,000 random damages"), move || random_damage(policy, SmallBlocks::Slabs, 1000)),
    ]
}

fn full_form(policy: PolicyKind) -> Vec<Test> {
    let named = |what: &str| format!("full, {}: {what}", policy.name());
    vec![
        Test::of(named("a kill at every instruction of every operation"), move || {
            operations(policy, SCENARIOS, FULL_STRIDES)
        }),
        Test::of(named("a kill at every instruction of creating, opening first and closing last"), move || {
            alone(policy, &opening_or_closing(), FULL_STRIDES)
        }),
        Test::of(named("killed recoverers of every state"), move || killed_recoverers(policy, &thorough(), usize::MAX)),
        Test::of(named("10,000 kills at random"), move || random_kills(policy, SmallBlocks::Placed, 10_000)),
        Test::of(named("10,000 kills at random across namespaces"), move || {
            random_kills_across_namespaces(policy, 10_000)
        }),
        Test::of(named("each byte damaged"), move || each_byte(policy, SmallBlocks::Placed)),
        Test::of(named("100,000 random damages"), move || random_damage(policy, SmallBlocks::Placed, 100_000)),
        with_slabs_at_instructions(policy),
        Test::of(named("with slabs, 10,000 kills at random"), move || random_kills(policy, SmallBlocks::Slabs, 10_000)),
        Test::of(named("with slabs, each byte damaged"), move || each_byte(policy, SmallBlocks::Slabs)),
        Test::of(named("with slabs, 100,000 random damages"), move || {
            random_damage(policy, SmallBlocks::Slabs, 100_000)
        }),
        Test { processors: Processors::All, ..Test::of(named("recovery time"), move || recovery_time(policy)) },
    ]
}

fn with_slabs_at_instructions(policy: PolicyKind) -> Test {
    let (often, strides) = match policy {
        OF_SLABS => ("every instruction", FULL_STRIDES),
        _ => ("every 20th instruction, every state judged,", THIN_STRIDES),
    };
    let name = format!("full, {}: with slabs, a kill at {often} of every operation", policy.name());
    Test::of(name, move || operations(policy, SLAB_SCENARIOS, strides))
}

fn place(what: &str) -> Result<Place, String> {
    Place::new(format!("heapwright-kills-{}-{what}", std::process::id())).map_err(|error| error.to_string())
}

fn toy() -> Outcome {
    let toy = Toy::new(place("toy")?.path().to_owned());
    for survivor in BOTH {
        let mut trial = Trial::prepare(&toy, survivor)?;
        trial.judge_every_state(Record::Kept)?.verdict()?;
        trial.kill_at_moments(1)?.verdict()?;
        let broken = trial.judge_every_state(Record::Erased)?.failures;
        if broken.len() != 1 {
            return Err(format!("exactly one state of the toy needs the record, not {}", broken.len()).into());
        }
        trial.dismiss()?;
        trial.kill_the_recoverer(survivor, usize::MAX)?.verdict()?;
    }
    Ok(())
}

/// The full form of every other test needs this.
fn every_operation_can_be_done() -> Outcome {
    for policy in PolicyKind::ALL {
        for scenario in SCENARIOS.iter().chain(SLAB_SCENARIOS) {
            made(*scenario, policy)?;
        }
    }
    Ok(())
}

fn made(scenario: Scenario, policy: PolicyKind) -> Result<HeapOperation, String> {
    let of_it = |error| format!("{}, {}: {error}", policy.name(), scenario.name);
    HeapOperation::new(scenario, policy, place("heap")?).map_err(of_it)
}

/// Does `test` with each of the operations under `policy` and tells what it took.
fn each_operation(
    policy: PolicyKind,
    scenarios: &[Scenario],
    test: impl Fn(&HeapOperation) -> Result<Findings, String>,
) -> Outcome {
    let start = Instant::now();
    let mut all = Findings::default();
    for scenario in scenarios {
        let operation = made(*scenario, policy)?;
        all.add(test(&operation).map_err(|error| format!("{}: {error}", operation.name()))?);
    }
    println!("{all}, {:.1} s", start.elapsed().as_secs_f64());
    Ok(all.verdict()?)
}

/// What to do with an operation: a real kill at one of so many instructions, by who judges it.
#[derive(Clone, Copy)]
struct Strides {
    /// Every so many states that the file passes through are judged.
    states: usize,
    attached: usize,
    newcomer: usize,
}

/// Every state of an operation, and some real kills, judged by a process that was attached before and by newcomers.
fn every_state(subject: &impl Subject, strides: Strides) -> Result<Findings, String> {
    let mut trial = Trial::prepare(subject, Survivor::Attached)?;
    let mut findings = Findings { instructions: trial.instructions(), ..Findings::default() };
    findings.add(trial.judge_states(strides.states)?);
    findings.add(trial.kill_at_moments(strides.attached)?);
    trial.dismiss()?;
    findings.add(trial.judge_states(strides.states)?);
    findings.add(trial.kill_at_moments(strides.newcomer)?);
    Ok(findings)
}

/// The same without another process attached: for operations that differ then.
fn every_state_alone(subject: &impl Subject, strides: Strides) -> Result<Findings, String> {
    let trial = Trial::prepare(subject, Survivor::Newcomer)?;
    let mut findings = Findings { instructions: trial.instructions(), ..Findings::default() };
    findings.add(trial.judge_states(strides.states)?);
    findings.add(trial.kill_at_moments(strides.newcomer)?);
    Ok(findings)
}

fn operations(policy: PolicyKind, scenarios: &[Scenario], strides: Strides) -> Outcome {
    each_operation(policy, scenarios, |operation| every_state(operation, strides))
}

/// A sample of the operations: every eighth from one that is drawn.
fn some_operations(policy: PolicyKind, scenarios: &[Scenario]) -> Outcome {
    let first = fastrand::usize(..SHORT_SHARE);
    println!("from \"{}\" on", scenarios[first].name);
    let some: Vec<Scenario> = scenarios.iter().skip(first).step_by(SHORT_SHARE).copied().collect();
    operations(policy, &some, SHORT_STRIDES)
}

/// All operations on a word and on blocks of slabs, whose commits are not the engine's.
fn every_state_of_words(policy: PolicyKind) -> Outcome {
    let on_words = |scenario: &&Scenario| scenario.action.linked().is_some();
    let scenarios: Vec<Scenario> = SLAB_SCENARIOS.iter().filter(on_words).copied().collect();
    operations(policy, &scenarios, WORD_STRIDES)
}

/// Returns one of the operations, and says which.
fn drawn(scenarios: &[Scenario]) -> Scenario {
    let scenario = scenarios[fastrand::usize(..scenarios.len())];
    println!("\"{}\"", scenario.name);
    scenario
}

/// The first to open breaks the seal, the last to close sets it.
fn opening_or_closing() -> Vec<Scenario> {
    let seals = |scenario: &&Scenario| matches!(scenario.action, Action::Open | Action::Close | Action::Repair);
    SCENARIOS.iter().filter(seals).copied().collect()
}

/// The process that creates is alone, and so is one that does any of these operations.
fn alone(policy: PolicyKind, scenarios: &[Scenario], strides: Strides) -> Outcome {
    every_state_alone(&Creation::new(policy, place("creation")?), strides)?.verdict()?;
    each_operation(policy, scenarios, |operation| every_state_alone(operation, strides))
}

/// Operations that take most apart, or put most together, under any policy.
fn thorough() -> Vec<Scenario> {
    chosen(&["allocate in an empty heap", "allocate a part of a hole", "free the only block", "free between holes"])
}

/// Returns the operations with these names, all of which there must be.
fn chosen(names: &[&str]) -> Vec<Scenario> {
    let named = |name: &&str| *SCENARIOS.iter().find(|scenario| scenario.name == *name).expect("there is one");
    names.iter().map(named).collect()
}

fn killed_recoverers(policy: PolicyKind, scenarios: &[Scenario], sample: usize) -> Outcome {
    each_operation(policy, scenarios, |operation| {
        let trial = Trial::prepare(operation, Survivor::Newcomer)?;
        let mut findings = trial.kill_the_recoverer(Survivor::Attached, sample)?;
        findings.add(trial.kill_the_recoverer(Survivor::Newcomer, sample.div_ceil(2))?);
        Ok(findings)
    })
}

/// The test can fail: with the record erased before survivors come, both kinds of operations leave what cannot be put
/// in order.
fn erased_record(policy: PolicyKind) -> Outcome {
    for scenario in chosen(&["allocate in an empty heap", "free the only block"]) {
        let operation = made(scenario, policy)?;
        let findings = Trial::prepare(&operation, Survivor::Attached)?.judge_every_state(Record::Erased)?;
        if findings.failures.is_empty() {
            return Err(
                format!("{}: {} states without a record, and none is broken", scenario.name, findings.judged).into()
            );
        }
    }
    Ok(())
}

fn random_kills(policy: PolicyKind, small: SmallBlocks, kills: usize) -> Outcome {
    random_kills_of(policy, small, Homes::One, kills)
}

/// Half with slabs, half without.
fn random_kills_across_namespaces(policy: PolicyKind, kills: usize) -> Outcome {
    if !are_homes_permitted() {
        println!("no namespaces of process numbers are permitted here: nothing is tested");
        return Ok(());
    }
    random_kills_of(policy, SmallBlocks::Placed, Homes::Each, kills / 2)?;
    random_kills_of(policy, SmallBlocks::Slabs, Homes::Each, kills / 2)
}

fn random_kills_of(policy: PolicyKind, small: SmallBlocks, homes: Homes, kills: usize) -> Outcome {
    let place = place("random")?;
    let tally = kill_at_random(policy, small, homes, kills, &place, fastrand::u64(..));
    SharedHeap::unlink(&place).map_err(|error| error.to_string())?;
    let tally = tally?;
    println!("\n{tally}");
    Ok(tally.verdict()?)
}

fn each_byte(policy: PolicyKind, small: SmallBlocks) -> Outcome {
    for rest in [Rest::Closed, Rest::Abandoned] {
        let specimen = Specimen::new(policy, small, rest, place("specimen")?)?;
        let outcomes = specimen.examine(Damage::EachByte, 0..specimen.description)?;
        println!("\n{rest:?}: {outcomes}");
        outcomes.verdict(&specimen)?;
    }
    Ok(())
}

fn random_damage(policy: PolicyKind, small: SmallBlocks, count: usize) -> Outcome {
    let seed = fastrand::u64(..);
    for rest in [Rest::Closed, Rest::Abandoned] {
        let specimen = Specimen::new(policy, small, rest, place("specimen")?)?;
        let outcomes = specimen.examine(Damage::Random(seed), 0..count / 2)?;
        println!("\n{rest:?}, seed {seed}: {outcomes}");
        outcomes.verdict(&specimen)?;
    }
    Ok(())
}

fn recovery_time(policy: PolicyKind) -> Outcome {
    let place = place("large")?;
    let time = recovery_time::measure(policy, &place);
    SharedHeap::unlink(&place).map_err(|error| error.to_string())?;
    let time = time?;
    let milliseconds = |duration: std::time::Duration| duration.as_secs_f64() * 1e3;
    println!(
        "\n256 MiB, 1,000,000 blocks, {} of {MOMENTS} killed held the lock: the next operation takes {:.1} ms (median), {:.1} ms (longest)",
        time.recoveries,
        milliseconds(time.median),
        milliseconds(time.longest),
    );
    if time.recoveries == 0 {
        return Err("no kill left the lock held".into());
    }
    Ok(())
}
