//! Collections against those of the standard library, and after kills at any moment.

use std::collections::HashMap;

use heapwright_collections::{Map, Text, Vector};
use heapwright_shared::{Place, Settings, SharedHeap};

struct Spot(Place);

impl Spot {
    fn new(what: &str) -> (Spot, SharedHeap) {
        let place = Place::new(format!("heapwright-collections-{what}-{}", std::process::id())).unwrap();
        let settings = Settings { max_size: Some(64 << 20), ..Settings::default() };
        let heap = SharedHeap::create(&place, &settings).unwrap();
        (Spot(place), heap)
    }
}

impl Drop for Spot {
    fn drop(&mut self) {
        SharedHeap::unlink(&self.0).unwrap();
    }
}

fn live(heap: &SharedHeap) -> u64 {
    heap.counters().unwrap().live
}

#[test]
fn vectors_agree_with_the_standard_librarys_at_two_addresses() {
    let (spot, heap) = Spot::new("vector");
    let there = SharedHeap::open(&spot.0).unwrap();
    let offset = heap.allocate_value(Vector::<u32>::new()).unwrap();
    let empty = live(&heap);
    let (mut model, mut random) = (Vec::new(), fastrand::Rng::with_seed(1));
    for step in 0..20_000 {
        let heap = if random.bool() { &heap } else { &there };
        // SAFETY: the vector was made in this heap, and this thread alone uses it.
        let mut vector = unsafe { heap.pointer(offset).as_mut().attach(heap) };
        match random.u8(..10) {
            0..5 => {
                vector.push(step).unwrap();
                model.push(step);
            }
            5..8 => assert_eq!(vector.pop(), model.pop()),
            8 => {
                let more: Vec<u32> = (0..random.u32(..20)).collect();
                vector.extend_from_slice(&more).unwrap();
                model.extend_from_slice(&more);
            }
            _ => {
                let length = random.usize(..200);
                vector.truncate(length);
                model.truncate(length);
                vector.iter_mut().for_each(|item| *item ^= 1);
                model.iter_mut().for_each(|item| *item ^= 1);
            }
        }
        assert_eq!(*vector, *model);
    }
    // SAFETY: as above.
    unsafe { heap.pointer(offset).as_mut().attach(&heap) }.free().unwrap();
    assert_eq!(live(&heap), empty);
}

#[test]
fn maps_agree_with_the_standard_librarys_at_two_addresses() {
    let (spot, heap) = Spot::new("map");
    let there = SharedHeap::open(&spot.0).unwrap();
    let offset = heap.allocate_value(Map::<Text, u64>::new()).unwrap();
    let empty = live(&heap);
    let (mut model, mut random) = (HashMap::new(), fastrand::Rng::with_seed(2));
    for step in 0..20_000_u64 {
        let heap = if random.bool() { &heap } else { &there };
        // SAFETY: the map was made in this heap, and this thread alone uses it.
        let mut map = unsafe { heap.pointer(offset).as_mut().attach(heap) };
        let key = format!("key {}", random.u32(..if step < 10_000 { 2_000 } else { 50 }));
        match random.u8(..10) {
            0..4 => assert_eq!(map.insert(&key, step).unwrap(), model.insert(key, step)),
            4..8 => assert_eq!(map.remove(&key).unwrap(), model.remove(&key)),
            8 => assert_eq!(map.get_or_insert(&key, 7).unwrap(), model.entry(key).or_insert(7)),
            _ => assert_eq!(map.get(&key), model.get(&key)),
        }
        assert_eq!(map.len(), model.len());
    }
    // SAFETY: as above.
    let mut map = unsafe { heap.pointer(offset).as_mut().attach(&heap) };
    assert_eq!(map.iter().map(|(key, &value)| (key.to_owned(), value)).collect::<HashMap<_, _>>(), model);
    map.free().unwrap();
    assert_eq!(live(&heap), empty);
}

/// What a child does until it is killed: adds, changes and removes entries whose values belong to their keys.
fn change_for_ever(place: &Place, seed: u64) -> ! {
    let heap = SharedHeap::open(place).unwrap();
    let mutex = heap.root("map").unwrap().unwrap().cast();
    let mut random = fastrand::Rng::with_seed(seed);
    loop {
        // SAFETY: the root is a mutex around such a map.
        let mut guard = unsafe { heap.lock::<Map<Text, u64>>(mutex) }.unwrap();
        // SAFETY: the map was made in this heap, and the mutex is held.
        let mut map = unsafe { guard.attach(&heap) };
        let number = random.u64(..500);
        let key = format!("a key that is long enough for a block: {number}");
        if random.bool() {
            map.insert(&key, number).unwrap();
        } else {
            map.remove(&key).unwrap();
        }
    }
}

#[test]
fn maps_survive_the_kill_of_a_process_that_changes_them() {
    let (spot, heap) = Spot::new("kills");
    let mutex = heap.allocate_mutex(Map::<Text, u64>::new()).unwrap();
    heap.set_root("map", mutex.cast()).unwrap();
    let (mut random, mut deaths) = (fastrand::Rng::with_seed(3), 0);
    for round in 0..200 {
        // SAFETY: the child uses the heap alone, and is killed.
        let child = unsafe { libc::fork() };
        if child == 0 {
            change_for_ever(&spot.0, round);
        }
        std::thread::sleep(std::time::Duration::from_micros(500 + random.u64(..3_000)));
        // SAFETY: a child of this process, which is waited for at once.
        unsafe {
            libc::kill(child, libc::SIGKILL);
            libc::waitpid(child, std::ptr::null_mut(), 0);
        }
        // SAFETY: the root is a mutex around such a map.
        let mut guard = unsafe { heap.lock(mutex) }.unwrap();
        let died = guard.previous_holder_died();
        // SAFETY: the map was made in this heap, and the mutex is held.
        let mut map = unsafe { guard.attach(&heap) };
        if died {
            deaths += 1;
            map.recount();
        }
        let mut count = 0;
        for (key, value) in map.iter() {
            assert_eq!(key, format!("a key that is long enough for a block: {value}"));
            count += 1;
        }
        assert_eq!(count, map.len(), "round {round}");
        guard.mark_consistent();
    }
    heap.check().unwrap();
    assert!(deaths > 0, "no child was killed while it held the mutex");
}
