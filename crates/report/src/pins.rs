//! The blocks that pin the holes of a heap, as the page reads them.

use std::collections::{BTreeMap, HashMap};
use std::path::Path;

use anyhow::{Context, Result};
use heapwright_replay::history::{Life, Moment, Pin, kept_apart, lives};
use heapwright_trace::Reader;
use serde::Serialize;

use super::sites;
use heapwright_host::names::Shown;
use heapwright_simulate::choice::open;

/// Number of pins that have a row of their own.
const ROWS: usize = 40;

/// Number of groups that are listed.
const GROUPS: usize = 6;

/// What keeps the holes of a heap apart, at one moment.
#[derive(Serialize)]
pub struct Pins {
    /// How many there are, and the bytes of holes that all of them together keep apart.
    pub count: usize,
    pub kept_apart: u64,
    /// Those that keep most apart, and what they do so together.
    pub rows: Vec<Row>,
    pub rows_kept_apart: u64,
    /// Pins whose oldest blocks have about the same size.
    pub groups: Vec<Group>,
}

/// One pin. Sizes in bytes.
#[derive(Serialize)]
pub struct Row {
    pub offset: usize,
    pub bytes: usize,
    pub blocks: usize,
    pub before: usize,
    pub behind: usize,
    pub kept_apart: usize,
    pub joined: usize,
    /// The oldest of its blocks: its number, the bytes asked for, the event by which it appeared and the one by which
    /// it went (`None`: never), and from where it was asked for.
    pub block: Option<u64>,
    pub size: Option<usize>,
    pub born: Option<u64>,
    pub died: Option<u64>,
    pub site: Option<String>,
}

/// Pins whose oldest blocks have about the same size.
#[derive(Serialize)]
pub struct Group {
    /// Sizes are at most this and more than half of it.
    pub size: usize,
    pub pins: usize,
    /// The bytes of its blocks.
    pub bytes: usize,
    /// What they keep apart together.
    pub kept_apart: u64,
    /// By this event nine in ten of the oldest blocks had appeared.
    pub born_by: Option<u64>,
    /// How many of the oldest blocks never went.
    pub never_freed: usize,
}

/// Returns the pins at each of these moments; reads the trace for the lifetimes of their blocks.
pub fn read(trace: &Path, moments: &[Option<&Moment>]) -> Result<Vec<Option<Pins>>> {
    let blocks = moments.iter().flatten().flat_map(|moment| &moment.pins).filter_map(|pin| pin.oldest);
    let mut reader = open(trace)?.with_sites();
    let lives = lives(&mut reader, blocks.map(|(number, _)| number)).with_context(|| trace.shown().into_owned())?;
    let pin_reader = PinReader { lives, trace: &reader };
    Ok(moments.iter().map(|moment| moment.map(|moment| pin_reader.read(&moment.pins))).collect())
}

/// What is known of the blocks in pins.
struct PinReader<'r> {
    lives: HashMap<u64, Life>,
    trace: &'r Reader<'static>,
}

