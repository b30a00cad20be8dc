//! Which rows of two recordings are the same.
//!
//! Functions of two builds have the same name and file; their lines, the folders of the files and the names of programs
//! may differ. Rows are matched by all that is known but lines; what has no counterpart is matched by less and less.

use std::collections::BTreeMap;

use crate::frame::Frame;
use crate::rows::{Group, Row};

/// Rows of both recordings that are compared with each other.
#[derive(Default)]
pub struct Matched {
    /// Those of the earlier recording.
    pub before: Vec<Row>,
    /// Those of the later recording.
    pub after: Vec<Row>,
}

/// What two rows must have in common, besides the names of functions.
#[derive(Clone, Copy)]
enum Likeness {
    /// The file with all folders, and the module.
    Everything,
    /// The number of last names of the file's path.
    EndOfPath(usize),
    /// Nothing, where one of the recordings has no files.
    Functions,
}

const LIKENESSES: [Likeness; 5] =
    [Likeness::Everything, Likeness::EndOfPath(3), Likeness::EndOfPath(2), Likeness::EndOfPath(1), Likeness::Functions];

/// Matches the rows of two recordings. Rows without a counterpart are matched with none.
pub fn matched(before: Vec<Row>, after: Vec<Row>, group: Group) -> Vec<Matched> {
    let mut groups = vec![Matched { before, after }];
    let mut done = Vec::new();
    for likeness in LIKENESSES {
        groups = grouped(groups, |row| key(row, likeness, group));
        let (whole, rest) = groups.into_iter().partition(|matched| matched.is_of_both(likeness));
        done.extend::<Vec<_>>(whole);
        groups = rest;
    }
    // What was like others by the last key only stays apart.
    done.extend(grouped(groups, |row| key(row, Likeness::Everything, group)));
    done
}

impl Matched {
    fn is_of_both(&self, likeness: Likeness) -> bool {
        let has_file = |row: &Row| row.named_by.iter().all(|frame| frame.file.is_some());
        let is_enough = match likeness {
            Likeness::Functions => !self.before.iter().all(has_file) || !self.after.iter().all(has_file),
            Likeness::Everything | Likeness::EndOfPath(_) => true,
        };
        is_enough && !self.before.is_empty() && !self.after.is_empty()
    }
}

/// Returns the rows of all groups in groups of one key.
fn grouped(groups: impl IntoIterator<Item = Matched>, key: impl Fn(&Row) -> String) -> Vec<Matched> {
    let mut by_key: BTreeMap<String, Matched> = BTreeMap::new();
    for Matched { before, after } in groups {
        before.into_iter().for_each(|row| by_key.entry(key(&row)).or_default().before.push(row));
        after.into_iter().for_each(|row| by_key.entry(key(&row)).or_default().after.push(row));
    }
    by_key.into_values().collect()
}

/// Returns what is equal in rows that are alike.
fn key(row: &Row, likeness: Likeness, group: Group) -> String {
    if row.named_by.is_empty() {
        return row.name.clone();
    }
    let frame = |frame: &Frame| {
        let line = frame.line.filter(|_| group == Group::Line).unwrap_or(0);
        match likeness {
            Likeness::Everything => {
                let path = frame.end_of_path(usize::MAX).unwrap_or("");
                format!("{}\n{path}:{line}\n{}", frame.function, frame.module.as_deref().unwrap_or(""))
            }
            Likeness::EndOfPath(parts) => {
                format!("{}\n{}:{line}", frame.function, frame.end_of_path(parts).unwrap_or(""))
            }
            Likeness::Functions => format!("{}:{line}", frame.function),
        }
    };
    row.named_by.iter().map(frame).collect::<Vec<_>>().join("\n")
}
