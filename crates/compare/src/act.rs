//! The commands that a verdict ends with.

use super::row::{Kind, Row};
use super::trace::Trace;

/// Returns the command that runs the program under the allocator or policy of `row`; `None` for the system's malloc.
pub fn under(row: &Row, trace: &Trace) -> Option<String> {
    let program = program(trace);
    match (row.kind, &row.library) {
        (Kind::Policy, _) => Some(format!("heapwright run --policy {} -- {program}", row.name)),
        (Kind::Allocator, Some(library)) => Some(format!("LD_PRELOAD={} {program}", quoted(library))),
        (Kind::Allocator, None) => Some(format!("heapwright run -- {program}")),
        _ => None,
    }
}

/// Returns the command that runs the program itself, where it is known which one.
pub fn confirm(trace: &Trace) -> Option<String> {
    trace.program.as_ref().map(|_| format!("heapwright compare --confirm -- {}", program(trace)))
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

/// Returns a word as a shell reads it.
fn quoted(word: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "/._-+=:,@%".contains(c);
    match !word.is_empty() && word.chars().all(is_plain) {
        true => word.to_owned(),
        false => format!("'{}'", word.replace('\'', "'\\''")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_choice_has_the_command_that_acts_on_it() {
        let trace = Trace { program: Some("jq".to_owned()), arguments: Some(".a".to_owned()), ..Trace::default() };
        let peer = Row { library: Some("/opt/my lib.so".to_owned()), ..Row::new("mine", Kind::Allocator) };
        assert_eq!(under(&peer, &trace).unwrap(), "LD_PRELOAD='/opt/my lib.so' jq ...");
        let row = |name: &str, kind| under(&Row::new(name, kind), &Trace::default());
        assert_eq!(row("best", Kind::Policy).unwrap(), "heapwright run --policy best -- PROGRAM");
        assert_eq!(row("cached", Kind::Allocator).unwrap(), "heapwright run -- PROGRAM");
        assert_eq!(row("system", Kind::System), None);
        assert_eq!(confirm(&trace).unwrap(), "heapwright compare --confirm -- jq ...");
        assert_eq!(confirm(&Trace::default()), None);
    }

    #[test]
    fn what_a_shell_would_read_otherwise_is_quoted() {
        assert_eq!(quoted("it's"), "'it'\\''s'");
        assert_eq!(quoted("/usr/lib/libx.so.2"), "/usr/lib/libx.so.2");
    }
}
