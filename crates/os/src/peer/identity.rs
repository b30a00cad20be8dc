//! Identities of processes, which stay unique when process numbers are reused, and whether a process lives.

use core::ffi::CStr;
use core::fmt::{Arguments, Write};
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use crate::call::errno::{errno, errno_kept};
use crate::call::waiting::sleep_for_a_millisecond;
use crate::file::descriptor::read_small;
use crate::file::file_error::FileError;
use crate::file::output::Line;
use crate::file::own_file::with_own_path;
use crate::own::process::process_id;
use crate::own::secret::secret_word;
use crate::peer::pidfd::{Described, ProcessDescriptor};
use crate::thread::forks::fork_count;
use crate::time::clock::nanoseconds_of;

/// The identity of a process, unique among all that the system has had.
///
/// A process that replaces its program (`exec`) keeps its identity.
///
/// ```
/// use heapwright_os::{Identity, Life, life};
/// let me = Identity::mine();
/// assert_eq!(me.pid, std::process::id());
/// assert_eq!(life(me), Life::Alive);
/// assert_eq!(life(Identity { birth: 0, ..me }), Life::Dead);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Identity {
    /// The process's number, positive and below 2³¹. No process has another number.
    pub pid: u32,
    /// A hash of the system's boot and of what distinguishes the process from others with its number: the unique number
    /// of its descriptor (Linux 6.9; then it is odd), or its start time (even). Without `/proc`, a hash of its number.
    /// Never 0. Two more of the low bits are flags of [`Identity::announced`].
    pub birth: u32,
}

/// Whether a process can still run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Life {
    /// It runs, sleeps or is stopped; also when the system provides no information.
    Alive,
    /// It will never run another instruction.
    Dead,
}

/// Whether process numbers mean the same to the calling process and to those that it asks about: only if it is in their
/// namespace of process numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Numbers {
    /// They do.
    Known,
    /// They mean other processes here, or it is not known in which namespace those are.
    Unknown,
}

impl Numbers {
    /// Returns what the numbers of processes in `namespace` mean here.
    #[must_use]
    pub fn of(namespace: Option<u64>) -> Numbers {
        match namespace.is_some() && namespace == pid_namespace() {
            true => Numbers::Known,
            false => Numbers::Unknown,
        }
    }
}

impl Identity {
    /// Returns the identity of the calling process. Looked up once, and again in the child of a `fork`.
    #[must_use]
    pub fn mine() -> Identity {
        static MINE: PerProcess = PerProcess::unknown();
        let word = MINE.get(|| Some(errno_kept(look_up_mine).word()));
        Self::from_word(word.unwrap_or(0))
    }

    /// Returns the identity by which this process announces itself; `numbers` says whether its number means anything to
    /// those who look. One that has nothing unique but a number, because there is no `/proc`, gets a random birth.
    #[must_use]
    pub fn announced(self, numbers: Numbers) -> Identity {
        let is_unique = self.birth != unknown_birth(self.pid);
        let birth = if is_unique { self.birth } else { errno_kept(secret_word) as u32 & !FLAGS | LEAST };
        let stranger = if is_unique && numbers == Numbers::Known { 0 } else { STRANGER };
        Identity { birth: birth | ANNOUNCED | stranger, ..self }
    }

    /// Whether it is one that [`Identity::announced`] has returned.
    #[must_use]
    pub fn is_announced(self) -> bool {
        self.birth & ANNOUNCED != 0
    }

    /// Whether its number is one by which the process is found, if that means anything here.
    pub(crate) fn has_known_number(self) -> bool {
        self.birth & STRANGER == 0
    }

    /// Whether a process can have it. A word of another content was never written by one.
    pub(crate) fn is_possible(self) -> bool {
        /// The kernel's limit.
        const HIGHEST: u32 = 1 << 22;
        (1..=HIGHEST).contains(&self.pid) && self.birth != 0
    }

    /// Packs the identity in a word: the number in the low 31 bits, the birth in the high 32. Bit 31 is clear.
    #[inline(always)]
    #[must_use]
    pub const fn word(self) -> u64 {
        (self.birth as u64) << 32 | (self.pid & 0x7fff_ffff) as u64
    }

    /// The inverse of [`Identity::word`]; bit 31 is ignored.
    #[inline(always)]
    #[must_use]
    pub const fn from_word(word: u64) -> Identity {
        Identity { pid: word as u32 & 0x7fff_ffff, birth: (word >> 32) as u32 }
    }
}

/// What a process looks up once, and again in the child of a `fork`.
struct PerProcess {
    word: AtomicU64,
    /// The count of forks under which it was looked up.
    at: AtomicU64,
}

impl PerProcess {
    const fn unknown() -> PerProcess {
        PerProcess { word: AtomicU64::new(0), at: AtomicU64::new(0) }
    }

