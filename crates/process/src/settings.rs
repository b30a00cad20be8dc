//! Settings from the environment.

use core::ffi::CStr;
use core::fmt::{Display, Write};
use core::str;

use heapwright_cached::{Measures, Purging};
use heapwright_heaps::{CreateError, PolicyKind};
use heapwright_os::{Line, NoDirectory, Output, Refused, current_directory, exit_at_once, has_variable_with, variable};
use heapwright_rules::{Growth, Only, RuleSet};

use crate::plain::{Plain, PlainLine};

/// How this process's heap places blocks.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Placement {
    /// By an engine under this policy.
    Policy(PolicyKind),
    /// Every block in a mapping of its own.
    Mapped,
    /// In thread caches and slabs, over pages placed by first fit.
    Cached,
}

impl Placement {
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Placement::Policy(kind) => kind.name(),
            Placement::Mapped => "mapped",
            Placement::Cached => "cached",
        }
    }

    fn from_name(name: &str) -> Option<Placement> {
        match name {
            "mapped" => Some(Placement::Mapped),
            "cached" => Some(Placement::Cached),
            _ => PolicyKind::from_name(name).map(Placement::Policy),
        }
    }
}

/// Reaction when the program frees an address that is not a live block.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum OnBadFree {
    /// Print one line on standard error, then raise `SIGABRT`.
    Abort,
    /// Only count it.
    Ignore,
}

/// Use of the holes in sparse slabs.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Dissolving {
    /// They serve all classes.
    On,
    /// They serve the class of their slab.
    Off,
}

impl Dissolving {
    fn from_text(text: &str) -> Option<Dissolving> {
        match text {
            "1" => Some(Dissolving::On),
            "0" => Some(Dissolving::Off),
            _ => None,
        }
    }
}

/// The length of the longest path that a process can open, with the zero at its end.
pub(crate) const PATH_LENGTH: usize = 4096;

/// Destination of the statistics at exit.
#[derive(Clone, Copy)]
pub(crate) enum Report {
    /// Nowhere.
    Nothing,
    /// As a table to the descriptor that was standard error at the start.
    Table(Output),
    /// As JSON to a file; `%p` in its path stands for the id of the writing process.
    Json(&'static Line<PATH_LENGTH>),
}

/// All settings.
#[derive(Clone, Copy)]
pub(crate) struct Settings {
    pub(crate) placement: Placement,
    /// The rules of a policy.
    pub(crate) rules: RuleSet,
    pub(crate) seed: u64,
    pub(crate) on_bad_free: OnBadFree,
    pub(crate) report: Report,
    /// Hardening measures; only the cached heap has them.
    pub(crate) harden: Measures,
    /// Whether sparse slabs of the cached heap serve other classes, too.
    pub(crate) dissolving: Dissolving,
    /// When the cached heap purges free pages.
    pub(crate) purging: Purging,
    /// The bytes of memory that the cached heap tries to stay below.
    pub(crate) limit: Option<usize>,
    /// The directory in which the heap's last state is left for a watcher.
    pub(crate) watch: Option<&'static Line<PATH_LENGTH>>,
}

impl Settings {
    /// Returns whether the statistics will be reported, so that events must be counted. A watcher reads current state
    /// only and needs no counts.
    pub(crate) fn asks_for_counts(&self) -> bool {
        !matches!(self.report, Report::Nothing)
    }

    /// Ends the process if no heap can have these rules: a later call would not find more memory for a fixed region.
    #[cold]
    #[inline(never)]
    pub(crate) fn refuse_rules_that_fail(&self, error: CreateError) {
        let Placement::Policy(_) = self.placement else { return };
        match (error, self.rules.limit.filter(|_| self.rules.rules.growth == Growth::Fixed)) {
            (CreateError::Refused, None) => {}
            (CreateError::Refused, Some(length)) => refuse_for(&format_args!(
                "the region of {length} bytes cannot be had: the system refuses that much memory"
            )),
            (error, _) => refuse_for(&format_args!("no heap can have these rules: {error}")),
        }
    }

    /// Reads `HEAPWRIGHT_POLICY`, `HEAPWRIGHT_RULES`, `HEAPWRIGHT_SEED`, `HEAPWRIGHT_HARDEN`, `HEAPWRIGHT_DISSOLVE`,
    /// `HEAPWRIGHT_PURGE`, `HEAPWRIGHT_LIMIT`, `HEAPWRIGHT_ON_BAD_FREE`, `HEAPWRIGHT_STATS` and
    /// `HEAPWRIGHT_WATCH`. An invalid value ends the process.
    ///
    /// # Errors
    /// [`Refused`] when there is no memory for a path.
    pub(crate) fn read() -> Result<Settings, Refused> {
        if has_variable_with(b"HEAPWRIGHT_") { Settings::read_all() } else { Ok(Settings::default()) }
    }

