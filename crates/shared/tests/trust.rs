//! What is not believed: wrong names and settings, files of all kinds, segments that were changed.

mod common;

use std::fs;
use std::os::unix::fs::{FileExt, PermissionsExt, symlink};
use std::os::unix::net::UnixListener;
use std::time::Duration;

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

use common::{Spot, fork, growing, kill, of, reap, resize};
use heapwright_shared::{
    Access, Condition, Error, Owner, Place, PolicyKind, Settings, SharedHeap, SmallBlocks, Snapshot, Strangers,
};

#[test]
fn names() {
    for name in ["", "/", ".", "..", "/..", "a\0b", &"n".repeat(256)] {
        assert!(matches!(Place::new(name), Err(Error::BadName { .. })), "{name:?}");
    }
    assert_eq!(Place::new("/name").unwrap(), Place::new("name").unwrap());
    assert_eq!(Place::new("/dev/shm/name").unwrap(), Place::new("name").unwrap());
    let odd = Place::new("a\x1b[2J\nb 'é'").unwrap();
    assert_eq!(odd.to_string(), "/dev/shm/a\\u{1b}[2J\\nb 'é'", "control characters are escaped");
    let bytes = Place::new(OsStr::from_bytes(b"a\xff\xc3b")).unwrap();
    assert_eq!(bytes.to_string(), "/dev/shm/a\\xff\\xc3b", "and what is no UTF-8");
    let [one, other] =
        [b"a\xff\\xfe".as_slice(), b"a\\xff\xfe"].map(|name| Place::new(OsStr::from_bytes(name)).unwrap());
    assert_eq!(one.to_string(), "/dev/shm/a\\xff\\\\xfe", "and the backslash, so that different paths look different");
    assert_ne!(one.to_string(), other.to_string());
    let missing = Place::new("/nowhere/at/all").unwrap();
    assert_eq!(SharedHeap::open(&missing).unwrap_err(), Error::NotFound { place: missing.clone() });
    assert_eq!(SharedHeap::create(&missing, &Settings::default()).unwrap_err(), Error::NoDirectory { place: missing });
}

#[test]
fn settings_out_of_range() {
    let spot = Spot::new("settings");
    let usual = Settings::default();
    let wrong = [
        Settings { size: 0, ..usual },
        Settings { size: 0, max_size: Some(1 << 20), ..usual },
        Settings { size: usize::MAX, ..usual },
        Settings { max_size: Some(usize::MAX), ..usual },
        Settings { max_size: Some(100), ..usual },
        Settings { granule: 0, ..usual },
        Settings { granule: 8, ..usual },
        Settings { granule: 48, ..usual },
        Settings { granule: 8192, ..usual },
        Settings { processes: 0, ..usual },
        Settings { processes: 251, ..usual },
        Settings { roots: 1 << 17, ..usual },
        Settings { mode: 0o1777, ..usual },
    ];
    for settings in wrong {
        let error = SharedHeap::create(&spot, &settings).unwrap_err();
        assert!(matches!(error, Error::BadSettings { .. }), "{settings:?}: {error}");
    }
    for policy in PolicyKind::ALL {
        for granule in [16, 64, 4096] {
            for max_size in [None, Some(1 << 20)] {
                let settings =
                    Settings { size: granule as usize, granule, max_size, processes: 250, roots: 0, ..of(policy, 0) };
                let heap = spot.create(&settings);
                let block = heap.allocate(1).unwrap();
                assert_eq!(block.get() % u64::from(granule), 0);
                heap.close().unwrap();
                spot.open().check().unwrap();
                SharedHeap::unlink(&spot).unwrap();
            }
        }
    }
}

#[test]
fn modes_are_as_asked_for_and_private_by_default() {
    let spot = Spot::new("mode");
    for (asked, mode) in [(None, 0o600), (Some(0o666), 0o666), (Some(0o640), 0o640)] {
        let usual = Settings::default();
        spot.create(&Settings { mode: asked.unwrap_or(usual.mode), ..usual });
        assert_eq!(fs::metadata(spot.path()).unwrap().permissions().mode() & 0o7777, mode);
        SharedHeap::unlink(&spot).unwrap();
    }
}

