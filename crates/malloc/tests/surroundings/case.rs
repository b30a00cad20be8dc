//! What a case of the matrix is: a surrounding, a program in it, and the condition that holds.

use super::heap::Heap;

/// A surrounding with a program, and what must hold under every heap.
pub struct Case {
    /// The name of its test.
    pub name: &'static str,
    /// The condition in words.
    pub holds: &'static str,
    /// The options of `programs/under.c`.
    pub surrounding: &'static [&'static str],
    /// The change of `programs/shim.c`, if any.
    pub shim: Option<&'static str>,
    /// What runs.
    pub program: Program,
    /// The condition.
    pub bound: Bound,
    /// The heaps under which it must hold.
    pub heaps: &'static [Heap],
    /// The time after which it counts as hanging, in seconds.
    pub seconds: u32,
    /// The heaps under which it fails at present, with reasons.
    pub today: &'static [(Heap, FailsToday)],
}

/// Why a case fails at present. The test fails when the case holds, so that the mark is taken away.
pub struct FailsToday(pub &'static str);

/// A program with its arguments.
pub enum Program {
    /// One of `tests/programs`.
    Compiled(&'static str, &'static [&'static str]),
    /// One of the system's.
    Installed(&'static str, &'static [&'static str]),
}

/// A condition on what a program prints. Every program must also end with status 0.
pub enum Bound {
    /// It ends, whatever it prints.
    Ends,
    /// It prints what it prints under the system's malloc.
    SameAsSystem,
    /// It prints at least this number.
    AtLeast(u64),
    /// It prints at most this number.
    AtMost(u64),
    /// It prints at most this number more than under the system's malloc.
    OverSystem(u64),
    /// It prints at least this share of the number under the system's malloc.
    OfSystem {
        /// The share without hardening.
        plain: f64,
        /// The share with all measures: guard pages and canaries take room.
        hardened: f64,
    },
}

impl Bound {
    /// Returns whether the program must run under the system's malloc too.
    pub fn needs_system(&self) -> bool {
        matches!(self, Bound::SameAsSystem | Bound::OverSystem(_) | Bound::OfSystem { .. })
    }

    /// Verifies what the program printed under `heap`, and under the system's malloc if it ran there.
    ///
    /// # Errors
    /// When the condition does not hold.
    pub fn verify(&self, heap: Heap, printed: &str, under_system: &str) -> Result<(), String> {
        let compare = |least: Option<u64>, most: Option<u64>| -> Result<(), String> {
            let figure = number(printed)?;
            match (least, most) {
                (Some(least), _) if figure < least => Err(format!("{figure} is less than {least}")),
                (_, Some(most)) if figure > most => Err(format!("{figure} is more than {most}")),
                _ => Ok(()),
            }
        };
        match *self {
            Bound::Ends => Ok(()),
            Bound::SameAsSystem if printed == under_system => Ok(()),
            Bound::SameAsSystem => Err("the output differs from that under the system's malloc".to_owned()),
            Bound::AtLeast(least) => compare(Some(least), None),
            Bound::AtMost(most) => compare(None, Some(most)),
            Bound::OverSystem(distance) => compare(None, Some(number(under_system)? + distance)),
            Bound::OfSystem { plain, hardened } => {
                let share = if heap == Heap::Hardened { hardened } else { plain };
                compare(Some((number(under_system)? as f64 * share) as u64), None)
            }
        }
    }
}

fn number(text: &str) -> Result<u64, String> {
    text.trim().parse().map_err(|_| format!("it printed {text:?} and no number"))
}
