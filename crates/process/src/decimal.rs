//! Formats fractions as decimals.
//!
//! The standard library formats floating-point numbers exactly to any number of digits, which adds 20 KiB of code and
//! tables. A preloaded library needs only a few digits.

use core::fmt;

/// A value with a fixed number of digits after the point, rounded. Negative values are formatted as 0.
#[derive(Clone, Copy)]
pub(crate) struct Decimal {
    pub(crate) value: f64,
    pub(crate) places: usize,
}

impl fmt::Display for Decimal {
    /// Honours the formatter's width and aligns to the right.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let places = self.places;
        let unit = 10u64.pow(places as u32);
        let scaled = (self.value * unit as f64 + 0.5) as u64;
        let width = f.width().unwrap_or(0).saturating_sub(places + 1);
        write!(f, "{:>width$}.{:0>places$}", scaled / unit, scaled % unit)
    }
}

#[cfg(test)]
mod tests {
    extern crate std;

    use std::format;
    use std::string::{String, ToString};

    use super::Decimal;

    fn shown(value: f64, places: usize) -> String {
        format!("{:>10}", Decimal { value, places })
    }

    #[test]
    fn decimals_are_rounded_and_aligned() {
        assert_eq!(shown(0.0, 4), "    0.0000");
        assert_eq!(shown(0.98765, 4), "    0.9877");
        assert_eq!(shown(0.99996, 4), "    1.0000");
        assert_eq!(shown(1234.05, 1), "    1234.1");
        assert_eq!(Decimal { value: 12.5, places: 3 }.to_string(), "12.500");
        assert_eq!(shown(-0.5, 2), "      0.00");
    }
}