#[test]
fn files_of_other_kinds() {
    let spot = Spot::new("kinds");
    let open = || SharedHeap::open(&spot).unwrap_err();
    let contents = [vec![], vec![0; 100], vec![0x41; 1 << 16], fs::read("/proc/self/exe").unwrap()];
    for bytes in contents {
        fs::write(spot.path(), bytes).unwrap();
        assert!(matches!(open(), Error::NotASegment { .. }));
        assert!(Snapshot::read(&spot).is_err());
        assert_eq!(
            SharedHeap::create(&spot, &Settings::default()).unwrap_err(),
            Error::Exists { place: (*spot).clone() }
        );
        stays(&spot);
    }
    fs::remove_file(spot.path()).unwrap();
    let real = Spot::new("real");
    real.create(&Settings::default());
    symlink(real.path(), spot.path()).unwrap();
    assert!(matches!(open(), Error::NotASegment { .. }));
    stays(&spot);
    fs::remove_file(spot.path()).unwrap();
    let socket = UnixListener::bind(spot.path()).unwrap();
    stays(&spot);
    drop(socket);
    fs::remove_file(spot.path()).unwrap();
    assert!(matches!(SharedHeap::open(&Place::new("/dev/shm/.").unwrap()), Err(Error::NotASegment { .. })));
    assert!(matches!(SharedHeap::open(&Place::new("/dev/null").unwrap()), Err(Error::NotASegment { .. })));
}

/// What cannot be read may be anything.
#[test]
fn a_file_that_cannot_be_read_is_not_removed() {
    let spot = Spot::new("unreadable");
    let child = fork(|| {
        // SAFETY: the calls take numbers. Without the right to become another user, the child stays who it is.
        let is_root = unsafe { libc::setuid(65534) != 0 && libc::geteuid() == 0 };
        fs::write(spot.path(), "precious").unwrap();
        fs::set_permissions(spot.path(), fs::Permissions::from_mode(0o0)).unwrap();
        let refused = SharedHeap::unlink(&spot).unwrap_err();
        is_root || matches!(refused, Error::System { .. })
    });
    assert_eq!(reap(child), 0);
    assert!(spot.path().exists());
}

/// What is no segment keeps its name.
fn stays(place: &Place) {
    assert!(matches!(SharedHeap::unlink(place), Err(Error::NotASegment { .. })));
    assert!(fs::symlink_metadata(place.path()).is_ok());
}

#[test]
fn segments_of_others() {
    // SAFETY: no preconditions.
    if unsafe { libc::geteuid() } != 0 {
        return;
    }
    let spot = Spot::new("others");
    spot.create(&Settings::default());
    std::os::unix::fs::chown(spot.path(), Some(12345), None).unwrap();
    assert_eq!(SharedHeap::open(&spot).unwrap_err(), Error::NotOurs { place: (*spot).clone(), owner: 12345 });
    let told = SharedHeap::open(&spot).unwrap_err().to_string();
    assert!(["--any-owner", "Owner::User", "HW_OWNER_USER"].iter().all(|option| told.contains(option)), "{told}");
    assert!(Snapshot::read(&spot).is_err());
    for owner in [Owner::User(12345), Owner::Anybody] {
        SharedHeap::open_with(&spot, &Access { owner, ..Access::default() }).unwrap();
    }
    let access = Access { owner: Owner::User(54321), ..Access::default() };
    assert!(matches!(SharedHeap::open_with(&spot, &access), Err(Error::NotOurs { .. })));
}

/// Each byte of the two words of a seal, changed: the segment is never taken for one whose users were killed.
#[test]
fn a_damaged_seal_is_noticed() {
    let spot = Spot::new("seal");
    spot.create(&of(PolicyKind::Best, 1 << 16)).close().unwrap();
    let file = fs::File::options().write(true).open(spot.path()).unwrap();
    let whole = fs::read(spot.path()).unwrap();
    for (at, value) in (144..152).chain(248..256).flat_map(|at| [(at, 0), (at, 0x55), (at, !whole[at])]) {
        if whole[at] == value {
            continue;
        }
        file.write_all_at(&[value], at as u64).unwrap();
        let snapshot = Snapshot::read(&spot).unwrap();
        assert_eq!(snapshot.condition, Condition::Broken, "byte {at}");
        assert!(matches!(snapshot.audit, Err(Error::Corrupted { what: "its seal is damaged", .. })));
        assert!(matches!(SharedHeap::open(&spot), Err(Error::Corrupted { what: "its seal is damaged", .. })));
        SharedHeap::repair(&spot, &Access::default(), Strangers::Respect).unwrap();
        spot.open().check().unwrap();
        file.write_all_at(&whole, 0).unwrap();
    }
}

/// Whether the segment is refused by all who look at it, or at least does no harm.
fn refusal(place: &Place) -> Option<Error> {
    let snapshot = Snapshot::read(place).and_then(|snapshot| snapshot.audit);
    let opened = SharedHeap::open(place).map(drop);
    assert_eq!(snapshot.is_err(), opened.is_err(), "{snapshot:?} but {opened:?}");
    opened.err()
}