    /// Returns the word, looked up if that was not done in this process.
    fn get(&self, look_up: impl FnOnce() -> Option<u64>) -> Option<u64> {
        let now = fork_count();
        if self.at.load(Ordering::Acquire) == now {
            return Some(self.word.load(Ordering::Relaxed));
        }
        let found = look_up()?;
        self.word.store(found, Ordering::Relaxed);
        self.at.store(now, Ordering::Release);
        Some(found)
    }
}

/// Returns whether `process`, of the same namespace of process numbers, lives. A process that has ended and was not
/// waited for yet (a zombie) is dead, and so is one whose number was reused.
///
/// Where neither `/proc` nor descriptors of processes provide information (`/proc` may be that of another namespace, or
/// hide other users' processes), zombies and reused numbers count as alive: waiting for such a process needs a time
/// limit. Costs four to six system calls.
#[must_use]
pub fn life(process: Identity) -> Life {
    errno_kept(|| {
        // What was not announced has the same birth, but for the flags.
        let process = Identity { birth: process.birth & !(ANNOUNCED | STRANGER), ..process };
        if !process.is_possible() || !number_is_used(process.pid) {
            return Life::Dead;
        }
        let has_ended = if process.birth & EXACT == EXACT { has_ended_exactly(process) } else { has_ended(process) };
        if has_ended { Life::Dead } else { Life::Alive }
    })
}

/// Whether `process`, whose birth is that of its descriptor, is known to have ended.
fn has_ended_exactly(process: Identity) -> bool {
    match ProcessDescriptor::of(process.pid) {
        Described::Nobody => true,
        Described::Unknown => false,
        Described::By(found) => found.has_ended() || exact_birth(&found).is_some_and(|birth| birth != process.birth),
    }
}

/// Whether `process`, whose birth is when it started, is known to have ended.
fn has_ended(process: Identity) -> bool {
    Stat::of(process.pid).is_some_and(|found| found.has_ended() || !found.may_be(process))
}

/// Identifies the PID namespace of the calling process: [`life`] is valid between processes for which this is equal.
///
/// The inode of the PID namespace. In a time namespace, which shifts the times at which processes started, its inode is
/// added in the upper half. `None` without `/proc` before Linux 6.11.
#[must_use]
pub fn pid_namespace() -> Option<u64> {
    /// The kernel's constant inode of the initial time namespace.
    const SYSTEM_TIME: u64 = 0xEFFF_FFFA;
    errno_kept(|| {
        let pid = own_pid_namespace()?;
        let time = own_inode("ns/time").or_else(|| my_descriptor()?.time_namespace());
        Some(pid ^ time.filter(|&time| time != SYSTEM_TIME).unwrap_or(0) << 32)
    })
}

/// Returns the inode of the PID namespace of the calling process. A process stays in the one that it was made in, so
/// that it is looked up once, and again in the child of a `fork`.
fn own_pid_namespace() -> Option<u64> {
    static NAMESPACE: PerProcess = PerProcess::unknown();
    NAMESPACE.get(|| own_inode("ns/pid").or_else(|| my_descriptor()?.pid_namespace()))
}

fn my_descriptor() -> Option<ProcessDescriptor> {
    match ProcessDescriptor::of(process_id()) {
        Described::By(me) => Some(me),
        _ => None,
    }
}

fn own_inode(name: &str) -> Option<u64> {
    with_own_path(format_args!("{name}"), |path| inode(path).ok_or(FileError::NotFound)).ok()
}

fn inode(path: &CStr) -> Option<u64> {
    // SAFETY: a stat buffer consists of integers, for which zeros are valid, and a `CStr` ends with a zero.
    unsafe {
        let mut found: libc::stat = core::mem::zeroed();
        (libc::stat(path.as_ptr(), &mut found) == 0).then_some(found.st_ino)
    }
}

/// Set in births that are hashes of the number of a process's descriptor.
const EXACT: u32 = 1;
/// Set in the births of processes that announced themselves in the file that they share.
const ANNOUNCED: u32 = 2;
/// Set in the births of those whose number tells nothing: it is of another namespace than the file's, or the birth is
/// random.
const STRANGER: u32 = 4;
/// What is no part of the hash.
const FLAGS: u32 = EXACT | ANNOUNCED | STRANGER;
/// The least birth without flags.
const LEAST: u32 = FLAGS + 1;

/// A start time identifies a process only once its tick is over: until then the process could end, and another one get
/// its number and start within the same tick.
fn look_up_mine() -> Identity {
    let pid = process_id();
    if let Described::By(me) = ProcessDescriptor::of(pid)
        && let Some(birth) = exact_birth(&me)
    {
        return Identity { pid, birth };
    }
    let stat = Stat::mine();
    if let Some(stat) = &stat {
        while ticks_since_boot() <= stat.started {
            sleep_for_a_millisecond();
        }
    }
    Identity { pid, birth: stat.and_then(|stat| stat.birth()).unwrap_or(unknown_birth(pid)) }
}

