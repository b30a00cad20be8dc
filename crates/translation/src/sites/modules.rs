//! A process's code, and the unwinding of its stacks.

use std::borrow::Cow;
use std::ffi::OsStr;
use std::ops::Range;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Arc;

use framehop::{CacheNative, FrameAddress, MayAllocateDuringUnwind, Module, Unwinder, UnwinderNative};
use heapwright_os::spread;
use heapwright_stream::{Mapping, PATH, Place, Rule, Stack};

use super::binary::{Binaries, Binary};
use super::rules::{Rules, Special, Step, Way};
use super::signal::interrupted;

/// The most stack frames of a site.
const FRAMES: usize = 24;

/// The most frames of the recorder on top of them.
const RECORDERS: usize = 12;

/// The most mappings that are kept per process.
const MOST: usize = 16 << 10;

/// Where a process has mapped code, for unwinding its stacks.
pub struct Modules {
    binaries: Binaries,
    /// Sorted by address.
    modules: Vec<Loaded>,
    /// Code that is in no file, as just-in-time compilers make it: ranges of addresses, sorted and apart.
    made: Vec<(u64, u64)>,
    /// Whether stacks are followed through it.
    follows_made: bool,
    unwinder: UnwinderNative<Arc<[u8]>, MayAllocateDuringUnwind>,
    /// Unwinding rules by address. One cache holds about five hundred entries, too few for a program; addresses are
    /// spread over several.
    caches: Vec<CacheNative<MayAllocateDuringUnwind>>,
    /// The frames of the last stack, with the recorder's own.
    steps: Vec<Step>,
    rules: Rules,
    /// A copy of the current stack. The process wrote it on another processor; copying it whole is faster than fetching
    /// it word by word.
    near: Vec<u8>,
}

/// Number of caches, as a power of two.
const LOG2_CACHES: u32 = 6;

/// A mapped file with code.
pub struct Loaded {
    start: u64,
    end: u64,
    offset: u64,
    /// Load bias: the difference between its addresses and the file's.
    bias: u64,
    /// Path of the file, which may be gone.
    pub path: Arc<Path>,
    /// The parsed file, if it could be read.
    pub binary: Option<Arc<Binary>>,
}

/// Returns a path as its file is named: in the list of mappings, the system writes a newline as `\012`, and all other
/// characters as they are.
fn as_named(path: &[u8]) -> Cow<'_, [u8]> {
    const NEWLINE: &[u8] = b"\\012";
    if !path.windows(NEWLINE.len()).any(|part| part == NEWLINE) {
        return Cow::Borrowed(path);
    }
    let (mut named, mut rest) = (Vec::with_capacity(path.len()), path);
    while let Some((&first, behind)) = rest.split_first() {
        let (byte, behind) = rest.strip_prefix(NEWLINE).map_or((first, behind), |behind| (b'\n', behind));
        named.push(byte);
        rest = behind;
    }
    Cow::Owned(named)
}

impl Loaded {
    fn of(mapping: &Mapping<'_>, binaries: &Binaries) -> Loaded {
        let (start, end) = (mapping.range.start as u64, mapping.range.end as u64);
        let deleted = mapping.path.strip_suffix(b" (deleted)");
        let path = as_named(deleted.unwrap_or(mapping.path));
        let path = Path::new(OsStr::from_bytes(&path));
        // Another file has this name now.
        let binary = if deleted.is_some() { None } else { binaries.mapped(path, mapping.file) };
        let bias = binary.as_ref().and_then(|binary| binary.bias(start, mapping.offset));
        let bias = bias.unwrap_or(start.wrapping_sub(mapping.offset));
        Loaded { start, end, offset: mapping.offset, bias, path: path.into(), binary }
    }

    fn is(&self, mapping: &Mapping<'_>) -> bool {
        let path = mapping.path.strip_suffix(b" (deleted)").unwrap_or(mapping.path);
        (self.start, self.end, self.offset) == (mapping.range.start as u64, mapping.range.end as u64, mapping.offset)
            && self.path.as_os_str().as_bytes() == &*as_named(path)
    }

    fn overlaps(&self, code: &Range<u64>) -> bool {
        self.start < code.end && code.start < self.end
    }

    /// Returns whether an address of the process, in this file, is in the trampoline of signals.
    pub fn is_trampoline(&self, address: u64) -> bool {
        self.binary.as_ref().is_some_and(|binary| binary.is_trampoline(address.wrapping_sub(self.bias)))
    }