#[test]
fn truncated_extended_and_of_another_version() {
    let spot = Spot::new("length");
    spot.create(&of(PolicyKind::Best, 1 << 16));
    let file = fs::File::options().write(true).read(true).open(spot.path()).unwrap();
    let length = file.metadata().unwrap().len();
    for wrong in [length - 1, length + 1, 4096, 200] {
        file.set_len(wrong).unwrap();
        let expected = Error::WrongLength { place: (*spot).clone(), expected: length, found: wrong };
        assert_eq!(refusal(&spot), Some(expected));
    }
    file.set_len(100).unwrap();
    assert!(matches!(refusal(&spot), Some(Error::Corrupted { .. })));
    file.set_len(12).unwrap();
    assert!(refusal(&spot).is_some());
    SharedHeap::unlink(&spot).unwrap();
    spot.create(&of(PolicyKind::Best, 1 << 16));
    let file = fs::File::options().write(true).open(spot.path()).unwrap();
    for found in [8_u32, 10] {
        file.write_all_at(&found.to_ne_bytes(), 8).unwrap();
        assert_eq!(refusal(&spot), Some(Error::OtherVersion { place: (*spot).clone(), found, known: 9 }));
    }
}

/// Every byte below the data of a segment at rest, changed: all who look at it say so, and repair makes it usable or
/// refuses.
#[test]
fn every_byte_of_a_segment_at_rest_is_protected() {
    for policy in [PolicyKind::Best, PolicyKind::Buddy] {
        let spot = Spot::new("flip");
        let heap = spot.create(&Settings { processes: 4, roots: 4, ..of(policy, 1 << 16) });
        let blocks: Vec<_> = (0..100).map(|_| heap.allocate(200).unwrap()).collect();
        heap.set_root("one", blocks[50]).unwrap();
        blocks.iter().step_by(3).for_each(|&block| heap.deallocate(block).unwrap());
        let overhead = heap.overhead();
        heap.close().unwrap();
        let file = fs::File::options().write(true).open(spot.path()).unwrap();
        let whole = fs::read(spot.path()).unwrap();
        // But for the lock, which is not part of what is at rest.
        for at in (0..overhead).filter(|at| !(128..136).contains(at)) {
            file.write_all_at(&[whole[at] ^ (1 << (at % 8))], at as u64).unwrap();
            let audit = Snapshot::read(&spot).map(|snapshot| (snapshot.audit, snapshot.condition));
            assert!(!matches!(audit, Ok((Ok(()), Condition::AtRest))), "byte {at} passed");
            assert!(SharedHeap::open(&spot).is_err(), "byte {at} was opened");
            if at % 7 == 0 && SharedHeap::repair(&spot, &Access::default(), Strangers::Respect).is_ok() {
                let heap = spot.open();
                heap.check().unwrap();
                let _ = heap.allocate(300);
                heap.check().unwrap();
            }
            file.write_all_at(&whole, 0).unwrap();
        }
        // A lock with a word in it that no process writes has no holder.
        for at in 128..136 {
            file.write_all_at(&[0x41], at as u64).unwrap();
            let snapshot = Snapshot::read(&spot).unwrap();
            assert!(matches!(snapshot.condition, Condition::Interrupted { .. }));
            spot.open().check().unwrap();
            file.write_all_at(&whole, 0).unwrap();
        }
        assert_eq!(refusal(&spot), None);
    }
}

/// The operations would trust the damaged bytes.
#[test]
fn a_handle_does_nothing_to_what_it_has_found_damaged() {
    let kinds = [(SmallBlocks::Placed, 64 << 10), (SmallBlocks::Slabs, 256 << 10)];
    for (policy, (small, size)) in PolicyKind::ALL.into_iter().flat_map(|it| kinds.map(|kind| (it, kind))) {
        let spot = Spot::new("found");
        let settings = Settings { policy, small, size, ..Settings::default() };
        let heap = SharedHeap::create(&spot, &settings).unwrap();
        let (block, other) = (heap.allocate(100).unwrap(), heap.allocate(100).unwrap());
        let blocks_begin = heap.blocks().unwrap()[0].offset.get();
        heap.check().unwrap();
        // The last of the tables in front of the blocks is the metadata by which they are placed; before blocks in
        // slabs there may be a gap.
        let file = fs::OpenOptions::new().write(true).open(spot.path()).unwrap();
        let damaged = if small == SmallBlocks::Slabs { blocks_begin - 8192 } else { 256 };
        file.write_all_at(&vec![0xA5; damaged as usize], blocks_begin - damaged).unwrap();
        file.write_all_at(&[0xA5; 256], blocks_begin - blocks_begin / 8).unwrap();
        let found = heap.check().unwrap_err();
        assert!(matches!(found, Error::Corrupted { .. }), "{policy:?}: {found}");
        assert_eq!(heap.allocate(100).unwrap_err(), found, "{policy:?}");
        assert_eq!(heap.deallocate(block).unwrap_err(), found, "{policy:?}");
        assert_eq!(resize(&heap, other, 50).unwrap_err(), found, "{policy:?}");
        assert_eq!(heap.usable_size(other).unwrap_err(), found, "{policy:?}");
        assert_eq!(heap.check().unwrap_err(), found, "{policy:?}");
        assert_eq!(heap.close().unwrap_err(), found, "{policy:?}");
    }
}

