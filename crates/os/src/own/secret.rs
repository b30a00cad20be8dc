//! Random words that cannot be guessed from outside the process.

use crate::call::errno::errno_kept;
use crate::own::process::process_id;
use crate::spread::spread;
use crate::time::ticks::ticks;

/// Returns a word from the system's random generator. Before that is ready, early after the machine's start, the word
/// is made of the time and of an address.
#[must_use]
pub fn secret_word() -> u64 {
    let mut word = 0u64;
    let length = size_of::<u64>();
    // SAFETY: the call writes `length` bytes at most, which is the length of the word.
    let got = errno_kept(|| unsafe {
        libc::syscall(libc::SYS_getrandom, (&raw mut word).cast::<u8>(), length, libc::GRND_NONBLOCK)
    });
    if got == length as libc::c_long { word } else { makeshift_word((&raw const word).addr() as u64) }
}

fn makeshift_word(address: u64) -> u64 {
    let mixed = spread(address ^ ticks().rotate_left(32) ^ u64::from(process_id()));
    mixed ^ mixed >> 29
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_differ() {
        let words = [secret_word(), secret_word(), makeshift_word(1), makeshift_word(2)];
        assert!((1..4).all(|at| words[at] != words[at - 1]), "{words:x?}");
    }
}