    /// Returns what is special about the code at an address of the process, in this file.
    fn special(&self, address: u64) -> Option<Special> {
        if self.is_trampoline(address) {
            return Some(Special::Trampoline);
        }
        self.binary.as_ref()?.realigned(address.wrapping_sub(self.bias)).map(Special::Realigns)
    }

    fn to_framehop(&self) -> Option<Module<Arc<[u8]>>> {
        let binary = self.binary.as_ref()?;
        let name = self.path.display().to_string();
        Some(Module::new(name, self.start..self.end, binary.base(self.bias), binary.unwinding()))
    }
}

/// The effect of a new mapping on the known ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Change {
    /// The mapping was known.
    Nothing,
    /// A mapping was added.
    Added,
    /// The mapping replaced others, which were forgotten.
    Replaced,
}

/// How a stack ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// The outermost frame, or the limit of frames, was reached.
    Reached,
    /// The next address is in no known mapping.
    Unknown(u64),
}

impl Modules {
    /// Creates an empty list.
    pub fn new(binaries: Binaries) -> Modules {
        let caches = (0..1 << LOG2_CACHES).map(|_| CacheNative::new()).collect();
        let (modules, steps, near) = (Vec::new(), Vec::new(), Vec::new());
        Modules {
            binaries,
            modules,
            made: Vec::new(),
            follows_made: false,
            unwinder: UnwinderNative::new(),
            caches,
            steps,
            rules: Rules::default(),
            near,
        }
    }

    /// Follows stacks through code that is in no file from now on, by frame pointers, which just-in-time compilers
    /// keep.
    pub fn follow_made_code(&mut self) -> Change {
        let was_followed = std::mem::replace(&mut self.follows_made, true);
        if was_followed || self.made.is_empty() { Change::Nothing } else { Change::Added }
    }

    /// Returns whether an address is in code that is in no file, and is followed.
    pub fn is_made(&self, address: u64) -> bool {
        let behind = self.made.partition_point(|&(start, _)| start <= address);
        self.follows_made && behind.checked_sub(1).is_some_and(|before| address < self.made[before].1)
    }

    /// Adds code that is in no file. It is never forgotten: compilers change the access to their code all the time.
    /// Whole pages are added: functions are short and many.
    pub fn add_made(&mut self, start: u64, end: u64) -> Change {
        const PAGE: u64 = 4096;
        let (start, end) = (start - start % PAGE, end.checked_next_multiple_of(PAGE).unwrap_or(end));
        let made = &mut self.made;
        let first = made.partition_point(|&(_, last)| last < start);
        let behind = made.partition_point(|&(begin, _)| begin <= end);
        let joined = made[first..behind].iter().fold((start, end), |(low, high), &(a, b)| (low.min(a), high.max(b)));
        if made[first..behind] == [joined] || made.len() == MOST {
            return Change::Nothing;
        }
        made.splice(first..behind, [joined]);
        if self.follows_made { Change::Added } else { Change::Nothing }
    }

    /// Adds a mapping.
    pub fn add(&mut self, mapping: &Mapping<'_>) -> Change {
        if mapping.is_executable && (mapping.path.is_empty() || mapping.path.starts_with(b"[anon")) {
            return self.add_made(mapping.range.start as u64, mapping.range.end as u64);
        }
        let is_code = mapping.is_executable && mapping.path.starts_with(b"/") && !mapping.range.is_empty();
        if !is_code || self.modules.len() == MOST || self.modules.iter().any(|one| one.is(mapping)) {
            return Change::Nothing;
        }
        let new = Loaded::of(mapping, &self.binaries);
        let replaced = self.forget(&(new.start..new.end));
        if let Some(module) = new.to_framehop() {
            self.unwinder.add_module(module);
        }
        self.rules.clear();
        let at = self.modules.partition_point(|one| one.start < new.start);
        self.modules.insert(at, new);
        replaced.max(Change::Added)
    }

    /// Forgets the files that have code in a range of addresses.
    pub fn forget(&mut self, code: &Range<u64>) -> Change {
        let gone: Vec<Loaded> = self.modules.extract_if(.., |one| one.overlaps(code)).collect();
        gone.iter().for_each(|one| self.unwinder.remove_module(one.start));
        if gone.is_empty() {
            return Change::Nothing;
        }
        self.rules.clear();
        Change::Replaced
    }

