//! Numbers as people read them.

/// A whole number with its thousands apart.
pub fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// A number with three significant digits, without an exponent.
pub fn short(number: f64) -> String {
    if number == 0.0 || !number.is_finite() {
        return format!("{number}");
    }
    let magnitude = number.abs().log10().floor() as i32;
    let decimals = usize::try_from(2 - magnitude).unwrap_or(0);
    format!("{number:.decimals$}")
}

/// A number of bytes, in the unit that suits it.
pub fn bytes(bytes: u64) -> String {
    const UNITS: [&str; 6] = ["KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
    if bytes < 1024 {
        return format!("{bytes} B");
    }
    let power = (bytes.ilog2() / 10) as usize;
    format!("{} {}", short(bytes as f64 / 1024_f64.powi(power as i32)), UNITS[power - 1])
}

/// A number of bytes as people type it: `4096`, `64KiB`, `1M`; units are powers of 1024, in whatever case.
///
/// # Errors
/// What it should look like.
pub fn parse_bytes(text: &str) -> Result<usize, String> {
    let (digits, unit) = text.split_at(text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len()));
    let power = match unit.trim_start().to_ascii_lowercase().as_str() {
        "" | "b" => 0,
        "k" | "kib" => 1,
        "m" | "mib" => 2,
        "g" | "gib" => 3,
        "t" | "tib" => 4,
        _ => return Err("a size is a whole number of bytes, KiB, MiB, GiB or TiB, as in 64KiB".to_owned()),
    };
    let number: usize =
        digits.parse().map_err(|_| "a size is a whole number and perhaps a unit, as in 64KiB".to_owned())?;
    number.checked_mul(1 << (10 * power)).ok_or_else(|| "no machine has so much memory".to_owned())
}

/// A duration given in seconds, in the unit that suits it.
pub fn seconds(seconds: f64) -> String {
    let (scale, unit) = match seconds.abs() {
        s if s >= 1.0 => (1.0, "s"),
        s if s >= 1e-3 => (1e3, "ms"),
        s if s >= 1e-6 => (1e6, "µs"),
        _ => (1e9, "ns"),
    };
    format!("{} {unit}", short(seconds * scale))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_read_well() {
        assert_eq!(grouped(0), "0");
        assert_eq!(grouped(999), "999");
        assert_eq!(grouped(179_258_508), "179,258,508");
        assert_eq!(short(0.08251), "0.0825");
        assert_eq!(short(133.4), "133");
        assert_eq!(short(0.0), "0");
        assert_eq!(bytes(1023), "1023 B");
        assert_eq!(bytes(1536), "1.50 KiB");
        assert_eq!(bytes(u64::MAX), "16.0 EiB");
        assert_eq!(seconds(0.0065), "6.50 ms");
        assert_eq!(seconds(129.15), "129 s");
        assert_eq!(seconds(6.19e-8), "61.9 ns");
    }

    #[test]
    fn sizes_are_read_as_people_type_them() {
        for (text, bytes) in [
            ("0", 0),
            ("4096", 4096),
            ("17B", 17),
            ("64KiB", 64 << 10),
            ("1 mib", 1 << 20),
            ("3G", 3 << 30),
            ("2t", 2 << 40),
        ] {
            assert_eq!(parse_bytes(text), Ok(bytes), "{text}");
        }
        for text in ["", "K", "-1", "1.5M", "1KB", "1 K iB", "99999999999999999999", "99999999T", "0x10"] {
            assert!(parse_bytes(text).is_err(), "{text}");
        }
    }
}
