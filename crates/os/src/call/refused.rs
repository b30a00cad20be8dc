//! What the system refuses.

use core::fmt;

/// The system refused memory or address space: it is short of it, or a limit of the process is reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Refused;

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the system refused memory: it is short of it, or a limit of the process is reached")
    }
}

impl core::error::Error for Refused {}

/// The result of a call that returns 0 for success.
pub(crate) fn granted(result: i32) -> Result<(), Refused> {
    if result == 0 { Ok(()) } else { Err(Refused) }
}

/// Refuses a request for memory when a test asks for it.
#[inline(always)]
pub(crate) fn refuse_if_told() -> Result<(), Refused> {
    #[cfg(feature = "refusals")]
    if crate::call::refusals::refuses_request() {
        return Err(Refused);
    }
    Ok(())
}

/// Refuses any other call when a test asks for it.
#[inline(always)]
pub(crate) fn refuse_call_if_told() -> Result<(), Refused> {
    #[cfg(feature = "refusals")]
    if crate::call::refusals::refuses_call() {
        return Err(Refused);
    }
    Ok(())
}
