//! The names that rows are shown by: as short as they can be while no two are equal.

use std::collections::HashMap;

use crate::frame::Frame;

/// The most folders of a path that are shown to tell two rows apart.
const FOLDERS: usize = 8;

/// Returns the label of each row, which its frames name. Rows of one label have as many folders of their files as tell
/// them apart, and the module.
pub fn of<'f>(rows: impl Iterator<Item = &'f [Frame]>) -> Vec<String> {
    let rows: Vec<&[Frame]> = rows.collect();
    let mut labels: Vec<String> = rows.iter().map(|frames| joined(frames, ToString::to_string)).collect();
    let mut equal: HashMap<String, Vec<usize>> = HashMap::new();
    for (at, label) in labels.iter().enumerate() {
        equal.entry(label.clone()).or_default().push(at);
    }
    for group in equal.into_values().filter(|group| group.len() > 1) {
        let with_folders = |folders: usize| -> Vec<String> {
            group.iter().map(|&at| joined(rows[at], |frame| frame.shown_with_path(folders + 1))).collect()
        };
        let chosen = (1..FOLDERS).map(with_folders).find(|labels| are_distinct(labels));
        let chosen = chosen.unwrap_or_else(|| with_folders(usize::MAX - 1));
        group.iter().zip(chosen).for_each(|(&at, label)| labels[at] = label);
    }
    labels
}

fn joined(frames: &[Frame], show: impl Fn(&Frame) -> String) -> String {
    frames.iter().map(show).collect::<Vec<_>>().join(" ← ")
}

fn are_distinct(labels: &[String]) -> bool {
    let mut sorted: Vec<&String> = labels.iter().collect();
    sorted.sort();
    sorted.windows(2).all(|pair| pair[0] != pair[1])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn python(path: &str, line: u32) -> Vec<Frame> {
        Frame::of(
            &format!("python:{path}:load:{line}"),
            Some(&format!("load {}:{line}", path.rsplit('/').next().unwrap())),
        )
    }

    #[test]
    fn files_of_one_name_are_told_apart_by_their_folders() {
        let rows = [python("/a/x/init.py", 1), python("/b/x/init.py", 1), python("/b/other.py", 1)];
        let labels = of(rows.iter().map(Vec::as_slice));
        assert_eq!(labels, ["load a/x/init.py:1", "load b/x/init.py:1", "load other.py:1"]);
    }

    #[test]
    fn modules_tell_functions_of_one_file_apart() {
        let rows = ["one", "two"].map(|module| Frame::of(&format!("{module}+0x5"), Some("grow vector.h:3")));
        let labels = of(rows.iter().map(Vec::as_slice));
        assert_eq!(labels, ["grow vector.h:3 (one)", "grow vector.h:3 (two)"]);
    }
}
