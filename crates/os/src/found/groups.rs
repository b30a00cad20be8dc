//! The memory limits of the control groups (cgroups) that contain the process, of version 1 and 2.
//!
//! Nothing here allocates, panics or trusts a file: lines that are too long or make no sense are skipped, and a missing
//! file means that there is no limit.

use core::ffi::CStr;
use core::str;

use crate::call::errno::errno_kept;
use crate::call::waiting::uncancelled;
use crate::file::output::Line;
use crate::file::segment_file::SegmentFile;

/// The longest path of a group.
const LONGEST_PATH: usize = 768;

/// The longest line that is read.
const LONGEST_LINE: usize = 2048;

/// A limit of this or more is none: version 1 has 2^63 less a page.
const UNLIMITED: u64 = 1 << 60;

/// The memory of a control group at one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GroupMemory {
    /// The most bytes that the group may have.
    pub limit: u64,
    /// The bytes that it has, without the cache of files, which the system reclaims first.
    pub used: u64,
}

impl GroupMemory {
    /// Returns the bytes that are left.
    #[must_use]
    pub fn left(&self) -> u64 {
        self.limit.saturating_sub(self.used)
    }
}

/// Where the memory limits of the process are found: the directory of its control group, and how much of that is the
/// mount point, above which there are no groups.
#[derive(Clone, Debug)]
pub struct MemoryGroups {
    /// Empty where there are no groups.
    directory: Line<LONGEST_PATH>,
    mount: usize,
    version: Version,
}

/// Room for what is read, some 6 KiB: too much for the stack of a thread that allocates.
#[derive(Debug)]
pub struct GroupsRoom {
    line: [u8; LONGEST_LINE],
    path: Line<{ LONGEST_PATH + 32 }>,
    own: Membership,
    candidate: MemoryGroups,
}

impl GroupsRoom {
    /// Room with nothing in it.
    #[must_use]
    pub const fn new() -> GroupsRoom {
        GroupsRoom {
            line: [0; LONGEST_LINE],
            path: Line::new(),
            own: Membership { one: Line::new(), two: Line::new() },
            candidate: MemoryGroups::NONE,
        }
    }
}

impl Default for GroupsRoom {
    fn default() -> Self {
        Self::new()
    }
}

/// The interfaces of control groups.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Version {
    One,
    Two,
}

impl Version {
    /// The files that contain limits.
    fn limits(self) -> &'static [&'static str] {
        match self {
            Version::One => &["memory.limit_in_bytes"],
            Version::Two => &["memory.max", "memory.high"],
        }
    }

    /// The file that contains the bytes in use.
    fn usage(self) -> &'static str {
        match self {
            Version::One => "memory.usage_in_bytes",
            Version::Two => "memory.current",
        }
    }

    /// The names, in `memory.stat`, of the bytes that are cached of files and in shared memory, and of those of them
    /// that are in shared memory, which are not reclaimed.
    fn cached(self) -> [&'static [u8]; 2] {
        match self {
            Version::One => [b"total_cache", b"total_shmem"],
            Version::Two => [b"file", b"shmem"],
        }
    }
}

impl MemoryGroups {
    /// No groups.
    pub const NONE: MemoryGroups = MemoryGroups { directory: Line::new(), mount: 0, version: Version::Two };

    /// Finds the groups of the calling process. Opens files.
    pub fn find(&mut self, room: &mut GroupsRoom) {
        let GroupsRoom { line, path, own, candidate } = room;
        self.directory.clear();
        own.one.clear();
        own.two.clear();
        let own_is_known = each_line(c"/proc/self/cgroup", line, &mut |line| own.add(line)).is_some();
        if own_is_known {
            each_line(c"/proc/self/mountinfo", line, &mut |line| self.consider(line, own, path, candidate));
        }
    }

