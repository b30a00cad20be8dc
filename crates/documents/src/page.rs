//! A page of Markdown, as far as its commands go: blocks of code with the markers above them, and code within
//! sentences.

use std::fs;
use std::path::{Path, PathBuf};

/// A page and what it says in code.
pub struct Page {
    /// The path from the repository's root.
    pub name: String,
    /// Its lines.
    pub lines: Vec<String>,
    /// Its blocks of code.
    pub blocks: Vec<Block>,
    /// The code within its sentences and tables.
    pub inline: Vec<Inline>,
    /// Comments that are markers, but have no block below them: by line.
    pub stray: Vec<usize>,
}

/// A block of code, fenced or indented.
pub struct Block {
    /// The index of its first line of code in the page's lines.
    pub first: usize,
    /// The number of characters that indent its code.
    pub indent: usize,
    /// What stands behind the fence; empty for an indented block.
    pub language: String,
    /// Its lines, without what indents them.
    pub code: Vec<String>,
    /// The comment above it, without its brackets.
    pub marker: Option<String>,
}

/// A command, and what the page shows below it.
pub struct Shown {
    /// The index of the command's first line in its block.
    pub at: usize,
    /// What is typed.
    pub command: String,
    /// The lines that the page shows below it.
    pub output: Vec<String>,
    /// The index behind the last line of the output.
    pub end: usize,
}

impl Block {
    /// The commands of the block: those behind `$ `, else the whole block as one script.
    pub fn commands(&self) -> Vec<Shown> {
        let mut found: Vec<Shown> = Vec::new();
        let mut goes_on = false;
        for (at, line) in self.code.iter().enumerate() {
            if let Some(command) = line.strip_prefix("$ ") {
                found.push(Shown { at, command: command.to_owned(), output: Vec::new(), end: at + 1 });
            } else if let Some(last) = found.last_mut() {
                match goes_on {
                    true => last.command += &format!("\n{line}"),
                    false => last.output.push(line.clone()),
                }
                last.end = at + 1;
            }
            goes_on = line.ends_with('\\') && found.last().is_some_and(|last| last.output.is_empty());
        }
        if found.is_empty() {
            let command = format!("set -e\n{}\nset +e", self.code.join("\n"));
            found.push(Shown { at: 0, command, output: Vec::new(), end: self.code.len() });
        }
        found
    }

    /// Whether a reader would take it for something to type.
    pub fn is_typed(&self) -> bool {
        const FIRST: [&str; 12] = [
            "$ ",
            "heapwright ",
            "cargo ",
            "cc ",
            "./",
            "LD_PRELOAD=",
            "HEAPWRIGHT_",
            "PYTHONMALLOC=",
            "bench/",
            "corpus/",
            ".ci/",
            "git ",
        ];
        ["sh", "bash", "console"].contains(&self.language.as_str())
            || self.language.is_empty()
                && self.code.iter().any(|line| FIRST.iter().any(|first| line.starts_with(first)))
    }

    /// The number of its first line in the page, from 1.
    pub fn line(&self) -> usize {
        self.first + 1
    }
}

/// Code within a sentence or a table.
pub struct Inline {
    /// The number of its line, from 1.
    pub line: usize,
    /// What stands between the backquotes.
    pub code: String,
}

/// The root of the repository.
pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

/// Every page that is written for users.
pub fn pages() -> Vec<Page> {
    let root = root();
    let mut names = vec!["README.md".to_owned(), "corpus/README.md".to_owned()];
    for entry in fs::read_dir(root.join("docs")).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        if name.ends_with(".md") {
            names.push(format!("docs/{name}"));
        }
    }
    for entry in fs::read_dir(root.join("crates")).unwrap() {
        let name = format!("crates/{}/README.md", entry.unwrap().file_name().to_str().unwrap());
        if root.join(&name).exists() {
            names.push(name);
        }
    }
    names.sort();
    names.into_iter().map(|name| Page::parsed(&fs::read_to_string(root.join(&name)).unwrap(), name)).collect()
}

impl Page {
    /// Reads a page with this name.
    pub fn parsed(text: &str, name: String) -> Page {
        let lines: Vec<String> = text.lines().map(str::to_owned).collect();
        let mut page = Page { name, lines, blocks: Vec::new(), inline: Vec::new(), stray: Vec::new() };
        let mut reader = Reader { lines: page.lines.clone(), at: 0, in_list: false, marker: None };
        reader.read(&mut page);
        page
    }
}

