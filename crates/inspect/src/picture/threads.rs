//! The threads of a process under glibc's malloc: the arena and the cache of each.

use std::collections::{HashMap, HashSet};

use serde::Serialize;

use crate::glibc::{self, Arena, Cache, Cached, SizeClass};
use crate::memory::Memory;
use crate::threads::{Place, Threads};

/// A thread. What is not known is missing.
#[derive(Clone, Debug, Serialize)]
pub struct ThreadPicture {
    /// Its number.
    pub id: u32,
    /// Its name.
    pub name: String,
    /// The arena that it allocates from.
    pub arena: Option<usize>,
    /// Free blocks in its thread cache.
    pub cached_blocks: Option<u64>,
    /// Bytes of these blocks.
    pub cached: Option<u64>,
}

/// What is known of a thread's cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum OwnCache {
    /// Its blocks.
    Known(SizeClass),
    /// It changed while it was read; it lies in this arena.
    Torn(usize),
    /// Nothing.
    Unknown,
}

/// Returns what is known of `threads`, and the arenas whose figures of thread caches cannot be told because a cache
/// changed while it was read. `caches` are those with blocks.
pub fn of(
    memory: &impl Memory,
    threads: &Threads,
    arenas: &[Arena],
    caches: &[Cache],
) -> (Vec<ThreadPicture>, HashSet<usize>) {
    let numbers: HashMap<u64, usize> =
        arenas.iter().enumerate().map(|(number, arena)| (arena.address, number)).collect();
    // Of several C libraries each has its own place.
    let is_of_largest = |word: u64| numbers.get(&word).is_some_and(|number| arenas[*number].heap == 0);
    let arena_at = threads.place_of(is_of_largest).or_else(|| threads.place_of(|word| numbers.contains_key(&word)));
    let caches: HashMap<u64, &Cache> = caches.iter().map(|cache| (cache.address, cache)).collect();
    let may_be = |word: u64| Some((arena_of(arenas, word)?, glibc::cache_sized(memory, word)?));
    let cache_at = threads.place_of(|word| caches.contains_key(&word));
    let cache_at = cache_at.or_else(|| threads.place_of(|word| may_be(word).is_some()));
    let own_cache = |word: u64| match (caches.get(&word), may_be(word)) {
        (Some(cache), _) => OwnCache::Known(content(cache)),
        (None, Some((_, (chunk, size)))) if Cache::at(memory, chunk, size, &mut 0).is_some() => {
            OwnCache::Known(SizeClass::default())
        }
        (None, Some((arena, _))) => OwnCache::Torn(arena),
        (None, None) => OwnCache::Unknown,
    };
    let (mut pictures, mut torn) = (Vec::new(), HashSet::new());
    for thread in &threads.all {
        let variable = |place: Option<Place>| thread.variable(place?);
        let arena = variable(arena_at).and_then(|word| numbers.get(&word)).copied();
        let cached = match variable(cache_at).map_or(OwnCache::Unknown, own_cache) {
            OwnCache::Known(cached) => Some(cached),
            OwnCache::Torn(holder) => {
                // The blocks of a cache are mostly of the arena from which its thread allocates.
                torn.insert(arena.unwrap_or(holder));
                None
            }
            OwnCache::Unknown => None,
        };
        pictures.push(ThreadPicture {
            id: thread.id,
            name: thread.name.clone(),
            arena,
            cached_blocks: cached.map(|cached| cached.blocks),
            cached: cached.map(|cached| cached.bytes),
        });
    }
    (pictures, torn)
}

/// Returns the blocks in a cache.
fn content(cache: &Cache) -> SizeClass {
    let blocks = cache.lists.iter().map(|list| list.blocks.len() as u64).sum();
    SizeClass { blocks, bytes: cache.lists.iter().map(Cached::bytes).sum() }
}

/// Returns the number of the arena in which `address` lies.
fn arena_of(arenas: &[Arena], address: u64) -> Option<usize> {
    arenas.iter().position(|arena| arena.segments.iter().any(|segment| segment.range.contains(&address)))
}
