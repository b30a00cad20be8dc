//! Reads random bytes as a map of perf: an address has the name of the last line that covers it, if no later one
//! overlaps that line's code.
#![no_main]

use std::ops::Range;

use heapwright_names::PerfMap;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let lines = || bytes.split(|&byte| byte == b'\n');
    let ranges: Vec<Range<u64>> = lines().filter_map(PerfMap::range).collect();
    let mut map = PerfMap::at(ranges.iter().flat_map(|code| [code.start, code.end - 1]));
    lines().for_each(|line| map.add_line(line));
    for (index, code) in ranges.iter().enumerate() {
        assert!(code.start < code.end);
        let is_whole = ranges[index + 1..].iter().all(|other| other.end <= code.start || code.end <= other.start);
        if is_whole {
            assert!(map.name(code.start).is_some() && map.name(code.end - 1) == map.name(code.start));
        }
    }
});
