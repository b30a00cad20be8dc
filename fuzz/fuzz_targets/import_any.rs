//! Imports random bytes with detection of format and compression.
#![no_main]

use heapwright_fuzz::importing;
use heapwright_trace::import::Options;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| importing::check(&Options::default(), bytes));
