//! What holds of every import.

use std::cell::RefCell;
use std::io::{self, Sink, Write};

use heapwright_trace::import::{ImportError, Options, Summary, import};
use heapwright_trace::{About, Event, Writer};

use crate::reading;

/// How many imports go into one trace.
const TOGETHER: u32 = 1000;

/// A trace that nobody reads, and how many imports went into it.
type Unread = (Writer<Sink>, u32);

thread_local! {
    static UNREAD: RefCell<Option<Unread>> = const { RefCell::new(None) };
}

/// Imports any bytes; what comes of it is a trace in which every block is freed once at most.
///
/// Beginning a trace, packing and unpacking take longer than all else: a part of the traces is read again, the others go
/// into one that is not.
pub fn check(options: &Options, bytes: &[u8]) {
    if bytes.len().is_multiple_of(8) {
        check_trace(options, bytes);
    } else {
        let _an_error_is_an_answer = import_unread(options, bytes);
    }
}

/// Imports any bytes into a trace that nobody reads.
pub fn import_unread(options: &Options, bytes: &[u8]) -> Result<Summary, ImportError> {
    UNREAD.with_borrow_mut(|unread| {
        let (mut writer, imports) = unread.take().unwrap_or_else(|| (new_trace(io::sink()), 0));
        let imported = import(options, bytes, &mut writer);
        *unread = (imports < TOGETHER).then_some((writer, imports + 1));
        imported
    })
}

fn check_trace(options: &Options, bytes: &[u8]) {
    let mut writer = new_trace(Vec::new());
    let Ok(summary) = import(options, bytes, &mut writer) else { return };
    let file = writer.finish().expect("there is memory");
    let events = reading::read(&file);
    let said = events.iter().filter(|event| !matches!(event, Event::Thread { .. })).count();
    assert_eq!(said as u64, summary.events);
    check_frees(&events);
}

fn new_trace<W: Write>(file: W) -> Writer<W> {
    Writer::new(file, &About::default()).expect("there is memory")
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
