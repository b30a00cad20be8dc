//! Claimed addresses: what limits count, and what is in the way.

mod common;

use std::io::Read;
use std::ptr::with_exposed_provenance_mut;
use std::sync::LazyLock;
use std::time::{Duration, Instant};

use common::{Child, Outcome};
use heapwright_os::{
    Reservation, each_mapping, give_addresses_back, map, page_size, platform, purge, take_addresses_back, unmap,
};

const MIB: usize = 1 << 20;

/// The length of a long range: 1 TiB where the system maps that at once, as Linux does. Emulators that keep a record of
/// every page need a minute for it. A length counts if one of several tries took no longer than a moment.
static LONG: LazyLock<usize> = LazyLock::new(|| {
    const MOMENT: Duration = Duration::from_millis(20);
    let is_mapped_at_once = |length: usize| {
        let start = Instant::now();
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
        // SAFETY: a new mapping that replaces no other, and is not used.
        unsafe {
            let mapped = libc::mmap(with_exposed_provenance_mut(0), length, libc::PROT_NONE, flags, -1, 0);
            mapped != libc::MAP_FAILED && libc::munmap(mapped, length) == 0 && start.elapsed() < MOMENT
        }
    };
    let lengths = (28..=40).step_by(2).map(|power| 1_usize << power);
    lengths.take_while(|&length| (0..10).any(|_| is_mapped_at_once(length))).last().unwrap_or(1 << 28)
});

/// Whether ranges of any length are mapped at once.
fn maps_long_ranges() -> bool {
    *LONG == 1 << 40
}

fn limit(what: libc::__rlimit_resource_t, bytes: usize) -> bool {
    let limit = libc::rlimit { rlim_cur: bytes as u64, rlim_max: bytes as u64 };
    // SAFETY: the structure lives as long as the call.
    unsafe { libc::setrlimit(what, &limit) == 0 }
}

/// Whether this limit was set. Emulators, which need memory of their own, ignore limits on it.
fn is_limited(what: libc::__rlimit_resource_t, bytes: usize) -> bool {
    let mut found = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: the structure lives as long as the call.
    unsafe { libc::getrlimit(what, &mut found) == 0 && found.rlim_cur == bytes as u64 }
}

/// A figure of `/proc/self/status` in bytes. Does not allocate.
fn status(name: &str) -> usize {
    let mut text = [0; 8192];
    let read = std::fs::File::open("/proc/self/status").and_then(|mut file| file.read(&mut text)).unwrap_or(0);
    let text = std::str::from_utf8(&text[..read]).unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix(name)).unwrap_or_default();
    line.split_ascii_whitespace().next().and_then(|number| number.parse::<usize>().ok()).map_or(0, |kib| kib * 1024)
}

/// How many mappings lie in `length` bytes from `base` on, and how long they are together. Does not allocate.
fn mapped(base: usize, length: usize) -> (usize, usize) {
    let (mut mappings, mut bytes) = (0, 0);
    let visited = each_mapping(&mut [0; 8192], |mapping| {
        // The system may have merged a mapping with one of another test beside the range.
        let (start, end) = (mapping.range.start.max(base), mapping.range.end.min(base + length));
        if start < end {
            mappings += 1;
            bytes += end - start;
        }
    });
    assert!(visited.is_ok());
    (mappings, bytes)
}

fn write(range: &Reservation, to: usize) {
    assert!(to <= range.extent());
    // SAFETY: the bytes lie below the extent, and nothing else uses them.
    unsafe { range.base().write_bytes(7, to) };
}

#[test]
fn a_claim_counts_nowhere_and_merges_as_it_grows() {
    let long = *LONG;
    assert!(Child::run(|| claim_and_grow(long)).wait());
}

fn claim_and_grow(long: usize) -> Outcome {
    let before = (status("VmSize:"), status("VmData:"));
    let mut range = Reservation::claim(long, 1 << 21).map_err(|_| line!())?;
    let base = range.base().addr().get();
    expect!(base.is_multiple_of(1 << 21));
    expect!((range.length(), range.extent(), mapped(base, long)) == (long, 0, (0, 0)));
    for extent in [1, 2, 17, 300].map(|pages| pages * page_size()) {
        expect!(range.extend(extent).is_ok());
        write(&range, extent);
        expect!((range.extent(), mapped(base, long)) == (extent, (1, extent)));
    }
    expect!(range.extend(page_size()).is_ok());
    expect!(range.extent() == 300 * page_size());
    let after = (status("VmSize:"), status("VmData:"));
    // An emulator's own memory counts too.
    expect!(long != 1 << 40 || (after.0 < before.0 + 4 * MIB && after.1 < before.1 + 4 * MIB));
    drop(range);
    expect!(mapped(base, long) == (0, 0));
    Ok(())
}

