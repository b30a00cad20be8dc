//! Properties of every import.

use std::cell::RefCell;
use std::io::{self, Sink, Write};

use heapwright_trace::import::{ImportError, Options, Summary, import};
use heapwright_trace::{About, Event, Writer};

use crate::reading;

/// The number of imports that share an unread trace.
const SHARED_IMPORTS: u32 = 1000;

/// A trace that is not read, and the number of imports into it.
type Unread = (Writer<Sink>, u32);

thread_local! {
    static UNREAD: RefCell<Option<Unread>> = const { RefCell::new(None) };
}

/// Imports random bytes and checks that the trace frees every block at most once.
///
/// Creating, compressing and decompressing a trace take most of the time: one input in eight is checked in a trace of
/// its own, and the others share one that is not read.
pub fn check(options: &Options, bytes: &[u8]) {
    if bytes.len().is_multiple_of(8) {
        check_trace(options, bytes);
    } else {
        let _error_or_summary = import_unread(options, bytes);
    }
}

/// Imports random bytes into a shared trace that is not read.
pub fn import_unread(options: &Options, bytes: &[u8]) -> Result<Summary, ImportError> {
    UNREAD.with_borrow_mut(|unread| {
        let (mut writer, imports) = unread.take().unwrap_or_else(|| (new_trace(io::sink()), 0));
        let imported = import(options, bytes, &mut writer);
        *unread = (imports < SHARED_IMPORTS).then_some((writer, imports + 1));
        imported
    })
}

fn check_trace(options: &Options, bytes: &[u8]) {
    let mut writer = new_trace(Vec::new());
    let Ok(summary) = import(options, bytes, &mut writer) else { return };
    let file = writer.finish().expect("writing to memory succeeds");
    let events = reading::read(&file);
    let without_threads = events.iter().filter(|event| !matches!(event, Event::Thread { .. })).count();
    assert_eq!(without_threads as u64, summary.events);
    check_frees(&events);
}

fn new_trace<W: Write>(file: W) -> Writer<W> {
    Writer::new(file, &About::default()).expect("writing to memory succeeds")
}

fn check_frees(events: &[Event]) {
    let mut live = Vec::new();
    for event in events {
        match *event {
            Event::Allocate { .. } => live.push(true),
            Event::Resize { block, .. } => {
                assert!(std::mem::replace(&mut live[block as usize], false), "a block that is not live is resized");
                live.push(true);
            }
            Event::Free { block } => {
                assert!(std::mem::replace(&mut live[block as usize], false), "a block that is not live is freed");
            }
            Event::Failed { .. } | Event::Thread { .. } => {}
        }
    }
}
