//! The text of a trace that says which requests have a call site.

use std::num::NonZero;

use heapwright_trace::About;

/// The name of the text.
pub(crate) const NAME: &str = "sites";

/// Describes the sampling of one request in `every`.
pub(crate) fn described(every: NonZero<u32>) -> String {
    match every.get() {
        1 => "of every request".to_owned(),
        every => format!("of one request in {every}: each chosen independently with this probability"),
    }
}

/// Returns the sampling period of a trace's call sites; 1 if every request has one, or the trace does not say.
pub fn period(about: &About) -> u64 {
    let every = about.get(NAME).and_then(|text| text.strip_prefix("of one request in "));
    let digits = every.and_then(|text| text.split(':').next());
    digits.and_then(|digits| digits.parse().ok()).filter(|&every: &u64| every <= u32::MAX.into()).unwrap_or(1).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_described_is_read() {
        for every in [1, 2, 16, u32::MAX] {
            let mut about = About::default();
            about.set(NAME, &described(NonZero::new(every).unwrap()));
            assert_eq!(period(&about), u64::from(every));
        }
        let mut about = About::default();
        assert_eq!(period(&about), 1);
        for text in ["of one request in 0: ", "of one request in many", "of one request in 99999999999", "nonsense"] {
            about.set(NAME, text);
            assert_eq!(period(&about), 1, "{text}");
        }
    }
}