#[test]
fn tables_merge_as_they_grow() {
    let mut range = Reservation::claim_table(1 << 34).unwrap();
    let base = range.base().addr().get();
    for extent in [4, 64, 65, 3000].map(|pages| pages * page_size()) {
        range.extend(extent).unwrap();
        assert_eq!(mapped(base, 1 << 34), (1, extent));
    }
    write(&range, 3000 * page_size());
}

/// Whether a mapping of this process that begins at `start` says that it asks for no huge pages.
fn asks_for_small_pages(start: usize) -> bool {
    let text = std::fs::read_to_string("/proc/self/smaps").unwrap_or_default();
    let beginning = format!("{start:x}-");
    let mapping = text.lines().skip_while(|line| !line.starts_with(&beginning));
    mapping.skip(1).find_map(|line| line.strip_prefix("VmFlags:")).is_some_and(|flags| flags.contains(" nh"))
}

/// Whether mappings that ask for no huge pages say so. Systems without huge pages refuse the advice, and emulators that
/// write the list of mappings themselves leave it out.
fn advice_is_told() -> bool {
    let length = 2 * page_size();
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
    // SAFETY: a new mapping that replaces no other, of which only the list is read.
    unsafe {
        let mapped = libc::mmap(with_exposed_provenance_mut(0), length, libc::PROT_READ, flags, -1, 0);
        assert!(mapped != libc::MAP_FAILED);
        let is_taken = libc::madvise(mapped, length, libc::MADV_NOHUGEPAGE) == 0;
        let is_told = is_taken && asks_for_small_pages(mapped.addr());
        libc::munmap(mapped, length);
        is_told
    }
}

#[test]
fn only_a_table_that_could_have_a_huge_page_asks_for_none() {
    let huge = page_size() / 8 * page_size();
    let mut range = Reservation::claim(8 * huge, huge).unwrap();
    let (up, down) = (range.base().addr().get(), range.base().addr().get() + 8 * huge);
    let (mut table, mut below) = (range.cut_table(4 * huge).unwrap(), range.cut_table_below(4 * huge).unwrap());
    for (short, long) in [(huge - page_size(), huge), (huge, 2 * huge)] {
        table.extend(short).unwrap();
        below.extend(short).unwrap();
        let before = [asks_for_small_pages(up), asks_for_small_pages(down - short)];
        assert!(short == huge || before == [false; 2]);
        table.extend(long).unwrap();
        below.extend(long).unwrap();
        let after = [asks_for_small_pages(up), asks_for_small_pages(down - long)];
        assert!(after == [true; 2] || !advice_is_told(), "{after:?}");
        // What was added has become a part of the same mapping.
        assert_eq!([mapped(up, 4 * huge), mapped(down - 4 * huge, 4 * huge)], [(1, long); 2]);
    }
}

#[test]
fn a_table_below_another_shares_its_mapping() {
    assert!(Child::run(grow_both_ways).wait());
}

fn grow_both_ways() -> Outcome {
    let page = page_size();
    let mut range = Reservation::claim(1 << 30, 1 << 21).map_err(|_| line!())?;
    let base = range.base().addr().get();
    let mut below = range.cut_table_below(1 << 20).map_err(|_| line!())?;
    let mut above = range.cut_table(1 << 20).map_err(|_| line!())?;
    expect!(below.end() == above.base() && below.end().addr().get() == base + (1 << 20));
    expect!(above.extend(page).is_ok() && range.extend(page).is_ok() && range.cut_table(page).is_err());
    for pages in [1, 3, 3, 2, 16] {
        expect!(below.extend(pages * page).is_ok());
        let extent = below.extent();
        expect!(extent >= pages * page && mapped(base, 1 << 21) == (1, extent + page));
        // SAFETY: the bytes below the end are mapped as far as the extent, and nothing else uses them.
        unsafe { below.end().sub(extent).write_bytes(7, extent) };
    }
    expect!(below.extend((1 << 20) + page).is_err() && below.extent() == 16 * page);
    drop(below);
    expect!(mapped(base, 1 << 21) == (1, page));
    drop((above, range));
    expect!(mapped(base, 1 << 30) == (0, 0));
    Ok(())
}

#[test]
fn bytes_above_the_extent_are_not_touched() {
    let page = page_size();
    let mut range = Reservation::claim(1 << 30, 1).unwrap();
    range.extend(4 * page).unwrap();
    write(&range, 4 * page);
    // SAFETY: the contents are not needed.
    unsafe {
        purge(range.base().add(page), page).unwrap();
        assert_eq!((range.base().read(), range.base().add(page).read()), (7, 0));
    }
    assert!(range.extend((1 << 30) + page).is_err());
    assert!(Reservation::claim(1 << 60, page).is_err());
    assert!(!range.seems_written(4 * page) && !range.seems_written(page) && range.seems_written(0));
}

