//! Properties of every export.

use heapwright_trace::Reader;
use heapwright_trace::export::{self, Extent, FORMATS};
use heapwright_trace::import::Options;

use crate::importing::import_unread;

/// Exports a trace, which may be invalid, to every format and imports the result; every line must be valid.
pub fn check(trace: &[u8]) {
    let Ok(mut reader) = Reader::new(trace) else { return };
    let Ok(extent) = Extent::of(&mut reader) else { return };
    for format in FORMATS {
        let mut text = Vec::new();
        let reader = Reader::new(trace).expect("the trace was readable before");
        // Damage in a side stream is an error only for readers of the stream.
        let Ok(exported) = export::export(format, &extent, reader, &mut text) else { return };
        assert_eq!(exported.operations, extent.operations);
        let summary = import_unread(&Options::of(format), &text).expect("the export is text");
        assert_eq!((summary.not_understood.count, summary.unknown_blocks.count), (0, 0), "{format:?}");
        // Failures are events, but do not count as operations.
        assert!(summary.events >= extent.operations);
        assert!(exported.failures == 0 || summary.events == extent.operations);
    }
}
