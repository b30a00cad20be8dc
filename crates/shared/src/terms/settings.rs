//! What is decided when a segment is made, and by whom and how long it is opened.

use std::time::Duration;

use heapwright_placement::PolicyKind;

use crate::terms::error::Error;
use crate::terms::limits::{LARGEST_GRANULE, MAX_PROCESSES, MAX_ROOTS};

/// How long an operation waits for the lock unless told otherwise.
pub const PATIENCE: Duration = Duration::from_secs(10);

/// What is decided when a segment is made.
///
/// ```
/// use heapwright_shared::Settings;
/// // 1 MiB that may become 64.
/// let settings = Settings { size: 1 << 20, max_size: Some(64 << 20), ..Settings::default() };
/// assert_eq!(settings.mode, 0o600);
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// How many bytes of blocks the heap holds at first: at least 1, at most 64 TiB and 2^36 granules (under best and
    /// good fit 2^42); rounded up to granules, or to pages when it may grow.
    pub size: usize,
    /// How many bytes it may grow to, within the same limits and rounded up to pages; `None` for a heap that never
    /// grows, whose parts are packed tightly.
    pub max_size: Option<usize>,
    /// The policy that places blocks.
    pub policy: PolicyKind,
    /// Permissions to open the segment: bits as for `chmod`, whatever the umask.
    pub mode: u32,
    /// The smallest unit of placement and the least alignment, in bytes: a power of two from 16 to 4096.
    pub granule: u32,
    /// How many processes may be attached at a time, from 1 to [`MAX_PROCESSES`].
    pub processes: usize,
    /// How many named roots there is room for, from 0 to [`MAX_ROOTS`].
    pub roots: usize,
    /// Where random fit starts its generator.
    pub seed: u64,
    /// How long an operation waits for the lock.
    pub patience: Duration,
    /// Where blocks of at most 4 KiB come from.
    pub small: SmallBlocks,
}

/// Where small blocks, of at most 4 KiB, come from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SmallBlocks {
    /// From the policy, like all others: every block lies where the policy says.
    #[default]
    Placed,
    /// From slabs of the process that allocates, without the segment's lock: fast, also beside other processes. The
    /// policy places the slabs, 32 KiB each, the blocks above 4 KiB, and the first few of each length above 2 KiB. The
    /// granule is at most 256 bytes.
    Slabs,
}

impl SmallBlocks {
    /// Both of them.
    pub const ALL: [SmallBlocks; 2] = [SmallBlocks::Placed, SmallBlocks::Slabs];
}

impl Default for Settings {
    /// 1 MiB that does not grow, under best fit, for the user alone; 64-byte granules, 64 processes, 32 roots.
    fn default() -> Self {
        Settings {
            size: 1 << 20,
            max_size: None,
            policy: PolicyKind::Best,
            mode: 0o600,
            granule: 64,
            processes: 64,
            roots: 32,
            seed: 0,
            patience: PATIENCE,
            small: SmallBlocks::Placed,
        }
    }
}

impl Settings {
    /// Says whether what does not depend on other settings is in its range.
    pub(crate) fn validate(&self) -> Result<(), Error> {
        let granule_fits = self.granule.is_power_of_two() && (16..=4096).contains(&self.granule);
        let refusal = if !granule_fits {
            "the granule must be a power of two from 16 to 4096 bytes"
        } else if !(1..=MAX_PROCESSES).contains(&self.processes) {
            "there must be room for 1 to 250 processes"
        } else if self.roots > MAX_ROOTS {
            "there must be room for at most 65536 roots"
        } else if self.mode & !0o777 != 0 {
            "the mode must consist of permission bits (0o000 to 0o777)"
        } else if self.size == 0 {
            "the size must be at least one byte"
        } else if self.max_size.is_some_and(|most| most < self.size) {
            "the maximum size must not be below the size"
        } else if self.small == SmallBlocks::Slabs && self.granule > LARGEST_GRANULE {
            "a heap with slabs must have a granule of at most 256 bytes"
        } else {
            return Ok(());
        };
        Err(Error::BadSettings { why: refusal })
    }
}

/// The users whose segments are opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Owner {
    /// Those of the effective user, and the superuser's.
    #[default]
    Mine,
    /// Also those of this user.
    User(u32),
    /// Those of any user: a process that may write to a segment can make its users read and write anything in it.
    Anybody,
}

/// How a segment is opened.
#[derive(Clone, Copy, Debug)]
pub struct Access {
    /// How long an operation waits for the lock.
    pub patience: Duration,
    /// The users whose segments are opened.
    pub owner: Owner,
}

impl Default for Access {
    /// Ten seconds, the user's own segments.
    fn default() -> Self {
        Access { patience: PATIENCE, owner: Owner::Mine }
    }
}
