//! The frames of CPython 3.11 to 3.14: which functions of a Python program the calling thread is in.
//!
//! A thread reads the frames of its own interpreter state, which only it changes. No object is made, no reference count
//! changes, nothing is called but a function that returns the state. Names are copied to the stream when the collector
//! does not have them yet, because code objects can be freed.

use core::ffi::c_void;
use core::fmt::Write;
use core::mem::transmute;
use core::ops::Range;
use core::ptr::{NonNull, null_mut};
use core::sync::atomic::{AtomicBool, AtomicPtr, Ordering};

use heapwright_os::{GOLDEN_RATIO, Line, symbol, variable};
use heapwright_stream::{Buffer, PYTHON, Paths, PythonName};

/// Where CPython's structures have what is read, as distances in bytes from their beginnings.
struct Layout {
    /// From the thread's state to the present frame: one distance per pointer that is followed.
    frame: &'static [usize],
    code: usize,
    previous: usize,
    /// The first kind of frame that is no Python function's.
    foreign: u8,
    owner: usize,
    first_line: usize,
    instructions: usize,
    /// The characters of a string, when all are ASCII and otherwise.
    ascii: usize,
    characters: usize,
}

/// The frame's last instruction, and what is in the same place of code objects and strings in all versions.
const INSTRUCTION: usize = 56;
const TYPE: usize = 8;
const FILE: usize = 112;
const NAME: usize = 128;
const LINES: usize = 136;
const LENGTH: usize = 16;
const HASH: usize = 24;
const STATE: usize = 32;
const BYTES: usize = 32;

/// The bits of a reference from a frame that are none of the address (`_PyStackRef`, from 3.14 on; 0 before).
const TAG: usize = 3;

/// Layouts by version.
static LAYOUTS: [(u64, Layout); 4] = [
    (
        0x030b,
        Layout {
            frame: &[56, 8],
            code: 32,
            previous: 48,
            foreign: 3,
            owner: 69,
            first_line: 72,
            instructions: 184,
            ascii: 48,
            characters: 72,
        },
    ),
    (
        0x030c,
        Layout {
            frame: &[56, 0],
            code: 0,
            previous: 8,
            foreign: 3,
            owner: 70,
            first_line: 68,
            instructions: 192,
            ascii: 40,
            characters: 56,
        },
    ),
    (
        0x030d,
        Layout {
            frame: &[72],
            code: 0,
            previous: 8,
            foreign: 3,
            owner: 70,
            first_line: 68,
            instructions: 200,
            ascii: 40,
            characters: 56,
        },
    ),
    (
        0x030e,
        Layout {
            frame: &[72],
            code: 0,
            previous: 8,
            foreign: 3,
            owner: 74,
            first_line: 68,
            instructions: 208,
            ascii: 40,
            characters: 56,
        },
    ),
];

/// The layout of the interpreter in this process; null while frames are not read.
static LAYOUT: AtomicPtr<Layout> = AtomicPtr::new(null_mut());

/// CPython's `PyGILState_GetThisThreadState`, and its type of code objects.
static STATE_OF_THREAD: AtomicPtr<c_void> = AtomicPtr::new(null_mut());
static CODE_TYPE: AtomicPtr<c_void> = AtomicPtr::new(null_mut());

/// The environment variable that requests Python's frames.
const VARIABLE: &core::ffi::CStr = c"HEAPWRIGHT_RECORD_PYTHON";

/// Looks for an interpreter in the process, once, if its frames are requested. Called without the recorder's lock: the
/// linker allocates when it does not find a name.
pub(crate) fn find() {
    static LOOKED: AtomicBool = AtomicBool::new(false);
    if LOOKED.swap(true, Ordering::Relaxed) || variable(VARIABLE, |_| ()).is_none() {
        return;
    }
    let version = symbol(c"Py_Version").cast::<u64>();
    let (state, code) = (symbol(c"PyGILState_GetThisThreadState"), symbol(c"PyCode_Type"));
    if version.is_null() || state.is_null() || code.is_null() {
        return;
    }
    // SAFETY: CPython defines this constant of the type `unsigned long`.
    let version = unsafe { version.read() } >> 16;
    if version >= PUBLISHED_FROM && !is_with_lock() {
        return;
    }
    STATE_OF_THREAD.store(state, Ordering::Relaxed);
    CODE_TYPE.store(code, Ordering::Relaxed);
    if let Some((_, layout)) = LAYOUTS.iter().find(|(known, _)| *known == version) {
        LAYOUT.store(core::ptr::from_ref(layout).cast_mut(), Ordering::Release);
    }
}

