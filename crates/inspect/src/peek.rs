//! What blocks contain, recognised by their first bytes: C++ objects by the run-time type information behind their
//! vtables, text, pointers. Only when asked: contents may be private.

mod classes;
mod statics;

use std::collections::{BTreeMap, HashMap};
use std::str::from_utf8;

use serde::Serialize;

use self::classes::Classes;
pub use self::statics::{MappedFiles, Statics};
use crate::glibc::{Block, SizeClass};
use crate::mappings::Mapping;
use crate::memory::Memory;

/// Blocks that are looked at, of those shorter than [`LONG`].
const SAMPLE: usize = 100_000;

/// Blocks from this length on are all looked at, up to [`SAMPLE`]: few of them are many bytes.
const LONG: u64 = 16 << 10;

/// Bytes of a block that are looked at.
const LOOKED_AT: usize = 64;

/// A text is at least as long.
const SHORTEST_TEXT: usize = 4;

/// Characters by which texts are told apart.
const START_OF_TEXT: usize = 24;

/// A chunk's size counts the header of the chunk behind it, which the program does not have.
const NOT_THE_PROGRAMS: u64 = 8;

/// What blocks contain.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Contents {
    /// Number of blocks that were looked at.
    pub looked_at: u64,
    /// Number of blocks. If more than were looked at, the figures below are scaled.
    pub blocks: u64,
    /// Blocks by what they contain, most bytes first.
    pub kinds: Vec<Figures>,
    /// Blocks with text by its start, most bytes first.
    pub texts: Vec<Figures>,
}

/// Blocks that contain the same.
#[derive(Clone, Debug, Serialize)]
pub struct Figures {
    /// What they contain.
    pub name: String,
    /// Their number and bytes.
    #[serde(flatten)]
    pub size: SizeClass,
}

/// What a block contains.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
enum Kind {
    /// An object of this C++ class.
    Object(String),
    /// Text that starts so.
    Text(String),
    /// First a pointer to a block.
    PointerToBlock,
    /// First a pointer into this file.
    PointerInto(String),
    /// Zeroes, as far as it was looked at.
    Zeroes,
    /// Its first page is not in memory.
    NotInMemory,
    /// None of these.
    Other,
}

impl Kind {
    fn name(&self) -> String {
        match self {
            Kind::Object(class) => format!("class {class}"),
            Kind::Text(_) => "text".to_owned(),
            Kind::PointerToBlock => "first a pointer to a block".to_owned(),
            Kind::PointerInto(file) => format!("first a pointer into {file}"),
            Kind::Zeroes => "zeroes".to_owned(),
            Kind::NotInMemory => "not in memory".to_owned(),
            Kind::Other => "not recognised".to_owned(),
        }
    }
}

/// Looks into `blocks`, in address order, of `heap`, with the `mappings` of the process and what is `static` in it.
///
/// Time and memory are bounded: at most a fixed number of blocks is looked at.
pub fn look(heap: &impl Memory, blocks: &[Block], mappings: &[Mapping], statics: &dyn Statics) -> Contents {
    let (long, short): (Vec<Block>, Vec<Block>) = blocks.iter().partition(|block| block.bytes >= LONG);
    let mut classes = Classes::new(mappings, statics);
    let mut found: HashMap<Kind, SizeClass> = HashMap::new();
    let mut looked_at = 0;
    for stratum in [long, short] {
        let sample = sample(&stratum);
        looked_at += sample.len() as u64;
        let scale = stratum.len() as f64 / sample.len().max(1) as f64;
        let mut of_sample: HashMap<Kind, SizeClass> = HashMap::new();
        for block in sample {
            of_sample.entry(kind(heap, block, blocks, &mut classes)).or_default().add(block.bytes);
        }
        for (kind, size) in of_sample {
            let all = found.entry(kind).or_default();
            all.blocks += (size.blocks as f64 * scale).round() as u64;
            all.bytes += (size.bytes as f64 * scale).round() as u64;
        }
    }
    let (mut kinds, mut texts) = (BTreeMap::<String, SizeClass>::new(), Vec::new());
    for (kind, size) in found {
        let all = kinds.entry(kind.name()).or_default();
        all.blocks += size.blocks;
        all.bytes += size.bytes;
        if let Kind::Text(name) = kind {
            texts.push(Figures { name, size });
        }
    }
    let kinds = kinds.into_iter().map(|(name, size)| Figures { name, size }).collect();
    Contents { looked_at, blocks: blocks.len() as u64, kinds: sorted(kinds), texts: sorted(texts) }
}

fn sorted(mut figures: Vec<Figures>) -> Vec<Figures> {
    figures.sort_by(|one, other| (other.size.bytes, &one.name).cmp(&(one.size.bytes, &other.name)));
    figures
}

