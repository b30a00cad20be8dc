//! The text of a trace that says which requests have a call site.

use std::num::NonZero;

use heapwright_stream::ALWAYS_SAMPLED_FROM;
use heapwright_trace::About;

/// The name of the text.
pub(crate) const NAME: &str = "sites";

/// The name of the text of a trace that has only requests within marked blocks.
pub const MARKED: &str = "marked";

/// The name of the text of a trace that tells what its call sites lack.
pub const LACKING: &str = "sites-lacking";

/// How the text of a sampled trace begins, and what stands in front of the length from which on all are recorded.
const ONE_IN: &str = "of one request in ";
const LONGER: &str = "; of every request of ";

/// Which requests have a call site.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sampling {
    /// One shorter request in this many, each chosen independently with this probability.
    pub every: u64,
    /// Every request of this many bytes or more.
    pub long: u64,
}

impl Sampling {
    /// Every request.
    pub const ALL: Sampling = Sampling { every: 1, long: u64::MAX };

    /// The sampling of a recording in which one shorter request in `every` is chosen.
    pub(crate) fn of_one_in(every: NonZero<u32>) -> Sampling {
        if every.get() == 1 { Sampling::ALL } else { Sampling { every: every.get().into(), long: ALWAYS_SAMPLED_FROM } }
    }

    /// Describes the sampling.
    pub(crate) fn described(self) -> String {
        match self {
            Sampling { every: 1, .. } => "of every request".to_owned(),
            Sampling { every, long } => {
                format!("{ONE_IN}{every}: each chosen independently with this probability{LONGER}{long} bytes or more")
            }
        }
    }

    /// Returns the sampling of a trace; all requests if it does not say.
    pub fn of(about: &About) -> Sampling {
        let described = about.get(NAME).and_then(|text| text.strip_prefix(ONE_IN));
        let every = described.and_then(leading_number).filter(|every| (1..=u32::MAX.into()).contains(every));
        let Some((text, every)) = described.zip(every).filter(|&(_, every)| every > 1) else { return Sampling::ALL };
        // Recordings of earlier versions chose without regard to length.
        let long = text.split_once(LONGER).and_then(|(_, text)| leading_number(text));
        Sampling { every, long: long.unwrap_or(u64::MAX) }
    }

    /// Returns whether a trace says that requests have call sites.
    pub fn is_told(about: &About) -> bool {
        about.get(NAME).is_some()
    }

    /// Returns for how many requests of this size one with a call site stands.
    pub fn weight(self, size: u64) -> u64 {
        if size >= self.long { 1 } else { self.every }
    }
}

/// Returns the number at the beginning of a text.
fn leading_number(text: &str) -> Option<u64> {
    text.split(|c: char| !c.is_ascii_digit()).next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Sampling {
        let mut about = About::default();
        about.set(NAME, text);
        Sampling::of(&about)
    }

    #[test]
    fn what_is_described_is_read() {
        for every in [1, 2, 16, u32::MAX] {
            let sampling = Sampling::of_one_in(NonZero::new(every).unwrap());
            assert_eq!(read(&sampling.described()), sampling);
        }
        assert_eq!(Sampling::of(&About::default()), Sampling::ALL);
        for text in ["of one request in 0: ", "of one request in many", "of one request in 99999999999", "nonsense"] {
            assert_eq!(read(text), Sampling::ALL, "{text}");
        }
    }

    #[test]
    fn a_long_request_stands_for_itself_unless_the_recording_is_of_an_earlier_version() {
        let now = read("of one request in 16: each chosen; of every request of 65536 bytes or more");
        assert_eq!((now.weight(65_535), now.weight(65_536)), (16, 1));
        let earlier = read("of one request in 16: each chosen independently with this probability");
        assert_eq!((earlier.weight(1), earlier.weight(u64::MAX - 1)), (16, 16));
    }
}
