//! Creation of heaps, and the names of policies.

use core::ffi::{c_char, c_void};
use core::mem::MaybeUninit;
use core::ptr::NonNull;
use core::slice;

use heapwright_heaps::{
    Chosen, CreateError, FixedHeap, GrowingHeap, Growth, PolicyKind, Rules, RulesError, Settings, Statistics,
};

use crate::handle::{FixedHandle, GrowingHandle, Handle};
use crate::out::{store_handle, text_of};
use crate::types::{Options, Status};

/// The default granule in bytes.
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
            place_fixed(range((memory, bytes))?, policy_of(policy)?, &options)
        })
    }
}

/// Places the handle at the front of the region and the heap in the rest.
fn place_fixed(
    region: &'static mut [MaybeUninit<u8>],
    policy: PolicyKind,
    options: &Options,
) -> Result<*mut Handle, Status> {
    let rules = rules_of(options)?;
    let (handle, rest) = split_handle(region)?;
    let heap = FixedHeap::with(policy, rest, &rules)?;
    Ok(write_handle(handle, heap, options))
}

/// The rules of a fixed heap.
fn rules_of(options: &Options) -> Result<Rules, Status> {
    if options.capacity != 0 || options.growth != 0 || options.growth_step != 0 {
        return Err(Status::BadOptions);
    }
    Ok(Rules {
        granule: granule_of(options),
        header: options.header,
        min_remainder: options.min_remainder,
        statistics: statistics_of(options)?,
        ..Rules::default()
    })
}

fn granule_of(options: &Options) -> u32 {
    if options.granule == 0 { GRANULE } else { options.granule }
}

/// The growth of a growing heap; `usual` where the options leave it open.
fn growth_of(options: &Options, usual: Growth) -> Result<Growth, Status> {
    match (options.growth, options.growth_step) {
        (0, 0) => Ok(usual),
        (0, step) => Ok(Growth::Pages(step)),
        (1, 0) => Ok(Growth::Extend),
        (2, 0) => Ok(Growth::Append),
        _ => Err(Status::BadOptions),
    }
}

/// Memory that belongs to a heap until the heap is destroyed.
type HeapMemory = &'static mut [MaybeUninit<u8>];

/// Divides memory into the place of a handle at its front, aligned, and the rest.
fn split_handle(memory: HeapMemory) -> Result<(HeapMemory, HeapMemory), Status> {
    let front = memory.as_ptr().align_offset(align_of::<FixedHandle>());
    let memory = memory.get_mut(front..).ok_or(Status::TooShort)?;
    memory.split_at_mut_checked(size_of::<FixedHandle>()).ok_or(Status::TooShort)
}

/// Writes the handle of a heap to the place that [`split_handle`] returned.
fn write_handle(place: HeapMemory, mut heap: FixedHeap<'static, Chosen>, options: &Options) -> *mut Handle {
    heap.seed(options.seed);
    let handle = place.as_mut_ptr().cast::<FixedHandle>();
    // SAFETY: the place of the handle is aligned and long enough for it, and apart from what the heap uses.
    unsafe { handle.write(FixedHandle::fixed(heap)) };
    handle.cast()
}

/// # Safety
/// As for [`fixed`], for both ranges. Ranges that overlap are refused.
pub(crate) unsafe fn beside(
    memory: (*mut c_void, usize),
    metadata: (*mut c_void, usize),
    policy: u32,
    options: *const Options,
    out: *mut *mut Handle,
) -> Result<(), Status> {
    // SAFETY: as in `fixed`, for both ranges, which are made slices only if they are apart.
    unsafe {
        store_handle(out, || {
            let options = options.as_ref().copied().unwrap_or_default();
            let (policy, rules) = (policy_of(policy)?, rules_of(&options)?);
            if overlap(memory, metadata) {
                return Err(Status::Overlap);
            }
            let (place, cells) = split_handle(range(metadata)?)?;
            let region = range(memory)?;
            let needed = match FixedHeap::<Chosen>::metadata_cells(policy, region.len(), &rules) {
                Err(RulesError::Capacity) if region.len() < rules.granule as usize => return Err(Status::TooShort),
                needed => needed?,
            };
            let cells = cells.get_mut(..needed * size_of::<u64>()).ok_or(Status::TooShort)?;
            cells.fill(MaybeUninit::new(0));
            let cells = NonNull::from(cells).cast::<u64>();
            let heap =
                FixedHeap::<Chosen>::beside_zeroed(policy, region, cells, &rules).map_err(|error| match error {
                    // Alignment has left no granule.
                    RulesError::Capacity => Status::TooShort,
                    error => error.into(),
                })?;
            Ok(write_handle(place, heap, &options))
        })
    }
}