/// `None` without identifiers of the system's boot, after which they repeat, and of processes.
fn exact_birth(process: &ProcessDescriptor) -> Option<u32> {
    Some(hash(boot()?, &process.unique_number()?.to_le_bytes()) & !FLAGS | EXACT)
}

/// The birth of a process of which nothing is known but its number.
fn unknown_birth(pid: u32) -> u32 {
    even(hash(0, &pid.to_le_bytes()))
}

fn even(hash: u32) -> u32 {
    (hash & !FLAGS).max(LEAST)
}

/// The time since the system's boot in the unit of start times, which is 10 ms on every Linux.
fn ticks_since_boot() -> u64 {
    nanoseconds_of(libc::CLOCK_BOOTTIME) / 10_000_000
}

/// Whether a process, of any user, has the number.
fn number_is_used(pid: u32) -> bool {
    let Some(pid) = i32::try_from(pid).ok().filter(|&pid| pid > 0) else { return false };
    // SAFETY: the system only checks whether the process exists: signal 0 is not delivered.
    unsafe { libc::kill(pid, 0) == 0 || errno() != libc::ESRCH }
}

/// The fields of `/proc/PID/task/PID/stat`, the first thread's. They equal those of `/proc/PID/stat`, but emulators
/// replace the latter for the process that they run, so that other processes would compute another identity.
#[derive(Debug, PartialEq, Eq)]
struct Stat {
    pid: u32,
    state: u8,
    threads: u64,
    /// Ticks from the system's boot.
    started: u64,
}

impl Stat {
    fn of(pid: u32) -> Option<Stat> {
        // A /proc of another namespace lists other processes.
        Self::mine()?;
        Self::read(pid, format_args!("/proc/{pid}/task/{pid}/stat\0"))
    }

    fn mine() -> Option<Stat> {
        let pid = process_id();
        Self::read(pid, format_args!("/proc/self/task/{pid}/stat\0"))
    }

    fn read(pid: u32, path: Arguments) -> Option<Stat> {
        let (mut text, mut buffer) = (Line::<48>::new(), [0; 1024]);
        text.write_fmt(path).ok()?;
        let found = read_small(CStr::from_bytes_with_nul(text.bytes()).ok()?, &mut buffer)?;
        Self::parse(found).filter(|stat| stat.pid == pid)
    }

    /// The second field is the program's name in parentheses, which may contain spaces and parentheses; later fields
    /// contain neither.
    fn parse(text: &[u8]) -> Option<Stat> {
        let name = text.iter().position(|&byte| byte == b'(')?;
        let name_end = text.iter().rposition(|&byte| byte == b')')?;
        let mut fields = text.get(name_end + 2..)?.split(|&byte| byte == b' ');
        Some(Stat {
            pid: number(text[..name].trim_ascii_end())?.try_into().ok()?,
            state: *fields.next()?.first()?,
            threads: number(fields.nth(16)?)?,
            started: number(fields.nth(1)?)?,
        })
    }

    /// A process whose first thread has ended is shown as a zombie while other threads run.
    fn has_ended(&self) -> bool {
        matches!(self.state, b'Z' | b'X' | b'x') && self.threads <= 1
    }

    fn may_be(&self, process: Identity) -> bool {
        process.birth == unknown_birth(process.pid) || self.birth().is_none_or(|birth| birth == process.birth)
    }

    /// `None` when the system provides no identifier of its boot: numbers and times repeat after the next boot.
    fn birth(&self) -> Option<u32> {
        Some(even(hash(boot()?, &self.started.to_le_bytes())))
    }
}

fn number(digits: &[u8]) -> Option<u64> {
    core::str::from_utf8(digits).ok()?.parse().ok()
}

/// A hash of the system's boot; `None` without `/proc`.
fn boot() -> Option<u32> {
    static KNOWN: AtomicU32 = AtomicU32::new(0);
    let known = KNOWN.load(Ordering::Relaxed);
    if known != 0 {
        return Some(known);
    }
    let mut buffer = [0; 64];
    let found = read_small(c"/proc/sys/kernel/random/boot_id", &mut buffer).map(|id| hash(0, id))?;
    KNOWN.store(found, Ordering::Relaxed);
    Some(found)
}

/// A hash, never 0: FNV-1a, then the finalizer of MurmurHash3, as inputs differ in few bits.
fn hash(seed: u32, bytes: &[u8]) -> u32 {
    let mut hash =
        bytes.iter().fold(seed ^ 0x811c_9dc5, |hash, &byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193));
    hash = (hash ^ hash >> 16).wrapping_mul(0x85eb_ca6b);
    hash = (hash ^ hash >> 13).wrapping_mul(0xc2b2_ae35);
    (hash ^ hash >> 16).max(1)
}