    /// Stores the addresses of a stack's calls in `frames`, innermost first, without the recorder's own. Frames that
    /// the process would follow count for [`Modules::steps`] only.
    pub fn unwind(&mut self, stack: &Stack<'_>, frames: &mut Vec<u64>) -> End {
        frames.clear();
        self.steps.clear();
        let mut registers = registers(&stack.place, self.unwinder.max_known_code_address());
        self.near.clear();
        self.near.extend_from_slice(stack.bytes);
        let near = Stack { place: stack.place, bytes: &self.near };
        let mut read = |address: u64| word(&near, address).ok_or(());
        let mut address = FrameAddress::from_instruction_pointer(stack.place.instruction);
        let Some(recorder) = self.index_of(stack.place.instruction) else {
            return End::Unknown(stack.place.instruction);
        };
        for _ in 0..FRAMES + RECORDERS {
            let call = address.address_for_lookup();
            let module = index_of(&self.modules, call);
            if module.is_none() && !self.is_made(call) {
                if frames.len() == FRAMES {
                    break;
                }
                self.steps.push(Step { address: address.address(), rule: Some(Rule::End) });
                return End::Unknown(call);
            }
            if frames.len() < FRAMES && (module != Some(recorder) || !frames.is_empty()) {
                frames.push(call);
            }
            if self.steps.len() == PATH {
                break;
            }
            let cache = &mut self.caches[cache_of(call)];
            let special = || self.modules[module?].special(call);
            let way = self.rules.of(address, special, &mut self.unwinder, cache);
            // The process takes all addresses but the first for return addresses, and no other may have this rule.
            let is_interrupted = !self.steps.is_empty() && !address.is_return_address();
            let rule = if let Way::Called(rule) = way { rule.filter(|_| !is_interrupted) } else { None };
            self.steps.push(Step { address: address.address(), rule });
            let next = match way {
                Way::Interrupted => interrupted(&mut registers, &mut read).map(FrameAddress::from_instruction_pointer),
                Way::Realigned(realigned) => {
                    realigned.unwind(&mut registers, &mut read).and_then(FrameAddress::from_return_address)
                }
                Way::Called(_) => {
                    let back = self.unwinder.unwind_frame(address, &mut registers, cache, &mut read);
                    back.ok().flatten().and_then(FrameAddress::from_return_address)
                }
            };
            let Some(next) = next else { break };
            address = next;
        }
        End::Reached
    }

    /// Stores the addresses of a path's calls in `frames`, innermost first, without the recorder's own. The first of
    /// `addresses` is an instruction pointer, the others are return addresses.
    pub fn calls_of(&self, addresses: &[u64], frames: &mut Vec<u64>) -> End {
        frames.clear();
        let Some(recorder) = addresses.first().and_then(|&address| self.index_of(address)) else {
            return End::Unknown(addresses.first().copied().unwrap_or(0));
        };
        for (index, &address) in addresses.iter().enumerate() {
            let call = address.saturating_sub(u64::from(index != 0));
            let module = self.index_of(call);
            if module.is_none() && !self.is_made(call) {
                return End::Unknown(call);
            }
            if module != Some(recorder) || !frames.is_empty() {
                frames.push(call);
            }
            if frames.len() == FRAMES {
                break;
            }
        }
        End::Reached
    }

    /// Returns the frames of the stack that was unwound last, innermost first.
    pub fn steps(&self) -> &[Step] {
        &self.steps
    }

    /// Returns the file that contains an address of the process, and the address within it.
    pub fn place(&self, address: u64) -> Option<(&Loaded, u64)> {
        let module = &self.modules[self.index_of(address)?];
        Some((module, address.wrapping_sub(module.bias)))
    }

    fn index_of(&self, address: u64) -> Option<usize> {
        index_of(&self.modules, address)
    }
}

fn index_of(modules: &[Loaded], address: u64) -> Option<usize> {
    let index = modules.partition_point(|one| one.start <= address).checked_sub(1)?;
    (address < modules[index].end).then_some(index)
}

/// Returns the cache of an address.
fn cache_of(address: u64) -> usize {
    (spread(address) >> (u64::BITS - LOG2_CACHES)) as usize
}

/// Reads the word at an address of the process, if the copy of the stack contains it.
fn word(stack: &Stack<'_>, address: u64) -> Option<u64> {
    let at = usize::try_from(address.checked_sub(stack.place.stack)?).ok()?;
    Some(u64::from_le_bytes(*stack.bytes.get(at..)?.first_chunk()?))
}

#[cfg(target_arch = "x86_64")]
fn registers(place: &Place, _highest: u64) -> framehop::UnwindRegsNative {
    framehop::UnwindRegsNative::new(place.instruction, place.stack, place.frame)
}

