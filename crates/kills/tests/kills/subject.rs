//! What a kill test must know about a structure in shared memory and one operation on it.

use std::ops::Range;
use std::path::Path;

/// One operation on one structure in a file of shared memory.
pub trait Subject {
    /// A process's attachment to the structure.
    type Handle;

    /// What is killed, in words.
    fn name(&self) -> String;

    /// The file that holds the structure.
    fn path(&self) -> &Path;

    /// Makes the state before the operation.
    fn prepare(&self) -> Result<(), String>;

    /// Attaches this process: before the stepped part in a victim, whenever it likes in a survivor.
    fn attach(&self) -> Result<Self::Handle, String>;

    /// The operation that is stepped through and killed.
    fn operate(&self, handle: &mut Self::Handle) -> Result<(), String>;

    /// The first thing a survivor does: it takes the lock, recovers what a dead process left, and knows the present
    /// state.
    fn recover(&self, handle: &mut Self::Handle) -> Result<(), String>;

    /// What must hold after that, operations of the survivor's own included.
    fn judge(&self, handle: &mut Self::Handle) -> Result<(), String>;

    /// Where in the file the redo record lies.
    fn record(&self) -> Range<usize>;
}

/// Whether survivors see the redo record of the dead. They must, of course: a test erases it to see that it is needed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Record {
    Kept,
    Erased,
}

/// How the survivor relates to the structure at the moment of the kill.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Survivor {
    /// It was attached all the time.
    Attached,
    /// It comes when no living process is attached.
    Newcomer,
}