/// Returns all blocks, or one at random of each of [`SAMPLE`] runs of neighbours, the same ones in every run.
fn sample(blocks: &[Block]) -> Vec<&Block> {
    if blocks.len() <= SAMPLE {
        return blocks.iter().collect();
    }
    let mut random = fastrand::Rng::with_seed(1);
    let start = |run: usize| (run as u128 * blocks.len() as u128 / SAMPLE as u128) as usize;
    (0..SAMPLE).map(|run| &blocks[random.usize(start(run)..start(run + 1))]).collect()
}

fn kind(heap: &impl Memory, block: &Block, blocks: &[Block], classes: &mut Classes) -> Kind {
    let length = block.bytes.saturating_sub(NOT_THE_PROGRAMS).min(LOOKED_AT as u64) as usize;
    let mut bytes = [0; LOOKED_AT];
    let bytes = &mut bytes[..length];
    // What lies on the page behind is left out.
    if !heap.read(block.address, bytes) && heap.word(block.address).is_none() {
        return Kind::NotInMemory;
    }
    if bytes.iter().all(|byte| *byte == 0) {
        return Kind::Zeroes;
    }
    // Before texts: some pointers are six letters.
    let first = bytes.first_chunk().map_or(0, |word| u64::from_le_bytes(*word));
    if let Some(class) = classes.class(first) {
        return Kind::Object(class);
    }
    if is_in_a_block(blocks, first) {
        return Kind::PointerToBlock;
    }
    if let Some(file) = classes.file(first) {
        return Kind::PointerInto(file.to_owned());
    }
    text(bytes).map_or(Kind::Other, Kind::Text)
}

/// Whether `address` lies in one of `blocks`, which are in address order.
fn is_in_a_block(blocks: &[Block], address: u64) -> bool {
    let behind = blocks.partition_point(|block| block.address <= address);
    behind.checked_sub(1).is_some_and(|at| address - blocks[at].address < blocks[at].bytes)
}

/// Returns the start of a text: at least a few characters up to a zero or the end of what is known.
fn text(bytes: &[u8]) -> Option<String> {
    let is_cut = !bytes.contains(&0);
    let text = bytes.split(|byte| *byte == 0).next()?;
    let text = match from_utf8(text) {
        Ok(text) => text,
        // A character may be cut.
        Err(error) if is_cut && error.error_len().is_none() => from_utf8(&text[..error.valid_up_to()]).ok()?,
        Err(_) => return None,
    };
    let is_plain = |letter: char| !letter.is_control() || matches!(letter, '\n' | '\r' | '\t');
    if text.len() < SHORTEST_TEXT || !text.chars().all(is_plain) {
        return None;
    }
    // Numbers can be printable characters by chance; few of these are then letters.
    let has_a_word = text.bytes().filter(u8::is_ascii_alphanumeric).count() * 2 >= text.len() || !text.is_ascii();
    let start = || text.chars().take(START_OF_TEXT).flat_map(char::escape_debug).collect();
    has_a_word.then(start)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::image::Image;

    #[test]
    fn texts_are_told_from_other_data() {
        for (bytes, expected) in [
            (&b"hello, world\0\x01\x02"[..], Some("hello, world")),
            (b"GET /index.html HTTP/1.1\r\n", Some("GET /index.html HTTP/1.1")),
            (b"a\tb c\nd\0", Some("a\\tb c\\nd")),
            ("Grüße aus Köln".as_bytes(), Some("Grüße aus Köln")),
            // The last character is cut.
            (&"Grüße aus Kö".as_bytes()[..14], Some("Grüße aus K")),
            (b"abc\0", None),
            (b"\x1b[2Jabcdefgh\0", None),
            (b"\x10\x20\x30\x40\x55\x55\0\0", None),
            (b"((((((((", None),
            (b"", None),
        ] {
            assert_eq!(text(bytes).as_deref(), expected, "{bytes:?}");
        }
    }

    #[test]
    fn more_blocks_than_are_looked_at_are_scaled() {
        let mut heap = Image::default();
        heap.push(4096, [b"abcdefgh".as_slice(), &[0; 24], &[1; 32]].concat());
        let text = Block { address: 4096, bytes: 32 };
        let other = Block { address: 4128, bytes: 32 };
        let long = Block { address: 1 << 40, bytes: 1 << 20 };
        let blocks: Vec<Block> =
            (0..400_000).map(|number| if number % 4 == 0 { text } else { other }).chain([long]).collect();
        let contents = look(&heap, &blocks, &[], &Nothing);
        assert_eq!((contents.looked_at, contents.blocks), (SAMPLE as u64 + 1, 400_001));
        let of = |name: &str| contents.kinds.iter().find(|kind| kind.name == name).unwrap().size;
        assert!(of("text").blocks.abs_diff(100_000) < 1_000, "{contents:?}");
        assert_eq!(of("text").blocks + of("not recognised").blocks, 400_000);
        assert_eq!(of("not in memory"), SizeClass { blocks: 1, bytes: 1 << 20 });
        assert_eq!(contents.texts[0].name, "abcdefgh");
    }

    struct Nothing;

    impl Statics for Nothing {
        fn read(&self, _: u64, _: &mut [u8]) -> bool {
            false
        }
    }
}