/// Random garbage in what lies below the data of an unsealed segment that no process uses does not crash this one.
#[test]
fn garbage_does_no_harm() {
    let mut roll = 0x9e37_79b9_7f4a_7c15_u64;
    let mut dice = move |below: usize| {
        roll = roll.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (roll >> 33) as usize % below
    };
    for policy in PolicyKind::ALL {
        let spot = Spot::new("garbage");
        let child = fork(|| {
            let heap = spot.create(&growing(policy, 1 << 16, 1 << 20));
            let blocks: Vec<_> = (0..100).map(|_| heap.allocate(300).unwrap()).collect();
            blocks.iter().step_by(3).for_each(|&block| heap.deallocate(block).unwrap());
            // SAFETY: ends the child as if it was killed.
            unsafe { libc::_exit(0) }
        });
        assert_eq!(reap(child), 0);
        let whole = fs::read(spot.path()).unwrap();
        let overhead = spot.open().overhead();
        let file = fs::File::options().write(true).open(spot.path()).unwrap();
        let mut refused = 0;
        for _ in 0..300 {
            file.write_all_at(&whole, 0).unwrap();
            for _ in 0..=dice(8) {
                let end = if dice(2) == 0 { 8192 } else { overhead };
                let at = 136 + dice(end - 136);
                file.write_all_at(&[dice(256) as u8], at as u64).unwrap();
            }
            let _ = Snapshot::read(&spot);
            match SharedHeap::open(&spot) {
                Ok(heap) => {
                    let _ = (heap.check(), heap.allocate(500), heap.blocks(), heap.processes(), heap.roots());
                    let _ = heap.reclaim_dead();
                    let roots = heap.roots().unwrap();
                    let blocks: Vec<_> =
                        heap.blocks().unwrap().into_iter().filter(|block| block.owner.is_some()).collect();
                    let all_kept = roots.iter().all(|root| blocks.iter().any(|block| block.offset == root.offset));
                    assert_eq!(heap.check().is_ok(), all_kept);
                }
                Err(_) => refused += 1,
            }
            let _ = SharedHeap::repair(&spot, &Access::default(), Strangers::Respect);
        }
        assert!(refused < 300, "nothing was ever put in order");
    }
}

#[test]
fn snapshots_tell_conditions_and_change_nothing() {
    let spot = Spot::new("conditions");
    let heap = spot.create(&growing(PolicyKind::Best, 1 << 16, 1 << 20));
    let block = heap.allocate(1000).unwrap();
    heap.set_root("block", block).unwrap();
    let snapshot = Snapshot::read(&spot).unwrap();
    assert_eq!((snapshot.condition, snapshot.audit.clone()), (Condition::InUse, Ok(())));
    assert_eq!(snapshot.blocks, heap.blocks().unwrap());
    assert_eq!(snapshot.processes, heap.processes().unwrap());
    assert_eq!(snapshot.roots, heap.roots().unwrap());
    assert_eq!(snapshot.counters, heap.counters().unwrap());
    assert_eq!((snapshot.size, snapshot.max_size, snapshot.mode), (1 << 16, 1 << 20, 0o600));
    heap.close().unwrap();
    assert_eq!(Snapshot::read(&spot).unwrap().condition, Condition::AtRest);
    let dies = |within: bool| {
        let child = fork(|| {
            let heap = spot.open();
            if !within {
                // SAFETY: ends the child as if it was killed.
                unsafe { libc::_exit(0) }
            }
            loop {
                let block = heap.allocate(100).unwrap();
                heap.deallocate(block).unwrap();
            }
        });
        if within {
            std::thread::sleep(Duration::from_millis(3));
            kill(child);
        }
        reap(child)
    };
    assert_eq!(dies(false), 0);
    let before = fs::read(spot.path()).unwrap();
    let snapshot = Snapshot::read(&spot).unwrap();
    assert_eq!((snapshot.condition, snapshot.audit), (Condition::Abandoned, Ok(())));
    assert!(fs::read(spot.path()).unwrap() == before);
    let interrupted = (0..500).find_map(|_| {
        assert_eq!(dies(true), -libc::SIGKILL);
        let snapshot = Snapshot::read(&spot).unwrap();
        assert_eq!(snapshot.audit, Ok(()));
        matches!(snapshot.condition, Condition::Interrupted { .. }).then_some(snapshot)
    });
    let interrupted = interrupted.expect("no process was ever killed in the middle");
    let again = Snapshot::read(&spot).unwrap();
    assert_eq!((again.condition, again.blocks), (interrupted.condition, interrupted.blocks));
    let repaired = SharedHeap::repair(&spot, &Access::default(), Strangers::Respect).unwrap();
    assert_eq!(repaired.found, interrupted.condition);
    assert_eq!(Snapshot::read(&spot).unwrap().condition, Condition::AtRest);
    assert_eq!(spot.open().root("block"), Ok(Some(block)));
}

