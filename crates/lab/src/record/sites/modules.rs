//! A process's code, and the way up its stacks.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Arc;

use framehop::{CacheNative, FrameAddress, MayAllocateDuringUnwind, Module, Unwinder, UnwinderNative};
use heapwright_stream::{Mapping, Place, Stack};

use super::binary::{Binaries, Binary};

/// The most stack frames of a site.
const FRAMES: usize = 24;

/// The most of the recorder's own that are on top of them.
const RECORDERS: usize = 12;

/// How many mappings are known of a process at most.
const MOST: usize = 16 << 10;

/// Where code of a process is, for whoever unwinds its stacks.
pub struct Modules {
    binaries: Binaries,
    /// By address.
    modules: Vec<Loaded>,
    unwinder: UnwinderNative<Arc<[u8]>, MayAllocateDuringUnwind>,
    cache: CacheNative<MayAllocateDuringUnwind>,
}

/// A mapped file with code.
pub struct Loaded {
    start: u64,
    end: u64,
    offset: u64,
    /// What its addresses differ by from those of the file.
    bias: u64,
    /// Where the file is, or was.
    pub path: Arc<Path>,
    /// What could be read of it.
    pub binary: Option<Arc<Binary>>,
}

impl Loaded {
    fn of(mapping: &Mapping<'_>, binaries: &Binaries) -> Loaded {
        let (start, end) = (mapping.range.start as u64, mapping.range.end as u64);
        let deleted = mapping.path.strip_suffix(b" (deleted)");
        let path = Path::new(OsStr::from_bytes(deleted.unwrap_or(mapping.path)));
        // What has the name now is another file.
        let binary = if deleted.is_some() { None } else { binaries.at(path) };
        let bias = binary.as_ref().and_then(|binary| binary.bias(start, mapping.offset));
        let bias = bias.unwrap_or(start.wrapping_sub(mapping.offset));
        Loaded { start, end, offset: mapping.offset, bias, path: path.into(), binary }
    }

    fn is(&self, mapping: &Mapping<'_>) -> bool {
        let path = mapping.path.strip_suffix(b" (deleted)").unwrap_or(mapping.path);
        (self.start, self.end, self.offset) == (mapping.range.start as u64, mapping.range.end as u64, mapping.offset)
            && self.path.as_os_str().as_bytes() == path
    }

    fn overlaps(&self, other: &Loaded) -> bool {
        self.start < other.end && other.start < self.end
    }

    fn to_framehop(&self) -> Option<Module<Arc<[u8]>>> {
        let binary = self.binary.as_ref()?;
        let name = self.path.display().to_string();
        Some(Module::new(name, self.start..self.end, binary.base(self.bias), binary.unwinding()))
    }
}

/// What became of what was known.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Change {
    /// It was known.
    Nothing,
    /// There is more.
    Added,
    /// It is in the place of others, of which nothing is known any more.
    Replaced,
}

/// How a stack ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// There is no more, or no more that is wanted.
    Reached,
    /// It goes on at this address, which is in no mapping.
    Unknown(u64),
}

impl Modules {
    /// None yet.
    pub fn new(binaries: Binaries) -> Modules {
        Modules { binaries, modules: Vec::new(), unwinder: UnwinderNative::new(), cache: CacheNative::new() }
    }

    /// Takes up a mapping.
    pub fn add(&mut self, mapping: &Mapping<'_>) -> Change {
        let is_code = mapping.is_executable && mapping.path.starts_with(b"/") && !mapping.range.is_empty();
        if !is_code || self.modules.len() == MOST || self.modules.iter().any(|one| one.is(mapping)) {
            return Change::Nothing;
        }
        let new = Loaded::of(mapping, &self.binaries);
        let gone: Vec<Loaded> = self.modules.extract_if(.., |one| one.overlaps(&new)).collect();
        gone.iter().for_each(|one| self.unwinder.remove_module(one.start));
        if let Some(module) = new.to_framehop() {
            self.unwinder.add_module(module);
        }
        let at = self.modules.partition_point(|one| one.start < new.start);
        self.modules.insert(at, new);
        if gone.is_empty() { Change::Added } else { Change::Replaced }
    }

    /// Puts the addresses of the calls on a stack into `frames`, the innermost first, without the recorder's own.
    pub fn unwind(&mut self, stack: &Stack<'_>, frames: &mut Vec<u64>) -> End {
        frames.clear();
        let mut registers = registers(&stack.place, self.unwinder.max_known_code_address());
        let mut read = |address: u64| word(stack, address).ok_or(());
        let mut address = FrameAddress::from_instruction_pointer(stack.place.instruction);
        let Some(recorder) = self.index_of(stack.place.instruction) else {
            return End::Unknown(stack.place.instruction);
        };
        for _ in 0..FRAMES + RECORDERS {
            let call = address.address_for_lookup();
            let Some(module) = self.index_of(call) else { return End::Unknown(call) };
            if module != recorder || !frames.is_empty() {
                frames.push(call);
            }
            if frames.len() == FRAMES {
                break;
            }
            let next = self.unwinder.unwind_frame(address, &mut registers, &mut self.cache, &mut read);
            let Some(next) = next.ok().flatten().and_then(FrameAddress::from_return_address) else { break };
            address = next;
        }
        End::Reached
    }

    /// The file that an address of the process belongs to, and the address there.
    pub fn place(&self, address: u64) -> Option<(&Loaded, u64)> {
        let module = &self.modules[self.index_of(address)?];
        Some((module, address.wrapping_sub(module.bias)))
    }

    fn index_of(&self, address: u64) -> Option<usize> {
        let index = self.modules.partition_point(|one| one.start <= address).checked_sub(1)?;
        (address < self.modules[index].end).then_some(index)
    }
}

/// The word at an address of the process's, if it is in the copy of the stack.
fn word(stack: &Stack<'_>, address: u64) -> Option<u64> {
    let at = usize::try_from(address.checked_sub(stack.place.stack)?).ok()?;
    Some(u64::from_le_bytes(*stack.bytes.get(at..)?.first_chunk()?))
}

#[cfg(target_arch = "x86_64")]
fn registers(place: &Place, _highest: u64) -> framehop::UnwindRegsNative {
    framehop::UnwindRegsNative::new(place.instruction, place.stack, place.frame)
}

/// The upper bits of return addresses, above the highest address of any code, may be a signature.
#[cfg(target_arch = "aarch64")]
fn registers(place: &Place, highest: u64) -> framehop::UnwindRegsNative {
    let mask = framehop::aarch64::PtrAuthMask::from_max_known_address(highest);
    framehop::UnwindRegsNative::new_with_ptr_auth_mask(mask, place.link, place.stack, place.frame)
}
