//! Lists of values as they are typed: `8,16,32` or `1..20`.

use heapwright_show::number::parse_bytes;

/// Values, separated by commas.
pub fn values(text: &str) -> Result<Vec<String>, String> {
    parts(text, |part| match part {
        "" => Err("a value is missing between commas".to_owned()),
        part => Ok(part.to_owned()),
    })
}

/// Lengths of regions, separated by commas.
pub fn regions(text: &str) -> Result<Vec<usize>, String> {
    parts(text, parse_bytes)
}

/// The most seeds that a range may have.
const MANY: u64 = 1_000_000;

/// Seeds: numbers and ranges (`1..20`, both ends included), separated by commas.
pub fn seeds(text: &str) -> Result<Vec<u64>, String> {
    let number = |part: &str| {
        part.trim().parse::<u64>().map_err(|_| format!("{part} is no seed: a number, or a range as in 1..20"))
    };
    let ranges = parts(text, |part| match part.split_once("..") {
        None => number(part).map(|seed| seed..=seed),
        Some((first, last)) => Ok(number(first)?..=number(last)?),
    })?;
    if ranges.iter().any(|range| range.is_empty()) {
        return Err(format!("{text}: a range of seeds begins with its lower end"));
    }
    if ranges.iter().map(|range| (range.end() - range.start()).saturating_add(1)).fold(0, u64::saturating_add) > MANY {
        return Err(format!("{text}: at most {MANY} seeds"));
    }
    Ok(ranges.into_iter().flatten().collect())
}

/// Which part of a sweep: `K/N`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shard {
    /// Points whose numbers leave this rest.
    pub this: usize,
    /// When they are divided by this.
    pub of: usize,
}

/// A shard, from 0 to one less than there are.
pub fn shard(text: &str) -> Result<Shard, String> {
    let wrong = || format!("{text} is no shard: K/N with K from 0 to N-1, as in 0/8");
    let (this, of) = text.split_once('/').ok_or_else(wrong)?;
    let shard = Shard { this: this.parse().map_err(|_| wrong())?, of: of.parse().map_err(|_| wrong())? };
    if shard.this < shard.of { Ok(shard) } else { Err(wrong()) }
}

fn parts<T>(text: &str, parse: impl Fn(&str) -> Result<T, String>) -> Result<Vec<T>, String> {
    text.split(',').map(|part| parse(part.trim())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_are_read_as_people_type_them() {
        assert_eq!(values("8, 16,1KiB"), Ok(["8", "16", "1KiB"].map(str::to_owned).to_vec()));
        assert_eq!(regions("8, 16,1KiB"), Ok(vec![8, 16, 1024]));
        assert_eq!(seeds("7,1..3"), Ok(vec![7, 1, 2, 3]));
        assert_eq!(shard("2/3"), Ok(Shard { this: 2, of: 3 }));
        for text in ["", "8,,16", "-1"] {
            assert!(regions(text).is_err(), "{text}");
        }
        assert!(values("8,,16").is_err() && values("").is_err());
        assert!(seeds("5..1").is_err() && seeds("0..18446744073709551615").is_err() && seeds("a").is_err());
        assert!(shard("3/3").is_err() && shard("0/0").is_err() && shard("1").is_err() && shard("-1/2").is_err());
    }
}
