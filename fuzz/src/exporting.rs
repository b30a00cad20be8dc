//! What holds of every export.

use heapwright_trace::Reader;
use heapwright_trace::export::{self, Extent, FORMATS};
use heapwright_trace::import::Options;

use crate::importing::import_unread;

/// Exports what may be no trace in every form, and imports it again: all of it is understood.
pub fn check(trace: &[u8]) {
    let Ok(reader) = Reader::new(trace) else { return };
    let Ok(extent) = Extent::of(reader) else { return };
    for format in FORMATS {
        let mut text = Vec::new();
        let reader = Reader::new(trace).expect("it was read before");
        // Damage in a side stream is found only by those who read it.
        let Ok(exported) = export::export(format, &extent, reader, &mut text) else { return };
        assert_eq!(exported.operations, extent.operations);
        let summary = import_unread(&Options::of(format), &text).expect("it is a text");
        assert_eq!((summary.not_understood.count, summary.unknown_blocks.count), (0, 0), "{format:?}");
        // Failures are events too, and not counted as operations.
        assert!(summary.events >= extent.operations);
        assert!(exported.failures == 0 || summary.events == extent.operations);
    }
}