/// The first version that publishes its layout, at the beginning of `_PyRuntime` (`_Py_DebugOffsets`).
const PUBLISHED_FROM: u64 = 0x030d;

/// Returns whether the interpreter has its global lock. Free-threaded builds have the same version, and objects, code
/// objects and frames of another layout.
fn is_with_lock() -> bool {
    let published = symbol(c"_PyRuntime").cast::<[u64; 3]>();
    if published.is_null() {
        return false;
    }
    // SAFETY: CPython defines this variable, which is aligned and far longer. Its first part never changes.
    let [cookie, _version, free_threaded] = unsafe { published.read() };
    cookie.to_ne_bytes() == *b"xdebugpy" && free_threaded == 0
}

/// A frame of a Python function.
#[derive(Clone, Copy)]
struct Frame {
    code: usize,
    file: usize,
    name: usize,
    /// The index of the instruction that runs.
    instruction: usize,
}

impl Frame {
    /// Returns what tells frames apart: addresses alone do not, because the next code object is often where one was
    /// that has been freed, and so are its strings.
    ///
    /// # Safety
    /// The code object lives.
    unsafe fn identity(&self, layout: &Layout) -> [usize; 7] {
        let Frame { code, file, name, instruction } = *self;
        // SAFETY: the code object lives, and with it its strings and its table.
        unsafe {
            let first = word(code + layout.first_line) as u32 as usize;
            let (length, lines) = (word(code + LENGTH), word(word(code + LINES) + LENGTH));
            [code, instruction, first, length, lines, characters_of(layout, file), characters_of(layout, name)]
        }
    }
}

/// Reads a word of a structure of CPython's.
///
/// # Safety
/// `at` is the address of a word of a live structure.
unsafe fn word(at: usize) -> usize {
    // SAFETY: as this function requires.
    unsafe { core::ptr::with_exposed_provenance::<usize>(at).read_unaligned() }
}

/// Adds the Python functions in which the calling thread is, if it is in any; returns `false` when the buffer has no
/// room.
///
/// # Safety
/// The buffer is the calling thread's, which is not writing to it.
pub(crate) unsafe fn add_frames(buffer: &Buffer, paths: &Paths) -> bool {
    let Some(layout) = NonNull::new(LAYOUT.load(Ordering::Acquire)) else { return true };
    // SAFETY: the layout lies in static memory. The frames are those of this thread, which is in this function.
    let (layout, mut frames, mut hashes) = (unsafe { layout.as_ref() }, [None; PYTHON], [0; PYTHON]);
    // SAFETY: as above.
    let count = unsafe { read_frames(layout, &mut frames) };
    if count == 0 {
        return true;
    }
    for (hash, frame) in hashes.iter_mut().zip(frames.iter().flatten()) {
        // SAFETY: the frame was read just now, in this thread, and its code object lives.
        *hash = Paths::hash_of_python_frame(&unsafe { frame.identity(layout) });
    }
    let hashes = &hashes[..count];
    let name_of = |index: usize, text: &mut [u8]| {
        // SAFETY: the frame was read just now, in this thread, and lives.
        frames[index].map_or(PythonName { line: 0, length: 0 }, |frame| unsafe { name(layout, frame, text) })
    };
    // SAFETY: as this function requires.
    unsafe { buffer.add_python(paths, hashes, name_of) }
}

