//! Exports random traces to every format: the result can be imported, and has the counted operations.
#![no_main]

use heapwright_fuzz::{exporting, frames};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| exporting::check(&frames::any(bytes)));
