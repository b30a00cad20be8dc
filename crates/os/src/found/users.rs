//! Users, whatever numbers a user namespace shows them under.

use core::sync::atomic::{AtomicU64, Ordering};

use crate::file::descriptor::read_small;

/// Returns the number of the process's effective user.
#[must_use]
pub fn effective_user() -> u32 {
    // SAFETY: the call has no preconditions.
    unsafe { libc::geteuid() }
}

/// Whether `user` is the number of a single user here, and not one under which a user namespace shows all those that it
/// has no number for. Without `/proc`, the number that systems use for that is never a single user.
#[must_use]
pub fn is_one_user(user: u32) -> bool {
    let mut buffer = [0; 128];
    user != overflow_user() || read_small(c"/proc/self/uid_map", &mut buffer).is_some_and(maps_every_user)
}

/// Returns the number under which a user namespace shows users that it has no number for, read once.
fn overflow_user() -> u32 {
    const USUAL: u32 = 65534;
    /// The number and 1 above, or 0.
    static KNOWN: AtomicU64 = AtomicU64::new(0);
    if let Some(known) = KNOWN.load(Ordering::Relaxed).checked_sub(1) {
        return known as u32;
    }
    let mut buffer = [0; 128];
    let number = |text: &[u8]| core::str::from_utf8(text.trim_ascii()).ok()?.parse().ok();
    let Some(read) = read_small(c"/proc/sys/kernel/overflowuid", &mut buffer).and_then(number) else { return USUAL };
    KNOWN.store(u64::from(read) + 1, Ordering::Relaxed);
    read
}

/// Whether a user namespace with this map has a number for every user.
fn maps_every_user(map: &[u8]) -> bool {
    let mut fields = map.split(u8::is_ascii_whitespace).filter(|field| !field.is_empty());
    fields.nth(2) == Some(b"4294967295") && fields.next().is_none()
}
