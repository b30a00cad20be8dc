//! The words and colours of conditions and states, the same in every table.

use anstyle::{AnsiColor, Style};
use heapwright_shared::{BlockOwner, Condition, Error, FileError, Place, ProcessState, Snapshot};

/// In good order.
pub const GOOD: Style = AnsiColor::Green.on_default();
/// Repaired by the next process that uses the segment.
pub const UNEASY: Style = AnsiColor::Yellow.on_default();
/// Needs attention.
pub const BAD: Style = AnsiColor::Red.on_default().bold();
/// Needs no attention.
pub const QUIET: Style = Style::new().dimmed();

/// A segment's condition in a word or two.
pub fn condition(snapshot: &Snapshot) -> (&'static str, Style) {
    match snapshot.condition {
        Condition::Broken => ("broken", BAD),
        _ if snapshot.audit.is_err() => ("corrupted", BAD),
        Condition::AtRest => ("at rest", QUIET),
        Condition::InUse => ("in use", GOOD),
        Condition::Interrupted { .. } => ("interrupted", UNEASY),
        Condition::Abandoned => ("abandoned", UNEASY),
    }
}

/// Returns why a segment could not be read, in a word or two; `None` for what is not a segment of this library, or
/// belongs to another user.
pub fn refusal(error: &Error) -> Option<&'static str> {
    match error {
        Error::NotFound { .. } | Error::NotASegment { .. } | Error::NotOurs { .. } | Error::System { .. } => None,
        Error::OtherVersion { .. } => Some("other version"),
        Error::WrongLength { .. } => Some("wrong length"),
        Error::OtherNamespace { .. } => Some("other namespace"),
        Error::TimedOut { .. } | Error::HolderUnknown { .. } => Some("locked"),
        Error::Corrupted { .. } => Some("corrupted"),
        _ => Some("not readable"),
    }
}

/// Returns whether a segment could not be read because the system, or a limit of this process, leaves no descriptors or
/// memory: the segments after it cannot be read either.
pub fn is_shortage(error: &Error) -> bool {
    matches!(error, Error::System { reason: FileError::NoDescriptors | FileError::NoMemory, .. })
}

/// A process's state in a word.
pub fn state(state: ProcessState) -> &'static str {
    match state {
        ProcessState::Attached => "attached",
        ProcessState::Closed => "closed",
        ProcessState::Dead => "dead",
    }
}

/// Returns the process number of an owner.
pub fn pid(owner: BlockOwner) -> String {
    owner.pid.map_or_else(|| "forgotten".to_owned(), |pid| pid.to_string())
}

/// The colour of the blocks of the owner in row `number` of a table.
pub fn owner_style(owner: BlockOwner, number: usize) -> Style {
    const ATTACHED: [AnsiColor; 6] = [
        AnsiColor::Green,
        AnsiColor::Cyan,
        AnsiColor::Blue,
        AnsiColor::Magenta,
        AnsiColor::BrightGreen,
        AnsiColor::BrightCyan,
    ];
    match owner.state {
        ProcessState::Attached => ATTACHED[number % ATTACHED.len()].on_default(),
        ProcessState::Closed => AnsiColor::Yellow.on_default(),
        ProcessState::Dead => AnsiColor::Red.on_default(),
    }
}

/// The path of a segment, for JSON: as it is, or with escapes if it is no UTF-8.
pub fn path(place: &Place) -> String {
    place.path().to_str().map_or_else(|| place.to_string(), str::to_owned)
}

/// How many of the processes listed live, and how many died.
pub fn living_and_dead(snapshot: &Snapshot) -> (usize, usize) {
    let count = |state| snapshot.processes.iter().filter(|process| process.owner.state == state).count();
    (count(ProcessState::Attached), count(ProcessState::Dead))
}
