//! Variables of the drop-in library that the program inherits, beside what the options say.

use std::env;

use anyhow::{Result, bail};
use heapwright_allocators::policy;
use heapwright_allocators::preload;
use heapwright_host::names::Shown;
use heapwright_placement::PolicyKind;
use heapwright_rules::{Only, RuleSet};
use heapwright_show::usage::Misuse;

use crate::arguments::RunArgs;

/// Returns a variable as text; `None` if it is not set or empty.
fn variable(name: &str) -> Option<String> {
    env::var_os(name).filter(|value| !value.is_empty()).map(|value| value.to_string_lossy().into_owned())
}

/// Returns the inherited rules, if there are any.
///
/// # Errors
/// What is wrong with them.
fn rules() -> Result<Option<RuleSet>> {
    let Some(text) = variable(preload::RULES) else { return Ok(None) };
    match RuleSet::from_text(&text, RuleSet::USUAL) {
        Ok(set) => Ok(Some(set)),
        Err(error) => bail!(Misuse(format!("{}: {}", preload::RULES, error.to_string().shown()))),
    }
}

/// Returns the policy for inherited rules: the inherited one, or that of the rules, or first fit; `None` without rules.
///
/// # Errors
/// What is wrong with the rules.
pub fn policy_of_rules() -> Result<Option<String>> {
    let Some(set) = rules()? else { return Ok(None) };
    let of_rules = || set.only.map_or(PolicyKind::First.name(), Only::name).to_owned();
    Ok(Some(variable(preload::POLICY).unwrap_or_else(of_rules)))
}

/// Refuses inherited variables that contradict the policy or the options.
///
/// # Errors
/// The variable, and the option or the other variable.
pub fn refuse_conflicts(args: &RunArgs, policy: &str) -> Result<()> {
    let cause = match (&args.policy, args.rules.are_given()) {
        (Some(policy), _) => format!("--policy {policy}"),
        (None, true) => format!("the policy {policy} of these rules"),
        (None, false) => format!("the policy {} of {} or {}", policy.shown(), preload::POLICY, preload::RULES),
    };
    if args.harden.is_none()
        && let Some(measures) = variable(preload::HARDEN).filter(|measures| measures != "0")
        && policy != policy::CACHED
    {
        let harden = preload::HARDEN;
        bail!(Misuse(format!(
            "{harden}={} requires the policy {}, not {cause}: leave that out, or unset {harden}",
            measures.shown(),
            policy::CACHED
        )));
    }
    if args.rules.are_given() {
        return Ok(());
    }
    let Some(set) = rules()? else { return Ok(()) };
    let rules = preload::RULES;
    match set.only.map(Only::name) {
        Some(only) if only != policy => bail!(Misuse(format!(
            "{rules} belongs to the policy {only}, not {cause}: leave that out, or unset {rules}"
        ))),
        None if PolicyKind::from_name(policy).is_none() => bail!(Misuse(format!(
            "{rules} is for a policy with rules, which {cause} has not: leave that out, or unset {rules}"
        ))),
        _ => Ok(()),
    }
}
