//! Which process it is, and whether it lives, told so that a number that is used again is not mistaken.

use core::ffi::CStr;
use core::fmt::{Arguments, Write};
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use crate::errno::{errno, errno_kept};
use crate::forks::fork_count;
use crate::output::Line;
use crate::process::process_id;

/// One process among all that the system has had.
///
/// A process that replaces its program (`exec`) stays the same one.
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
    /// The process's number, positive and below 2³¹; anything else is nobody's.
    pub pid: u32,
    /// A hash of when the process started and of the system's boot; 0 when `/proc` does not tell.
    pub birth: u32,
}

/// Whether a process can still run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Life {
    /// It runs, sleeps or is stopped; also said when the system does not tell.
    Alive,
    /// It will never run another instruction.
    Dead,
}

impl Identity {
    /// The calling process. Looked up once, and again in the child of a `fork`.
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

    /// Both in one word: the number in the low 31 bits, the birth in the high 32. Bit 31 is clear.
    #[inline(always)]
    #[must_use]
    pub const fn word(self) -> u64 {
        (self.birth as u64) << 32 | (self.pid & 0x7fff_ffff) as u64
    }

    /// The process that [`Identity::word`] stands for; bit 31 may be anything.
    #[inline(always)]
    #[must_use]
    pub const fn from_word(word: u64) -> Identity {
        Identity { pid: word as u32 & 0x7fff_ffff, birth: (word >> 32) as u32 }
    }
}

/// Whether `process` lives. A process that has ended and was not waited for yet (a zombie) is dead, and so is one whose
/// number belongs to another now.
///
/// Where there is no `/proc` (or one of another namespace, or one that hides other users' processes), a zombie and a number
/// that is used again count as alive: a caller who waits for such a process needs a time limit. Costs three or four system calls.
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

/// Where the calling process's view of others is valid: two processes can judge each other's [`life`] when this is equal.
///
/// It is the inode of the namespace of process numbers; where the clock since boot is a namespace's own (which shifts the
/// times at which processes started), that one's inode is in the upper half. `None` without `/proc`.
#[must_use]
pub fn pid_namespace() -> Option<u64> {
    /// The kernel's constant number for the namespace of the system itself.
    const SYSTEM_TIME: u64 = 0xEFFF_FFFA;
    let time = inode(c"/proc/self/ns/time").filter(|&time| time != SYSTEM_TIME);
    inode(c"/proc/self/ns/pid").map(|pid| pid ^ time.unwrap_or(0) << 32)
}

fn inode(path: &CStr) -> Option<u64> {
    // SAFETY: a stat buffer is plain integers, and stat fills it or fails.
    errno_kept(|| unsafe {
        let mut found: libc::stat = core::mem::zeroed();
        (libc::stat(path.as_ptr(), &mut found) == 0).then_some(found.st_ino)
    })
}

fn look_up_mine() -> Identity {
    let pid = process_id();
    Identity { pid, birth: Stat::mine().map_or(0, |stat| stat.birth()) }
}

/// Whether some process, of whatever user, has the number.
fn number_is_used(pid: u32) -> bool {
    let Some(pid) = i32::try_from(pid).ok().filter(|&pid| pid > 0) else { return false };
    // SAFETY: the signal 0 is never delivered.
    unsafe { libc::kill(pid, 0) == 0 || errno() != libc::ESRCH }
}

/// What `/proc/PID/task/PID/stat` tells of a process, by its first thread: what `/proc/PID/stat` does, but emulators make
/// up that one for the process that runs in them, which others would then not recognise.
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
        // A /proc of another namespace tells of other processes.
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

    /// The second field is the program's name in parentheses, which may itself hold spaces and parentheses; nothing
    /// behind it does.
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

    /// A process whose first thread has ended shows as a zombie while others run on.
    fn has_ended(&self) -> bool {
        matches!(self.state, b'Z' | b'X' | b'x') && self.threads <= 1
    }

    fn may_be(&self, process: Identity) -> bool {
        let birth = self.birth();
        birth == process.birth || birth == 0 || process.birth == 0
    }

    /// 0 when the system does not say which boot this is: after another one, the same number and time mean nothing.
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

/// A hash of the system's boot; 0 when `/proc` does not tell.
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

/// Never 0. FNV-1a, then the mixing of MurmurHash3, for inputs that differ in few bits.
fn hash(seed: u32, bytes: &[u8]) -> u32 {
    let mut hash =
        bytes.iter().fold(seed ^ 0x811c_9dc5, |hash, &byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193));
    hash = (hash ^ hash >> 16).wrapping_mul(0x85eb_ca6b);
    hash = (hash ^ hash >> 13).wrapping_mul(0xc2b2_ae35);
    (hash ^ hash >> 16).max(1)
}

/// The start of a small file, as far as it fits, by one read (files of `/proc` are consistent only within one).
fn read_small<'b>(path: &CStr, buffer: &'b mut [u8]) -> Option<&'b [u8]> {
    // SAFETY: the path is a C string, the buffer is valid for its length, and the descriptor is ours.
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
