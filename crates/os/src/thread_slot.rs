//! A word of each thread's own that is not 0 when the thread starts, and word of a thread's end.

use core::ffi::c_void;
use core::sync::atomic::{AtomicU32, Ordering};

use crate::errno::errno_kept;
use crate::pages::{Refused, refuse_call_if_told};

/// Defines a module with `get` and `set` for a pointer of each thread's own, which at first is the address of a static: so
/// whoever uses it need not ask whether the thread has one yet. `$name` is the symbol's, hidden, and must be the only one of its
/// name in a program.
///
/// In the static block of thread-local storage, and read by two instructions: `thread_local!` calls `__tls_get_addr` in a
/// library, which may allocate. Where the platform has no such slot, `get` returns the static and `set` does nothing.
#[macro_export]
macro_rules! thread_slot {
    ($(#[$about:meta])* mod $module:ident, $name:literal: *const $type:ty = $initial:path) => {
        $(#[$about])*
        mod $module {
            #[cfg(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64"), not(miri)))]
            mod slot {
                core::arch::global_asm!(
                    ".pushsection .tdata.heapwright_slot, \"awT\", %progbits",
                    concat!(".globl ", $name),
                    concat!(".hidden ", $name),
                    concat!(".type ", $name, ", %object"),
                    concat!(".size ", $name, ", 8"),
                    ".p2align 3",
                    concat!($name, ":"),
                    ".quad {initial}",
                    ".popsection",
                    initial = sym $initial,
                );

                #[cfg(target_arch = "x86_64")]
                #[inline(always)]
                pub(super) fn get() -> *const $type {
                    let value;
                    // SAFETY: reads the word's distance from the thread pointer, which never changes, and the word, which is
                    // this thread's own.
                    unsafe {
                        let distance: usize;
                        core::arch::asm!(
                            concat!("mov {distance}, qword ptr [rip + ", $name, "@GOTTPOFF]"),
                            distance = lateout(reg) distance,
                            options(pure, nomem, nostack, preserves_flags)
                        );
                        core::arch::asm!(
                            "mov {value}, qword ptr fs:[{distance}]",
                            distance = in(reg) distance,
                            value = lateout(reg) value,
                            options(pure, readonly, nostack, preserves_flags)
                        );
                    }
                    value
                }

                #[cfg(target_arch = "x86_64")]
                pub(super) fn set(value: *const $type) {
                    // SAFETY: writes the word, which is this thread's own.
                    unsafe {
                        core::arch::asm!(
                            concat!("mov {distance}, qword ptr [rip + ", $name, "@GOTTPOFF]"),
                            "mov qword ptr fs:[{distance}], {value}",
                            distance = out(reg) _,
                            value = in(reg) value,
                            options(nostack, preserves_flags)
                        );
                    }
                }

                #[cfg(target_arch = "aarch64")]
                #[inline(always)]
                pub(super) fn get() -> *const $type {
                    let value;
                    // SAFETY: as on x86-64.
                    unsafe {
                        core::arch::asm!(
                            "mrs {thread}, tpidr_el0",
                            concat!("adrp {value}, :gottprel:", $name),
                            concat!("ldr {value}, [{value}, :gottprel_lo12:", $name, "]"),
                            "ldr {value}, [{thread}, {value}]",
                            thread = out(reg) _,
                            value = out(reg) value,
                            options(pure, readonly, nostack, preserves_flags)
                        );
                    }
                    value
                }

                #[cfg(target_arch = "aarch64")]
                pub(super) fn set(value: *const $type) {
                    // SAFETY: as on x86-64.
                    unsafe {
                        core::arch::asm!(
                            "mrs {thread}, tpidr_el0",
                            concat!("adrp {place}, :gottprel:", $name),
                            concat!("ldr {place}, [{place}, :gottprel_lo12:", $name, "]"),
                            "str {value}, [{thread}, {place}]",
                            thread = out(reg) _,
                            place = out(reg) _,
                            value = in(reg) value,
                            options(nostack, preserves_flags)
                        );
                    }
                }
            }

            #[cfg(not(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64"), not(miri))))]
            mod slot {
                pub(super) fn get() -> *const $type {
                    &raw const $initial
                }

                pub(super) fn set(_value: *const $type) {}
            }

            /// The calling thread's pointer.
            #[inline(always)]
            pub(crate) fn get() -> *const $type {
                slot::get()
            }

            /// Sets the calling thread's pointer.
            #[inline(always)]
            pub(crate) fn set(value: *const $type) {
                slot::set(value);
            }
        }
    };
}

/// Who wants to know when a thread ends.
///
/// The main thread's end is that of the process and is not told. Destructors of the thread's other values may run afterwards,
/// and may allocate; whoever [asks](ThreadEnd::tell) again is told again.
pub struct ThreadEnd {
    /// The system's number of the key, plus one; 0 while there is none.
    key: AtomicU32,
    handler: unsafe extern "C" fn(*mut c_void),
}

impl ThreadEnd {
    /// `handler` is called at the end of every thread that asked for it; what it is given means nothing.
    #[must_use]
    pub const fn new(handler: unsafe extern "C" fn(*mut c_void)) -> Self {
        ThreadEnd { key: AtomicU32::new(0), handler }
    }

    /// Gets ready, if that has not been done; by one thread at a time, and best before there are others: early keys need no memory
    /// of their own.
    ///
    /// # Errors
    /// [`Refused`] when the process has used up its keys.
    pub fn prepare(&self) -> Result<(), Refused> {
        if self.key.load(Ordering::Relaxed) != 0 {
            return Ok(());
        }
        refuse_call_if_told()?;
        let mut key = 0;
        // SAFETY: the key is written to a local variable, and the handler lives as long as this code.
        if unsafe { libc::pthread_key_create(&mut key, Some(self.handler)) } != 0 {
            return Err(Refused);
        }
        self.key.store(key + 1, Ordering::Release);
        Ok(())
    }

    /// Has the handler called when the calling thread ends. May call `calloc` when the process has many keys. Whether the
    /// thread's end will be told.
    pub fn tell(&self) -> bool {
        let key = self.key.load(Ordering::Acquire);
        // Any value does that is not null.
        let value = core::ptr::from_ref(self).cast();
        // SAFETY: the key exists; nobody reads what the value points to.
        key != 0
            && refuse_call_if_told().is_ok()
            && errno_kept(|| unsafe { libc::pthread_setspecific(key - 1, value) }) == 0
    }
}
