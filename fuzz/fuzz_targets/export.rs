//! Any trace in every form that is written: it can be imported again, and has the operations that were counted.
#![no_main]

use heapwright_fuzz::{exporting, frames};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| exporting::check(&frames::any(bytes)));