/// Above the highest code address, the upper bits of a return address may be a pointer-authentication signature.
#[cfg(target_arch = "aarch64")]
fn registers(place: &Place, highest: u64) -> framehop::UnwindRegsNative {
    let mask = framehop::aarch64::PtrAuthMask::from_max_known_address(highest);
    framehop::UnwindRegsNative::new_with_ptr_auth_mask(mask, place.link, place.stack, place.frame)
}

#[cfg(test)]
mod tests {
    use heapwright_os::{copy_stack, each_mapping, here, own_stack};

    use super::*;

    /// The modules of this process.
    fn own() -> Modules {
        let mut modules = Modules::new(Binaries::default());
        each_mapping(&mut [0; 1 << 16], |mapping| {
            modules.add(&mapping);
        })
        .unwrap();
        modules
    }

    /// Calls `see` with the stack of this function.
    #[inline(never)]
    fn with_stack(see: impl FnOnce(&Place, &mut [u8])) {
        let place = here().unwrap();
        let mut bytes = vec![0; 64 << 10];
        let own = own_stack(place.stack as usize, &mut vec![0; 1 << 16]).unwrap();
        // SAFETY: the place is this function's, and the range is this thread's own stack.
        let length = unsafe { copy_stack(place.stack as usize, &own, &mut bytes) };
        see(&place, &mut bytes[..length]);
    }

    #[test]
    fn a_stack_leads_from_here_to_where_the_thread_began() {
        let mut modules = own();
        with_stack(|place, bytes| {
            let mut frames = Vec::new();
            assert_eq!(modules.unwind(&Stack { place: *place, bytes }, &mut frames), End::Reached);
            // Frames in the file in which a stack begins are left out, as the recorder's own are; the C library called
            // the rest.
            let (first, _) = modules.place(frames[0]).unwrap();
            assert!(first.path.ends_with("libc.so.6"), "{frames:x?}");
        });
    }

    #[test]
    fn damage_ends_a_stack_and_nothing_else() {
        let mut modules = own();
        let mut random = fastrand::Rng::with_seed(1);
        let code: Vec<(u64, u64)> = modules.modules.iter().map(|one| (one.start, one.end)).collect();
        with_stack(|place, bytes| {
            let mut frames = Vec::new();
            for _ in 0..20_000 {
                let (mut place, mut bytes) = (*place, bytes.to_vec());
                bytes.truncate(random.usize(..=bytes.len()));
                let address = |random: &mut fastrand::Rng| match random.u8(..4) {
                    0 => random.u64(..),
                    1 => place.stack.wrapping_add(random.u64(..5000)),
                    _ => {
                        let (start, end) = code[random.usize(..code.len())];
                        random.u64(start..end)
                    }
                };
                for _ in 0..random.usize(..20) {
                    let (at, word) = (random.usize(..512) * 8, address(&mut random));
                    if let Some(place) = bytes.get_mut(at..at + 8) {
                        place.copy_from_slice(&word.to_le_bytes());
                    }
                }
                let instruction = address(&mut random);
                if random.bool() {
                    place.instruction = instruction;
                }
                place.frame = if random.bool() { random.u64(..) } else { place.frame };
                place.stack = if random.u8(..10) == 0 { random.u64(..) } else { place.stack };
                modules.unwind(&Stack { place, bytes: &bytes }, &mut frames);
                assert!(frames.len() <= FRAMES);
            }
        });
    }

    #[test]
    fn what_is_mapped_over_something_takes_its_place() {
        let mut modules = own();
        let first = modules.modules[0].start as usize;
        let over = |path| Mapping {
            range: first..first + 4096,
            is_executable: true,
            is_guard: false,
            offset: 0,
            file: 0,
            path,
        };
        assert_eq!(modules.add(&over(b"/no/such/file")), Change::Replaced);
        assert_eq!(modules.add(&over(b"/no/such/file")), Change::Nothing);
        assert_eq!(modules.add(&over(b"/no/such/file (deleted)")), Change::Nothing);
        let (found, address) = modules.place(first as u64 + 5).unwrap();
        assert_eq!((&*found.path, address), (Path::new("/no/such/file"), 5));
        assert_eq!(modules.add(&over(b"[vdso]")), Change::Nothing);
        assert_eq!(modules.forget(&(first as u64 + 4096..first as u64 + 4097)), Change::Nothing);
        assert_eq!(modules.forget(&(first as u64 + 4095..first as u64 + 4097)), Change::Replaced);
        assert!(modules.place(first as u64 + 5).is_none());
    }
}