/// Whether two ranges have a byte in common.
fn overlap(one: (*mut c_void, usize), other: (*mut c_void, usize)) -> bool {
    let begins_in = |(start, _): (*mut c_void, usize), (from, bytes): (*mut c_void, usize)| {
        start.addr().checked_sub(from.addr()).is_some_and(|distance| distance < bytes)
    };
    one.1 > 0 && other.1 > 0 && (begins_in(one, other) || begins_in(other, one))
}

/// The bytes at an address.
///
/// # Safety
/// The address is null or the first of so many bytes that nothing else uses.
unsafe fn range((memory, bytes): (*mut c_void, usize)) -> Result<HeapMemory, Status> {
    if memory.is_null() {
        return Err(Status::NullPointer);
    }
    if isize::try_from(bytes).is_err() || memory.addr().checked_add(bytes).is_none() {
        return Err(Status::BadOptions);
    }
    // SAFETY: nothing else uses the bytes, as this function requires; there are at most those of an object, and they
    // end within the address space.
    Ok(unsafe { slice::from_raw_parts_mut(memory.cast::<MaybeUninit<u8>>(), bytes) })
}

/// The bytes of metadata and handle beside a region, at any address.
///
/// # Safety
/// `options` is null or valid for a read.
pub(crate) unsafe fn metadata_bytes(bytes: usize, policy: u32, options: *const Options) -> Result<usize, Status> {
    // SAFETY: null or valid for a read, as this function requires.
    let options = unsafe { options.as_ref() }.copied().unwrap_or_default();
    let cells = FixedHeap::<Chosen>::metadata_cells(policy_of(policy)?, bytes, &rules_of(&options)?)?;
    Ok(cells * size_of::<u64>() + HANDLE)
}

/// The fewest bytes of a heap with its handle and metadata inside, at an address that is a multiple of the granule.
///
/// # Safety
/// `options` is null or valid for a read.
pub(crate) unsafe fn least_bytes(policy: u32, options: *const Options) -> Result<usize, Status> {
    // SAFETY: null or valid for a read, as this function requires.
    let options = unsafe { options.as_ref() }.copied().unwrap_or_default();
    let rules = rules_of(&options)?;
    // The rest starts behind the handle, so that up to a granule may be lost to alignment.
    let gap = rules.granule as usize;
    Ok(FixedHeap::<Chosen>::least_region(policy_of(policy)?, &rules)? + HANDLE + gap)
}

/// Bytes of a handle at any address.
const HANDLE: usize = size_of::<FixedHandle>() + align_of::<FixedHandle>() - 1;

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
    let usual = Settings::default();
    let granule = granule_of(options);
    let most = policy.most_granules().saturating_mul(granule as usize);
    let settings = Settings {
        capacity: if options.capacity == 0 { usual.capacity.min(most) } else { options.capacity },
        granule,
        header: options.header,
        min_remainder: options.min_remainder,
        growth: growth_of(options, usual.growth)?,
        seed: options.seed,
        statistics: statistics_of(options)?,
        ..usual
    };
    let heap = GrowingHeap::with(policy, &settings).map_err(|error| match error {
        CreateError::Rules(error) => error.into(),
        CreateError::Align => Status::BadOptions,
        CreateError::Refused => Status::OutOfMemory,
    })?;
    GrowingHandle::growing(heap).boxed()
}
