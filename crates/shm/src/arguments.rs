//! The arguments of `heapwright shm`.

use std::time::Duration;

use clap::builder::{OsStringValueParser, PossibleValuesParser, TypedValueParser, ValueParser};
use clap::{Args, Subcommand};
use heapwright_placement::PolicyKind;
use heapwright_shared::{Access, Owner, Place, Settings};

use heapwright_allocators::policy;
use heapwright_show::number::{parse_bytes, parse_duration};

/// Examples for the help.
pub const EXAMPLES: &str = "\
Examples:
  heapwright shm create orders --size 4MiB --max-size 1GiB   a heap that may grow
  heapwright shm list                                        which there are
  heapwright shm inspect orders                              a map, owners, holes, counters
  heapwright shm check orders                                is every invariant in order?
  heapwright shm top orders                                  who allocates, who waits for the lock?
  heapwright shm reclaim orders --dry-run                    what did dead processes leave?

A name without a slash, or with one at its start only, is a POSIX shared-memory object (/dev/shm/NAME), any other
the path of a file.

Exit code: 0; 1 when a check fails or what was asked for cannot be done; 2: wrong usage.";

/// The commands.
#[derive(Subcommand)]
pub enum Command {
    /// Create a segment with an empty heap.
    #[command(after_help = CREATE_EXAMPLES)]
    Create(CreateArgs),
    /// List the segments in /dev/shm.
    #[command(visible_alias = "ls")]
    List {
        /// Print one JSON object: {"schema": 1, "results": [ ... ]}, a row per segment.
        #[arg(long)]
        json: bool,
    },
    /// Show what is in a segment, without changing it: a map of the heap, owners, roots, holes and counters.
    #[command(after_help = INSPECT_EXAMPLES)]
    Inspect(InspectArgs),
    /// Verify every invariant of segments, without changing them.
    #[command(after_help = CHECK_EXAMPLES)]
    Check(CheckArgs),
    /// Repair a segment that no process uses.
    #[command(after_help = REPAIR_EXAMPLES)]
    Repair(RepairArgs),
    /// Free the blocks of dead processes, except those that a root points at.
    #[command(after_help = RECLAIM_EXAMPLES)]
    Reclaim(ReclaimArgs),
    /// Remove a segment.
    #[command(visible_alias = "rm", after_help = REMOVE_EXAMPLES)]
    Remove(RemoveArgs),
    /// Show what segments in use are doing: operations per second, waits for the lock, blocks and bytes by process.
    #[command(after_help = TOP_EXAMPLES)]
    Top(TopArgs),
}

/// The arguments of `create`.
#[derive(Args)]
pub struct CreateArgs {
    #[command(flatten)]
    pub name: Name,

    /// Size of the heap, in bytes of blocks.
    #[arg(long, value_name = "BYTES", default_value = "1MiB", value_parser = parse_bytes)]
    pub size: usize,

    /// Largest size that the heap may grow to, in bytes of blocks; without this it never grows.
    #[arg(long, value_name = "BYTES", value_parser = parse_bytes)]
    pub max_size: Option<usize>,

    /// Placement policy.
    #[arg(long, short, value_name = "POLICY", default_value = "best", value_parser = policy())]
    pub policy: PolicyKind,

    /// Access mode, as for chmod; the umask does not apply.
    #[arg(long, value_name = "OCTAL", default_value = "600", value_parser = parse_mode)]
    pub mode: u32,

    /// The smallest unit of placement: a power of two from 16 to 4096 bytes.
    #[arg(long, value_name = "BYTES", default_value = "64", value_parser = parse_granule)]
    pub granule: u32,

    /// Number of processes that may be attached at a time, from 1 to 250.
    #[arg(long, value_name = "N", default_value_t = Settings::default().processes)]
    pub processes: usize,

    /// Number of named roots that there is room for, from 0 (none) to 65536.
    #[arg(long, value_name = "N", default_value_t = Settings::default().roots)]
    pub roots: usize,

    /// Blocks of at most 4 KiB come from slabs of the process that allocates, without the lock: faster, but not where
    /// the policy says. The policy places the slabs.
    #[arg(long)]
    pub slabs: bool,
}

/// The arguments of `inspect`.
#[derive(Args)]
pub struct InspectArgs {
    #[command(flatten)]
    pub name: Name,

    #[command(flatten)]
    pub trust: Trust,

    /// List all blocks, too.
    #[arg(long)]
    pub blocks: bool,

    /// Print one JSON object: {"schema": 1, "results": [ ... ]}, one row.
    #[arg(long)]
    pub json: bool,
}

/// The arguments of `check`.
#[derive(Args)]
pub struct CheckArgs {
    /// The segments.
    #[arg(value_name = "NAME", required = true, value_parser = place())]
    pub places: Vec<Place>,

    #[command(flatten)]
    pub trust: Trust,

    /// Print one JSON object: {"schema": 1, "results": [ ... ]}, a row per segment.
    #[arg(long)]
    pub json: bool,
}

/// The arguments of `repair`.
#[derive(Args)]
pub struct RepairArgs {
    #[command(flatten)]
    pub name: Name,

    #[command(flatten)]
    pub trust: Trust,

    /// Repair it although it was created in another namespace of process numbers (a container's), whose processes
    /// cannot be seen from here: you know that no process uses it. It then belongs to this namespace.
    #[arg(long)]
    pub take_over: bool,
}

/// The arguments of `reclaim`.
#[derive(Args)]
pub struct ReclaimArgs {
    #[command(flatten)]
    pub name: Name,

    #[command(flatten)]
    pub trust: Trust,

    /// Also free the blocks of processes that closed the segment.
    #[arg(long)]
    pub closed: bool,