/// What a child finds out that may map 64 MiB more, of what the figure of this name is about.
fn under_limits(what: libc::__rlimit_resource_t, name: &str, long: usize) -> Outcome {
    let most = status(name) + 64 * MIB;
    expect!(limit(what, most));
    if !is_limited(what, most) {
        return Ok(());
    }
    let mut range = Reservation::claim(long, 1 << 30).map_err(|_| line!())?;
    let mut table = Reservation::claim_table(1 << 34).map_err(|_| line!())?;
    expect!(range.extend(8 * MIB).is_ok() && table.extend(MIB).is_ok());
    write(&range, 8 * MIB);
    expect!(range.extend(128 * MIB).is_err() && range.extent() == 8 * MIB);
    write(&range, 8 * MIB);
    expect!(range.extend(9 * MIB).is_ok());
    write(&range, 9 * MIB);
    expect!(mapped(range.base().addr().get(), long) == (1, 9 * MIB));
    // As many claims as there are addresses, and more than are tried.
    for _ in 0..100 {
        expect!(Reservation::claim(long, 1 << 30).is_ok());
    }
    Ok(())
}

#[test]
fn limits_count_what_is_extended() {
    let long = *LONG;
    for (what, name) in [(libc::RLIMIT_AS, "VmSize:"), (libc::RLIMIT_DATA, "VmData:")] {
        assert!(Child::run(|| under_limits(what, name, long)).wait());
    }
    let locked = Child::run(|| {
        expect!(limit(libc::RLIMIT_MEMLOCK, 4 * MIB));
        // SAFETY: changes how new memory is mapped.
        expect!(unsafe { libc::mlockall(libc::MCL_FUTURE) } == 0);
        let mut range = Reservation::claim(long, 1 << 30).map_err(|_| line!())?;
        let before = status("VmRSS:");
        expect!(range.extend(MIB).is_ok() && status("VmRSS:") < before + 4 * MIB);
        // The limit does not apply to privileged processes.
        expect!(range.extend(128 * MIB).is_ok() == map(128 * MIB).is_ok());
        Ok(())
    });
    assert!(locked.wait());
}

/// In a child, where no other thread claims or maps anything.
#[test]
fn what_is_in_the_way_stays() {
    let found = Child::run(|| {
        let page = page_size();
        let mut range = Reservation::claim(1 << 30, page).map_err(|_| line!())?;
        let base = range.base().addr().get();
        let other = map_fixed(base + 4 * page);
        expect!(other == base + 4 * page);
        expect!(range.extend(8 * page).is_err() && range.extent() == 0);
        expect!(range.extend(4 * page).is_ok() && range.extend(5 * page).is_err());
        write(&range, 4 * page);
        drop(range);
        expect!(mapped(base, 1 << 30).1 == page);
        // A new claim is elsewhere.
        let next = Reservation::claim(1 << 30, page).map_err(|_| line!())?;
        expect!(next.base().addr().get() >= base + (1 << 30));
        // SAFETY: the page was mapped above, and is not used.
        expect!(unsafe { libc::munmap(std::ptr::with_exposed_provenance_mut(other), page) } == 0);
        Ok(())
    });
    assert!(found.wait());
}

fn map_fixed(address: usize) -> usize {
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED_NOREPLACE;
    let at = std::ptr::with_exposed_provenance_mut(address);
    // SAFETY: a new mapping that replaces no other.
    unsafe { libc::mmap(at, page_size(), libc::PROT_READ, flags, -1, 0) }.expose_provenance()
}

/// A claim that no arena has room for is a mapping without access. In a child: the mapping covers the addresses that
/// other tests claim.
#[test]
fn a_claim_longer_than_the_arena_is_reserved() {
    if maps_long_ranges() {
        assert!(Child::run(claim_more_than_the_arena).wait());
    }
}

fn claim_more_than_the_arena() -> Outcome {
    let length = 66 << 40;
    let Ok(mut range) = Reservation::claim(length, page_size()) else { return Ok(()) };
    expect!(range.extend(4 * page_size()).is_ok());
    write(&range, 4 * page_size());
    expect!(mapped(range.base().addr().get(), length) == (2, length));
    Ok(())
}

#[test]
fn a_range_that_the_process_forked_with_is_its_childs_too() {
    let mut range = Reservation::claim(*LONG, 1).unwrap();
    range.extend(page_size()).unwrap();
    write(&range, page_size());
    let child = Child::run(|| {
        expect!(range.extend(MIB).is_ok());
        write(&range, MIB);
        let other = Reservation::claim(*LONG, 1).map_err(|_| line!())?;
        expect!(other.base() != range.base());
        Ok(())
    });
    assert!(child.wait());
}

