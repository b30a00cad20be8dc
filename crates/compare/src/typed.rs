//! What was typed, for the commands that a verdict ends with.

use std::ffi::{OsStr, OsString};
use std::path::Path;

use heapwright_allocators::peers::Peer;
use heapwright_show::shell::words;

/// What was typed of the command, as a shell reads it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Typed {
    /// The options that choose what is compared, but for the rules.
    options: Option<String>,
    /// What is compared: a trace, a program behind `--`, or nothing, which is the trace that the command carries.
    subject: Option<String>,
    /// The program and its arguments.
    program: Option<String>,
}

impl Typed {
    /// Returns what was typed: a trace or a program, policies and other allocators.
    pub fn of(trace: Option<&Path>, program: &[OsString], policies: &[String], allocators: &[Peer]) -> Typed {
        let policies = policies.iter().flat_map(|policy| ["-p".into(), OsString::from(policy)]);
        let allocators = allocators.iter().flat_map(|peer| ["--allocator".into(), peer.typed()]);
        let options: Vec<OsString> = policies.chain(allocators).collect();
        let behind = if program.is_empty() { None } else { Some(OsStr::new("--")) };
        let mut subject =
            trace.map(Path::as_os_str).into_iter().chain(behind).chain(program.iter().map(|word| &**word));
        // Between back-ticks, where commands stand in a text, there can be none.
        let words = |all: &mut dyn Iterator<Item = &OsStr>| words(all).filter(|words| !words.contains('`'));
        Typed {
            options: words(&mut options.iter().map(|word| &**word)),
            subject: words(&mut subject),
            program: words(&mut program.iter().map(|word| &**word)).filter(|words| !words.is_empty()),
        }
    }

    /// Adds an option to those that choose what is compared.
    #[must_use]
    pub fn with(self, option: &[&str]) -> Typed {
        let added = words(option.iter().map(OsStr::new));
        let options = self.options.zip(added).map(|(options, added)| format!("{options} {added}"));
        Typed { options: options.map(|options| options.trim_start().to_owned()), ..self }
    }

    /// Returns the program and its arguments, if they were typed.
    pub fn program(&self) -> Option<&str> {
        self.program.as_deref()
    }

    /// Returns the command that compares the same allocators and policies under `program`, with these options in front.
    pub fn again_with(&self, options: &str, program: &str) -> String {
        joined(options, self.options.as_deref().unwrap_or_default(), &format!("-- {program}"))
    }

    /// Returns the command that compares the same again, with these options in front; where it is not known what was
    /// typed, an ellipsis stands for it.
    pub fn again(&self, options: &str) -> String {
        let typed = self.options.as_deref().zip(self.subject.as_deref());
        let (chosen, subject) = typed.unwrap_or(("", "..."));
        joined(options, chosen, subject)
    }
}

fn joined(options: &str, chosen: &str, subject: &str) -> String {
    let parts = ["heapwright compare", options.trim(), chosen, subject];
    parts.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join(" ")
}