    /// List the blocks without freeing them.
    #[arg(long, short = 'n')]
    pub dry_run: bool,
}

/// The arguments of `remove`.
#[derive(Args)]
pub struct RemoveArgs {
    #[command(flatten)]
    pub name: Name,

    #[command(flatten)]
    pub trust: Trust,

    /// Remove it even if live processes are attached, which keep the memory until they end, or if that is not known.
    #[arg(long, short)]
    pub force: bool,
}

/// The arguments of `top`.
#[derive(Args)]
pub struct TopArgs {
    /// The segment; without it, all of yours in /dev/shm.
    #[arg(value_name = "NAME", value_parser = place())]
    pub place: Option<Place>,

    #[command(flatten)]
    pub trust: Trust,

    /// Time between pictures, at least 10 ms.
    #[arg(long, value_name = "DURATION", default_value = "1s", value_parser = parse_interval)]
    pub every: Duration,

    /// End after this many seconds; without this, at Ctrl-C.
    #[arg(long, value_name = "N", conflicts_with = "once")]
    pub seconds: Option<u64>,

    /// Print one picture, after the time between pictures.
    #[arg(long)]
    pub once: bool,

    /// Print one JSON object per picture and line: {"schema": 1, "results": [ ... ]}, a row per segment.
    #[arg(long)]
    pub json: bool,
}

/// One segment.
#[derive(Args)]
pub struct Name {
    /// The segment: a shared-memory object (NAME or /NAME), or the path of a file, with another slash in it.
    #[arg(value_name = "NAME", value_parser = place())]
    pub place: Place,
}

/// Whose segments are opened.
#[derive(Args)]
pub struct Trust {
    /// Open segments of another user too: you trust that user.
    #[arg(long)]
    any_owner: bool,
}

impl Trust {
    /// How segments are opened.
    pub fn access(&self) -> Access {
        let owner = if self.any_owner { Owner::Anybody } else { Owner::Mine };
        Access { owner, ..Access::default() }
    }
}

fn place() -> ValueParser {
    OsStringValueParser::new().try_map(Place::new).into()
}

fn policy() -> ValueParser {
    let engines = policy::values().filter(|value| PolicyKind::from_name(value.get_name()).is_some());
    PossibleValuesParser::new(engines)
        .try_map(|name| PolicyKind::from_name(&name).ok_or("no engine has this policy"))
        .into()
}

fn parse_interval(text: &str) -> Result<Duration, String> {
    let interval = parse_duration(text)?;
    let long = interval >= Duration::from_millis(10);
    long.then_some(interval).ok_or_else(|| "the time between pictures is at least 10ms".to_owned())
}

fn parse_mode(text: &str) -> Result<u32, &'static str> {
    let digits = text.strip_prefix("0o").unwrap_or(text);
    let mode = u32::from_str_radix(digits, 8).ok().filter(|mode| *mode <= 0o777);
    mode.ok_or("permissions are an octal number up to 777, as in 660")
}

fn parse_granule(text: &str) -> Result<u32, String> {
    let bytes = parse_bytes(text)?;
    u32::try_from(bytes).map_err(|_| "a granule has at most 4096 bytes".to_owned())
}

const CREATE_EXAMPLES: &str = "\
Examples:
  heapwright shm create orders                                   1 MiB, best fit, for you alone
  heapwright shm create orders --size 64MiB --max-size 4GiB      grows while it is in use
  heapwright shm create cache -p buddy --granule 128 --mode 660  buddies, for your group too
  heapwright shm create ./orders.heap                            in a file, which outlives a reboot";

const INSPECT_EXAMPLES: &str = "\
Examples:
  heapwright shm inspect orders                  for people
  heapwright shm inspect orders --blocks         with every block
  heapwright shm inspect orders --json --blocks  all there is, for a program to read

Segments that are in use, interrupted or corrupted can be inspected as well: the output describes a copy.

Exit code: 0 when there is something to show, even if it is corrupted; 1 when it is no segment, or
belongs to another user.";

const CHECK_EXAMPLES: &str = "\
Examples:
  heapwright shm check orders                    one segment
  heapwright shm check orders users --json       several, for a program to read

Exit code: 0 when all hold; 1 when an invariant fails or a segment is refused.";

const REPAIR_EXAMPLES: &str = "\
Examples:
  heapwright shm repair orders                   complete what a dead process began, rebuild, seal
  heapwright shm repair orders --take-over       one that came from another container

Processes that open a segment repair it themselves after the death of others. This command is for
segments that they refuse, and for segments that should be repaired before any process opens them.";

const RECLAIM_EXAMPLES: &str = "\
Examples:
  heapwright shm reclaim orders --dry-run        list what dead processes left
  heapwright shm reclaim orders                  free it
  heapwright shm reclaim orders --closed         also what closed ones left

Blocks that a root points at are kept. Blocks that only other blocks point at are freed: the heap
has no record of such pointers.";

const TOP_EXAMPLES: &str = "\
Examples:
  heapwright shm top                             all your segments, every second, until Ctrl-C
  heapwright shm top orders --once               one picture, after a second
  heapwright shm top orders --json --seconds 60  a line of JSON per second, for a minute

The lock is not taken and the segment is not written to: permission to read it suffices. A picture
that was read while the heap changed is marked as torn; its numbers may not fit together. Operations
by process are counted in heaps with slabs only.

Exit code: 0; 1 when the segment cannot be read, or is removed meanwhile.";

const REMOVE_EXAMPLES: &str = "\
Examples:
  heapwright shm remove orders
  heapwright shm remove orders --force           even if a process uses it or it is damaged";