    /// Not inlined, which keeps the common code small and contiguous.
    #[cold]
    #[inline(never)]
    fn read_all() -> Result<Settings, Refused> {
        const POLICIES: &str = "one of cached, first, next, best, worst, random, buddy, good, mapped";
        let rules = variable(c"HEAPWRIGHT_RULES", |value| rules(value.to_bytes())).flatten();
        let placement = choice(c"HEAPWRIGHT_POLICY", POLICIES, Placement::from_name);
        let placement = rules.map_or(placement, |rules| Some(under_rules(&rules, placement)));
        let harden = choice(c"HEAPWRIGHT_HARDEN", Measures::CHOICES, Measures::from_text).unwrap_or_default();
        let usual = Settings::default();
        Ok(Settings {
            placement: if harden == Measures::NONE {
                placement.unwrap_or(usual.placement)
            } else {
                hardened(placement)
            },
            rules: rules.unwrap_or(usual.rules),
            seed: choice(c"HEAPWRIGHT_SEED", "a number from 0 to 2^64 - 1", |text| text.parse().ok())
                .unwrap_or(usual.seed),
            on_bad_free: choice(c"HEAPWRIGHT_ON_BAD_FREE", "abort or ignore", on_bad_free).unwrap_or(usual.on_bad_free),
            report: variable(c"HEAPWRIGHT_STATS", |value| report(value.to_bytes()))
                .transpose()?
                .unwrap_or(usual.report),
            harden,
            dissolving: choice(c"HEAPWRIGHT_DISSOLVE", "0 or 1", Dissolving::from_text).unwrap_or(usual.dissolving),
            purging: choice(c"HEAPWRIGHT_PURGE", Purging::CHOICES, Purging::from_text).unwrap_or(usual.purging),
            limit: choice(c"HEAPWRIGHT_LIMIT", "a size such as 512MiB or 2GiB", bytes_from),
            watch: variable(c"HEAPWRIGHT_WATCH", |value| watch(value.to_bytes())).transpose()?.flatten(),
        })
    }
}

impl Default for Settings {
    /// The settings of an empty environment.
    fn default() -> Settings {
        Settings {
            placement: Placement::Cached,
            rules: RuleSet::USUAL,
            seed: 0,
            on_bad_free: OnBadFree::Abort,
            report: Report::Nothing,
            harden: Measures::NONE,
            dissolving: Dissolving::On,
            purging: Purging::USUAL,
            limit: None,
            watch: None,
        }
    }
}

/// Reads the rules; refuses a text that has none.
fn rules(value: &[u8]) -> Option<RuleSet> {
    if value.is_empty() {
        return None;
    }
    let refuse = |reason: &dyn Display| -> ! { refuse_for(&format_args!("HEAPWRIGHT_RULES: {reason}")) };
    let Ok(text) = str::from_utf8(value) else { refuse(&"it is not UTF-8") };
    let set = RuleSet::from_text(text, RuleSet::USUAL).unwrap_or_else(|error| refuse(&error));
    if let Some(reason) = set.odd.reason() {
        refuse(&format_args!("{reason}: only simulations have an engine for this rule"));
    }
    Some(set)
}

/// Returns the policy to which rules apply: the one that they belong to, or the one that was requested, first fit if
/// none was. Refuses what contradicts them.
fn under_rules(rules: &RuleSet, asked: Option<Placement>) -> Placement {
    match (rules.only, asked) {
        (Some(Only::Mapped), None | Some(Placement::Mapped)) => Placement::Mapped,
        (Some(Only::Policy(policy)), asked) if asked.is_none_or(|asked| asked == Placement::Policy(policy)) => {
            Placement::Policy(policy)
        }
        (Some(only), Some(asked)) => {
            let mut valid = Line::<64>::new();
            let _ = write!(valid, "{}, to which these rules belong", only.name());
            refuse(c"HEAPWRIGHT_POLICY", asked.name().as_bytes(), str::from_utf8(valid.bytes()).unwrap_or_default())
        }
        (None, None) => Placement::Policy(PolicyKind::First),
        (None, Some(asked @ (Placement::Cached | Placement::Mapped))) => refuse(
            c"HEAPWRIGHT_POLICY",
            asked.name().as_bytes(),
            "one of first, next, best, worst, random, buddy, good when HEAPWRIGHT_RULES is set",
        ),
        (_, Some(asked)) => asked,
        (Some(_), None) => Placement::Policy(PolicyKind::First),
    }
}

/// Returns the cached heap, the only one with hardening; refuses any other that was requested.
fn hardened(asked: Option<Placement>) -> Placement {
    match asked {
        None | Some(Placement::Cached) => Placement::Cached,
        Some(other) => refuse(c"HEAPWRIGHT_POLICY", other.name().as_bytes(), "cached when HEAPWRIGHT_HARDEN is set"),
    }
}

/// Parses a number of bytes, KiB, MiB, GiB or TiB, also by the letter alone. Not 0.
fn bytes_from(text: &str) -> Option<usize> {
    let digits = text.len() - text.trim_start_matches(|letter: char| letter.is_ascii_digit()).len();
    let (number, unit) = text.split_at(digits);
    let power = match unit {
        "" | "B" => 0,
        "K" | "KiB" => 10,
        "M" | "MiB" => 20,
        "G" | "GiB" => 30,
        "T" | "TiB" => 40,
        _ => return None,
    };
    let number: usize = number.parse().ok().filter(|&number| number != 0)?;
    number.checked_mul(1usize.checked_shl(power)?)
}

fn on_bad_free(text: &str) -> Option<OnBadFree> {
    match text {
        "abort" => Some(OnBadFree::Abort),
        "ignore" => Some(OnBadFree::Ignore),
        _ => None,
    }
}

fn report(value: &[u8]) -> Result<Report, Refused> {
    match (value, value.strip_prefix(b"json:")) {
        (b"" | b"0", _) => Ok(Report::Nothing),
        (b"1", _) => Ok(Report::Table(Output::standard_error_kept())),
        (_, Some(path)) if !path.is_empty() => {
            let numbers = path.windows(2).filter(|pair| pair == b"%p").count();
            absolute(c"HEAPWRIGHT_STATS", path, numbers * MOST_DIGITS).map(Report::Json)
        }
        _ => refuse(c"HEAPWRIGHT_STATS", value, "0, 1 or json:PATH"),
    }
}

fn watch(directory: &[u8]) -> Result<Option<&'static Line<PATH_LENGTH>>, Refused> {
    if directory.is_empty() {
        return Ok(None);
    }
    absolute(c"HEAPWRIGHT_WATCH", directory, b"/".len() + MOST_DIGITS).map(Some)
}

