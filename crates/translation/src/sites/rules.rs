//! How the caller of a frame is found, as a rule that the process can follow by itself.
//!
//! The unwinder interprets tables whose rules it does not show. Here they are found by experiment: a frame is unwound
//! on a stack that does not exist, whose words say where they were read.

use std::collections::HashMap;
use std::sync::Arc;

use framehop::{CacheNative, FrameAddress, MayAllocateDuringUnwind, Unwinder, UnwinderNative};
use heapwright_stream::Rule;

use super::realigned::Realigned;

/// A frame of a stack that was unwound.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step {
    /// The instruction pointer or return address.
    pub address: u64,
    /// How its caller is found; `None` when no rule of the process can express that.
    pub rule: Option<Rule>,
}

/// How a frame came about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// By a call; `None` when no rule of the process can express where the caller is.
    Called(Option<Rule>),
    /// By a call, of a function that aligns the stack: no rule of the process can express where its caller is.
    Realigned(Realigned),
    /// By a signal: the frame is that of its trampoline.
    Interrupted,
}

/// What is special about the code of a frame.
pub enum Special {
    /// It is the trampoline of signals.
    Trampoline,
    /// It aligns the stack.
    Realigns(Realigned),
}

type Native = UnwinderNative<Arc<[u8]>, MayAllocateDuringUnwind>;

/// Rules by address, and whether it is a return address.
#[derive(Default)]
pub struct Rules {
    known: HashMap<(u64, bool), Way, foldhash::fast::RandomState>,
}

impl Rules {
    /// Returns how a frame came about. There is no rule when it would be more than a distance from one register.
    pub fn of(
        &mut self,
        address: FrameAddress,
        special: impl FnOnce() -> Option<Special>,
        unwinder: &mut Native,
        cache: &mut CacheNative<MayAllocateDuringUnwind>,
    ) -> Way {
        let frame = (address.address(), address.is_return_address());
        *self.known.entry(frame).or_insert_with(|| match special() {
            Some(Special::Trampoline) => Way::Interrupted,
            Some(Special::Realigns(realigned)) => Way::Realigned(realigned),
            None => Way::Called(by_experiment(address, unwinder, cache)),
        })
    }

    /// Forgets all rules: other code may be at their addresses now.
    pub fn clear(&mut self) {
        self.known.clear();
    }
}

#[cfg(target_arch = "x86_64")]
fn by_experiment(
    address: FrameAddress,
    unwinder: &mut Native,
    cache: &mut CacheNative<MayAllocateDuringUnwind>,
) -> Option<Rule> {
    use framehop::x86_64::UnwindRegsX86_64;
    use heapwright_stream::Base;

    /// Where the stack and the frame would be: far apart, with room around them.
    const STACK: u64 = 0x1000_0000_0000;
    const FRAME: u64 = 0x2000_0000_0000;
    /// The distance of a word's value from its address.
    const VALUE: u64 = 0x1000_0000_0000_0000;
    /// The largest distance from a register that is a rule.
    const FAR: u64 = 1 << 30;

    let mut registers = UnwindRegsX86_64::new(address.address(), STACK, FRAME);
    let mut read = |at: u64| Ok(at.wrapping_add(VALUE));
    let back = match unwinder.unwind_frame(address, &mut registers, cache, &mut read) {
        Ok(Some(back)) => back,
        Ok(None) => return Some(Rule::End),
        Err(_) => return None,
    };
    let (stack, frame) = (registers.sp(), registers.bp());
    let within = |base: u64| u32::try_from(stack.checked_sub(base)?).ok().filter(|&far| u64::from(far) < FAR);
    let (base, distance) =
        within(STACK).map(|far| (Base::Stack, far)).or_else(|| within(FRAME).map(|far| (Base::Frame, far)))?;
    if back != stack.wrapping_sub(8).wrapping_add(VALUE) {
        return None;
    }
    let stored = match frame {
        FRAME => None,
        stored => Some(i16::try_from(stored.wrapping_sub(VALUE).wrapping_sub(stack) as i64).ok()?),
    };
    Some(Rule::Caller { base, stack: distance, frame: stored })
}

/// On other processors every stack is copied.
#[cfg(not(target_arch = "x86_64"))]
fn by_experiment(_: FrameAddress, _: &mut Native, _: &mut CacheNative<MayAllocateDuringUnwind>) -> Option<Rule> {
    None
}