/// Reads the frames of the calling thread, innermost first; returns their number.
///
/// # Safety
/// The layout is that of the interpreter in this process.
unsafe fn read_frames(layout: &Layout, frames: &mut [Option<Frame>; PYTHON]) -> usize {
    // SAFETY: CPython defines this function with this signature. The thread's state lives as long as the function
    // returns it; its frames and their code objects live while the thread is in them.
    unsafe {
        let state_of_thread: unsafe extern "C" fn() -> usize = transmute(STATE_OF_THREAD.load(Ordering::Relaxed));
        let mut frame = state_of_thread();
        for distance in layout.frame {
            if frame == 0 {
                return 0;
            }
            frame = word(frame + distance);
        }
        let mut count = 0;
        while frame != 0 && count < PYTHON {
            let (code, owner) = (word(frame + layout.code) & !TAG, word(frame + layout.owner) as u8);
            if owner < layout.foreign && code != 0 && word(code + TYPE) == CODE_TYPE.load(Ordering::Relaxed).addr() {
                let instruction = word(frame + INSTRUCTION).wrapping_sub(code + layout.instructions) / 2;
                let (file, name) = (word(code + FILE), word(code + NAME));
                frames[count] = Some(Frame { code, file, name, instruction });
                count += 1;
            }
            frame = word(frame + layout.previous);
        }
        count
    }
}

/// Writes the name of a frame's function and of its file, each followed by a zero byte, and returns the line.
///
/// # Safety
/// The code object lives.
unsafe fn name(layout: &Layout, frame: Frame, text: &mut [u8]) -> PythonName {
    // SAFETY: the code object lives, and with it its strings.
    unsafe {
        let half = text.len() / 2;
        let mut length = copy_string(layout, frame.name, &mut text[..half]);
        length += copy_string(layout, frame.file, &mut text[length..]);
        let first = word(frame.code + layout.first_line) as u32;
        PythonName { line: line(word(frame.code + LINES), first, frame.instruction), length }
    }
}

/// Copies the characters of a string as UTF-8, and a zero byte. Of one that is too long it copies the end, behind a
/// hash of the whole: functions of equal ends are told apart. Returns the number of bytes.
///
/// # Safety
/// The string lives.
unsafe fn copy_string(layout: &Layout, string: usize, text: &mut [u8]) -> usize {
    /// The characters that are looked at, the last ones.
    const MOST: usize = 4096;
    // SAFETY: the string lives, and so do its characters.
    unsafe {
        let Some(Characters { at, length, kind }) = Characters::of(layout, string) else {
            text[0] = 0;
            return 1;
        };
        let character = |index: usize| char::from_u32(word_of_kind(at + index * kind, kind)).unwrap_or('?');
        copy_end(length.saturating_sub(MOST)..length, character, text)
    }
}

/// The characters of a string: where they are, how many, and the bytes of each.
struct Characters {
    at: usize,
    length: usize,
    kind: usize,
}

impl Characters {
    /// Finds the characters of a string; `None` if they are not behind its structure.
    ///
    /// # Safety
    /// The string lives.
    unsafe fn of(layout: &Layout, string: usize) -> Option<Characters> {
        /// The bits of a string's state.
        const KIND: u32 = 2;
        const COMPACT: usize = 1 << 5;
        const ASCII: usize = 1 << 6;
        // SAFETY: the string lives; a compact one has its characters behind the structure, `kind` bytes each.
        let (length, state) = unsafe { (word(string + LENGTH), word(string + STATE)) };
        let kind = state >> KIND & 7;
        let at = string + if state & ASCII != 0 { layout.ascii } else { layout.characters };
        (state & COMPACT != 0 && matches!(kind, 1 | 2 | 4)).then_some(Characters { at, length, kind })
    }
}