    /// Takes the groups in a line of `/proc/PID/mountinfo`, if it has any. Of both versions, the first has the memory
    /// if it has a hierarchy for it.
    fn consider<const N: usize>(
        &mut self,
        line: &[u8],
        own: &Membership,
        root: &mut Line<N>,
        candidate: &mut MemoryGroups,
    ) {
        let is_open = self.directory.bytes().is_empty() || self.version == Version::Two;
        if is_open && own.groups_at(line, root, candidate).is_some() {
            core::mem::swap(self, candidate);
        }
    }

    /// Returns the limit that leaves the fewest bytes, of the group and all above it, and their use; `None` when there
    /// is none. Opens files.
    #[must_use]
    pub fn tightest(&self, room: &mut GroupsRoom) -> Option<GroupMemory> {
        if self.directory.bytes().is_empty() {
            return None;
        }
        let mut tightest: Option<GroupMemory> = None;
        let mut end = self.directory.bytes().len();
        loop {
            let directory = &self.directory.bytes()[..end];
            if let Some(memory) = self.memory_of(directory, room)
                && tightest.is_none_or(|other| memory.left() < other.left())
            {
                tightest = Some(memory);
            }
            match directory.iter().rposition(|&byte| byte == b'/') {
                Some(above) if above >= self.mount && above < end => end = above,
                _ => return tightest,
            }
        }
    }

    /// Returns the limit of one group and its use; `None` when it has no limit.
    fn memory_of(&self, directory: &[u8], room: &mut GroupsRoom) -> Option<GroupMemory> {
        let limit = self.version.limits().iter().filter_map(|name| read_number(directory, name, room)).min()?;
        let usage = read_number(directory, self.version.usage(), room)?;
        let [mut cache, mut shared] = [0; 2];
        let names = self.version.cached();
        each_line_of(directory, "memory.stat", room, &mut |line| {
            for (name, value) in names.iter().zip([&mut cache, &mut shared]) {
                if let Some(number) = line.strip_prefix(*name).and_then(|rest| number(rest.strip_prefix(b" ")?)) {
                    *value = number;
                }
            }
        });
        Some(GroupMemory { limit, used: usage.saturating_sub(cache.saturating_sub(shared)) })
    }
}

/// The paths of a process's groups in their hierarchies, as `/proc/PID/cgroup` states them; empty where there is none.
#[derive(Debug, Default)]
struct Membership {
    /// In the hierarchy of version 1 that has the memory.
    one: Line<LONGEST_PATH>,
    two: Line<LONGEST_PATH>,
}

impl Membership {
    /// Adds a line: the number of a hierarchy, its controllers with commas between, and a path, with colons between.
    fn add(&mut self, line: &[u8]) {
        let mut fields = line.splitn(3, |&byte| byte == b':');
        let (Some(number), Some(controllers), Some(path)) = (fields.next(), fields.next(), fields.next()) else {
            return;
        };
        if path.len() >= LONGEST_PATH || !path.starts_with(b"/") {
            return;
        }
        let kept = if number == b"0" && controllers.is_empty() {
            &mut self.two
        } else if has_item(controllers, b"memory") {
            &mut self.one
        } else {
            return;
        };
        kept.clear();
        kept.push(path);
    }

    /// Stores the groups if a line of `/proc/PID/mountinfo` is the mount of a hierarchy with them. `unescaped_root` is
    /// overwritten.
    fn groups_at<const N: usize>(
        &self,
        line: &[u8],
        unescaped_root: &mut Line<N>,
        groups: &mut MemoryGroups,
    ) -> Option<()> {
        let mut fields = line.split(|&byte| byte == b' ');
        let (root, mount) = (fields.nth(3)?, fields.next()?);
        let mut behind = fields.skip_while(|&field| field != b"-").skip(1);
        let (kind, options) = (behind.next()?, behind.nth(1)?);
        let (version, path) = match kind {
            b"cgroup" if has_item(options, b"memory") => (Version::One, &self.one),
            b"cgroup2" => (Version::Two, &self.two),
            _ => return None,
        };
        if path.bytes().is_empty() {
            return None;
        }
        unescape(mount, &mut groups.directory)?;
        unescape(root, unescaped_root)?;
        let below = below_root(path.bytes(), unescaped_root.bytes());
        let mount = groups.directory.bytes().len();
        if mount == 0 || mount + below.len() > LONGEST_PATH - 1 {
            return None;
        }
        groups.directory.push(below);
        (groups.mount, groups.version) = (mount, version);
        Some(())
    }
}

