//! Vectors, strings and hash maps in a [`SharedHeap`]: any process finds them by a root, at whatever address it has the
//! segment.
//!
//! A [`Vector`], [`Text`] or [`Map`] is a small value that refers to its blocks by offsets. It may lie in a block, in
//! another collection, or in a [`Mutex`](heapwright_shared::Mutex). To use it, attach it to the heap
//! ([`Vector::attach`]): the result has the usual methods. One thread of all processes uses a collection at a time,
//! which a mutex ensures.
//!
//! **Kills.** A process may be killed at any store. A vector and a string are then as before or after the operation. A
//! map is too, with three exceptions. [`AttachedMap::recount`] corrects its length; call it when
//! [`previous_holder_died`](heapwright_shared::MutexGuard::previous_holder_died) returns true. A value that
//! [`AttachedMap::insert`] was to replace may be half the old and half the new one, unless it is a word of eight bytes
//! or less: collections and other values that must not be mixed are replaced by [`AttachedMap::remove`] and
//! [`AttachedMap::insert`], between which the key has none. [`AttachedMap::free`] may have removed some of the keys. A
//! block of the collection may be left behind, which reclaiming finds.
//!
//! ```
//! use heapwright_collections::{Map, Text};
//! use heapwright_shared::{Place, Settings, SharedHeap};
//! # let place = Place::new(format!("heapwright-doc-collections-{}", std::process::id()))?;
//! let heap = SharedHeap::create(&place, &Settings::default())?;
//! let words = heap.allocate_mutex(Map::<Text, u64>::new())?;
//! heap.set_root("words", words.cast())?;
//!
//! // In any process:
//! // SAFETY: the root is a mutex around such a map.
//! let mut guard = unsafe { heap.lock(words) }?;
//! // SAFETY: the map was made in this heap, and the mutex is held.
//! let mut words = unsafe { guard.attach(&heap) };
//! *words.get_or_insert("to", 0)? += 1;
//! assert_eq!(words.get("to"), Some(&1));
//! # SharedHeap::unlink(&place)?;
//! # Ok::<(), heapwright_shared::Error>(())
//! ```
//!
//! [`SharedHeap`]: heapwright_shared::SharedHeap

mod key;
mod map;
mod table;
mod text;
mod vector;

pub use key::Key;
pub use map::{AttachedMap, Map};
pub use text::{AttachedText, Text};
pub use vector::{AttachedVector, Vector};
