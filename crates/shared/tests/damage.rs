//! Damage to the head of the engine's metadata in a segment whose users were killed: it is put in order, or refused.
//! No block is lost without a word, and no two overlap.

mod common;

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::FileExt;

use common::{Spot, fork, growing, of, reap, word_at};
use heapwright_shared::{
    Access, BlockState, Error, Place, PolicyKind, Repaired, Settings, SharedHeap, SmallBlocks, Snapshot, Strangers,
};

/// Where the header says where the engine's metadata begins, and where its data does.
const METADATA: u64 = 72;
const DATA: u64 = 80;
/// Words of the engine's metadata: the heap's end and top, in granules; and how many are damaged bit by bit.
const END: u64 = 1;
const TOP: u64 = 2;
const HEAD: u64 = 16;

const SIZE: usize = 1 << 20;

/// A segment with blocks of two handles, the second of which is not the process of number 0, as killed users leave it.
fn abandon(spot: &Spot, settings: &Settings) {
    let child = fork(|| {
        let heaps = [spot.create(settings), spot.open()];
        for at in 0..400 {
            let heap = &heaps[at % 2];
            let block = heap.allocate(500 + at * 37 % 1500).unwrap();
            if at % 7 == 3 {
                heap.deallocate(block).unwrap();
            }
        }
        while settings.max_size.is_some() && heaps[0].size().unwrap() < 3 * SIZE {
            heaps[1].allocate(6000).unwrap();
        }
        // SAFETY: ends the child as if it was killed.
        unsafe { libc::_exit(0) }
    });
    assert_eq!(reap(child), 0);
}

fn settings(policy: PolicyKind) -> [Settings; 4] {
    let slabs = |settings| Settings { small: SmallBlocks::Slabs, ..settings };
    let (fixed, grows) = (of(policy, SIZE), growing(policy, SIZE, 8 * SIZE));
    [fixed, grows, slabs(fixed), slabs(grows)]
}

fn metadata_word(place: &Place, word: u64) -> u64 {
    word_at(place, word_at(place, METADATA) + 8 * word)
}

fn set_metadata_word(place: &Place, word: u64, value: u64) {
    let at = word_at(place, METADATA) + 8 * word;
    fs::File::options().write(true).open(place.path()).unwrap().write_all_at(&value.to_ne_bytes(), at).unwrap();
}

fn used(heap: &SharedHeap) -> BTreeMap<u64, usize> {
    let blocks = heap.blocks().unwrap().into_iter().filter(|block| block.state == BlockState::Used);
    blocks.map(|block| (block.offset.get(), block.size)).collect()
}

fn repair(place: &Place) -> Result<Repaired, Error> {
    SharedHeap::repair(place, &Access::default(), Strangers::Respect)
}

/// Restores all that lies below the data.
fn restore(place: &Place, whole: &[u8]) {
    let data = u64::from_ne_bytes(whole[DATA as usize..][..8].try_into().unwrap()) as usize;
    fs::File::options().write(true).open(place.path()).unwrap().write_all_at(&whole[..data], 0).unwrap();
}

/// Opens the segment, and again after a repair where it is refused; it has the blocks that are expected, or is refused
/// by all. Returns why repair refuses it.
fn judge(place: &Place, whole: &BTreeMap<u64, usize>, what: &str) -> Option<Error> {
    let audit = Snapshot::read(place).unwrap().audit;
    let opened = SharedHeap::open(place);
    assert_eq!(audit.is_ok(), opened.is_ok(), "{what}: {audit:?}, {:?}", opened.err());
    let heap = match opened {
        Ok(heap) => heap,
        Err(refused) => {
            assert!(matches!(refused, Error::Corrupted { .. }), "{what}: {refused}");
            if let Err(refused) = repair(place) {
                assert!(SharedHeap::open(place).is_err());
                return Some(refused);
            }
            SharedHeap::open(place).unwrap()
        }
    };
    heap.check().unwrap_or_else(|error| panic!("{what}: {error}"));
    assert_eq!(used(&heap), *whole, "{what}");
    while heap.allocate(3000).is_ok() {}
    heap.check().unwrap_or_else(|error| panic!("{what}: {error}"));
    let full = used(&heap);
    let starts = full.keys().skip(1);
    assert!(full.iter().zip(starts).all(|((at, size), next)| at + *size as u64 <= *next), "{what}: blocks overlap");
    assert!(whole.iter().all(|(at, size)| full.get(at) == Some(size)), "{what}");
    None
}

/// What the heap holds that was left in `bytes`.
fn blocks_of(place: &Place, bytes: &[u8]) -> BTreeMap<u64, usize> {
    let whole = used(&SharedHeap::open(place).unwrap());
    restore(place, bytes);
    whole
}