/// Returns the path of a group below the directory of its hierarchy that is mounted; empty for that directory itself,
/// and for a group outside it, as a container's may look from inside.
fn below_root<'p>(path: &'p [u8], root: &[u8]) -> &'p [u8] {
    let root = root.strip_suffix(b"/").unwrap_or(root);
    let below = path.strip_prefix(root).filter(|below| below.is_empty() || below.starts_with(b"/")).unwrap_or(b"");
    let leaves_it = below.split(|&byte| byte == b'/').any(|name| name == b"..");
    if leaves_it { b"" } else { below.strip_suffix(b"/").unwrap_or(below) }
}

/// Whether a list with commas between its items has this one.
fn has_item(list: &[u8], item: &[u8]) -> bool {
    list.split(|&byte| byte == b',').any(|found| found == item)
}

/// Stores a path of `mountinfo`, in which blanks and backslashes are three octal digits behind a backslash; `None` when
/// it is too long or has another character behind a backslash.
fn unescape<const N: usize>(text: &[u8], path: &mut Line<N>) -> Option<()> {
    path.clear();
    let mut rest = text;
    while let Some((&byte, behind)) = rest.split_first() {
        rest = behind;
        if byte != b'\\' {
            path.push(&[byte]);
            continue;
        }
        let (digits, behind) = rest.split_at_checked(3)?;
        let value = u8::from_str_radix(str::from_utf8(digits).ok()?, 8).ok()?;
        path.push(&[value]);
        rest = behind;
    }
    (path.bytes().len() < LONGEST_PATH).then_some(())
}

/// Parses a number of bytes; `None` for words such as `max`, and for numbers that are no limit.
fn number(text: &[u8]) -> Option<u64> {
    str::from_utf8(text.trim_ascii()).ok()?.parse().ok().filter(|&number| number < UNLIMITED)
}

fn read_number(directory: &[u8], name: &str, room: &mut GroupsRoom) -> Option<u64> {
    let mut found = None;
    each_line_of(directory, name, room, &mut |line| found = found.or_else(|| number(line)))?;
    found
}

fn each_line_of(directory: &[u8], name: &str, room: &mut GroupsRoom, visit: &mut dyn FnMut(&[u8])) -> Option<()> {
    let GroupsRoom { line, path, .. } = room;
    path.clear();
    path.push(directory);
    path.push(b"/");
    path.push(name.as_bytes());
    path.push(b"\0");
    each_line(CStr::from_bytes_with_nul(path.bytes()).ok()?, line, visit)
}

/// Calls `visit` with each line of a file; `None` when the file cannot be read.
fn each_line(path: &CStr, buffer: &mut [u8; LONGEST_LINE], visit: &mut dyn FnMut(&[u8])) -> Option<()> {
    errno_kept(|| {
        uncancelled(|| {
            let file = SegmentFile::open_read_only(path).ok()?;
            split_into_lines(&mut |offset, buffer| file.read_some_at(offset, buffer).ok(), buffer, visit);
            Some(())
        })
    })
}

/// Calls `visit` with each line of what `read` returns, without lines that are longer than [`LONGEST_LINE`]. Stops
/// where `read` fails, and after a MiB.
fn split_into_lines(
    read: &mut dyn FnMut(u64, &mut [u8]) -> Option<usize>,
    buffer: &mut [u8; LONGEST_LINE],
    visit: &mut dyn FnMut(&[u8]),
) {
    const MOST: u64 = 1 << 20;
    let (mut filled, mut offset, mut skips) = (0, 0, Skips::No);
    while offset < MOST {
        let read = read(offset, &mut buffer[filled..]).unwrap_or(0).min(LONGEST_LINE - filled);
        if read == 0 {
            break;
        }
        offset += read as u64;
        filled += read;
        let mut begin = 0;
        while let Some(length) = buffer[begin..filled].iter().position(|&byte| byte == b'\n') {
            if core::mem::replace(&mut skips, Skips::No) == Skips::No {
                visit(&buffer[begin..begin + length]);
            }
            begin += length + 1;
        }
        buffer.copy_within(begin..filled, 0);
        filled -= begin;
        if filled == LONGEST_LINE {
            (filled, skips) = (0, Skips::RestOfLine);
        }
    }
    if filled != 0 && skips == Skips::No {
        visit(&buffer[..filled]);
    }
}

