//! Imports random bytes as `memray`.
#![no_main]

use heapwright_fuzz::importing;
use heapwright_trace::import::{Format, Options};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| importing::check(&Options::of(Format::Memray), bytes));