#[test]
fn an_end_before_blocks_is_beyond_repair() {
    for policy in [PolicyKind::Good, PolicyKind::First, PolicyKind::Buddy] {
        for settings in settings(policy) {
            let spot = Spot::new("end");
            abandon(&spot, &settings);
            let bytes = fs::read(spot.path()).unwrap();
            let whole = blocks_of(&spot, &bytes);
            let (end, top) = (metadata_word(&spot, END), metadata_word(&spot, TOP));
            let made_with = (SIZE / 64) as u64;
            for wrong in [0, 1, 1024, made_with - 1, top - 1, top / 2] {
                set_metadata_word(&spot, END, wrong);
                let refused = judge(&spot, &whole, &format!("{settings:?}: {end} is {wrong}"));
                let refused = refused.unwrap_or_else(|| panic!("{settings:?}: {end} is {wrong}"));
                assert!(matches!(refused, Error::BeyondRepair { .. }), "{refused}");
                assert!(refused.to_string().contains("restore it from a copy, or remove it"), "{refused}");
                restore(&spot, &bytes);
            }
            assert_eq!(judge(&spot, &whole, "nothing is damaged"), None);
        }
    }
}

/// The map agrees with an end that was moved together with the top; owners and slabs do not.
#[test]
fn what_lies_behind_the_end_shows_that_it_was_moved() {
    for settings in settings(PolicyKind::First).into_iter().filter(|settings| settings.max_size.is_some()) {
        let spot = Spot::new("moved");
        abandon(&spot, &settings);
        let bytes = fs::read(spot.path()).unwrap();
        let whole = blocks_of(&spot, &bytes);
        let data = word_at(&spot, DATA);
        let middle = whole.keys().find(|&&at| at - data > 3 * SIZE as u64 / 2).unwrap();
        for word in [END, TOP] {
            set_metadata_word(&spot, word, (middle - data) / 64);
        }
        let what = "the heap ends before something that was in it";
        assert!(matches!(SharedHeap::open(&spot), Err(Error::Corrupted { what: found, .. }) if found == what));
        let refused = judge(&spot, &whole, "end and top").unwrap();
        assert!(matches!(refused, Error::BeyondRepair { what: found, .. } if found == what), "{refused}");
        restore(&spot, &bytes);
        assert_eq!(judge(&spot, &whole, "nothing is damaged"), None);
    }
}

/// Only damage while the heap is in use leaves a tenure behind its end.
#[test]
fn a_check_looks_behind_the_end() {
    let spot = Spot::new("behind");
    let heap = spot.create(&growing(PolicyKind::Best, SIZE, 8 * SIZE));
    heap.allocate(100).unwrap();
    heap.check().unwrap();
    let owner_behind = word_at(&spot, METADATA) - 8;
    let file = fs::File::options().write(true).open(spot.path()).unwrap();
    file.write_all_at(&[1], owner_behind / 65536 * 65536 - 1).unwrap();
    assert!(matches!(heap.check(), Err(Error::Corrupted { .. })));
}

/// Each bit of the words with the engine's state, and of some of its counters.
#[test]
fn one_bit_before_the_map_loses_nothing() {
    for policy in PolicyKind::ALL {
        let spot = Spot::new("state");
        abandon(&spot, &Settings { granule: 256, small: SmallBlocks::Slabs, ..of(policy, SIZE) });
        let bytes = fs::read(spot.path()).unwrap();
        let whole = blocks_of(&spot, &bytes);
        for (word, bit) in (0..HEAD).flat_map(|word| (0..64).map(move |bit| (word, bit))) {
            set_metadata_word(&spot, word, metadata_word(&spot, word) ^ 1 << bit);
            let refused = judge(&spot, &whole, &format!("{policy:?}: bit {bit} of word {word}"));
            // What cannot be known anew: the end, the top, the version and the policy.
            let is_needed = matches!((word, bit), (END | TOP, _) | (5, 48..) | (6, 8..16));
            assert!(is_needed || refused.is_none(), "{policy:?}: bit {bit} of word {word}: {refused:?}");
            restore(&spot, &bytes);
            set_metadata_word(&spot, word, metadata_word(&spot, word) ^ 1 << bit);
            match repair(&spot) {
                Ok(_) => assert_eq!(judge(&spot, &whole, "repaired"), None),
                Err(refused) => assert!(is_needed, "{policy:?}: bit {bit} of word {word}: {refused}"),
            }
            restore(&spot, &bytes);
        }
    }
}

#[test]
fn a_check_compares_the_rules() {
    let spot = Spot::new("rules");
    let heap = spot.create(&of(PolicyKind::Best, SIZE));
    heap.check().unwrap();
    set_metadata_word(&spot, 4, metadata_word(&spot, 4) ^ 1 << 33);
    assert!(matches!(heap.check(), Err(Error::Corrupted { .. })));
}

#[test]
fn a_damaged_header_is_not_said_to_be_repairable() {
    let spot = Spot::new("header");
    spot.create(&of(PolicyKind::Best, SIZE)).close().unwrap();
    let file = fs::File::options().write(true).open(spot.path()).unwrap();
    file.write_all_at(&[0x55], 50).unwrap();
    for refused in [SharedHeap::open(&spot).unwrap_err(), repair(&spot).unwrap_err()] {
        let told = refused.to_string();
        assert!(told.contains("restore it from a copy, or remove it") && !told.contains("run"), "{told}");
    }
    SharedHeap::unlink(&spot).unwrap();
}
