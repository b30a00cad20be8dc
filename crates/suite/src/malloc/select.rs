//! Patterns for names on the command line.

/// Returns whether `name` matches `pattern`, in which `*` is any text and `?` is one character. A pattern without a `/`
/// also matches the part of a name before its `/`.
pub fn is_meant(name: &str, pattern: &str) -> bool {
    let family = name.split('/').next().filter(|_| !pattern.contains('/'));
    matches(pattern.as_bytes(), name.as_bytes()) || family.is_some_and(|it| matches(pattern.as_bytes(), it.as_bytes()))
}

/// Matches the whole name. Takes time proportional to the product of the lengths: it backtracks to the last star only.
fn matches(pattern: &[u8], name: &[u8]) -> bool {
    let (mut at, mut read) = (0, 0);
    let mut star: Option<(usize, usize)> = None;
    while read < name.len() {
        match pattern.get(at) {
            Some(b'*') => {
                star = Some((at, read));
                at += 1;
            }
            Some(&byte) if byte == b'?' || byte == name[read] => (at, read) = (at + 1, read + 1),
            _ => {
                let Some((place, taken)) = star else { return false };
                star = Some((place, taken + 1));
                (at, read) = (place + 1, taken + 1);
            }
        }
    }
    pattern[at..].iter().all(|&byte| byte == b'*')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_star_is_any_text_and_a_question_mark_one_character() {
        for (pattern, name, expected) in [
            ("pair/16", "pair/16", true),
            ("pair/1*", "pair/12800", true),
            ("pair/1*", "pair/64", false),
            ("*-few", "churn/1-few", true),
            ("churn/?-many", "churn/4-many", true),
            ("churn/?-many", "churn/-many", false),
            ("*a*a*b", "aaab", true),
            ("*a*a*b", "aba", false),
            ("**", "", true),
            ("?", "", false),
        ] {
            assert_eq!(is_meant(name, pattern), expected, "{pattern} {name}");
        }
    }

    #[test]
    fn what_stands_before_a_slash_means_the_whole_kind() {
        assert!(is_meant("pair/16", "pair"));
        assert!(is_meant("pair/16", "p*r"));
        assert!(is_meant("program000", "program00?"));
        assert!(!is_meant("pair/16", "pair/"));
        assert!(!is_meant("pairs", "pair"));
    }

    #[test]
    fn a_pattern_of_stars_does_not_take_for_ever() {
        assert!(!is_meant(&"a".repeat(2000), &("*a".repeat(900) + "b")));
    }
}
