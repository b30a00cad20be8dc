//! The fixed part of a header: what was decided when the segment was made, and where its parts lie.

use heapwright_placement::PolicyKind;

use super::header::{FIXED_WORDS, checksum};
use super::layout::{Layout, Plan};
use crate::terms::settings::SmallBlocks;

/// The first eight bytes of every segment.
pub(crate) const MAGIC: u64 = u64::from_ne_bytes(*b"hwshared");

/// The version of all that lies in a segment.
pub(crate) const VERSION: u32 = 9;

/// The fixed part, read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Fixed {
    pub(crate) plan: Plan,
    /// The whole segment's length and where its parts begin.
    length: u64,
    metadata: u64,
    data: u64,
}

/// Why the words of a fixed part are not one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unfit {
    Magic,
    Version(u32),
    Checksum,
    Contents,
}

impl Fixed {
    pub(crate) fn of(layout: &Layout) -> Fixed {
        Fixed {
            plan: layout.plan,
            length: layout.length() as u64,
            metadata: layout.metadata as u64,
            data: layout.data as u64,
        }
    }

    pub(crate) fn encode(&self) -> [u64; FIXED_WORDS] {
        let Plan { policy, granule, processes, roots, size, max_size, small } = self.plan;
        let mut words = [0; FIXED_WORDS];
        words[..12].copy_from_slice(&[
            MAGIC,
            u64::from(VERSION),
            policy as u64,
            u64::from(granule),
            processes as u64,
            roots as u64,
            size as u64,
            max_size as u64,
            self.length,
            self.metadata,
            self.data,
            small as u64,
        ]);
        words[FIXED_WORDS - 1] = u64::from(checksum(&words[..FIXED_WORDS - 1]));
        words
    }

    /// The fixed part in `words`, and the layout that follows from it; nothing in it is believed before it was looked
    /// at.
    pub(crate) fn decode(words: &[u64; FIXED_WORDS]) -> Result<(Fixed, Layout), Unfit> {
        if words[0] != MAGIC {
            return Err(Unfit::Magic);
        }
        match u32::try_from(words[1]) {
            Ok(VERSION) => {}
            Ok(found) => return Err(Unfit::Version(found)),
            Err(_) => return Err(Unfit::Checksum),
        }
        if words[FIXED_WORDS - 1] != u64::from(checksum(&words[..FIXED_WORDS - 1])) {
            return Err(Unfit::Checksum);
        }
        Self::contents(words).ok_or(Unfit::Contents)
    }

    fn contents(words: &[u64; FIXED_WORDS]) -> Option<(Fixed, Layout)> {
        let number = |at: usize| usize::try_from(words[at]).ok();
        let plan = Plan {
            policy: PolicyKind::ALL.into_iter().find(|&kind| kind as u64 == words[2])?,
            granule: u32::try_from(words[3]).ok()?,
            processes: number(4)?,
            roots: number(5)?,
            size: number(6)?,
            max_size: number(7)?,
            small: SmallBlocks::ALL.into_iter().find(|&small| small as u64 == words[11])?,
        };
        let layout = Layout::of(&plan).ok()?;
        let fixed = Fixed::of(&layout);
        (fixed.encode() == *words).then_some((fixed, layout))
    }

    /// Returns how long the segment must be.
    pub(crate) fn length(&self) -> u64 {
        self.length
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::terms::settings::Settings;

    fn words() -> [u64; FIXED_WORDS] {
        Fixed::of(&Layout::of(&Plan::of(&Settings::default()).unwrap()).unwrap()).encode()
    }

    #[test]
    fn what_was_written_is_read() {
        let (fixed, layout) = Fixed::decode(&words()).unwrap();
        assert_eq!(fixed, Fixed::of(&layout));
        assert_eq!(fixed.length(), layout.length() as u64);
    }

    #[test]
    fn every_bit_is_protected() {
        for bit in 0..FIXED_WORDS * 64 {
            let mut changed = words();
            changed[bit / 64] ^= 1 << (bit % 64);
            let expected = match bit / 64 {
                0 => Unfit::Magic,
                1 if bit % 64 < 32 => Unfit::Version(changed[1] as u32),
                _ => Unfit::Checksum,
            };
            assert_eq!(Fixed::decode(&changed), Err(expected));
        }
    }

    #[test]
    fn contents_are_not_believed_because_their_checksum_fits() {
        for at in 2..FIXED_WORDS - 1 {
            for value in [0, 1, 12345, 1 << 40, u64::MAX] {
                let mut forged = words();
                if forged[at] == value {
                    continue;
                }
                forged[at] = value;
                forged[FIXED_WORDS - 1] = u64::from(checksum(&forged[..FIXED_WORDS - 1]));
                // Another policy, granule or table would be another layout; lengths and places are not as they were.
                assert_eq!(Fixed::decode(&forged), Err(Unfit::Contents), "word {at} = {value}");
            }
        }
    }
}
