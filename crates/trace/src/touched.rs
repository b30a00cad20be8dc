//! How many pages of long blocks a program touched.
//!
//! A frame of this kind holds pairs of numbers: a block, and how many of its pages were touched while it lived. Blocks
//! that are in no frame are not known; most are too short to be worth a pair.

use crate::error::Fault;
use crate::number;

/// Appends a pair to the contents of a frame.
pub(crate) fn put(contents: &mut Vec<u8>, block: u64, pages: u64) {
    number::put(contents, block);
    number::put(contents, pages);
}

/// Passes each pair of a frame's contents to `take`.
pub(crate) fn each(mut contents: &[u8], mut take: impl FnMut(u64, u64)) -> Result<(), Fault> {
    while !contents.is_empty() {
        let block = number::take(&mut contents).ok_or(Fault::Side)?;
        let pages = number::take(&mut contents).ok_or(Fault::Side)?;
        take(block, pages);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pairs_come_out_as_they_went_in() {
        let mut contents = Vec::new();
        let pairs = [(0, 0), (1, 1), (u64::MAX, 1 << 40)];
        pairs.iter().for_each(|&(block, pages)| put(&mut contents, block, pages));
        let mut found = Vec::new();
        each(&contents, |block, pages| found.push((block, pages))).unwrap();
        assert_eq!(found, pairs);
        assert!(each(&contents[..contents.len() - 1], |_, _| ()).is_err());
    }
}
