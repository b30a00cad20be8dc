//! Detects the format of a source from its first bytes and its name.

use super::lines::{number, without_mark};
use super::{Format, jemalloc, memray};

/// The number of lines that are examined.
const LINES: usize = 30;

impl Format {
    /// Returns the format of a source with this name and these first bytes after decompression; `None` if it is
    /// ambiguous.
    ///
    /// ```
    /// use heapwright_trace::import::Format;
    ///
    /// assert_eq!(Format::detect(b"= Start\n@ ./a.out:[0x4005e6] + 0x602460 0x64\n", "log"), Some(Format::Mtrace));
    /// assert_eq!(Format::detect(b"2\n4\n20000\na 0 512\n", "short.rep"), Some(Format::Rep));
    /// assert_eq!(Format::detect(b"Dear all,\n", "letter"), None);
    /// ```
    #[must_use]
    pub fn detect(first: &[u8], name: &str) -> Option<Format> {
        if let [0x80, 2..=5, ..] = first {
            return Some(Format::PyTorch);
        }
        let text = String::from_utf8_lossy(first);
        let text = without_mark(&text);
        let whole = text.rfind('\n').map_or(text, |end| &text[..end]);
        let lines = whole.lines().map(str::trim).filter(|line| !line.is_empty()).take(LINES);
        let mut lines = lines.peekable();
        match lines.peek() {
            Some(line) if *line == memray::HEADING => return Some(Format::Memray),
            Some(line) if line.starts_with(jemalloc::HEADING) => return Some(Format::Jemalloc),
            _ => {}
        }
        if lines.peek().is_some_and(|line| is_heaptrack(line)) {
            return Some(Format::Heaptrack);
        }
        let formats: Vec<Format> = lines.filter_map(of_line).collect();
        let by_name = name.ends_with(".rep").then_some(Format::Rep);
        let first = formats.first().copied().or(by_name)?;
        formats.iter().all(|&format| format == first).then_some(first)
    }
}

/// Returns whether a source is what memray records: a file that begins with its name, usually in a frame of LZ4.
pub(super) fn is_memray_capture(first: &[u8]) -> bool {
    /// How far behind the beginning of a frame its first bytes are at most.
    const HEADER: usize = 32;
    let name = b"memray\0";
    let is_packed = first.starts_with(&[0x04, 0x22, 0x4d, 0x18]);
    first.starts_with(name) || is_packed && first.windows(name.len()).take(HEADER).any(|window| window == name)
}

/// Returns the format of a line; `None` if no format or several have such lines.
fn of_line(line: &str) -> Option<Format> {
    let mut of_format = Format::ALL.into_iter().filter(|&format| is_of(format, line));
    of_format.next().filter(|_| of_format.next().is_none())
}

fn is_of(format: Format, line: &str) -> bool {
    match format {
        Format::Csv => line.starts_with("op,id,size") || is_csv(line),
        Format::Rep => is_rep(line),
        Format::MemoryReplay => is_memory_replay(line),
        Format::Logalloc => is_logalloc(line),
        Format::Mtrace => line == "= Start" || (line.starts_with("@ ") && line.contains(" 0x")),
        Format::Rmm => line.starts_with("Thread,Time,Action,Pointer,Size"),
        // `detect` identifies these by the start of the source.
        Format::Heaptrack | Format::Memray | Format::Jemalloc | Format::PyTorch => false,
    }
}

fn is_csv(line: &str) -> bool {
    let mut fields = line.split(',').map(str::trim);
    let operations = ["malloc", "calloc", "realloc", "aligned", "free", "failed"];
    fields.next().is_some_and(|operation| operations.contains(&operation))
        && fields.all(|field| number(field).is_some())
}

/// Returns whether the line is an event. The integers of the header do not identify the format.
fn is_rep(line: &str) -> bool {
    let fields: Vec<&str> = line.split_whitespace().collect();
    match fields[..] {
        ["a" | "r", id, size] => id.parse::<u64>().is_ok() && size.parse::<u64>().is_ok(),
        ["f", id] => id.parse::<i64>().is_ok(),
        _ => false,
    }
}

fn is_memory_replay(line: &str) -> bool {
    let Some((thread, rest)) = line.split_once(": ") else { return false };
    let call = rest.split_whitespace().next().unwrap_or_default();
    number(thread).is_some() && ["malloc", "calloc", "realloc", "memalign", "free", "thread_done"].contains(&call)
}

fn is_logalloc(line: &str) -> bool {
    let mut fields = line.splitn(3, ' ');
    let numbers = fields.by_ref().take(2).filter(|field| number(field).is_some()).count();
    let call = fields.next().and_then(|rest| rest.split_once('(')).map(|(call, _)| call);
    let calls = ["malloc", "calloc", "realloc", "memalign", "aligned_alloc", "posix_memalign", "valloc", "free"];
    numbers == 2 && call.is_some_and(|call| calls.contains(&call))
}

/// Returns whether the line is the header: the versions of the program and of the file format.
fn is_heaptrack(line: &str) -> bool {
    let fields: Vec<&str> = line.split_whitespace().collect();
    let is_version = |field: &&str| u32::from_str_radix(field, 16).is_ok();
    matches!(fields[..], ["v", _] | ["v", _, _]) && fields[1..].iter().all(is_version)
}
