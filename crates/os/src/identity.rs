//! Identities of processes, which stay unique when process numbers are reused, and whether a process lives.

use core::ffi::CStr;
use core::fmt::{Arguments, Write};
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use crate::errno::{errno, errno_kept};
use crate::forks::fork_count;
use crate::output::Line;
use crate::process::process_id;

/// The identity of a process, unique among all that the system has had.
///
/// A process that replaces its program (`exec`) keeps its identity.
///
/// ```
/// use heapwright_os::{Identity, Life, life};
/// let me = Identity::mine();
/// assert_eq!(me.pid, std::process::id());
/// assert_eq!(life(me), Life::Alive);
/// assert_eq!(life(Identity { birth: me.birth ^ 2, ..me }), if me.birth == 0 { Life::Alive } else { Life::Dead });
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Identity {
    /// The process's number, positive and below 2³¹. No process has another number.
    pub pid: u32,
    /// A hash of when the process started and of the system's boot; 0 without `/proc`.
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

impl Identity {
    /// Returns the identity of the calling process. Looked up once, and again in the child of a `fork`.
    #[must_use]
    pub fn mine() -> Identity {
        static KNOWN: AtomicU64 = AtomicU64::new(0);
        static KNOWN_AT: AtomicU64 = AtomicU64::new(0);
        let now = fork_count();
        if KNOWN_AT.load(Ordering::Acquire) == now {
            return Self::from_word(KNOWN.load(Ordering::Relaxed));
        }
        let mine = errno_kept(look_up_mine);
        KNOWN.store(mine.word(), Ordering::Relaxed);
        KNOWN_AT.store(now, Ordering::Release);
        mine
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

/// Returns whether `process` lives. A process that has ended and was not waited for yet (a zombie) is dead, and so is
/// one whose number was reused.
///
/// Without `/proc` (or with one of another namespace, or one that hides other users' processes), zombies and reused
/// numbers count as alive: waiting for such a process needs a time limit. Costs three or four system calls.
#[must_use]
pub fn life(process: Identity) -> Life {
    errno_kept(|| {
        if !number_is_used(process.pid) {
            return Life::Dead;
        }
        match Stat::of(process.pid) {
            Some(found) if found.has_ended() || !found.may_be(process) => Life::Dead,
            _ => Life::Alive,
        }
    })
}

/// Identifies the PID namespace of the calling process: [`life`] is valid between processes for which this is equal.
///
/// The inode of the PID namespace. In a time namespace, which shifts the times at which processes started, its inode is
/// added in the upper half. `None` without `/proc`.
#[must_use]
pub fn pid_namespace() -> Option<u64> {
    /// The kernel's constant inode of the initial time namespace.
    const SYSTEM_TIME: u64 = 0xEFFF_FFFA;
    let time = inode(c"/proc/self/ns/time").filter(|&time| time != SYSTEM_TIME);
    inode(c"/proc/self/ns/pid").map(|pid| pid ^ time.unwrap_or(0) << 32)
}

fn inode(path: &CStr) -> Option<u64> {
    // SAFETY: a stat buffer consists of integers, for which zeros are valid, and a `CStr` ends with a zero.
    errno_kept(|| unsafe {
        let mut found: libc::stat = core::mem::zeroed();
        (libc::stat(path.as_ptr(), &mut found) == 0).then_some(found.st_ino)
    })
}

fn look_up_mine() -> Identity {
    let pid = process_id();
    Identity { pid, birth: Stat::mine().map_or(0, |stat| stat.birth()) }
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
        let birth = self.birth();
        birth == process.birth || birth == 0 || process.birth == 0
    }

    /// 0 when the system provides no identifier of its boot: numbers and times repeat after the next boot.
    fn birth(&self) -> u32 {
        match boot() {
            0 => 0,
            boot => hash(boot, &self.started.to_le_bytes()),
        }
    }
}

fn number(digits: &[u8]) -> Option<u64> {
    core::str::from_utf8(digits).ok()?.parse().ok()
}

/// A hash of the system's boot; 0 without `/proc`.
fn boot() -> u32 {
    static KNOWN: AtomicU32 = AtomicU32::new(0);
    let known = KNOWN.load(Ordering::Relaxed);
    if known != 0 {
        return known;
    }
    let mut buffer = [0; 64];
    let found = read_small(c"/proc/sys/kernel/random/boot_id", &mut buffer).map_or(0, |id| hash(0, id));
    KNOWN.store(found, Ordering::Relaxed);
    found
}

/// A hash, never 0: FNV-1a, then the finalizer of MurmurHash3, as inputs differ in few bits.
fn hash(seed: u32, bytes: &[u8]) -> u32 {
    let mut hash =
        bytes.iter().fold(seed ^ 0x811c_9dc5, |hash, &byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193));
    hash = (hash ^ hash >> 16).wrapping_mul(0x85eb_ca6b);
    hash = (hash ^ hash >> 13).wrapping_mul(0xc2b2_ae35);
    (hash ^ hash >> 16).max(1)
}

/// Reads the start of a small file, as far as it fits, by one read (files of `/proc` are consistent only within one).
fn read_small<'b>(path: &CStr, buffer: &'b mut [u8]) -> Option<&'b [u8]> {
    // SAFETY: a `CStr` ends with a zero, the buffer is a slice, hence valid for writes of its length, and the
    // descriptor was opened here and is closed once.
    let length = unsafe {
        let descriptor = libc::open(path.as_ptr(), libc::O_RDONLY | libc::O_CLOEXEC);
        if descriptor < 0 {
            return None;
        }
        let length = libc::read(descriptor, buffer.as_mut_ptr().cast(), buffer.len());
        libc::close(descriptor);
        length
    };
    buffer.get(..usize::try_from(length).ok()?)
}
