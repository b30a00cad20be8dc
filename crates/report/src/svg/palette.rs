//! Colours and dashes: those of the page, which are kept in its style sheet.

const STYLE: &str = include_str!("../assets/style.css");

/// The value of a property of the light theme, as `#0072b2` of `line-first`; `None` when there is no such property.
fn property(name: &str) -> Option<&'static str> {
    let light = STYLE.split('}').next()?;
    let (_, rest) = light.split_once(&format!("--{name}:"))?;
    Some(rest.split_once(';')?.0.trim())
}

/// The colour of a line, of a policy or of an allocator.
pub fn line(name: &str) -> &'static str {
    property(&format!("line-{name}")).unwrap_or("#1c1d1f")
}

/// The dashes of a line, as SVG has them; none of an unbroken one.
pub fn dash(name: &str) -> &'static str {
    property(&format!("dash-{name}")).unwrap_or("none")
}

/// The red, green and blue of a class of a colouring.
pub fn class(colouring: &str, class: u8) -> [u8; 3] {
    property(&format!("{colouring}-{class}")).and_then(channels).unwrap_or_default()
}

/// Those of all call sites that have no colour of their own.
pub fn other_sites() -> [u8; 3] {
    property("site-other").and_then(channels).unwrap_or_default()
}

fn channels(hex: &str) -> Option<[u8; 3]> {
    let number = u32::from_str_radix(hex.strip_prefix('#')?, 16).ok()?;
    let [_, red, green, blue] = number.to_be_bytes();
    Some([red, green, blue])
}

/// The name by which an allocator's line is known: its own if it has a colour.
pub fn known(allocator: &str) -> &str {
    if property(&format!("line-{allocator}")).is_some() { allocator } else { "other-0" }
}

/// Those of blocks whose call site is not known.
pub fn unknown_sites() -> [u8; 3] {
    property("site-unknown").and_then(channels).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use heapwright_placement::PolicyKind;

    use super::*;

    #[test]
    fn everything_that_is_drawn_has_a_colour() {
        for policy in PolicyKind::ALL.map(PolicyKind::name) {
            assert!(property(&format!("line-{policy}")).and_then(channels).is_some(), "{policy}");
            assert!(property(&format!("dash-{policy}")).is_some(), "{policy}");
        }
        for colouring in ["size", "age", "site"] {
            assert!((0..8).all(|at| class(colouring, at) != [0; 3]), "{colouring}");
        }
        assert!(other_sites() != [0; 3] && unknown_sites() != [0; 3]);
        assert_eq!((known("system"), known("jemalloc"), line("first")), ("system", "other-0", "#0072b2"));
    }
}
