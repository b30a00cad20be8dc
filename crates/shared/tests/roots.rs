//! Named roots.

mod common;

use std::collections::BTreeMap;

use common::Spot;
use heapwright_shared::{Error, LONGEST_NAME, Settings, SmallBlocks};

#[test]
fn roots_are_set_found_replaced_and_removed() {
    let spot = Spot::new("roots");
    let (here, there) = (spot.create(&Settings::default()), spot.open());
    let (a, b) = (here.allocate(10).unwrap(), here.allocate(10).unwrap());
    assert_eq!(here.root("x"), Ok(None));
    assert_eq!(here.set_root("x", a), Ok(None));
    assert_eq!(there.root("x"), Ok(Some(a)));
    assert_eq!(there.set_root("x", b), Ok(Some(a)));
    assert_eq!(here.replace_root("x", Some(a), None), Err(Error::RootDiffers { found: Some(b.get()) }));
    assert_eq!(here.replace_root("y", None, Some(a)), Ok(()));
    assert_eq!(here.replace_root("y", None, Some(a)), Err(Error::RootDiffers { found: Some(a.get()) }));
    let mut names: Vec<_> = there.roots().unwrap().into_iter().map(|root| (root.name, root.offset)).collect();
    names.sort();
    assert_eq!(names, [("x".to_owned(), b), ("y".to_owned(), a)]);
    assert_eq!(here.replace_root("x", Some(b), None), Ok(()));
    assert_eq!(here.root("x"), Ok(None));
    assert_eq!(here.replace_root("x", None, None), Ok(()));
    assert_eq!(there.roots().unwrap().len(), 1);
}

#[test]
fn names_and_room_have_limits() {
    let spot = Spot::new("root-limits");
    let heap = spot.create(&Settings { roots: 2, ..Settings::default() });
    let block = heap.allocate(1).unwrap();
    let longest = "n".repeat(LONGEST_NAME);
    for name in ["", "a\0b", &"n".repeat(LONGEST_NAME + 1)] {
        assert_eq!(heap.set_root(name, block), Err(Error::BadRootName));
        assert_eq!(heap.root(name), Err(Error::BadRootName));
    }
    heap.set_root(&longest, block).unwrap();
    heap.set_root("é", block).unwrap();
    assert_eq!(heap.set_root("third", block), Err(Error::RootsFull { most: 2 }));
    assert_eq!(heap.root(&longest), Ok(Some(block)));
    assert_eq!(heap.root(&longest[1..]), Ok(None));
    heap.replace_root(&longest, Some(block), None).unwrap();
    heap.set_root("third", block).unwrap();
    heap.deallocate(block).unwrap();
    assert_eq!(heap.set_root("third", block), Err(Error::AlreadyFree { offset: block.get() }));
}

#[test]
fn a_segment_without_roots_says_so() {
    let spot = Spot::new("rootless");
    let heap = spot.create(&Settings { roots: 0, ..Settings::default() });
    let block = heap.allocate(16).unwrap();
    let refused = heap.set_root("first", block).unwrap_err();
    assert_eq!(refused, Error::RootsFull { most: 0 });
    assert!(refused.to_string().contains("without room for roots"), "{refused}");
    assert_eq!((heap.root("first"), heap.roots()), (Ok(None), Ok(Vec::new())));
    assert_eq!(heap.replace_root("first", None, None), Ok(()));
    heap.close().unwrap();
    spot.open().check().unwrap();
}

/// Names come and go in tables that are used for the first time, so that searches pass slots that were used,
/// end at slots that never were, and wrap around.
#[test]
fn roots_are_where_a_map_says_whatever_came_and_went() {
    let mut random = fastrand::Rng::with_seed(15);
    for round in 0..150 {
        let spot = Spot::new(&format!("root-map-{round}"));
        let heap = spot.create(&Settings { roots: 8, size: 1 << 16, ..Settings::default() });
        let block = heap.allocate(16).unwrap();
        let names: Vec<String> = (0..12).map(|number| format!("root {number}")).collect();
        let mut known = BTreeMap::new();
        for step in 0..60 {
            let name = &names[random.usize(..names.len())];
            if known.contains_key(name) {
                assert_eq!(heap.replace_root(name, known.remove(name), None), Ok(()), "{round}, {step}");
            } else if known.len() < 8 {
                assert_eq!(heap.set_root(name, block), Ok(known.insert(name.clone(), block)), "{round}, {step}");
            } else {
                assert_eq!(heap.set_root(name, block), Err(Error::RootsFull { most: 8 }), "{round}, {step}");
            }
            let found = heap.roots().unwrap().into_iter().map(|root| (root.name, root.offset));
            assert!(found.eq(known.clone()), "{round}, {step}");
            assert!(names.iter().all(|name| heap.root(name) == Ok(known.get(name).copied())), "{round}, {step}");
        }
    }
}

#[test]
fn a_check_finds_roots_whose_blocks_were_freed() {
    for small in SmallBlocks::ALL {
        let spot = Spot::new("dangling");
        let heap = spot.create(&Settings { small, ..Settings::default() });
        let block = heap.allocate(100).unwrap();
        heap.set_root("orders", block).unwrap();
        heap.check().unwrap();
        heap.deallocate(block).unwrap();
        let refused = heap.check().unwrap_err();
        assert_eq!(refused, Error::RootOfNoBlock { name: "orders".into(), offset: block.get() });
        assert!(refused.to_string().starts_with("the root \"orders\" points at 0x"), "{refused}");
        heap.replace_root("orders", Some(block), None).unwrap();
        heap.check().unwrap();
    }
}
