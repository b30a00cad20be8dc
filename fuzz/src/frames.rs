//! Generates trace files with random contents and valid checksums.

use arbitrary::{Arbitrary, Result, Unstructured};

/// Returns a file with the header of a trace and random frames.
pub fn file(u: &mut Unstructured<'_>) -> Result<Vec<u8>> {
    let mut file = b"hwtrace\0\x01\0\0\0".to_vec();
    put(&mut file, &Frame { kind: 0, ..Frame::default() }, b"program\0any\0");
    let mut next = Frame::default();
    while !u.is_empty() {
        // Most frames continue the one before.
        let mut frame = if u.ratio(1, 16)? { Frame::draw(u)? } else { next };
        frame.kind = u.int_in_range(0..=7)?;
        let contents = if frame.kind == 1 { events(u, &mut frame, &mut next)? } else { side(u)? };
        put(&mut file, &frame, &contents);
    }
    Ok(file)
}

#[derive(Clone, Copy, Default)]
struct Frame {
    kind: u32,
    first_event: u64,
    first_block: u64,
    events: u32,
    /// The error of the length in the header.
    length_error: u32,
}

impl Frame {
    fn draw(u: &mut Unstructured<'_>) -> Result<Frame> {
        let few = |u: &mut Unstructured<'_>| u.int_in_range(0..=20u64);
        Ok(Frame {
            kind: 0,
            first_event: few(u)?,
            first_block: few(u)?,
            events: u.arbitrary()?,
            length_error: u.arbitrary()?,
        })
    }
}

/// Returns the contents of a frame of events with mostly valid column lengths; `next` is the frame that follows.
fn events(u: &mut Unstructured<'_>, frame: &mut Frame, next: &mut Frame) -> Result<Vec<u8>> {
    let opcodes: Vec<u8> = (0..u.int_in_range(0..=40)?).map(|_| u.int_in_range(0..=7)).collect::<Result<_>>()?;
    let created = opcodes.iter().filter(|&&opcode| opcode < 4).count() as u64;
    let sized = opcodes.iter().filter(|&&opcode| opcode < 4 || opcode == 6).count();
    let named = opcodes.iter().filter(|&&opcode| opcode == 3 || opcode == 4).count();
    let rest = opcodes.iter().filter(|&&opcode| opcode == 2 || opcode > 4).count();
    let columns = [opcodes.clone(), numbers(u, sized)?, numbers(u, named)?, numbers(u, rest)?];
    let mut contents = Vec::new();
    for column in &columns {
        let error = if u.ratio(1, 64)? { u.arbitrary()? } else { 0 };
        put_number(&mut contents, column.len() as u64 ^ error);
    }
    contents.extend(columns.concat());
    frame.events = opcodes.len() as u32;
    next.first_event = frame.first_event + opcodes.len() as u64;
    next.first_block = frame.first_block + created;
    Ok(contents)
}

/// Returns `count` random numbers, sometimes a different count.
fn numbers(u: &mut Unstructured<'_>, count: usize) -> Result<Vec<u8>> {
    let count = if u.ratio(1, 64)? { u.int_in_range(0..=60)? } else { count };
    let mut bytes = Vec::new();
    for _ in 0..count {
        let number = if u.ratio(1, 16)? { u.arbitrary()? } else { u.int_in_range(1..=6)? };
        put_number(&mut bytes, number);
    }
    Ok(bytes)
}

fn side(u: &mut Unstructured<'_>) -> Result<Vec<u8>> {
    let length = u.int_in_range(0..=60)?.min(u.len());
    let mut bytes = u.bytes(length)?.to_vec();
    if bool::arbitrary(u)? {
        bytes.push(0);
    }
    Ok(bytes)
}

fn put_number(bytes: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        bytes.push(value as u8 | 0x80);
        value >>= 7;
    }
    bytes.push(value as u8);
}

fn put(file: &mut Vec<u8>, frame: &Frame, contents: &[u8]) {
    let compressed = stored(contents);
    let mut header = b"hwFR".to_vec();
    header.extend(frame.kind.to_le_bytes());
    header.extend(frame.first_event.to_le_bytes());
    header.extend(frame.first_block.to_le_bytes());
    header.extend(frame.events.to_le_bytes());
    header.extend((contents.len() as u32).wrapping_add(frame.length_error).to_le_bytes());
    header.extend((compressed.len() as u32).to_le_bytes());
    header.extend(crc32fast::hash(&header).to_le_bytes());
    file.extend(header);
    file.extend(compressed);
}

/// Returns a zstd frame that stores short contents uncompressed, which is fast to create.
fn stored(contents: &[u8]) -> Vec<u8> {
    const MAGIC: u32 = 0xFD2F_B528;
    // One segment, its length in four bytes, no checksum.
    const DESCRIPTOR: u8 = 0xA0;
    const LAST_RAW_BLOCK: u32 = 1;
    let length = contents.len() as u32;
    let block = LAST_RAW_BLOCK | length << 3;
    [&MAGIC.to_le_bytes(), &[DESCRIPTOR][..], &length.to_le_bytes(), &block.to_le_bytes()[..3], contents].concat()
}

/// Returns a file of random bytes, or of frames with random contents.
pub fn any(bytes: &[u8]) -> Vec<u8> {
    match bytes.split_first() {
        Some((0, rest)) => rest.to_vec(),
        Some((_, rest)) => file(&mut Unstructured::new(rest)).unwrap_or_default(),
        None => Vec::new(),
    }
}
