//! What hardening consists of, by name.

/// Measures against faulty and hostile programs. Each can be taken without the others; two levels name sets of them.
///
/// ```
/// use heapwright_slabs::measures::Measures;
///
/// assert_eq!(Measures::from_text("guard,zero"), Some(Measures::GUARD.and(Measures::ZERO)));
/// assert_eq!(Measures::from_text("light,zero"), Some(Measures::LIGHT.and(Measures::ZERO)));
/// assert_eq!(Measures::from_text("full"), Some(Measures::ALL));
/// assert_eq!(Measures::from_text("walls"), None);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Measures(u8);

impl Measures {
    /// None at all.
    pub const NONE: Measures = Measures(0);
    /// Inaccessible pages lie between runs of blocks, and behind each block of more than 32 KiB.
    pub const GUARD: Measures = Measures(1);
    /// Which block comes next cannot be foreseen.
    pub const RANDOM: Measures = Measures(1 << 1);
    /// What is freed waits for a while before it is used again.
    pub const QUARANTINE: Measures = Measures(1 << 2);
    /// What is freed is overwritten by zeros; whether it still is zero is checked when it is used again.
    pub const ZERO: Measures = Measures(1 << 3);
    /// Secret bytes lie behind each block; whether they are as they were is checked when it is freed.
    pub const CANARY: Measures = Measures(1 << 4);
    /// The light level: the measures that cost little.
    pub const LIGHT: Measures = Measures::GUARD.and(Measures::CANARY);
    /// The full level: all of them.
    pub const ALL: Measures = Measures((1 << 5) - 1);

    /// What [`Measures::from_text`] understands, in words.
    pub const CHOICES: &str =
        "0, 1, or some of light, full, guard, random, quarantine, zero, canary with commas between them";

    const NAMED: [(&str, Measures); 7] = [
        ("light", Measures::LIGHT),
        ("full", Measures::ALL),
        ("guard", Measures::GUARD),
        ("random", Measures::RANDOM),
        ("quarantine", Measures::QUARANTINE),
        ("zero", Measures::ZERO),
        ("canary", Measures::CANARY),
    ];

    /// Returns the measures that a text names: `0` for none, `1` for all, or names of measures and levels with commas
    /// between them. `None` for any other text.
    #[must_use]
    pub fn from_text(text: &str) -> Option<Measures> {
        match text {
            "0" => return Some(Measures::NONE),
            "1" => return Some(Measures::ALL),
            _ => {}
        }
        text.split(',').try_fold(Measures::NONE, |measures, name| {
            let (_, measure) = Measures::NAMED.iter().find(|(known, _)| *known == name)?;
            Some(measures.and(*measure))
        })
    }

    /// These and others.
    #[must_use]
    pub const fn and(self, others: Measures) -> Measures {
        Measures(self.0 | others.0)
    }

    /// Whether all of `others` are among these.
    #[inline]
    #[must_use]
    pub const fn have(self, others: Measures) -> bool {
        self.0 & others.0 == others.0
    }

    pub(crate) const fn bits(self) -> u8 {
        self.0
    }

    pub(crate) const fn from_bits(bits: u8) -> Measures {
        Measures(bits & Measures::ALL.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_name_measures() {
        assert_eq!(Measures::from_text("0"), Some(Measures::NONE));
        assert_eq!(Measures::from_text("guard,random,quarantine,zero,canary"), Some(Measures::ALL));
        assert_eq!(Measures::from_text("zero,zero"), Some(Measures::ZERO));
        assert_eq!(Measures::from_text("light"), Some(Measures::GUARD.and(Measures::CANARY)));
        assert_eq!((Measures::from_text("full"), Measures::from_text("1")), (Some(Measures::ALL), Some(Measures::ALL)));
        for nonsense in ["", "2", "Guard", "guard,", ",guard", "guard random", "01", "heavy", "light,1"] {
            assert_eq!(Measures::from_text(nonsense), None, "{nonsense}");
        }
        assert!(Measures::ALL.have(Measures::ZERO.and(Measures::GUARD)));
        assert!(!Measures::ZERO.have(Measures::ZERO.and(Measures::GUARD)));
    }
}
