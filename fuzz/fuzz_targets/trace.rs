//! Any bytes as a trace, and traces of any frames: what is read is sound, and can be written and read again.
#![no_main]

use heapwright_fuzz::{frames, reading};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let file = frames::any(bytes);
    let events = reading::read(&file);
    reading::read_in_one_loop(&file, &events);
    // Packing takes longer than all else: a part of the traces is enough.
    if bytes.len() % 16 == 0 && !events.is_empty() {
        reading::write_again(&events);
    }
});