/// Whether the rest of a line that is too long is skipped.
#[derive(PartialEq, Eq)]
enum Skips {
    No,
    RestOfLine,
}

#[cfg(test)]
mod tests {
    use std::format;
    use std::string::{String, ToString};
    use std::vec::Vec;

    use super::*;

    fn lines(text: &[u8], step: usize) -> Vec<Vec<u8>> {
        let mut found = Vec::new();
        let mut read = |offset: u64, buffer: &mut [u8]| {
            let rest = text.get(offset as usize..)?;
            let length = rest.len().min(step).min(buffer.len());
            buffer[..length].copy_from_slice(&rest[..length]);
            Some(length)
        };
        split_into_lines(&mut read, &mut [0; LONGEST_LINE], &mut |line| found.push(line.to_vec()));
        found
    }

    fn groups(membership: &str, mounts: &str) -> Option<(String, String)> {
        let mut own = Membership::default();
        membership.lines().for_each(|line| own.add(line.as_bytes()));
        let (mut groups, mut room) = (MemoryGroups::NONE, GroupsRoom::new());
        let GroupsRoom { path, candidate, .. } = &mut room;
        mounts.lines().for_each(|line| groups.consider(line.as_bytes(), &own, path, candidate));
        if groups.directory.bytes().is_empty() {
            return None;
        }
        let directory = String::from_utf8(groups.directory.bytes().to_vec()).unwrap();
        Some((directory.clone(), directory[..groups.mount].to_string()))
    }

    #[test]
    fn lines_are_found_whatever_the_reads_return() {
        let long = "x".repeat(LONGEST_LINE);
        let text = format!("first\n\n{long}{long}\nlast line\nno end");
        for step in [1, 7, 1024, 100_000] {
            assert_eq!(lines(text.as_bytes(), step), ["first", "", "last line", "no end"].map(|it| it.as_bytes()));
        }
        assert_eq!(lines(long.as_bytes(), 100), Vec::<Vec<u8>>::new());
        assert_eq!(lines(b"", 1), Vec::<Vec<u8>>::new());
        // An endless file without a line ends.
        let mut reads = 0_u64;
        let mut endless = |_, buffer: &mut [u8]| {
            reads += 1;
            buffer.fill(b'x');
            Some(buffer.len())
        };
        split_into_lines(&mut endless, &mut [0; LONGEST_LINE], &mut |_| panic!("a line"));
        assert!(reads <= 1024);
    }

    #[test]
    fn groups_of_both_versions_are_found() {
        let one = "31 25 0:28 / /sys/fs/cgroup/memory rw,nosuid shared:9 - cgroup cgroup rw,memory";
        let other = "30 25 0:27 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu,cpuacct";
        let two = "33 25 0:29 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw,nsdelegate";
        let both = format!("{other}\n{one}\n{two}");
        let found = |directory: &str, mount: &str| Some((directory.to_string(), mount.to_string()));
        assert_eq!(
            groups("5:cpu,cpuacct:/c\n4:memory,hugetlb:/a/b\n0::/x", &both),
            found("/sys/fs/cgroup/memory/a/b", "/sys/fs/cgroup/memory")
        );
        assert_eq!(groups("4:memory:/", one), found("/sys/fs/cgroup/memory", "/sys/fs/cgroup/memory"));
        assert_eq!(
            groups("0::/user.slice/a b.scope", two),
            found("/sys/fs/cgroup/unified/user.slice/a b.scope", "/sys/fs/cgroup/unified")
        );
        assert_eq!(groups("4:cpu:/a", one), None);
        assert_eq!(groups("0::/a", other), None);
    }

