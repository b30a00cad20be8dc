//! A process and all that it started: which of them are there, and which one is shown.

use std::fs;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use super::sample::Sample;
use super::watched::Watched;

/// How often it is looked for new processes.
const PAUSE: Duration = Duration::from_millis(300);

/// How many processes are kept in mind, those that ended among them.
const MOST: usize = 16;

/// Another heap has to be so many times as long as the one that is shown before it is shown instead.
const CLEARLY: usize = 2;

/// The processes.
pub struct Family {
    root: u32,
    /// Never empty.
    members: Vec<Watched>,
    shown: usize,
    /// Whether the user chose the one that is shown.
    is_chosen: bool,
    looked: Option<Instant>,
}

impl Family {
    /// Process `root` and all that it starts.
    pub fn of(root: u32) -> Family {
        Family { root, members: vec![Watched::new(root)], shown: 0, is_chosen: false, looked: None }
    }

    /// The same for a process that has just been started as `name` and may bear our name for some moments more.
    pub fn of_program(root: u32, name: &str) -> Family {
        let mut family = Family::of(root);
        name.clone_into(&mut family.members[0].name);
        family
    }

    /// The process that is shown.
    pub fn shown(&self) -> &Watched {
        &self.members[self.shown]
    }

    /// The same, to be changed.
    #[cfg(test)]
    pub fn shown_mut(&mut self) -> &mut Watched {
        &mut self.members[self.shown]
    }

    /// Which of how many processes is shown, from 1.
    pub fn place(&self) -> (usize, usize) {
        (self.shown + 1, self.members.len())
    }

    /// Whether all of them have ended.
    pub fn is_over(&self) -> bool {
        self.members.iter().all(Watched::is_gone)
    }

    /// Whether process `pid` is among them.
    pub fn has(&self, pid: u32) -> bool {
        self.members.iter().any(|member| member.pid == pid)
    }

    /// Shows the next process.
    pub fn choose_next(&mut self) {
        self.shown = (self.shown + 1) % self.members.len();
        self.is_chosen = true;
    }

    /// Looks at the processes as they are now; `left` is where a process that ends leaves its state.
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

    /// The first process has ended: unless the user chose, that with the longest heap is shown from now on.
    pub fn end(&mut self) {
        let longest = (0..self.members.len()).rev().max_by_key(|&number| self.members[number].peak());
        if let Some(longest) = longest.filter(|_| !self.is_chosen) {
            self.shown = longest;
        }
    }

    /// Takes in processes that are new and lets go of some that ended.
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

    /// Forgets the process that ended with the shortest heap when there are too many.
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

    /// Unless the user chose, shows the longest heap.
    fn compare(&mut self) {
        let sizes: Vec<usize> = self.members.iter_mut().map(Watched::glimpse).collect();
        let Some(longest) = (0..sizes.len()).rev().max_by_key(|&number| sizes[number]) else { return };
        if !self.is_chosen && sizes[longest] > CLEARLY * sizes[self.shown] {
            self.shown = longest;
        }
    }
}

/// The living descendants of a process, as far as the system tells; at most as many as are kept in mind.
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
