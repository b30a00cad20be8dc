//! The callers of functions that align the stack for their locals.
//!
//! Where a function has locals that need more than 16 bytes of alignment, and a frame of a size that is not known
//! before (`alloca`, or arguments on the stack), GCC stores the address of its frame on the aligned stack, below the
//! frame pointer. The table of unwinding says so by an expression that reads memory, which the unwinder does not
//! evaluate: it would guess.

#[cfg(target_arch = "x86_64")]
use addr2line::gimli::{
    BaseAddresses, CfaRule, EhFrame, EhFrameHdr, Encoding, EndianSlice, Expression, LittleEndian, Operation,
    RegisterRule, UnwindContext, UnwindExpression, UnwindSection,
};
use framehop::UnwindRegsNative;

#[cfg(target_arch = "x86_64")]
type Bytes<'b> = EndianSlice<'b, LittleEndian>;

/// Where such a function has stored what its caller needs, as distances in bytes from its frame pointer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Realigned {
    /// The stack pointer that the caller has after the return.
    stack: i64,
    /// The caller's frame pointer; `None` when it is still in its register.
    frame: Option<i64>,
}

#[cfg(target_arch = "x86_64")]
mod registers {
    use addr2line::gimli::Register;

    pub const FRAME: Register = Register(6);
    pub const RETURN: Register = Register(16);
}

impl Realigned {
    /// Returns what the tables `eh_frame` and `eh_frame_hdr`, of a file that has them at these addresses, say of the
    /// code at `address`; `None` for functions of other kinds.
    #[cfg(target_arch = "x86_64")]
    pub fn of(eh_frame: (u64, &[u8]), eh_frame_hdr: (u64, &[u8]), address: u64) -> Option<Realigned> {
        const WORD: u8 = size_of::<u64>() as u8;
        let bases = BaseAddresses::default().set_eh_frame(eh_frame.0).set_eh_frame_hdr(eh_frame_hdr.0);
        let frames = EhFrame::new(eh_frame.1, LittleEndian);
        let index = EhFrameHdr::new(eh_frame_hdr.1, LittleEndian).parse(&bases, WORD).ok()?;
        let function = index.table()?.fde_for_address(&frames, &bases, address, EhFrame::cie_from_offset).ok()?;
        let encoding = function.cie().encoding();
        let mut context = UnwindContext::new();
        let row = function.unwind_info_for_address(&frames, &bases, &mut context, address).ok()?;
        let CfaRule::Expression(stack) = row.cfa() else { return None };
        let stack = stored_at(stack, &frames, encoding, Some(WORD))?;
        let frame = match row.register(registers::FRAME) {
            None | Some(RegisterRule::Undefined | RegisterRule::SameValue) => None,
            Some(RegisterRule::Expression(frame)) => Some(stored_at(&frame, &frames, encoding, None)?),
            Some(_) => return None,
        };
        let is_below = row.register(registers::RETURN) == Some(RegisterRule::Offset(-i64::from(WORD)));
        is_below.then_some(Realigned { stack, frame })
    }

    /// On other processors compilers have no such frames.
    #[cfg(not(target_arch = "x86_64"))]
    pub fn of(_: (u64, &[u8]), _: (u64, &[u8]), _: u64) -> Option<Realigned> {
        None
    }

    /// Replaces the registers in the function by its caller's; returns the return address, or `None` when the stack
    /// cannot be read.
    #[cfg(target_arch = "x86_64")]
    pub fn unwind(
        self,
        registers: &mut UnwindRegsNative,
        read: &mut impl FnMut(u64) -> Result<u64, ()>,
    ) -> Option<u64> {
        let frame = registers.bp();
        let mut word = |distance: i64| read(frame.checked_add_signed(distance)?).ok();
        let (stack, outer) = (word(self.stack)?, self.frame.map_or(Some(frame), &mut word)?);
        let back = read(stack.checked_sub(8)?).ok()?;
        *registers = UnwindRegsNative::new(back, stack, outer);
        Some(back)
    }

    #[cfg(not(target_arch = "x86_64"))]
    pub fn unwind(self, _: &mut UnwindRegsNative, _: &mut impl FnMut(u64) -> Result<u64, ()>) -> Option<u64> {
        None
    }
}

/// Returns the distance from the frame pointer in an expression that is nothing but that, or, with `read`, the word of
/// that many bytes that is there.
#[cfg(target_arch = "x86_64")]
fn stored_at(
    expression: &UnwindExpression<usize>,
    frames: &EhFrame<Bytes<'_>>,
    encoding: Encoding,
    read: Option<u8>,
) -> Option<i64> {
    let expression: Expression<Bytes<'_>> = expression.get(frames).ok()?;
    let mut operations = expression.operations(encoding);
    let Operation::RegisterOffset { register: registers::FRAME, offset, .. } = operations.next().ok()?? else {
        return None;
    };
    if let Some(length) = read {
        match operations.next().ok()?? {
            Operation::Deref { size, space: false, .. } if size == length => {}
            _ => return None,
        }
    }
    operations.next().ok()?.is_none().then_some(offset)
}
