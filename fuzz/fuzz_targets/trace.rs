//! Random bytes as a trace, and traces of random frames: the events are valid, and round-trip.
#![no_main]

use heapwright_fuzz::{frames, reading};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let file = frames::any(bytes);
    let events = reading::read(&file);
    reading::read_in_one_loop(&file, &events);
    // Compression takes most of the time, so only one trace in 16 is written.
    if bytes.len() % 16 == 0 && !events.is_empty() {
        reading::write_again(&events);
    }
});
