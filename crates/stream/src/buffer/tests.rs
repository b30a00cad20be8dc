//! Tests of buffers.

use std::boxed::Box;
use std::vec::Vec;

use super::*;
use crate::record::{Call, Record};

fn open() -> Box<Buffer> {
    // SAFETY: a buffer consists of integers, for which zeros are valid; all zeros is a free buffer.
    let buffer = unsafe { Box::<Buffer>::new_zeroed().assume_init() };
    buffer.begin(3, thread_id());
    buffer
}

const RECORD: Record = Record { call: Call::Malloc, log2_align: 4, size: 7, address: 0x100 };

/// The entries of a buffer with the slots that they begin at, as a reader sees them.
fn entries(buffer: &Buffer) -> Vec<(u32, Entry)> {
    let mut at = 0;
    let next = || {
        let entry = (at < buffer.count()).then(|| (at, buffer.entry(at).unwrap()))?;
        at += entry.1.slots();
        Some(entry)
    };
    core::iter::from_fn(next).collect()
}

#[test]
#[cfg_attr(miri, ignore = "there are no registers")]
fn a_call_has_its_stack_as_long_as_there_is_room() {
    let _alone = turns::alone();
    let (buffer, mut calls, marked) = (open(), 0, [0x0123_4567_89ab_cdef_u64; 4]);
    // SAFETY: the buffer is open, and this thread is its owner.
    while unsafe { buffer.append_with_stack(core::hint::black_box(RECORD.packed()), Some(calls), None) } {
        calls += 1;
    }
    core::hint::black_box(&marked);
    assert_eq!(Entry::Stack { length: STACK as u32, instruction: 0 }.slots(), STACK_HEAD + (STACK / SLOT) as u32);
    let entries = entries(&buffer);
    let stacks: Vec<Stack<'_>> = entries.iter().filter_map(|&(at, _)| buffer.stack(at)).collect();
    assert_eq!(stacks.len() as u64, calls);
    assert!(calls >= u64::from(SLOTS) / (STACK / SLOT + 5) as u64, "{calls}");
    for stack in &stacks {
        assert!(stack.bytes.len() <= STACK && stack.place.stack < marked.as_ptr().addr() as u64);
        assert!(stack.bytes.windows(32).any(|bytes| bytes == marked.map(u64::to_le_bytes).as_flattened()));
    }
    let count = |wanted: fn(&Entry) -> bool| entries.iter().filter(|(_, entry)| wanted(entry)).count() as u64;
    assert_eq!(count(|entry| matches!(entry, Entry::Call(_))), calls);
    assert_eq!(count(|entry| matches!(entry, Entry::Time(_))), calls);
}

#[test]
fn a_mapping_is_read_as_it_was_written() {
    let _alone = turns::alone();
    let buffer = open();
    let path = [b'p'; 4096];
    let written = [1, 15, 16, 17, 4096].map(|length| {
        let path = &path[..length];
        Mapping { range: 0x1000..0x5000, is_executable: true, is_guard: false, offset: 0x7000, file: 0xfe_dcba, path }
    });
    for mapping in &written {
        assert!(buffer.has_room_for(entry_of(mapping).slots()));
        buffer.add_mapping(mapping);
    }
    assert!(entries(&buffer).iter().filter_map(|&(at, _)| buffer.mapping(at)).eq(written));
    assert!(!buffer.has_room_for(SLOTS) && !buffer.has_room_for(u32::MAX));
}

#[test]
fn unmapped_code_is_read_as_it_was_written() {
    let _alone = turns::alone();
    let (buffer, ranges) = (open(), [0..1, 0x7f00_0000_1000..0x7f00_0000_1234, 5..(1 << 56) + 4]);
    // SAFETY: the buffer is open, and this thread is its owner.
    assert!(ranges.iter().all(|range| unsafe { buffer.add_unmapped(range) }));
    let written = ranges.map(|range| Entry::Unmapped { start: range.start as u64, length: range.len() as u64 });
    assert_eq!(entries(&buffer)[2..].iter().map(|&(_, entry)| entry).collect::<Vec<_>>(), written);
    // SAFETY: the buffer is open, and this thread is its owner.
    assert!((0..SLOTS).any(|_| !unsafe { buffer.add_unmapped(&(1..2)) }), "there is no room at last");
}

#[test]
fn what_the_process_uses_is_read_as_it_was_written() {
    let _alone = turns::alone();
    let (buffer, most) = (open(), (1 << 60) - 1);
    let usage = |resident| Usage { nanoseconds: u64::MAX, resident, faults: 7, processor_nanoseconds: u64::MAX };
    let written = [usage(0), usage(most)];
    // SAFETY: the buffer is open, and this thread is its owner.
    written.iter().for_each(|usage| unsafe { buffer.add_usage(usage) });
    assert!(entries(&buffer).iter().filter_map(|&(at, _)| buffer.usage(at)).eq(written));
    // SAFETY: the buffer is open, and this thread is its owner.
    (0..SLOTS).for_each(|_| unsafe { buffer.add_usage(&written[0]) });
    assert!((SLOTS - USAGE_SLOTS..SLOTS).contains(&buffer.count()));
    assert_eq!(buffer.usage(SLOTS - 1), None);
}

#[test]
fn stops_are_half_a_thousand_slots_apart_on_average() {
    let _alone = turns::alone();
    let (mut stops, mut even) = (0, 0);
    for thread in 0..100 {
        let buffer = open();
        buffer.sampler.begin(thread);
        // SAFETY: the buffer is open, and this thread is its owner.
        while unsafe { buffer.pass_stop() } {
            let at = buffer.count();
            loop {
                // SAFETY: the buffer is open, and this thread is its owner.
                match unsafe { buffer.append(RECORD.packed()) } {
                    Appended::Yes => {}
                    // SAFETY: the buffer is open, and this thread is its owner.
                    Appended::TurnOver => unsafe { buffer.append_in_turn(RECORD.packed()) },
                    Appended::Stop => break,
                }
            }
            let slots = buffer.count() - at;
            assert!(slots <= BETWEEN_STOPS * 3 / 2 + BEFORE_END, "{slots}");
            stops += u32::from(buffer.is_at_stop());
            even += u32::from(buffer.is_at_stop() && buffer.count().is_multiple_of(2));
        }
        assert_eq!(buffer.count(), END);
    }
    assert!((650..=800).contains(&stops), "{stops} stops in 100 buffers");
    assert!((stops * 2 / 5..=stops * 3 / 5).contains(&even), "{even} of {stops} at even slots");
}

#[test]
fn an_entry_that_does_not_fit_into_a_buffer_is_refused() {
    let _alone = turns::alone();
    let buffer = open();
    for length in [(BUFFER - 64) as u32, u32::MAX] {
        let entries = [Entry::Stack { length, instruction: 0 }, Entry::Mapping { length, file: 0, offset: 0 }];
        for (at, entry) in (SLOTS - 2..).zip(entries) {
            buffer.put(at, entry.to_words());
            buffer.put(1, entry.to_words());
            assert!(buffer.stack(at).is_none() && buffer.mapping(at).is_none());
            assert!(buffer.stack(1).is_none() && buffer.mapping(1).is_none());
        }
    }
    assert!(buffer.stack(SLOTS).is_none() && buffer.stack(u32::MAX).is_none());
}