/// Where the header says in which namespace of process numbers the segment is used.
const NAMESPACE: u64 = 136;

#[test]
fn a_namespace_changed_at_rest_is_found() {
    let spot = Spot::new("namespace");
    let heap = spot.create(&Settings::default());
    let block = heap.allocate(100).unwrap();
    heap.set_root("block", block).unwrap();
    drop(heap);
    let file = fs::File::options().write(true).open(spot.path()).unwrap();
    file.write_all_at(&12345_u64.to_ne_bytes(), NAMESPACE).unwrap();
    assert!(matches!(SharedHeap::open(&spot), Err(Error::Corrupted { .. })));
    SharedHeap::repair(&spot, &Access::default(), Strangers::Respect).unwrap();
    assert_eq!(Snapshot::read(&spot).unwrap().condition, Condition::AtRest);
    let heap = spot.open();
    assert_eq!(heap.root("block"), Ok(Some(block)));
    heap.check().unwrap();
}

#[test]
fn repair_unsets_roots_that_point_at_nothing() {
    let spot = Spot::new("dangling");
    let heap = spot.create(&Settings::default());
    let (kept, freed) = (heap.allocate(100).unwrap(), heap.allocate(100).unwrap());
    heap.set_root("kept", kept).unwrap();
    heap.set_root("freed", freed).unwrap();
    heap.deallocate(freed).unwrap();
    heap.close().unwrap();
    let repaired = SharedHeap::repair(&spot, &Access::default(), Strangers::Respect).unwrap();
    assert_eq!((repaired.found, repaired.unset), (Condition::AtRest, vec!["freed".to_owned()]));
    let heap = spot.open();
    assert_eq!(heap.roots().unwrap().len(), 1);
    assert_eq!(heap.root("kept"), Ok(Some(kept)));
}

#[test]
fn a_segment_that_a_live_process_uses_is_not_repaired() {
    let spot = Spot::new("in-use");
    let heap = spot.create(&Settings::default());
    let block = heap.allocate(100).unwrap();
    heap.set_root("freed", block).unwrap();
    heap.deallocate(block).unwrap();
    let refused = Error::InUse { place: (*spot).clone(), by: std::process::id() };
    for strangers in [Strangers::Respect, Strangers::Displace] {
        assert_eq!(SharedHeap::repair(&spot, &Access::default(), strangers), Err(refused.clone()));
    }
    // Also when another one died in an operation, which the living complete or undo.
    let died = (0..500).any(|_| {
        let child = fork(|| {
            let heap = spot.open();
            loop {
                heap.deallocate(heap.allocate(100).unwrap()).unwrap();
            }
        });
        std::thread::sleep(std::time::Duration::from_millis(2));
        kill(child);
        assert_eq!(reap(child), -libc::SIGKILL);
        let interrupted = matches!(Snapshot::read(&spot).unwrap().condition, Condition::Interrupted { .. });
        assert_eq!(SharedHeap::repair(&spot, &Access::default(), Strangers::Respect), Err(refused.clone()));
        let after = Snapshot::read(&spot).unwrap().condition;
        assert_eq!(matches!(after, Condition::Interrupted { .. }), interrupted);
        // Unless a block of the dead lies there, which is the last thing that is checked, the root dangles.
        let dangles = |error: Error| matches!(error, Error::RootOfNoBlock { offset, .. } if offset == block.get());
        assert!(heap.check().err().is_none_or(dangles));
        interrupted
    });
    assert!(died, "no process was killed in the middle");
    assert_eq!(heap.root("freed"), Ok(Some(block)));
}
