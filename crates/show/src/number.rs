//! Formats of numbers, sizes and times, and their parsers.

use std::time::Duration;

/// Formats a whole number, its thousands separated by commas.
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

/// Formats a number of things that are named in the singular, as in "1 row" and "2,000 rows".
pub fn counted(number: u64, thing: &str) -> String {
    let plural = match number {
        1 => "",
        _ if thing.ends_with('s') => "es",
        _ => "s",
    };
    format!("{} {thing}{plural}", grouped(number))
}

/// Formats a number with three significant digits, without an exponent.
pub fn short(number: f64) -> String {
    if number == 0.0 || !number.is_finite() {
        return format!("{number}");
    }
    let magnitude = number.abs().log10().floor() as i32;
    let decimals = usize::try_from(2 - magnitude).unwrap_or(0);
    format!("{number:.decimals$}")
}

/// Formats a number of bytes in KiB, MiB and so on.
pub fn bytes(bytes: u64) -> String {
    const UNITS: [&str; 6] = ["KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
    if bytes < 1024 {
        return format!("{bytes} B");
    }
    let power = (bytes.ilog2() / 10) as usize;
    format!("{} {}", short(bytes as f64 / 1024_f64.powi(power as i32)), UNITS[power - 1])
}

/// Parses a number of bytes: `4096`, `64KiB`, `1.5M`, rounded down to whole ones. Units are powers of 1024, in upper or
/// lower case.
///
/// # Errors
/// A description of the expected form.
pub fn parse_bytes(text: &str) -> Result<usize, String> {
    let form = || {
        "a size is a number of bytes, or of KiB, MiB, GiB or TiB (for short k, M, G or T), as in 4096, 64KiB or 1.5G"
            .to_owned()
    };
    let (number, unit) = text.split_at(text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len()));
    let power = match unit.trim_start().to_ascii_lowercase().as_str() {
        "" | "b" => 0,
        "k" | "kib" => 1,
        "m" | "mib" => 2,
        "g" | "gib" => 3,
        "t" | "tib" => 4,
        _ => return Err(form()),
    };
    let (whole, part) = match number.split_once('.') {
        Some((_, "")) => return Err(form()),
        Some(_) if power == 0 => return Err(form()),
        Some(parts) => parts,
        None => (number, ""),
    };
    // Digits behind these stand for less than a byte.
    let part = part.get(..18).unwrap_or(part);
    let value: u128 = format!("{whole}{part}").parse().ok().filter(|_| !whole.is_empty()).ok_or_else(form)?;
    let bytes = value.checked_mul(1 << (10 * power)).map(|bytes| bytes / 10_u128.pow(part.len() as u32));
    bytes.and_then(|bytes| usize::try_from(bytes).ok()).ok_or_else(|| "no machine has that much memory".to_owned())
}

/// Parses a number of bytes below 4 GiB, as [`parse_bytes`] does.
///
/// # Errors
/// A description of the expected form.
pub fn parse_short_bytes(text: &str) -> Result<u32, String> {
    u32::try_from(parse_bytes(text)?).map_err(|_| "it is 4 GiB or more".to_owned())
}

/// Parses a duration: `30`, `0.5` (seconds), `30s`, `250ms`, `5m`, `1h 30m`.
///
/// # Errors
/// A description of the expected form.
pub fn parse_duration(text: &str) -> Result<Duration, String> {
    let form =
        || "a duration is a number of seconds, or numbers with units, as in 30, 0.5, 250ms, 5m or 1h 30m".to_owned();
    match text.parse() {
        Ok(seconds) => Duration::try_from_secs_f64(seconds).map_err(|_| form()),
        Err(_) => humantime::parse_duration(text).map_err(|_| form()),
    }
}

/// Formats a number of seconds in s, ms, µs or ns.
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
    fn durations_are_read_with_and_without_units() {
        for (text, milliseconds) in [
            ("30", 30_000),
            ("30s", 30_000),
            ("0.5", 500),
            ("250ms", 250),
            ("5m", 300_000),
            ("1h 30m", 5_400_000),
            ("1h30m", 5_400_000),
            ("0", 0),
        ] {
            assert_eq!(parse_duration(text), Ok(Duration::from_millis(milliseconds)), "{text}");
        }
        for text in ["", "s", "-1", "nan", "inf", "1e30", "5 parsecs", "1:30"] {
            assert!(parse_duration(text).is_err(), "{text}");
        }
        assert_eq!((parse_short_bytes("16"), parse_short_bytes("4KiB")), (Ok(16), Ok(4096)));
        assert!(parse_short_bytes("4GiB").is_err());
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
            ("1.5GiB", 3 << 29),
            ("0.1KiB", 102),
            ("1.0000000000000000001K", 1024),
        ] {
            assert_eq!(parse_bytes(text), Ok(bytes), "{text}");
        }
        for text in [
            "",
            "K",
            "-1",
            "1.5",
            ".5K",
            "1.K",
            "1.2.3K",
            "1.5B",
            "1KB",
            "1 K iB",
            "99999999999999999999",
            "99999999T",
            "0x10",
        ] {
            assert!(parse_bytes(text).is_err(), "{text}");
        }
    }
}