/// Whether advice has an effect. Emulators ignore it, and return success.
fn refuses_unknown_advice(start: std::ptr::NonNull<u8>) -> bool {
    // SAFETY: there is no such advice, and advice that changes contents has another number.
    unsafe { libc::madvise(start.as_ptr().cast(), page_size(), 9999) != 0 }
}

#[test]
fn the_record_of_the_system_agrees_with_it() {
    let page = page_size();
    let start = map(4 * page).unwrap();
    // SAFETY: the pages were just mapped for this test.
    unsafe {
        heapwright_os::populate(start, 4 * page);
        let populated = heapwright_os::resident(start, 4 * page) == Some(4 * page);
        if refuses_unknown_advice(start) {
            assert_eq!(platform().can_populate(), populated);
        }
        let guarded = heapwright_os::guard(start, page).unwrap();
        assert_eq!(platform().can_guard_by_advice(), guarded == heapwright_os::Guarded::ByAdvice);
        let protected = usize::from(guarded == heapwright_os::Guarded::ByProtection);
        assert_eq!(platform().protected_guards(), protected);
        heapwright_os::unguard(start, page, protected).unwrap();
        assert_eq!(platform().protected_guards(), 0);
        start.write_bytes(1, 4 * page);
        unmap(start, 4 * page).unwrap();
    }
    assert_eq!(platform().page_size(), page);
}

#[test]
fn what_is_retracted_is_gone_and_can_be_extended_again() {
    let page = page_size();
    // The longer one is a mapping where the system allows it, see above.
    let longest = if maps_long_ranges() { usize::MAX } else { *LONG };
    for length in [1 << 30, 1 << 45] {
        let Ok(mut range) = Reservation::claim(length.min(longest), page) else { continue };
        range.extend(8 * page).unwrap();
        write(&range, 8 * page);
        // SAFETY: the contents are not needed.
        unsafe { range.retract(2 * page) }.unwrap();
        assert!(range.extent() == 2 * page && !range.seems_written(3 * page));
        range.extend(4 * page).unwrap();
        // SAFETY: the bytes lie below the extent.
        unsafe { assert_eq!((range.base().read(), range.base().add(2 * page).read()), (7, 0)) };
    }
}

/// The system purges no page that the process has locked.
#[test]
fn what_cannot_be_purged_is_not_retracted() {
    let page = page_size();
    let mut range = Reservation::sparse(8 * page).unwrap();
    write(&range, 8 * page);
    // SAFETY: the range is mapped, and the contents from its third page on are not needed.
    unsafe {
        if libc::mlock(range.base().as_ptr().cast(), 8 * page) != 0 {
            return;
        }
        let retracted = range.retract(2 * page);
        range.extend(8 * page).unwrap();
        let kept = range.base().add(3 * page).read();
        assert_eq!(kept, if retracted.is_ok() { 0 } else { 7 }, "what was retracted is zero when it is extended again");
    }
}

#[test]
fn addresses_that_were_given_back_can_be_taken_back_unless_others_map_there() {
    assert!(Child::run(lend).wait());
}

fn lend() -> Outcome {
    let page = page_size();
    let mut range = Reservation::claim(1 << 30, page).map_err(|_| line!())?;
    range.extend(4 * page).map_err(|_| line!())?;
    write(&range, 4 * page);
    // SAFETY: the pages lie in the range; their contents are not needed, and not read while they are not mapped.
    unsafe {
        let lent = range.base().add(page);
        expect!(give_addresses_back(lent, 2 * page).is_ok());
        expect!(take_addresses_back(lent, 2 * page).is_ok());
        expect!((range.base().read(), lent.read(), range.base().add(3 * page).read()) == (7, 0, 7));
        expect!(take_addresses_back(lent, page).is_err() && range.extent() == 4 * page);
    }
    Ok(())
}

#[test]
fn the_parts_of_a_divided_range_are_extended_each_on_its_own() {
    assert!(Child::run(divide).wait());
}

fn divide() -> Outcome {
    let page = page_size();
    let mut first = Reservation::claim(1 << 30, 1 << 21).map_err(|_| line!())?;
    let base = first.base().addr().get();
    expect!(first.extend(2 * page).is_ok() && first.split_off(page).is_err());
    let mut second = first.split_off(1 << 20).map_err(|_| line!())?;
    expect!(first.length() == 1 << 20 && second.base().addr().get() == base + (1 << 20));
    expect!(second.extend(page).is_ok() && first.extend((1 << 20) + page).is_err());
    write(&second, page);
    expect!(mapped(base, 1 << 30) == (2, 3 * page));
    drop(second);
    write(&first, 2 * page);
    drop(first);
    expect!(mapped(base, 1 << 30).1 == 0);
    Ok(())
}
