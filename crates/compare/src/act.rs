//! The commands that a verdict ends with.

use super::comparison::Comparison;
use super::row::{Kind, Row};
use super::trace::Trace;
use heapwright_show::shell::quoted;

/// Returns the command that runs the program under the allocator or policy of `row`; `None` for the system's malloc.
pub fn under(row: &Row, comparison: &Comparison) -> Option<String> {
    let program = program(&comparison.trace);
    match (row.kind, &row.library) {
        (Kind::Policy, _) => {
            let rules = comparison.settings.options_before();
            Some(format!("heapwright run --policy {} {rules}-- {program}", row.name))
        }
        (Kind::Allocator, Some(library)) => Some(format!("LD_PRELOAD={} {program}", quoted(library))),
        (Kind::Allocator, None) => Some(format!("heapwright run -- {program}")),
        _ => None,
    }
}

/// Returns the command that runs the program itself, where it is known which one.
pub fn confirm(comparison: &Comparison) -> Option<String> {
    let Comparison { trace, settings, .. } = comparison;
    let rules = settings.options_before();
    trace.program.as_ref().map(|_| format!("heapwright compare --confirm {rules}-- {}", program(trace)))
}

/// Returns the command for this number of rounds.
pub fn rounds(rounds: usize) -> String {
    format!("heapwright compare --rounds {rounds} ...")
}

fn program(trace: &Trace) -> String {
    match (&trace.program, &trace.arguments) {
        (None, _) => "PROGRAM".to_owned(),
        (Some(program), None) => quoted(program),
        (Some(program), Some(_)) => format!("{} ...", quoted(program)),
    }
}

#[cfg(test)]
mod tests {
    use super::super::synthetic::Synthetic;
    use super::*;

    #[test]
    fn every_choice_has_the_command_that_acts_on_it() {
        let mut comparison = Synthetic::beside([]).build();
        let peer = Row { library: Some("/opt/my lib.so".to_owned()), ..Row::new("mine", Kind::Allocator) };
        let best = Row::new("best", Kind::Policy);
        comparison.trace = Trace::default();
        let row = |name: &str, kind| under(&Row::new(name, kind), &comparison);
        assert_eq!(row("best", Kind::Policy).unwrap(), "heapwright run --policy best -- PROGRAM");
        assert_eq!(row("cached", Kind::Allocator).unwrap(), "heapwright run -- PROGRAM");
        assert_eq!(row("system", Kind::System), None);
        assert_eq!(confirm(&comparison), None);
        comparison.trace.program = Some("jq".to_owned());
        comparison.trace.arguments = Some(".a".to_owned());
        assert_eq!(under(&peer, &comparison).unwrap(), "LD_PRELOAD='/opt/my lib.so' jq ...");
        assert_eq!(confirm(&comparison).unwrap(), "heapwright compare --confirm -- jq ...");
        comparison.settings.rule_options = Some("--rules 'my file' --header 8".to_owned());
        let command = "heapwright run --policy best --rules 'my file' --header 8 -- jq ...";
        assert_eq!(under(&best, &comparison).unwrap(), command);
        assert!(confirm(&comparison).unwrap().contains("--confirm --rules 'my file' --header 8 -- jq"));
    }
}
