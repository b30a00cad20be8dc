//! Metadata: how much there must be, and what is taken for a heap.

use std::ptr::NonNull;

use heapwright_placement::{AnyEngine, BestFit, Engine, FirstFit, Fit, PolicyKind, Rules, RulesError};

const CAPACITY: usize = if cfg!(miri) { 1 << 15 } else { 1 << 20 };

fn cells(policy: PolicyKind) -> usize {
    AnyEngine::metadata_cells(policy, CAPACITY, &Rules::default()).unwrap()
}

fn attach(metadata: &mut [u64]) -> Result<AnyEngine<'_>, RulesError> {
    let cells = metadata.len();
    // SAFETY: the slice is borrowed for as long as the engine, and only engines wrote to it.
    unsafe { AnyEngine::attach(NonNull::from(metadata).cast(), cells) }
}

#[test]
fn a_block_that_is_one_cell_too_short_is_refused() {
    for policy in PolicyKind::ALL {
        let mut metadata = vec![0; cells(policy) - 1];
        let refused = AnyEngine::create(policy, &mut metadata, CAPACITY, &Rules::default()).err();
        assert_eq!(refused, Some(RulesError::MetadataTooShort), "{policy:?}");
    }
}

#[test]
fn zeroed_memory_is_no_heap() {
    assert_eq!(attach(&mut [0; 100]).err(), Some(RulesError::NotAHeap));
    assert_eq!(attach(&mut []).err(), Some(RulesError::MetadataTooShort));
}

#[test]
fn a_heap_is_taken_up_under_its_own_policy_and_no_other() {
    for policy in PolicyKind::ALL {
        let mut metadata = vec![0; cells(policy)];
        let mut heap = AnyEngine::create(policy, &mut metadata, CAPACITY, &Rules::default()).unwrap();
        let offset = heap.allocate(100, 1).unwrap();
        let heap = attach(&mut metadata).unwrap();
        assert_eq!(heap.policy(), policy);
        assert!(heap.usable_size(offset).is_some());
    }
    let mut metadata = vec![0; cells(PolicyKind::Best)];
    Fit::<BestFit>::create(&mut metadata, CAPACITY, &Rules::default()).unwrap();
    // SAFETY: as above.
    let other = unsafe { Fit::<FirstFit>::attach(NonNull::from(&mut metadata[..]).cast(), metadata.len()) };
    assert_eq!(other.err(), Some(RulesError::NotAHeap));
}

#[test]
fn a_heap_cut_short_is_not_taken_up() {
    for policy in PolicyKind::ALL {
        let mut metadata = vec![0; cells(policy)];
        AnyEngine::create(policy, &mut metadata, CAPACITY, &Rules::default()).unwrap();
        let short = metadata.len() - 1;
        assert_eq!(attach(&mut metadata[..short]).err(), Some(RulesError::MetadataTooShort), "{policy:?}");
    }
}

#[test]
fn create_overwrites_whatever_was_there() {
    for policy in PolicyKind::ALL {
        let mut metadata = vec![u64::MAX; cells(policy)];
        let mut heap = AnyEngine::create(policy, &mut metadata, CAPACITY, &Rules::default()).unwrap();
        assert_eq!(heap.allocate(CAPACITY, 1), Ok(0));
        heap.check().unwrap();
    }
}
