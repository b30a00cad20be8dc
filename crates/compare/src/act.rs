//! The commands that a verdict ends with.

use super::comparison::Comparison;
use super::row::{Kind, Row};
use heapwright_show::shell::quoted;

/// Returns the command that runs the program under the allocator or policy of `row`; `None` for the system's malloc.
pub fn under(row: &Row, comparison: &Comparison) -> Option<String> {
    let program = program(comparison);
    match (row.kind, &row.library) {
        (Kind::Policy, _) => {
            let rules = comparison.settings.options_before();
            Some(format!("heapwright run --policy {} {rules}-- {program}", row.name))
        }
        (Kind::Allocator, Some(library)) => Some(format!("LD_PRELOAD={} {program}", quoted(&absolute(library)))),
        (Kind::Allocator, None) => Some(format!("heapwright run -- {program}")),
        _ => None,
    }
}

/// Returns the command that runs the program itself, where it is known which one.
pub fn confirm(comparison: &Comparison) -> Option<String> {
    let Comparison { trace, settings, .. } = comparison;
    let rules = settings.options_before();
    match settings.typed.program() {
        Some(_) => Some(settings.typed.again(&format!("--confirm {rules}"))),
        None => {
            let confirm = || settings.typed.again_with(&format!("--confirm {rules}"), &program(comparison));
            trace.program.as_ref().map(|_| confirm())
        }
    }
}

/// Returns the command for this number of rounds.
pub fn rounds(rounds: usize, comparison: &Comparison) -> String {
    let confirm = if comparison.confirmed().is_some() { "--confirm " } else { "" };
    let rules = comparison.settings.options_before();
    comparison.settings.typed.again(&format!("--rounds {rounds} {confirm}{rules}"))
}

/// Returns the command for the same with real replays, each thread's calls in a thread of its own.
pub fn replay(comparison: &Comparison) -> String {
    comparison.settings.typed.again(&comparison.settings.options_before())
}

/// Returns the path of a library for processes that work in any directory.
fn absolute(library: &str) -> String {
    std::path::absolute(library).ok().and_then(|path| path.to_str().map(str::to_owned)).unwrap_or(library.to_owned())
}

fn program(comparison: &Comparison) -> String {
    let Comparison { trace, settings, .. } = comparison;
    // Between back-ticks, where commands stand in a text, there can be none.
    let recorded = trace.command.as_deref().filter(|command| !command.contains('`'));
    match (settings.typed.program().or(recorded), &trace.program, &trace.arguments) {
        (Some(whole), ..) => whole.to_owned(),
        (None, None, _) => "PROGRAM".to_owned(),
        (None, Some(program), None) => quoted(program),
        // As recorded, they are not apart, and the program is without its path.
        (None, Some(program), Some(_)) => format!("{} ...", quoted(program)),
    }
}

#[cfg(test)]
mod tests {
    use std::ffi::OsString;
    use std::path::Path;

    use heapwright_allocators::peers::Peer;

    use super::super::synthetic::Synthetic;
    use super::super::trace::Trace;
    use super::super::typed::Typed;
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
        let beside = Row { library: Some("./mine.so".to_owned()), ..Row::new("mine", Kind::Allocator) };
        let found = under(&beside, &comparison).unwrap();
        let absolute = std::path::absolute("./mine.so").unwrap();
        assert_eq!(found, format!("LD_PRELOAD={} PROGRAM", quoted(absolute.to_str().unwrap())));
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

    #[test]
    fn commands_have_what_was_recorded() {
        let mut comparison = Synthetic::beside([]).build();
        comparison.trace.program = Some("jq".to_owned());
        comparison.trace.arguments = Some(".a | .b".to_owned());
        comparison.trace.command = Some("./jq '.a | .b'".to_owned());
        assert_eq!(confirm(&comparison).unwrap(), "heapwright compare --confirm -- ./jq '.a | .b'");
        let cached = under(&Row::new("cached", Kind::Allocator), &comparison).unwrap();
        assert_eq!(cached, "heapwright run -- ./jq '.a | .b'");
        comparison.trace.command = Some("./jq 'a`b'".to_owned());
        assert_eq!(confirm(&comparison).unwrap(), "heapwright compare --confirm -- jq ...");
    }

    #[test]
    fn commands_have_what_was_typed() {
        let mut comparison = Synthetic::beside([]).build();
        assert_eq!(rounds(9, &comparison), "heapwright compare --rounds 9 ...");
        let typed = |trace: Option<&str>, program: &[&str]| {
            let program: Vec<OsString> = program.iter().map(OsString::from).collect();
            let peer = Peer { name: "mine".to_owned(), library: "/opt/my lib.so".into() };
            Typed::of(trace.map(Path::new), &program, &["first".to_owned()], &[peer])
        };
        comparison.trace.program = Some("jq".to_owned());
        comparison.settings.typed = typed(Some("my trace.hwt"), &[]);
        let options = "-p first --allocator 'mine=/opt/my lib.so'";
        assert_eq!(rounds(9, &comparison), format!("heapwright compare --rounds 9 {options} 'my trace.hwt'"));
        assert_eq!(confirm(&comparison).unwrap(), format!("heapwright compare --confirm {options} -- jq"));
        comparison.settings.typed = typed(None, &["./jq", ".a | .b", "it's"]).with(&["--process", "jq"]);
        let program = "./jq '.a | .b' 'it'\\''s'";
        assert_eq!(replay(&comparison), format!("heapwright compare {options} --process jq -- {program}"));
        let command = confirm(&comparison).unwrap();
        assert_eq!(command, format!("heapwright compare --confirm {options} --process jq -- {program}"));
        let cached = under(&Row::new("cached", Kind::Allocator), &comparison).unwrap();
        assert_eq!(cached, format!("heapwright run -- {program}"));
        comparison.settings.typed = Typed::of(None, &[], &[], &[]);
        assert_eq!(replay(&comparison), "heapwright compare");
        for odd in ["two\nlines", "`back-ticks`"] {
            comparison.settings.typed = typed(None, &["./jq", odd]);
            assert_eq!(rounds(9, &comparison), "heapwright compare --rounds 9 ...");
        }
    }
}
