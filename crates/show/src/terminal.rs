//! The terminal: its width, and text wrapped to it.

use heapwright_host::names::Shown;
use terminal_size::Width;

/// The width that text and tables are laid out for where none is known.
const USUAL_WIDTH: usize = 100;

/// Running text is not wider, however wide the terminal.
const TEXT_WIDTH: usize = 100;

/// Returns the columns of the terminal that standard output is, or what `COLUMNS` says; `None` when neither is known.
pub fn columns() -> Option<usize> {
    let terminal = terminal_size::terminal_size_of(std::io::stdout()).map(|(Width(columns), _)| usize::from(columns));
    let said = || std::env::var("COLUMNS").ok()?.parse().ok();
    terminal.or_else(said).filter(|&columns| columns > 0)
}

/// Returns [`columns()`], or a usual width where that is not known.
pub fn width() -> usize {
    columns().unwrap_or(USUAL_WIDTH)
}

/// Breaks a paragraph into lines of at most `width` columns, and of no more than can be read with ease. Names in it may
/// have control characters, newlines among them: these are replaced.
pub fn wrapped(text: &str, width: usize) -> String {
    textwrap::fill(&text.shown(), width.min(TEXT_WIDTH))
}

/// Breaks a paragraph into lines that fit the terminal; where there is none, it stays one line, for other programs.
pub fn fitted(text: &str) -> String {
    columns().map_or_else(|| text.shown().into_owned(), |columns| textwrap::fill(&text.shown(), columns))
}

/// As [`fitted`], indented by two columns.
pub fn fitted_below(text: &str) -> String {
    fitted_behind("  ", text)
}

/// As [`fitted`], each line behind `margin`.
pub fn fitted_behind(margin: &str, text: &str) -> String {
    let columns = columns().unwrap_or(usize::MAX);
    textwrap::fill(&text.shown(), textwrap::Options::new(columns).initial_indent(margin).subsequent_indent(margin))
}

/// Breaks a text between words into lines that fit `columns`, behind `first` and the margin `rest`.
pub fn hanging(text: &str, columns: usize, first: &str, rest: &str) -> String {
    let options = textwrap::Options::new(columns).initial_indent(first).subsequent_indent(rest);
    textwrap::fill(text, options.break_words(false).word_splitter(textwrap::WordSplitter::NoHyphenation))
}

/// Returns examples of commands so that they fit `columns`. An example is an indented line: a command, and behind two
/// spaces an explanation. That is wrapped in its column, or below the command where the column is narrow. Other lines
/// stay as they are, and so does a word that is longer than a line.
pub fn examples(text: &str, columns: usize) -> String {
    let lines: Vec<String> = text.lines().map(|line| example(line, columns)).collect();
    lines.join("\n")
}

fn example(line: &str, columns: usize) -> String {
    /// Columns that an explanation needs beside the command.
    const LEAST: usize = 24;
    /// The margin of what does not fit beside or behind the command.
    const MARGIN: &str = "      ";
    let command = line.trim_start();
    let indent = line.len() - command.len();
    if indent == 0 || textwrap::core::display_width(line) <= columns {
        return line.to_owned();
    }
    let hanging = |text: &str, first: &str, rest: &str| hanging(text, columns, first, rest);
    let beside = |at: usize| at + LEAST <= columns;
    // A line that is indented further goes on with the explanation above.
    let (command, explanation) = match command.split_once("  ") {
        Some((command, explanation)) => (command, explanation.trim_start()),
        None if indent > MARGIN.len() => ("", command),
        None => (command, ""),
    };
    let at = textwrap::core::display_width(line) - textwrap::core::display_width(explanation);
    match (command, explanation) {
        (command, "") => hanging(command, &line[..indent], MARGIN),
        (_, explanation) if beside(at) => {
            hanging(explanation, &line[..line.len() - explanation.len()], &" ".repeat(at))
        }
        ("", explanation) => hanging(explanation, MARGIN, MARGIN),
        (command, explanation) => {
            hanging(command, &line[..indent], MARGIN) + "\n" + &hanging(explanation, MARGIN, MARGIN)
        }
    }
}

/// Returns a text cut to a number of characters, its mark among them.
pub fn shortened(text: &str, most: usize) -> String {
    let end = |number: usize| text.char_indices().nth(number).map(|(at, _)| at);
    match (end(most), end(most.saturating_sub(1))) {
        (Some(_), Some(end)) => format!("{}…", &text[..end]),
        _ => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_wrapped_between_words_to_what_can_be_read() {
        assert_eq!(wrapped("one two three", 8), "one two\nthree");
        assert_eq!(wrapped("one\ntwo\u{1b}", 80), "one\u{fffd}two\u{fffd}");
        assert!(wrapped(&"word ".repeat(60), 400).lines().all(|line| line.len() <= TEXT_WIDTH));
    }

    #[test]
    fn examples_fit_beside_or_below_their_commands() {
        let text =
            "Examples:\n  run -- a  one two three four five six\n  run --policy worst -- b\n            seven eight";
        let beside = "Examples:\n  run -- a  one two three four five\n            six\n  run --policy worst -- b\n\
                      \x20           seven eight";
        assert_eq!(examples(text, 36), beside);
        let below = "Examples:\n  run -- a\n      one two\n      three four\n      five six\n  run --policy\n\
                     \x20     worst -- b\n      seven\n      eight";
        assert_eq!(examples(text, 16), below);
        assert_eq!(examples(text, 80), text);
    }
}
