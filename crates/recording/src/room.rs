//! The private directory in which the recorded processes create their streams.

use std::path::Path;

use anyhow::Result;
use heapwright_host::files::free_space;
use heapwright_host::locked_folder::{LockedFolder, remove_abandoned};
use heapwright_host::temporary;
use tempfile::Builder;

const PREFIX: &str = "heapwright-record-";

/// A file system in memory, where streams cost no disk.
const MEMORY: &str = "/dev/shm";

/// Free space required to keep streams in memory, in bytes: twice the most by which a process may run ahead of the
/// collector.
const ENOUGH: u64 = 1 << 30;

/// A directory that belongs to this command, removed when dropped. If the command is killed, the next command removes
/// it.
pub struct Room(LockedFolder);

impl Room {
    /// Creates a directory, in memory when there is space and it can be made there.
    ///
    /// # Errors
    /// When there is no place or no space for it.
    pub fn make() -> Result<Room> {
        let is_room = |name: &[u8]| name.starts_with(PREFIX.as_bytes());
        let inside = |parent: &Path| LockedFolder::make(parent, Builder::new().prefix(PREFIX)).map(Room);
        let memory = Path::new(MEMORY);
        remove_abandoned(memory, is_room);
        let has_space = free_space(memory).is_some_and(|free| free >= ENOUGH);
        match has_space.then(|| inside(memory)) {
            Some(Ok(room)) => Ok(room),
            // It may be another user's, or read-only.
            _ => {
                let other = temporary::place()?;
                remove_abandoned(&other, is_room);
                Ok(inside(&other)?)
            }
        }
    }

    /// Returns its path.
    pub fn path(&self) -> &Path {
        self.0.path()
    }
}
