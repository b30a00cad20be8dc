//! Creation of heaps, and the names of policies.

use core::ffi::{c_char, c_void};
use core::mem::MaybeUninit;
use core::slice;

use heapwright_heaps::{CreateError, FixedHeap, GrowingHeap, PolicyKind, Rules, Settings, Statistics};

use crate::handle::{FixedHandle, GrowingHandle, Handle};
use crate::out::{store_handle, text_of};
use crate::types::{Options, Status};

/// The default granule in bytes, and the only one of growing heaps.
const GRANULE: u32 = 16;

pub(crate) fn policy_of(number: u32) -> Result<PolicyKind, Status> {
    PolicyKind::ALL.into_iter().find(|&kind| kind as u32 == number).ok_or(Status::UnknownPolicy)
}

/// The number of the policy of this name, or 0.
///
/// # Safety
/// `name` is null or ends with a zero.
pub(crate) unsafe fn number_of(name: *const c_char) -> u32 {
    // SAFETY: `name` is null or ends with a zero, as this function requires, and is only used here.
    let name = unsafe { text_of(name) }.ok().and_then(|name| name.to_str().ok());
    name.and_then(PolicyKind::from_name).map_or(0, |kind| kind as u32)
}

/// The name of the policy of this number, or null.
pub(crate) fn name_of(number: u32) -> *const c_char {
    let name = match policy_of(number) {
        Ok(PolicyKind::First) => c"first",
        Ok(PolicyKind::Next) => c"next",
        Ok(PolicyKind::Best) => c"best",
        Ok(PolicyKind::Worst) => c"worst",
        Ok(PolicyKind::Random) => c"random",
        Ok(PolicyKind::Buddy) => c"buddy",
        Ok(PolicyKind::Good) => c"good",
        Err(_) => return core::ptr::null(),
    };
    name.as_ptr()
}

fn statistics_of(options: &Options) -> Result<Statistics, Status> {
    match options.statistics {
        0 => Ok(Statistics::Kept),
        1 => Ok(Statistics::Off),
        _ => Err(Status::BadOptions),
    }
}

/// # Safety
/// `memory` is null or the first of `bytes` bytes that nothing but the heap uses until it is destroyed. `options` is
/// null or valid for a read, `out` is null or valid for a write.
pub(crate) unsafe fn fixed(
    memory: *mut c_void,
    bytes: usize,
    policy: u32,
    options: *const Options,
    out: *mut *mut Handle,
) -> Result<(), Status> {
    // SAFETY: the options are null or valid for a read, `out` is null or valid for a write, and the memory is the
    // heap's alone until it is destroyed, as this function requires; its length is at most that of an object.
    unsafe {
        store_handle(out, || {
            let options = options.as_ref().copied().unwrap_or_default();
            if memory.is_null() {
                return Err(Status::NullPointer);
            }
            if isize::try_from(bytes).is_err() {
                return Err(Status::BadOptions);
            }
            let region = slice::from_raw_parts_mut(memory.cast::<MaybeUninit<u8>>(), bytes);
            place_fixed(region, policy_of(policy)?, &options)
        })
    }
}

/// Places the handle at the front of the region and the heap in the rest.
fn place_fixed(
    region: &'static mut [MaybeUninit<u8>],
    policy: PolicyKind,
    options: &Options,
) -> Result<*mut Handle, Status> {
    if options.capacity != 0 {
        return Err(Status::BadOptions);
    }
    let rules = Rules {
        granule: if options.granule == 0 { GRANULE } else { options.granule },
        header: options.header,
        min_remainder: options.min_remainder,
        statistics: statistics_of(options)?,
        ..Rules::default()
    };
    let front = region.as_ptr().align_offset(align_of::<FixedHandle>());
    let (handle, rest) = region
        .get_mut(front..)
        .and_then(|region| region.split_at_mut_checked(size_of::<FixedHandle>()))
        .ok_or(Status::TooShort)?;
    let mut heap = FixedHeap::with(policy, rest, &rules)?;
    heap.seed(options.seed);
    let handle = handle.as_mut_ptr().cast::<FixedHandle>();
    // SAFETY: the place of the handle is aligned and long enough for it, and apart from the rest that the heap uses.
    unsafe { handle.write(FixedHandle::fixed(heap)) };
    Ok(handle.cast())
}

/// # Safety
/// `options` is null or valid for a read, `out` is null or valid for a write.
pub(crate) unsafe fn growing(policy: u32, options: *const Options, out: *mut *mut Handle) -> Result<(), Status> {
    // SAFETY: `options` is null or valid for a read, `out` is null or valid for a write, as this function requires.
    unsafe {
        store_handle(out, || {
            let options = options.as_ref().copied().unwrap_or_default();
            place_growing(policy_of(policy)?, &options)
        })
    }
}

fn place_growing(policy: PolicyKind, options: &Options) -> Result<*mut Handle, Status> {
    if !matches!(options.granule, 0 | GRANULE) || options.header != 0 || options.min_remainder != 0 {
        return Err(Status::BadOptions);
    }
    let usual = Settings::default();
    let settings = Settings {
        capacity: if options.capacity == 0 { usual.capacity } else { options.capacity },
        seed: options.seed,
        statistics: statistics_of(options)?,
        ..usual
    };
    let heap = GrowingHeap::with(policy, &settings).map_err(|error| match error {
        CreateError::Rules(error) => error.into(),
        CreateError::Refused => Status::OutOfMemory,
    })?;
    GrowingHandle::growing(heap).boxed()
}
