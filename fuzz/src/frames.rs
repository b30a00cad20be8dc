//! Trace files of any contents, with the checksums that they have to have.

use arbitrary::{Arbitrary, Result, Unstructured};

/// A file that begins as a trace does, and has any frames.
pub fn file(u: &mut Unstructured<'_>) -> Result<Vec<u8>> {
    let mut file = b"hwtrace\0\x01\0\0\0".to_vec();
    put(&mut file, &Frame { kind: 0, ..Frame::default() }, b"program\0any\0");
    let mut next = Frame::default();
    while !u.is_empty() {
        // Most frames follow the one before them.
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
    /// How much longer the header says that the contents are.
    lie: u32,
}

impl Frame {
    fn draw(u: &mut Unstructured<'_>) -> Result<Frame> {
        let few = |u: &mut Unstructured<'_>| u.int_in_range(0..=20u64);
        Ok(Frame { kind: 0, first_event: few(u)?, first_block: few(u)?, events: u.arbitrary()?, lie: u.arbitrary()? })
    }
}

/// The contents of a frame of events, the lengths of its columns mostly right; `next` is the frame that follows it.
fn events(u: &mut Unstructured<'_>, frame: &mut Frame, next: &mut Frame) -> Result<Vec<u8>> {
    let opcodes: Vec<u8> = (0..u.int_in_range(0..=40)?).map(|_| u.int_in_range(0..=7)).collect::<Result<_>>()?;
    let appear = opcodes.iter().filter(|&&opcode| opcode < 4).count() as u64;
    let sized = opcodes.iter().filter(|&&opcode| opcode < 4 || opcode == 6).count();
    let named = opcodes.iter().filter(|&&opcode| opcode == 3 || opcode == 4).count();
    let rest = opcodes.iter().filter(|&&opcode| opcode == 2 || opcode > 4).count();
    let columns = [opcodes.clone(), numbers(u, sized)?, numbers(u, named)?, numbers(u, rest)?];
    let mut contents = Vec::new();
    for column in &columns {
        let lie = if u.ratio(1, 64)? { u.arbitrary()? } else { 0 };
        put_number(&mut contents, column.len() as u64 ^ lie);
    }
    contents.extend(columns.concat());
    frame.events = opcodes.len() as u32;
    next.first_event = frame.first_event + opcodes.len() as u64;
    next.first_block = frame.first_block + appear;
    Ok(contents)
}

/// Numbers, so many or nearly so.
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
    let packed = stored(contents);
    let mut header = b"hwFR".to_vec();
    header.extend(frame.kind.to_le_bytes());
    header.extend(frame.first_event.to_le_bytes());
    header.extend(frame.first_block.to_le_bytes());
    header.extend(frame.events.to_le_bytes());
    header.extend((contents.len() as u32).wrapping_add(frame.lie).to_le_bytes());
    header.extend((packed.len() as u32).to_le_bytes());
    header.extend(crc32fast::hash(&header).to_le_bytes());
    file.extend(header);
    file.extend(packed);
}

/// A zstd frame that holds short contents as they are: nothing has to be packed to make it.
fn stored(contents: &[u8]) -> Vec<u8> {
    const MAGIC: u32 = 0xFD2F_B528;
    // One segment, its length in four bytes, no checksum.
    const DESCRIPTOR: u8 = 0xA0;
    const LAST_RAW_BLOCK: u32 = 1;
    let length = contents.len() as u32;
    let block = LAST_RAW_BLOCK | length << 3;
    [&MAGIC.to_le_bytes(), &[DESCRIPTOR][..], &length.to_le_bytes(), &block.to_le_bytes()[..3], contents].concat()
}

/// A file of any bytes, or of frames with any contents.
pub fn any(bytes: &[u8]) -> Vec<u8> {
    match bytes.split_first() {
        Some((0, rest)) => rest.to_vec(),
        Some((_, rest)) => file(&mut Unstructured::new(rest)).unwrap_or_default(),
        None => Vec::new(),
    }
}
