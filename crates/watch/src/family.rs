//! A process and its descendants: which of them run, and which one is shown.

use std::fs;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use super::sample::Sample;
use super::watched::Watched;

/// Interval between searches for new processes.
const PAUSE: Duration = Duration::from_millis(300);

/// The most processes that are kept, including ended ones.
const MOST: usize = 16;

/// A heap must be this many times as long as the shown one to be shown instead.
const CLEARLY: usize = 2;

/// The processes.
pub struct Family {
    root: u32,
    /// Never empty.
    members: Vec<Watched>,
    shown: usize,
    /// Whether the user chose the shown process.
    is_chosen: bool,
    looked: Option<Instant>,
}

impl Family {
    /// Creates the family of process `root`.
    pub fn of(root: u32) -> Family {
        Family { root, members: vec![Watched::new(root)], shown: 0, is_chosen: false, looked: None }
    }

    /// Creates the family of a process that has just been started as `name` and may still carry this command's name.
    pub fn of_program(root: u32, name: &str) -> Family {
        let mut family = Family::of(root);
        name.clone_into(&mut family.members[0].name);
        family
    }

    /// Returns the shown process.
    pub fn shown(&self) -> &Watched {
        &self.members[self.shown]
    }

    /// Returns the shown process for changes.
    #[cfg(test)]
    pub fn shown_mut(&mut self) -> &mut Watched {
        &mut self.members[self.shown]
    }

    /// Returns the position of the shown process, from 1, and the number of processes.
    pub fn place(&self) -> (usize, usize) {
        (self.shown + 1, self.members.len())
    }

    /// Returns whether all processes have ended.
    pub fn is_over(&self) -> bool {
        self.members.iter().all(Watched::is_gone)
    }

    /// Returns whether process `pid` belongs to the family.
    pub fn has(&self, pid: u32) -> bool {
        self.members.iter().any(|member| member.pid == pid)
    }

    /// Shows the next process.
    pub fn choose_next(&mut self) {
        self.shown = (self.shown + 1) % self.members.len();
        self.is_chosen = true;
    }

    /// Samples the processes; `left` returns the file in which a process leaves its last state.
    pub fn look(&mut self, left: impl Fn(u32) -> Option<PathBuf>) {
        if self.looked.is_none_or(|looked| looked.elapsed() >= PAUSE) {
            self.looked = Some(Instant::now());
            self.meet();
            self.compare();
        }
        self.members[self.shown].look();
        for member in self.members.iter_mut().filter(|member| member.is_gone() && !member.is_last) {
            member.end(left(member.pid).and_then(|path| Sample::left_in(&path)));
        }
    }

    /// Handles the end of the root process: unless the user chose, the process with the longest heap is shown from now
    /// on.
    pub fn end(&mut self) {
        let longest = (0..self.members.len()).rev().max_by_key(|&number| self.members[number].peak());
        if let Some(longest) = longest.filter(|_| !self.is_chosen) {
            self.shown = longest;
        }
    }

    /// Adds new processes, and removes some that ended.
    fn meet(&mut self) {
        for pid in descendants(self.root) {
            if self.members.iter().all(|member| member.pid != pid || member.is_gone()) {
                self.make_room();
                if self.members.len() < MOST {
                    self.members.push(Watched::new(pid));
                }
            }
        }
    }

    /// Removes the ended process with the shortest heap when there are too many.
    fn make_room(&mut self) {
        let (root, shown) = (self.root, self.shown().pid);
        let may_go = |member: &Watched| member.is_gone() && member.pid != root && member.pid != shown;
        while self.members.len() >= MOST {
            let numbers = (0..self.members.len()).filter(|&number| may_go(&self.members[number]));
            let Some(least) = numbers.min_by_key(|&number| self.members[number].peak()) else { return };
            self.members.remove(least);
            self.shown -= usize::from(least < self.shown);
        }
    }

    /// Shows the process with the longest heap, unless the user chose one.
    fn compare(&mut self) {
        let sizes: Vec<usize> = self.members.iter_mut().map(Watched::glimpse).collect();
        let Some(longest) = (0..sizes.len()).rev().max_by_key(|&number| sizes[number]) else { return };
        if !self.is_chosen && sizes[longest] > CLEARLY * sizes[self.shown] {
            self.shown = longest;
        }
    }
}

/// Returns the living descendants of a process, at most as many as are kept.
fn descendants(root: u32) -> Vec<u32> {
    let mut found = vec![root];
    let mut at = 0;
    while at < found.len() && found.len() < MOST {
        found.extend(children(found[at]));
        at += 1;
    }
    found.split_off(1)
}

fn children(pid: u32) -> Vec<u32> {
    let tasks = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    let lists = tasks.filter_map(|task| fs::read_to_string(task.path().join("children")).ok());
    lists
        .flat_map(|list| list.split_ascii_whitespace().filter_map(|pid| pid.parse().ok()).collect::<Vec<_>>())
        .collect()
}
