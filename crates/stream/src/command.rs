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
/// The lock is taken by a thread that holds that of the recording, which is held across forks.
static KEPT: Lock<Command> = Lock::new(Command { text: [0; COMMAND], length: 0 });

/// Reads the command line, as far as there is room. Called when the program begins.
pub(crate) fn keep() {
    let kept = &mut *KEPT.lock();
    let read = SegmentFile::open_own("cmdline").and_then(|file| file.read_at(0, &mut kept.text));
    kept.length = read.unwrap_or(0);
}

/// Passes what was kept to `see`.
pub(crate) fn with<R>(see: impl FnOnce(&Command) -> R) -> R {
    see(&KEPT.lock())
}
