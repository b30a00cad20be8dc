//! The frames of signals: what the kernel has put onto the stack between a handler and the function that its signal
//! interrupted.
//!
//! A handler returns to a trampoline, which makes the kernel restore all registers from the stack. Tables of unwinding
//! describe that by expressions, which the unwinder does not evaluate. The kernel's layout never changes, because
//! programs know it.

use framehop::UnwindRegsNative;

/// The text of a trampoline's frame.
pub const SIGNAL: &str = "<signal>";

/// Replaces the registers in a trampoline by those that its signal has saved; returns the address of the instruction at
/// which the interrupted function was, or `None` when they cannot be read.
#[cfg(target_arch = "x86_64")]
pub fn interrupted(registers: &mut UnwindRegsNative, read: &mut impl FnMut(u64) -> Result<u64, ()>) -> Option<u64> {
    /// The stack pointer points to the kernel's `ucontext`, in which the registers follow its flags, its link and its
    /// stack (`asm/ucontext.h`), in the order of `struct sigcontext` (`asm/sigcontext.h`).
    const REGISTERS: u64 = 40;
    const FRAME: u64 = 10;
    const STACK: u64 = 15;
    const INSTRUCTION: u64 = 16;
    let context = registers.sp();
    let mut saved = |register: u64| read(context.checked_add(REGISTERS + 8 * register)?).ok();
    let (frame, stack, instruction) = (saved(FRAME)?, saved(STACK)?, saved(INSTRUCTION)?);
    *registers = UnwindRegsNative::new(instruction, stack, frame);
    Some(instruction)
}

/// On other processors, the trampoline is code of the kernel's, which is in no file.
#[cfg(not(target_arch = "x86_64"))]
pub fn interrupted(_: &mut UnwindRegsNative, _: &mut impl FnMut(u64) -> Result<u64, ()>) -> Option<u64> {
    None
}

#[cfg(all(test, target_arch = "x86_64"))]
mod tests {
    use super::*;

    #[test]
    fn the_registers_are_those_that_the_signal_has_saved() {
        // The tests of `record --sites` have real ones.
        let mut read = |address: u64| match address - 0x7000 {
            120 => Ok(1),
            160 => Ok(2),
            168 => Ok(3),
            _ => Err(()),
        };
        let mut registers = UnwindRegsNative::new(0, 0x7000, 0);
        assert_eq!(interrupted(&mut registers, &mut read), Some(3));
        assert_eq!((registers.bp(), registers.sp(), registers.ip()), (1, 2, 3));
    }

    #[test]
    fn registers_that_cannot_be_read_are_not_made_up() {
        for missing in [120, 160, 168] {
            let mut read = |address: u64| if address == 0x7000 + missing { Err(()) } else { Ok(5) };
            let mut registers = UnwindRegsNative::new(7, 0x7000, 7);
            assert_eq!(interrupted(&mut registers, &mut read), None);
        }
        let mut registers = UnwindRegsNative::new(7, u64::MAX, 7);
        assert_eq!(interrupted(&mut registers, &mut |_| Ok(5)), None);
    }
}
