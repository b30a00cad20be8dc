//! Descriptors of processes, which have unique numbers since the system's boot.

use core::mem::{MaybeUninit, zeroed};

use crate::call::errno::errno;
use crate::call::waiting::uncancelled;
use crate::file::descriptor::close;

/// A descriptor of a process, closed when dropped.
pub(crate) struct ProcessDescriptor(i32);

/// What is known of a process number.
pub(crate) enum Described {
    /// It is that of a process, dead or alive.
    By(ProcessDescriptor),
    /// No process has it.
    Nobody,
    /// The system refuses to answer.
    Unknown,
}

impl ProcessDescriptor {
    /// Opens a descriptor of the process with this number.
    pub(crate) fn of(pid: u32) -> Described {
        // SAFETY: the call takes numbers.
        let descriptor = unsafe { libc::syscall(libc::SYS_pidfd_open, pid, 0) };
        match i32::try_from(descriptor) {
            Ok(descriptor) if descriptor >= 0 => Described::By(ProcessDescriptor(descriptor)),
            // The number is a thread's.
            _ if matches!(errno(), libc::ESRCH | libc::ENOENT | libc::EINVAL) => Described::Nobody,
            _ => Described::Unknown,
        }
    }

    /// Returns the number of the process that is unique since the system's boot; `None` where descriptors do not have
    /// one (before Linux 6.9).
    pub(crate) fn unique_number(&self) -> Option<u64> {
        const PIDFS: u64 = 0x5049_4446;
        let mut found = MaybeUninit::<libc::statfs>::uninit();
        // SAFETY: the descriptor is open, and the result is written to a local variable.
        let is_pidfs =
            unsafe { libc::fstatfs(self.0, found.as_mut_ptr()) == 0 && found.assume_init().f_type as u64 == PIDFS };
        if is_pidfs { inode(self.0) } else { None }
    }

    /// Whether the process has ended: none of its threads runs any more.
    pub(crate) fn has_ended(&self) -> bool {
        let mut wanted = libc::pollfd { fd: self.0, events: libc::POLLIN, revents: 0 };
        // SAFETY: one entry is a local variable.
        uncancelled(|| unsafe { libc::poll(&mut wanted, 1, 0) == 1 && wanted.revents & libc::POLLIN != 0 })
    }

    /// Returns the inode of the process's namespace of process numbers (Linux 6.11).
    pub(crate) fn pid_namespace(&self) -> Option<u64> {
        const PIDFD_GET_PID_NAMESPACE: u64 = 0xFF05;
        self.namespace(PIDFD_GET_PID_NAMESPACE)
    }

    /// Returns the inode of the process's time namespace (Linux 6.11).
    pub(crate) fn time_namespace(&self) -> Option<u64> {
        const PIDFD_GET_TIME_NAMESPACE: u64 = 0xFF07;
        self.namespace(PIDFD_GET_TIME_NAMESPACE)
    }

    fn namespace(&self, which: u64) -> Option<u64> {
        // SAFETY: the call takes the open descriptor and a number, and returns another descriptor, closed when dropped.
        let namespace = unsafe { libc::ioctl(self.0, which as _, 0) };
        if namespace < 0 { None } else { inode(ProcessDescriptor(namespace).0) }
    }
}

impl Drop for ProcessDescriptor {
    fn drop(&mut self) {
        // SAFETY: the descriptor was opened here and is closed once.
        unsafe { close(self.0) };
    }
}

fn inode(descriptor: i32) -> Option<u64> {
    // SAFETY: a stat buffer consists of integers, for which zeros are valid, and is valid for the call's write.
    unsafe {
        let mut found: libc::stat = zeroed();
        (libc::fstat(descriptor, &mut found) == 0).then_some(found.st_ino)
    }
}