/// The number of digits of the largest process id.
const MOST_DIGITS: usize = 10;

/// Returns `path` relative to the directory in which the process started, made absolute. It is mapped memory, not part
/// of the state: in the library's data it would cost every process two more pages. A path that would be too long to be
/// opened, with `added` bytes more, ends the process: `name` is the variable that has it.
fn absolute(name: &CStr, path: &[u8], added: usize) -> Result<&'static Line<PATH_LENGTH>, Refused> {
    let mut line = Line::new();
    let mut buffer = [0; PATH_LENGTH];
    if !path.starts_with(b"/") {
        match current_directory(&mut buffer) {
            Ok(directory) => {
                line.push(directory.to_bytes());
                line.push(b"/");
            }
            Err(NoDirectory::TooLong) => refuse_length(name, path),
            Err(NoDirectory::Unreachable) => {}
        }
    }
    if line.bytes().len() + path.len() + added + b"\0".len() > PATH_LENGTH {
        refuse_length(name, path);
    }
    line.push(path);
    line.kept()
}

fn refuse_length(name: &CStr, path: &[u8]) -> ! {
    let (name, path, most) = (Plain(name.to_bytes()), Plain(path), PATH_LENGTH - 1);
    refuse_for(&format_args!(
        "{name}: the path {path} is too long: from the root directory it has more than {most} bytes"
    ))
}

/// Parses the variable `name`; returns `None` if it is not set or empty.
fn choice<T>(name: &CStr, valid: &str, read: impl Fn(&str) -> Option<T>) -> Option<T> {
    variable(name, |value| {
        let bytes = value.to_bytes();
        if bytes.is_empty() {
            return None;
        }
        let chosen = str::from_utf8(bytes).ok().and_then(&read);
        Some(chosen.unwrap_or_else(|| refuse(name, bytes, valid)))
    })?
}

/// Prints what is wrong with a variable and ends the process, which must not run under other settings than requested.
fn refuse(name: &CStr, value: &[u8], valid: &str) -> ! {
    let name = Plain(name.to_bytes());
    refuse_for(&format_args!("{name}={} is invalid: it must be {valid}", Plain(value)))
}

/// Prints the reason in one line and ends the process.
#[cold]
pub(crate) fn refuse_for(reason: &dyn Display) -> ! {
    let mut text = Line::<500>::new();
    let _ = write!(PlainLine(&mut text), "{reason}");
    let mut line = Line::<516>::new();
    for part in [b"heapwright: ", text.bytes(), b"\n"] {
        line.push(part);
    }
    Output::standard_error().write(line.bytes());
    exit_at_once(2)
}
