//! Counts the instructions of the fast path of malloc and of free, with valgrind's callgrind, which does not replace a
//! program's malloc.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use heapwright_bench::{CALLS_FREE, CALLS_MALLOC};
use serde::Serialize;

use super::contender::Contender;
use super::process::Base;
use super::programs;
use heapwright_host::interruption::Interruption;
use heapwright_show::progress::Progress;

/// The sizes of blocks for which calls are counted, in bytes.
const SIZES: [usize; 3] = [16, 64, 1024];

/// Number of pairs of malloc and free in a short and in a long run. The difference of both runs excludes the start of
/// the program.
const PAIRS: [usize; 2] = [10_000, 60_000];

/// Instructions of a call including its return, averaged over many pairs of one size.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Instructions {
    /// The allocator.
    pub allocator: String,
    /// The size of the block, in bytes.
    pub bytes: usize,
    /// Instructions of malloc; null, as `free`, when counting failed.
    pub malloc: Option<f64>,
    /// Instructions of free.
    pub free: Option<f64>,
    /// Why counting failed.
    pub failure: Option<String>,
}

/// Returns the path of valgrind, if it is installed.
pub fn tool() -> Option<PathBuf> {
    programs::executable("valgrind")
}

/// Counts for every contender, until Ctrl-C. Skips a malloc that was counted before (A/A): instructions have no noise.
pub fn count(base: &Base, valgrind: &Path, contenders: &[Contender], until: &Interruption) -> Vec<Instructions> {
    let mut seen = BTreeSet::new();
    let contenders: Vec<&Contender> =
        contenders.iter().filter(|it| seen.insert(it.allocator.name().to_owned())).collect();
    let progress = Progress::new("instructions", contenders.len() * SIZES.len());
    let mut all = Vec::new();
    for contender in contenders {
        for bytes in SIZES {
            if until.came() {
                return all;
            }
            progress.at(&format!("{bytes} bytes under {}", contender.name));
            let counted = of_size(base, valgrind, contender, bytes);
            let figure = |place: usize| counted.as_ref().ok().map(|counted| counted[place]);
            let (malloc, free) = (figure(0), figure(1));
            let failure = counted.err().map(|error| format!("{error:#}"));
            all.push(Instructions { allocator: contender.name.clone(), bytes, malloc, free, failure });
            progress.step();
        }
    }
    all
}

/// Counts the instructions of malloc and of free.
fn of_size(base: &Base, valgrind: &Path, contender: &Contender, bytes: usize) -> Result<[f64; 2]> {
    let profile = |pairs| base.count(valgrind, bytes, pairs, &contender.allocator);
    let (short, long) = (profile(PAIRS[0])?, profile(PAIRS[1])?);
    let difference = |caller: &str| -> Result<f64> {
        let below = |profile: &str| callees(profile, caller).context("the profile does not show the calls");
        let (short, long) = (below(&short)?, below(&long)?);
        let calls = long.calls.checked_sub(short.calls).filter(|&calls| calls > 0);
        let calls = calls.context("the longer profile has no more calls")?;
        Ok((long.instructions as f64 - short.instructions as f64) / calls as f64)
    };
    Ok([difference(CALLS_MALLOC)?, difference(CALLS_FREE)?])
}

/// The calls that a function makes.
#[derive(Debug, Default, PartialEq)]
struct Callees {
    calls: u64,
    /// Including all that they call in turn.
    instructions: u64,
}

/// Returns the calls of `caller` in a profile in callgrind's format. The block of a function starts with `fn=`. In it,
/// each line `calls=` is followed by a line that ends with the instructions of these calls. The first occurrence of a
/// name has a number, which replaces the name later.
fn callees(profile: &str, caller: &str) -> Option<Callees> {
    let number = |line: &str| -> Option<String> {
        let named = line.strip_prefix("fn=").or_else(|| line.strip_prefix("cfn="))?;
        let (number, name) = named.split_once(' ')?;
        (name == caller).then(|| number.to_owned())
    };
    let block = format!("fn={}", profile.lines().find_map(number)?);
    let (mut sum, mut is_inside) = (Callees::default(), false);
    let mut lines = profile.lines();
    while let Some(line) = lines.next() {
        if line.starts_with("fn=") {
            is_inside = line.split(' ').next() == Some(&block);
        } else if let Some(calls) = line.strip_prefix("calls=").filter(|_| is_inside) {
            sum.calls += calls.split(' ').next()?.parse::<u64>().ok()?;
            sum.instructions += lines.next()?.split(' ').next_back()?.parse::<u64>().ok()?;
        }
    }
    Some(sum)
}

#[cfg(test)]
mod tests {
    use super::*;

    const PROFILE: &str = "\
events: Ir
ob=(1) /bin/a
fl=(1) ???
fn=(7) main
0 12
cfn=(8) heapwright_bench_calls_malloc
calls=3 0
0 90

fn=(8)
0 30
cob=(2) /lib/liba.so
cfi=(2) ???
cfn=(9) malloc
calls=2 0
0 40
cfn=(10) malloc'2
calls=1 0
+5 20

fn=(9)
0 40
";

    #[test]
    fn what_a_function_calls_is_added_up_and_nothing_else() {
        assert_eq!(callees(PROFILE, CALLS_MALLOC), Some(Callees { calls: 3, instructions: 60 }));
        assert_eq!(callees(PROFILE, "main"), Some(Callees { calls: 3, instructions: 90 }));
        assert_eq!(callees(PROFILE, CALLS_FREE), None);
    }

    #[test]
    fn a_profile_that_breaks_off_is_none() {
        assert_eq!(callees("fn=(1) main\ncalls=3 0\n", "main"), None);
        assert_eq!(callees("fn=(1) main\ncalls=x\n0 1\n", "main"), None);
    }
}
