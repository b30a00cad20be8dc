//! The allocator libraries found on this machine, for comparisons.

mod built;
mod installed;
mod peer;

pub use installed::installed;
pub use peer::Peer;

/// Returns all allocator libraries that were built for this project, and those installed on this machine whose
/// allocator was not built.
pub fn find() -> Vec<Peer> {
    let mut peers = built::find();
    let is_new = |peer: &Peer| peers.iter().all(|other| !other.is_version_of(peer));
    let others: Vec<Peer> = installed().into_iter().filter(is_new).collect();
    peers.extend(others);
    peers
}