/// Returns a number that tells strings apart by their characters: the hash that CPython keeps in the string once it was
/// asked for, else one of the length and of both ends.
///
/// # Safety
/// The string lives.
unsafe fn characters_of(layout: &Layout, string: usize) -> usize {
    /// CPython's hash of a string that was not asked for.
    const UNKNOWN: usize = usize::MAX;
    /// The most bytes of each end.
    const END: usize = 16;
    // SAFETY: the string lives, and so do its characters.
    unsafe {
        let hash = word(string + HASH);
        if hash != UNKNOWN {
            return hash;
        }
        let Some(Characters { at, length, kind }) = Characters::of(layout, string) else { return UNKNOWN };
        let bytes = core::slice::from_raw_parts(core::ptr::with_exposed_provenance::<u8>(at), length * kind);
        let ends = [&bytes[..bytes.len().min(END)], &bytes[bytes.len().saturating_sub(END)..]];
        let mix = |hash: usize, word: usize| (hash.rotate_left(23) ^ word).wrapping_mul(GOLDEN_RATIO as usize);
        ends.into_iter().fold(length, |hash, end| {
            let (words, rest) = end.as_chunks();
            let hash = words.iter().fold(hash, |hash, word| mix(hash, usize::from_le_bytes(*word)));
            rest.iter().fold(hash, |hash, &byte| mix(hash, byte.into()))
        })
    }
}

/// Copies characters as [`copy_string`] does.
fn copy_end(characters: Range<usize>, character: impl Fn(usize) -> char, text: &mut [u8]) -> usize {
    let room = text.len() - 1;
    let mut left: usize = characters.clone().map(|index| character(index).len_utf8()).sum();
    let mut mark = Line::<16>::new();
    if left > room || characters.start != 0 {
        let hash = characters
            .clone()
            .fold(0x811c_9dc5, |hash: u32, index| (hash ^ u32::from(character(index))).wrapping_mul(0x0100_0193));
        let _ = write!(mark, "…{hash:08x}…");
    }
    let mut written = mark.bytes().len().min(room);
    text[..written].copy_from_slice(&mark.bytes()[..written]);
    for character in characters.map(character) {
        let fits = left <= room - written;
        left -= character.len_utf8();
        if fits {
            written += character.encode_utf8(&mut text[written..]).len();
        }
    }
    text[written] = 0;
    written + 1
}

/// Reads a character of 1, 2 or 4 bytes.
///
/// # Safety
/// The character exists.
unsafe fn word_of_kind(at: usize, kind: usize) -> u32 {
    // SAFETY: as this function requires; characters are aligned.
    unsafe {
        match kind {
            1 => core::ptr::with_exposed_provenance::<u8>(at).read().into(),
            2 => core::ptr::with_exposed_provenance::<u16>(at).read().into(),
            _ => core::ptr::with_exposed_provenance::<u32>(at).read(),
        }
    }
}

/// Returns the line of an instruction by a code object's table of locations (CPython's `Objects/locations.md`); the
/// first line of the function when the table does not say.
///
/// # Safety
/// `table` is a bytes object that lives.
unsafe fn line(table: usize, first: u32, instruction: usize) -> u32 {
    // SAFETY: the bytes object lives and has as many bytes.
    let bytes = unsafe {
        core::slice::from_raw_parts(core::ptr::with_exposed_provenance::<u8>(table + BYTES), word(table + LENGTH))
    };
    line_in(bytes, first, instruction)
}

fn line_in(mut bytes: &[u8], first: u32, instruction: usize) -> u32 {
    let (mut line, mut at) = (i64::from(first), 0);
    while let Some((&head, rest)) = bytes.split_first() {
        let length = rest.iter().position(|byte| byte & 0x80 != 0).unwrap_or(rest.len());
        let (entry, behind) = rest.split_at(length);
        let kind = head >> 3 & 15;
        line += match kind {
            13 | 14 => signed(entry),
            10..=12 => i64::from(kind) - 10,
            _ => 0,
        };
        at += usize::from(head & 7) + 1;
        if at > instruction {
            return if kind == 15 { first } else { line as u32 };
        }
        bytes = behind;
    }
    first
}

/// Reads a number of six bits per byte, of which the lowest is the sign.
fn signed(bytes: &[u8]) -> i64 {
    let (mut value, mut shift) = (0_u64, 0);
    for &byte in bytes.iter().take(8) {
        value |= u64::from(byte & 63) << shift;
        shift += 6;
        if byte & 64 == 0 {
            break;
        }
    }
    let magnitude = (value >> 1) as i64;
    if value & 1 == 0 { magnitude } else { -magnitude }
}
