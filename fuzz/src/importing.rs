//! What holds of every import.

use heapwright_trace::import::{Options, import};
use heapwright_trace::{About, Event, Writer};

use crate::reading;

/// Imports any bytes; what comes of it is a trace in which every block is freed once at most.
pub fn check(options: &Options, bytes: &[u8]) {
    let mut writer = Writer::new(Vec::new(), &About::default()).expect("there is memory");
    let Ok(summary) = import(options, bytes, &mut writer) else { return };
    // Packing and unpacking take longer than all else: a part of the traces is enough.
    if !bytes.len().is_multiple_of(8) {
        return;
    }
    let file = writer.finish().expect("there is memory");
    let events = reading::read(&file);
    let said = events.iter().filter(|event| !matches!(event, Event::Thread { .. })).count();
    assert_eq!(said as u64, summary.events);
    check_frees(&events);
}

fn check_frees(events: &[Event]) {
    let mut live = Vec::new();
    for event in events {
        match *event {
            Event::Allocate { .. } => live.push(true),
            Event::Resize { block, .. } => {
                assert!(std::mem::replace(&mut live[block as usize], false), "a block that does not live is resized");
                live.push(true);
            }
            Event::Free { block } => {
                assert!(std::mem::replace(&mut live[block as usize], false), "a block that does not live is freed");
            }
            Event::Failed { .. } | Event::Thread { .. } => {}
        }
    }
}
