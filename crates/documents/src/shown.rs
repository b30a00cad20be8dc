//! Whether a command printed what its page shows.

use crate::marker::Check;

/// A line by itself that stands for any number of lines.
const ANYTHING: &str = "…";

/// How many lines of either side a complaint has.
const MOST: usize = 30;

/// What is written where the page and the program disagree; `None` where they agree.
pub fn difference(shown: &[String], printed: &str, check: Check) -> Option<String> {
    let shown = trimmed(shown.iter().map(String::as_str));
    let printed = trimmed(printed.lines());
    let agree = match check {
        Check::ExitCode => true,
        Check::Headings => {
            let rows: Vec<String> = printed.iter().map(|line| words(line)).collect();
            headings(&shown).iter().all(|heading| rows.contains(&words(heading)))
        }
        Check::Shape => matches(&shapes(&shown), &shapes(&printed)),
        Check::Exact => matches(&shown, &printed),
    };
    let same = |shown: &str, printed: &str| match check {
        Check::Exact => shown == printed,
        _ => shape(shown) == shape(printed),
    };
    (!agree).then(|| side_by_side(&shown, &printed, same))
}

/// Returns the lines that replace `shown`; `None` if `shown` has several `…`. Around a single `…`, the number of first
/// and last lines is kept.
pub fn blessed(shown: &[String], printed: &str) -> Option<Vec<String>> {
    let (shown, printed) = (trimmed(shown.iter().map(String::as_str)), trimmed(printed.lines()));
    let parts: Vec<&[String]> = shown.split(|line| line.trim() == ANYTHING).collect();
    match parts[..] {
        [_] => Some(printed),
        [head, tail] if head.len() + tail.len() <= printed.len() => {
            let (indent, _) = shown[head.len()].split_at(shown[head.len()].len() - ANYTHING.len());
            let mut lines = printed[..head.len()].to_vec();
            lines.push(format!("{indent}{ANYTHING}"));
            lines.extend_from_slice(&printed[printed.len() - tail.len()..]);
            Some(lines)
        }
        _ => None,
    }
}

/// Without spaces at the ends of lines, and without blank lines at both ends.
fn trimmed<'a>(lines: impl Iterator<Item = &'a str>) -> Vec<String> {
    let mut lines: Vec<String> = lines.map(|line| line.trim_end().to_owned()).collect();
    while lines.last().is_some_and(String::is_empty) {
        lines.pop();
    }
    let blank = lines.iter().take_while(|line| line.is_empty()).count();
    lines.split_off(blank)
}

fn matches(shown: &[String], printed: &[String]) -> bool {
    let parts: Vec<&[String]> = shown.split(|line| line.trim() == ANYTHING).collect();
    let [head, between @ .., tail] = &parts[..] else { return shown == printed };
    if !printed.starts_with(head) || printed.len() < head.len() + tail.len() || !printed.ends_with(tail) {
        return false;
    }
    let mut rest = &printed[head.len()..printed.len() - tail.len()];
    for part in between {
        match rest.windows(part.len().max(1)).position(|window| part.is_empty() || window == *part) {
            Some(at) => rest = &rest[at + part.len()..],
            None => return part.is_empty(),
        }
    }
    true
}

fn headings(lines: &[String]) -> Vec<&String> {
    let is_rule = |line: &String| !line.trim().is_empty() && line.trim().chars().all(|letter| letter == '─');
    lines.windows(2).filter(|pair| is_rule(&pair[1])).map(|pair| &pair[0]).collect()
}

fn words(line: &str) -> String {
    line.split_whitespace().collect::<Vec<_>>().join(" ")
}

fn shapes(lines: &[String]) -> Vec<String> {
    lines.iter().map(|line| shape(line)).collect()
}

/// Words that follow a figure and change with its size.
const UNITS: [&str; 12] = ["B", "KiB", "MiB", "GiB", "ns", "µs", "ms", "s", "/s", "k/s", "M/s", "%"];

/// A line with `#` for every figure, without units, marks and the widths of columns.
pub fn shape(line: &str) -> String {
    let mut found: Vec<String> = Vec::new();
    for word in line.split_whitespace() {
        let mut shape = String::new();
        let mut letters = word.char_indices().peekable();
        while let Some((at, letter)) = letters.next() {
            let begins =
                letter.is_ascii_digit() && !word[..at].ends_with(|before: char| before.is_ascii_alphanumeric());
            if !begins {
                shape.push(letter);
                continue;
            }
            let goes_on = |letter: char| letter.is_ascii_hexdigit() || matches!(letter, '.' | ',' | 'x');
            let mut end = at + 1;
            while letters.next_if(|(_, letter)| goes_on(*letter)).is_some_and(|(at, letter)| {
                end = at + letter.len_utf8();
                true
            }) {}
            shape.push('#');
            shape.extend(word[at..end].ends_with([',', '.']).then(|| word[..end].chars().last().unwrap()));
        }
        let shape = shape.trim_end_matches(['~', '*']).trim_end_matches('%').to_owned();
        let after_figure = found.last().is_some_and(|before| before.ends_with('#'));
        let unit = word.trim_end_matches(['~', '*', ',', '.', ';']);
        match shape.as_str() {
            "" => {}
            _ if after_figure && UNITS.contains(&unit) => {
                found.last_mut().unwrap().push_str(&word[unit.len()..].replace(['~', '*'], ""));
            }
            "-" => found.push("#".to_owned()),
            _ if shape.chars().all(|letter| letter == '─') => found.push("─".to_owned()),
            _ => found.push(shape),
        }
    }
    found.join(" ")
}

/// The lines of the page and of the program from the first on that is not the same, up to those at the ends that are.
fn side_by_side(shown: &[String], printed: &[String], same: impl Fn(&str, &str) -> bool) -> String {
    let begun = shown.iter().zip(printed).take_while(|(shown, printed)| same(shown, printed)).count();
    let (shown, printed) = (&shown[begun..], &printed[begun..]);
    let ended =
        shown.iter().rev().zip(printed.iter().rev()).take_while(|(shown, printed)| same(shown, printed)).count();
    let listed = |sign: &str, lines: &[String]| -> String {
        let lines = &lines[..lines.len() - ended];
        let more = if lines.len() > MOST {
            format!("  {sign} and {} more lines\n", lines.len() - MOST)
        } else {
            String::new()
        };
        let first: String = lines.iter().take(MOST).map(|line| format!("  {sign} {line}\n")).collect();
        first + &more
    };
    format!("{}{}", listed("page   |", shown), listed("program|", printed))
}
