//! Reads random bytes as a map of perf: an address has the name of the last line that covers it, if no later one
//! overlaps that line's code.
#![no_main]

use heapwright_names::PerfMap;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let map = PerfMap::of(bytes);
    let ranges: Vec<(u64, u64)> = PerfMap::ranges(bytes).collect();
    for (index, &(start, end)) in ranges.iter().enumerate() {
        assert!(start < end);
        let is_whole = ranges[index + 1..].iter().all(|&(other, last)| last <= start || end <= other);
        if is_whole {
            assert!(map.name(start).is_some() && map.name(end - 1) == map.name(start));
        }
    }
});