impl PinReader<'_> {
    fn read(&self, pins: &[Pin]) -> Pins {
        let mut most: Vec<&Pin> = pins.iter().collect();
        most.sort_by_key(|pin| (std::cmp::Reverse(pin.kept_apart()), pin.offset));
        most.truncate(ROWS);
        let mut in_order: Vec<Pin> = most.iter().map(|&&pin| pin).collect();
        in_order.sort_by_key(|pin| pin.offset);
        Pins {
            count: pins.len(),
            kept_apart: kept_apart(pins),
            rows: most.into_iter().map(|pin| self.row(pin)).collect(),
            rows_kept_apart: kept_apart(&in_order),
            groups: self.groups(pins),
        }
    }

    fn row(&self, pin: &Pin) -> Row {
        let life = self.life(pin);
        Row {
            offset: pin.offset,
            bytes: pin.bytes,
            blocks: pin.blocks,
            before: pin.before,
            behind: pin.behind,
            kept_apart: pin.kept_apart(),
            joined: pin.joined(),
            block: pin.oldest.map(|(number, _)| number),
            size: pin.oldest.map(|(_, size)| size),
            born: life.map(|life| life.born),
            died: life.and_then(|life| life.died),
            site: life.and_then(|life| life.site).map(|site| sites::name(self.trace, site)),
        }
    }

    fn life(&self, pin: &Pin) -> Option<&Life> {
        self.lives.get(&pin.oldest?.0)
    }

    /// The groups that keep most apart.
    fn groups(&self, pins: &[Pin]) -> Vec<Group> {
        let mut by_size: BTreeMap<usize, Vec<Pin>> = BTreeMap::new();
        for pin in pins {
            let size = pin.oldest.map_or(0, |(_, size)| size);
            by_size.entry(size.checked_next_power_of_two().unwrap_or(size)).or_default().push(*pin);
        }
        let mut groups: Vec<Group> = by_size.iter().map(|(&size, pins)| self.group(size, pins)).collect();
        groups.sort_by_key(|group| std::cmp::Reverse(group.kept_apart));
        groups.truncate(GROUPS);
        groups
    }

    fn group(&self, size: usize, pins: &[Pin]) -> Group {
        let mut births: Vec<u64> = pins.iter().filter_map(|pin| self.life(pin)).map(|life| life.born).collect();
        births.sort_unstable();
        Group {
            size,
            pins: pins.len(),
            bytes: pins.iter().map(|pin| pin.bytes).sum(),
            kept_apart: kept_apart(pins),
            born_by: (births.len() * 9).div_ceil(10).checked_sub(1).map(|at| births[at]),
            never_freed: pins.iter().filter_map(|pin| self.life(pin)).filter(|life| life.died.is_none()).count(),
        }
    }
}

#[cfg(test)]
mod tests {
    use heapwright_placement::PolicyKind;
    use heapwright_replay::{Model, Simulation};
    use heapwright_trace::{About, Kind, Writer};

    use super::*;

    /// Ten small blocks, each between two longer ones that go.
    #[test]
    fn small_blocks_between_holes_are_told_of() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let mut writer = Writer::new(file.reopen().unwrap(), &About::default()).unwrap();
        let mut allocate = |size| writer.allocate(Kind::Malloc, size, 16).unwrap();
        let blocks: Vec<(u64, u64)> = (0..10).map(|_| (allocate(1000), allocate(48))).collect();
        let last = allocate(2000);
        blocks.iter().for_each(|(long, _)| writer.free(*long).unwrap());
        writer.free(last).unwrap();
        writer.free(blocks[3].1).unwrap();
        writer.finish().unwrap();
        let mut simulation = Simulation::new(&Model::usual(PolicyKind::First)).unwrap();
        let mut moment = None;
        for event in open(file.path()).unwrap() {
            simulation.apply(&event.unwrap());
            if simulation.events() == 32 {
                moment = Some(Moment::of(&simulation));
            }
        }
        let read = read(file.path(), &[moment.as_ref(), None]).unwrap();
        assert!(read[1].is_none());
        let pins = read[0].as_ref().unwrap();
        // Ten holes of 1008 bytes and one of 2000: all but the longest are kept apart.
        assert_eq!((pins.count, pins.kept_apart, pins.rows_kept_apart), (10, 10_080, 10_080));
        let [group] = &pins.groups[..] else { panic!("one size, one group") };
        assert_eq!((group.size, group.pins, group.bytes, group.kept_apart), (64, 10, 480, 10_080));
        assert_eq!((group.born_by, group.never_freed), (Some(17), 9));
        let freed = pins.rows.iter().find(|row| row.block == Some(blocks[3].1)).unwrap();
        assert_eq!((freed.born, freed.died, freed.size), (Some(7), Some(32), Some(48)));
        assert_eq!((freed.before, freed.behind, freed.joined), (1008, 1008, 2064));
    }
}