/// Reads a page from its first line to its last.
struct Reader {
    lines: Vec<String>,
    at: usize,
    in_list: bool,
    /// The last comment and its line, until something other than a blank line follows it.
    marker: Option<(usize, String)>,
}

impl Reader {
    fn read(&mut self, page: &mut Page) {
        let mut prose: Vec<(usize, String)> = Vec::new();
        while self.at < self.lines.len() {
            let line = self.lines[self.at].clone();
            let after_blank = self.at == 0 || self.lines[self.at - 1].trim().is_empty() || self.marker.is_some();
            if line.trim_start().starts_with("```") {
                page.blocks.push(self.fenced(&line));
            } else if line.starts_with("<!--") {
                self.comment();
                continue;
            } else if after_blank && !line.trim().is_empty() && indent(&line) >= if self.in_list { 6 } else { 4 } {
                page.blocks.push(self.indented());
            } else if line.trim().is_empty() {
                page.inline.extend(inline(&prose));
                prose.clear();
            } else {
                page.stray.extend(self.marker.take().filter(|(_, text)| is_marker(text)).map(|(at, _)| at));
                if indent(&line) == 0 {
                    self.in_list = is_item(&line);
                }
                prose.push((self.at + 1, line));
            }
            self.at += 1;
        }
        page.inline.extend(inline(&prose));
        page.stray.extend(self.marker.take().filter(|(_, text)| is_marker(text)).map(|(at, _)| at));
    }

    /// Leaves `at` on the closing fence.
    fn fenced(&mut self, opening: &str) -> Block {
        let (indent, first) = (indent(opening), self.at + 1);
        let language = opening.trim().trim_start_matches('`').trim().to_owned();
        self.at = first;
        while self.at < self.lines.len() && self.lines[self.at].trim() != "```" {
            self.at += 1;
        }
        self.block(first, self.at, indent, language)
    }

    /// Leaves `at` on the block's last line.
    fn indented(&mut self) -> Block {
        let (first, least) = (self.at, if self.in_list { 6 } else { 4 });
        let mut last = first;
        for (at, line) in self.lines.iter().enumerate().skip(first) {
            if !line.trim().is_empty() {
                if indent(line) < least {
                    break;
                }
                last = at;
            }
        }
        self.at = last;
        self.block(first, last + 1, least, String::new())
    }

    fn block(&mut self, first: usize, end: usize, indent: usize, language: String) -> Block {
        let code =
            self.lines[first..end].iter().map(|line| line.get(indent..).unwrap_or_default().to_owned()).collect();
        Block { first, indent, language, code, marker: self.marker.take().map(|(_, text)| text) }
    }

    /// Leaves `at` behind the comment.
    fn comment(&mut self) {
        let (start, mut text) = (self.at + 1, String::new());
        while self.at < self.lines.len() {
            let line = self.lines[self.at].clone();
            self.at += 1;
            text = text + " " + line.trim();
            if line.contains("-->") {
                break;
            }
        }
        let text = text.trim().trim_start_matches("<!--").trim_end_matches("-->").trim().to_owned();
        self.marker = Some((start, text));
    }
}

/// Whether an item of a list begins here: behind a dash, or behind a number and a full stop.
fn is_item(line: &str) -> bool {
    line.starts_with("- ") || line.trim_start_matches(|first: char| first.is_ascii_digit()).starts_with(". ")
}

fn is_marker(comment: &str) -> bool {
    comment.starts_with("run") || comment.starts_with("not run")
}

fn indent(line: &str) -> usize {
    line.len() - line.trim_start_matches(' ').len()
}

/// The code of a paragraph: what stands between backticks, also across the end of a line.
fn inline(paragraph: &[(usize, String)]) -> Vec<Inline> {
    let mut found = Vec::new();
    let mut open: Option<Inline> = None;
    for (line, text) in paragraph {
        for (number, part) in text.split('`').enumerate() {
            if number > 0 {
                match open.take() {
                    Some(code) => found.push(code),
                    None => open = Some(Inline { line: *line, code: String::new() }),
                }
            }
            if let Some(code) = &mut open {
                code.code.push_str(part);
            }
        }
        if let Some(code) = &mut open {
            code.code.push(' ');
        }
    }
    found
}
