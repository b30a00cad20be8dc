//! Call sites: their names, and which of them the page lists.

use std::collections::HashMap;

use heapwright_replay::history::{Census, SiteClasses, SiteUse};
use heapwright_sites::{Frame, callers};
use heapwright_trace::{Reader, SiteId};
use serde::Serialize;

/// Number of sites that have a colour in maps.
const LISTED: usize = 8;

/// Number of stack frames in the name of a site.
const FRAMES: usize = 3;

/// Number of characters of a name that are shown.
const LONGEST: usize = 160;

/// The call sites whose blocks took most memory, all others, and blocks of an unknown site.
#[derive(Serialize)]
pub struct Sites {
    pub rows: Vec<SiteMemory>,
    pub others: SiteMemory,
    pub unknown: SiteMemory,
}

/// The memory that the blocks of some call sites took.
#[derive(Default, Serialize)]
pub struct SiteMemory {
    /// The innermost stack frames; empty of several, or when they are not known.
    pub name: String,
    /// How many sites of the trace have this name.
    pub sites: u64,
    pub blocks: u64,
    /// Asked for in all of them.
    pub bytes: u64,
    /// Bytes that lived after an event, on average.
    pub mean_bytes: f64,
}

impl SiteMemory {
    fn add(&mut self, used: &SiteUse, events: u64) {
        self.sites += u64::from(used.site.is_some());
        self.blocks += used.blocks;
        self.bytes = self.bytes.saturating_add(used.bytes);
        self.mean_bytes += used.byte_events as f64 / events.max(1) as f64;
    }
}

/// Returns the sites whose blocks took most memory on average, and their classes in maps; sites of the same [name] are
/// one. `None` when the trace has no sites. The trace must have been read to its end.
pub fn most_important(trace: &Reader<'_>, census: &Census) -> Option<(Sites, SiteClasses)> {
    if census.sites.is_empty() {
        return None;
    }
    let mut by_name: HashMap<String, Vec<&SiteUse>> = HashMap::new();
    for used in &census.sites {
        by_name.entry(used.site.map_or_else(String::new, |site| name(trace, site))).or_default().push(used);
    }
    let memory_of = |name: &str, uses: &[&SiteUse]| {
        let mut memory = SiteMemory { name: name.to_owned(), ..SiteMemory::default() };
        uses.iter().for_each(|used| memory.add(used, census.events));
        memory
    };
    let mut rows: Vec<(SiteMemory, Vec<&SiteUse>)> =
        by_name.into_iter().map(|(name, uses)| (memory_of(&name, &uses), uses)).collect();
    rows.sort_by(|(one, _), (other, _)| {
        let known = one.name.is_empty().cmp(&other.name.is_empty());
        known.then(other.mean_bytes.total_cmp(&one.mean_bytes)).then_with(|| one.name.cmp(&other.name))
    });
    let listed = rows.iter().take(LISTED).take_while(|(memory, _)| !memory.name.is_empty()).count();
    let rest: Vec<&SiteUse> = rows.drain(listed..).flat_map(|(_, uses)| uses).collect();
    let (others, unknown): (Vec<&SiteUse>, Vec<&SiteUse>) = rest.into_iter().partition(|used| used.site.is_some());
    let classes = SiteClasses::new(rows.iter().map(|(_, uses)| uses.iter().filter_map(|used| used.site)));
    let sites = Sites {
        others: memory_of("", &others),
        unknown: memory_of("", &unknown),
        rows: rows.into_iter().map(|(memory, _)| memory).collect(),
    };
    Some((sites, classes))
}

/// The innermost frames of a site that are not the allocator's own, the innermost first. The trace must have been read
/// to its end, which is where names stand.
pub fn name(trace: &Reader<'_>, site: SiteId) -> String {
    let frames: Vec<Frame> = trace.site_frames(site).flat_map(|text| Frame::of(text, trace.frame_name(text))).collect();
    let names = callers(&frames).iter().take(FRAMES).map(|frame| shortened(&frame.to_string(), LONGEST));
    names.collect::<Vec<_>>().join(" ← ")
}

/// Returns a name cut to a number of characters.
pub fn shortened(name: &str, most: usize) -> String {
    match name.char_indices().nth(most) {
        Some((end, _)) => format!("{}…", &name[..end]),
        None => name.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use heapwright_trace::{About, Kind, Writer};

    use super::*;

    #[test]
    fn sites_of_one_name_are_one_and_the_rest_is_together() {
        let mut file = Vec::new();
        let mut writer = Writer::new(&mut file, &About::default()).unwrap();
        // Frame 0 has two sites; frames up to 9 hold less and less.
        for frame in [0, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9] {
            let site = writer.define_site(&[&format!("f{frame}")]).unwrap();
            writer.from_site(site).unwrap();
            writer.allocate(Kind::Malloc, 100 - frame, 16).unwrap();
        }
        // The largest request has no site.
        writer.allocate(Kind::Malloc, 1 << 20, 16).unwrap();
        writer.finish().unwrap();
        let mut reader = Reader::new(&file[..]).unwrap().with_sites();
        let census = Census::take(&mut reader).unwrap();
        let (sites, classes) = most_important(&reader, &census).unwrap();
        let names: Vec<&str> = sites.rows.iter().map(|site| site.name.as_str()).collect();
        assert_eq!(names, ["f0", "f1", "f2", "f3", "f4", "f5", "f6", "f7"]);
        let SiteMemory { sites: together, blocks, bytes, mean_bytes, .. } = sites.rows[0];
        // The one lives for 12 events, the other for 11 of 12.
        assert_eq!((together, blocks, bytes), (2, 2, 200));
        assert!((mean_bytes - 100.0 * 23.0 / 12.0).abs() < 1e-9, "{mean_bytes}");
        assert_eq!((sites.others.sites, sites.others.blocks), (2, 2));
        assert_eq!((sites.unknown.sites, sites.unknown.blocks, sites.unknown.bytes), (0, 1, 1 << 20));
        let class = |at: usize| {
            classes.of(census
                .sites
                .iter()
                .map(|used| used.site)
                .find(|site| site.is_some_and(|site| site.index() == at as u32))
                .unwrap())
        };
        assert_eq!([0, 1, 2, 8, 9, 10].map(class), [0, 0, 1, 7, 8, 8]);
        assert_eq!(classes.of(None), 9);
        let mut silent = Reader::new(&file[..]).unwrap();
        let census = Census::take(&mut silent).unwrap();
        assert!(most_important(&silent, &census).is_none());
    }

    #[test]
    fn long_names_end_in_time() {
        assert_eq!(shortened("main", 4), "main");
        assert_eq!(shortened(&"ö".repeat(1000), 3), "ööö…");
    }

    #[test]
    fn a_site_is_named_by_who_asked() {
        let mut file = Vec::new();
        let mut writer = Writer::new(&mut file, &About::default()).unwrap();
        for frames in [&["malloc", "a+1", "b", "c", "d"][..], &["malloc"], &[]] {
            let site = writer.define_site(frames).unwrap();
            writer.from_site(site).unwrap();
            writer.allocate(Kind::Malloc, 1, 16).unwrap();
        }
        writer.name_frame("a+1", "parse file.c:10").unwrap();
        writer.finish().unwrap();
        let mut reader = Reader::new(&file[..]).unwrap().with_sites();
        let mut sites = Vec::new();
        while reader.next_event().unwrap().is_some() {
            sites.extend(reader.site());
        }
        let names: Vec<String> = sites.into_iter().map(|site| name(&reader, site)).collect();
        assert_eq!(names, ["parse file.c:10 ← b ← c", "malloc", ""]);
    }
}