    #[test]
    fn groups_of_containers_are_found() {
        let mounted = "9 1 0:2 /docker/f00 /sys/fs/cgroup\\040here ro - cgroup2 cgroup rw";
        let at = |membership| groups(membership, mounted).unwrap().0;
        assert_eq!(at("0::/docker/f00/sub"), "/sys/fs/cgroup here/sub");
        assert_eq!(at("0::/docker/f00"), "/sys/fs/cgroup here");
        for outside in ["0::/", "0::/docker/f001", "0::/../other", "0::/docker/f00/../../etc"] {
            assert_eq!(at(outside), "/sys/fs/cgroup here", "{outside}");
        }
    }

    #[test]
    fn nonsense_is_no_group() {
        let mount = "33 25 0:29 / /cg rw - cgroup2 cgroup2 rw";
        let long = format!("0::/{}", "a".repeat(LONGEST_PATH));
        for membership in ["", ":", "0", "0:", "0::", "0::relative", "::", "\0\0:\u{fffd}", &long] {
            assert_eq!(groups(membership, mount), None, "{membership:?}");
        }
        let long = format!("33 25 0:29 / /{} rw - cgroup2 c rw", "m".repeat(LONGEST_PATH));
        for mount in ["", "-", " - - - ", "1 2 3 / /cg rw cgroup2 c rw", "1 2 3 / /cg rw - cgroup2", &long] {
            assert_eq!(groups("0::/a", mount), None, "{mount:?}");
        }
        for escaped in ["/a\\04", "/a\\xyz", "/a\\777", "/a\\"] {
            assert_eq!(groups("0::/a", &format!("1 2 3 / {escaped} rw - cgroup2 c rw")), None, "{escaped}");
        }
    }

    #[test]
    fn limits_are_numbers() {
        assert_eq!(number(b"104857600"), Some(100 << 20));
        assert_eq!(number(b" 12 "), Some(12));
        let nonsense: [&[u8]; 7] =
            [b"max", b"", b"-1", b"9223372036854771712", b"18446744073709551616", b"1e6", b"\xff\xfe"];
        for text in nonsense {
            assert_eq!(number(text), None, "{text:?}");
        }
    }

    #[test]
    #[cfg_attr(miri, ignore = "there are no files")]
    fn the_tightest_of_all_groups_above_counts() {
        let mount = std::env::temp_dir().join(format!("heapwright-groups-{}", std::process::id()));
        let write = |path: &str, text: &str| {
            let path = mount.join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        };
        write("memory.max", "max\n");
        write("a/memory.max", "1000000\n");
        write("a/memory.high", "900000\n");
        write("a/memory.current", "850000\n");
        write("a/memory.stat", "anon 1\nfile 70000\nkernel 3\nshmem 20000\nfile_mapped 5\n");
        write("a/b/memory.max", "500000\n");
        write("a/b/memory.current", "100\n");
        let mut directory = Line::new();
        directory.push(mount.join("a/b").as_os_str().as_encoded_bytes());
        let length = mount.as_os_str().len();
        let groups = MemoryGroups { directory, mount: length, version: Version::Two };
        let mut room = GroupsRoom::new();
        assert_eq!(groups.tightest(&mut room), Some(GroupMemory { limit: 900_000, used: 800_000 }));
        write("a/b/memory.current", "499999\n");
        assert_eq!(groups.tightest(&mut room).map(|memory| memory.left()), Some(1));
        let files = ["a/memory.max", "a/memory.high", "a/b/memory.max"];
        files.iter().for_each(|file| write(file, "\u{0}nonsense\n"));
        assert_eq!(groups.tightest(&mut room), None);
        std::fs::remove_dir_all(&mount).unwrap();
        assert_eq!(groups.tightest(&mut room), None);
    }
}
