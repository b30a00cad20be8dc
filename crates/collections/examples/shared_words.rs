//! A map from words to counts that processes share: four children count the words of a text, and the parent prints
//! them.
//!
//! `cargo run --example shared_words`

use std::error::Error;
use std::process::Command;

use heapwright_collections::{Map, Text};
use heapwright_shared::{Place, Settings, SharedHeap};

const TEXT: &str = "a heap is a heap is a heap that many processes share and none of them can take with it";

fn main() -> Result<(), Box<dyn Error>> {
    match std::env::args().nth(1) {
        Some(name) => count(&Place::new(name)?),
        None => print(&Place::new(format!("shared-words-{}", std::process::id()))?),
    }
}

/// A child: adds the words of the text to the map.
fn count(place: &Place) -> Result<(), Box<dyn Error>> {
    let heap = SharedHeap::open(place)?;
    let words = heap.root("words")?.ok_or("there is no map")?.cast();
    for word in TEXT.split(' ') {
        // SAFETY: the root is a mutex around such a map.
        let mut guard = unsafe { heap.lock::<Map<Text, u64>>(words) }?;
        // SAFETY: the map was made in this heap, and the mutex is held.
        *unsafe { guard.attach(&heap) }.get_or_insert(word, 0)? += 1;
    }
    Ok(())
}

/// The parent: makes the map, waits for its children, and prints what they counted.
fn print(place: &Place) -> Result<(), Box<dyn Error>> {
    let heap = SharedHeap::create(place, &Settings { max_size: Some(16 << 20), ..Settings::default() })?;
    let words = heap.allocate_mutex(Map::<Text, u64>::new())?;
    heap.set_root("words", words.cast())?;
    let child = || Command::new(std::env::current_exe()?).arg(place.path().as_os_str()).spawn();
    for child in [child()?, child()?, child()?, child()?].iter_mut() {
        child.wait()?;
    }
    // SAFETY: the root is a mutex around such a map.
    let mut guard = unsafe { heap.lock(words) }?;
    // SAFETY: the map was made in this heap, and the mutex is held.
    let map = unsafe { guard.attach(&heap) };
    let mut counts: Vec<(&str, &u64)> = map.iter().collect();
    counts.sort();
    counts.iter().for_each(|(word, count)| println!("{word} {count}"));
    SharedHeap::unlink(place)?;
    Ok(())
}
