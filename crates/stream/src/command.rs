//! The command line of the process, as it was when its program began: the program may write over it later.

use heapwright_os::{Lock, SegmentFile};

/// The maximum length of the command line in bytes; longer ones are truncated.
pub(crate) const COMMAND: usize = 2048;

/// The arguments, each followed by a zero byte.
pub(crate) struct Command {
    pub(crate) text: [u8; COMMAND],
    /// The number of bytes in use.
    pub(crate) length: usize,
}

/// The command line, which children of `fork` have from their parent; empty until it is [kept](keep).
///
/// The lock is taken by a thread that holds that of the recording, which is held across forks. Nothing waits for it: a
/// child of a bare system call `fork` may have a copy that stays locked.
static KEPT: Lock<Command> = Lock::new(Command { text: [0; COMMAND], length: 0 });

/// Reads the command line, as far as there is room. Called when the program begins.
pub(crate) fn keep() {
    let Some(mut kept) = KEPT.try_lock() else { return };
    let read = SegmentFile::open_own("cmdline").and_then(|file| file.read_at(0, &mut kept.text));
    kept.length = read.unwrap_or(0);
}

/// Copies what was kept; returns the number of bytes.
pub(crate) fn copy_to(text: &mut [u8; COMMAND]) -> usize {
    let Some(kept) = KEPT.try_lock() else { return 0 };
    *text = kept.text;
    kept.length
}
