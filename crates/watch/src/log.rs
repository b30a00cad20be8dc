//! The last lines of a program's output, without terminal commands.

use std::collections::VecDeque;

/// The most lines that are kept.
const LINES: usize = 200;

/// The most bytes of a line that are kept.
const LENGTH: usize = 2048;

/// The last lines of output.
#[derive(Default)]
pub struct Log {
    lines: VecDeque<String>,
    /// The unfinished line.
    begun: Vec<u8>,
}

impl Log {
    /// Adds output, in pieces of any length.
    pub fn add(&mut self, bytes: &[u8]) {
        for part in bytes.split_inclusive(|&byte| byte == b'\n') {
            let (text, ends) = part.strip_suffix(b"\n").map_or((part, false), |text| (text, true));
            let room = LENGTH.saturating_sub(self.begun.len());
            self.begun.extend_from_slice(&text[..text.len().min(room)]);
            if ends {
                let line = harmless(&self.begun);
                self.begun.clear();
                self.lines.push_back(line);
            }
        }
        let too_many = self.lines.len().saturating_sub(LINES);
        self.lines.drain(..too_many);
    }

    /// Returns the last `count` lines, including the unfinished one.
    pub fn last(&self, count: usize) -> Vec<String> {
        let begun = (!self.begun.is_empty()).then(|| harmless(&self.begun));
        let all = self.lines.iter().cloned().chain(begun);
        let number = self.lines.len() + usize::from(!self.begun.is_empty());
        all.skip(number.saturating_sub(count)).collect()
    }
}

/// Returns the line as a terminal would finally show it: without escape sequences, and only what was written after the
/// cursor last returned to the start.
fn harmless(line: &[u8]) -> String {
    let text = String::from_utf8_lossy(line);
    let text = anstream::adapter::strip_str(&text).to_string();
    let text = text.trim_end_matches('\r');
    let shown = text.rsplit('\r').next().unwrap_or(text);
    shown.replace('\t', "    ").chars().filter(|letter| !letter.is_control()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_come_in_pieces_and_are_made_harmless() {
        let mut log = Log::default();
        log.add(b"one\r\ntw");
        log.add(b"o\n\x1b[31mred\x1b[0m\x07\tx\n10 %\r20 %");
        assert_eq!(log.last(10), ["one", "two", "red    x", "20 %"]);
        assert_eq!(log.last(2), ["red    x", "20 %"]);
    }

    #[test]
    fn a_log_is_bounded() {
        let mut log = Log::default();
        (0..10 * LINES).for_each(|number| log.add(format!("{number}\n").as_bytes()));
        assert_eq!(log.last(usize::MAX).len(), LINES);
        assert_eq!(log.last(1), [(10 * LINES - 1).to_string()]);
        log.add(&[b'x'; 10 * LENGTH]);
        assert_eq!(log.last(1)[0].len(), LENGTH);
    }
}
