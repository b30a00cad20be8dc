//! Damaged segments: a process that reads one refuses or reports it, and never crashes.

use std::fmt;
use std::fs;
use std::io::{Read, Write};
use std::ops::Range;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use fastrand::Rng;
use heapwright_shared::{Access, Condition, Offset, Place, PolicyKind, Settings, SharedHeap, SmallBlocks, Snapshot};

use crate::child;
use crate::words;

/// A reader that says nothing for this long hangs.
const LIMIT: Duration = Duration::from_secs(20);

/// Whether the segment was left in order before it was damaged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rest {
    /// The last process closed it.
    Closed,
    /// Its last process was killed.
    Abandoned,
}

/// What reading damaged segments led to.
#[derive(Default)]
pub struct Outcomes {
    pub damaged: usize,
    /// Refused by `open`, or reported by a snapshot or a check.
    pub noticed: usize,
    pub crashes: usize,
    pub hangs: usize,
    told: Vec<String>,
}

impl Outcomes {
    /// # Errors
    /// When a reader crashed or hung, or did not notice damage that it must notice.
    pub fn verdict(&self, specimen: &Specimen) -> Result<(), String> {
        let unnoticed = self.damaged - self.noticed;
        let bad = self.crashes + self.hangs > 0 || (specimen.rest == Rest::Closed && unnoticed > 0);
        if bad { Err(format!("{self}\n{}", self.told.join("\n"))) } else { Ok(()) }
    }

    fn tell(&mut self, what: String) {
        if self.told.len() < 10 {
            self.told.push(what);
        }
    }
}

impl fmt::Display for Outcomes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Outcomes { damaged, noticed, crashes, hangs, .. } = self;
        write!(f, "{damaged} damaged segments: {noticed} noticed, {crashes} crashes, {hangs} hangs")
    }
}

/// A way to damage a segment, by number.
#[derive(Clone, Copy, Debug)]
pub enum Damage {
    /// The byte of that number gets another value.
    EachByte,
    /// Up to 16 random bytes, or a random stretch, or a random cut, in the part that describes the heap.
    Random(u64),
}

impl Damage {
    fn apply(self, number: usize, sound: &[u8], description: usize) -> Vec<u8> {
        let mut bytes = sound.to_vec();
        match self {
            Damage::EachByte => {
                let mut rng = Rng::with_seed(number as u64);
                bytes[number] ^= rng.u8(1..);
            }
            Damage::Random(seed) => {
                let mut rng = Rng::with_seed(seed.wrapping_add(number as u64));
                scramble(&mut bytes, description, &mut rng);
            }
        }
        bytes
    }
}

fn scramble(bytes: &mut Vec<u8>, description: usize, rng: &mut Rng) {
    match rng.u32(..16) {
        0 => bytes.truncate(rng.usize(..bytes.len())),
        1..5 => {
            let start = rng.usize(..description);
            let end = (start + rng.usize(1..=256)).min(description);
            let other = bytes[start] ^ rng.u8(1..);
            rng.fill(&mut bytes[start..end]);
            bytes[start] = other;
        }
        _ => {
            // Not the same byte twice: the second time might put it right.
            let count = rng.usize(1..=16);
            for place in rng.choose_multiple(0..description, count) {
                bytes[place] ^= rng.u8(1..);
            }
        }
    }
}

/// A segment of `policy` that is about to be damaged.
pub struct Specimen {
    place: Place,
    rest: Rest,
    bytes: Vec<u8>,
    /// Where the blocks begin, behind all that describes them.
    pub description: usize,
}

impl Specimen {
    /// Makes a small segment with blocks, holes, roots and owners, and copies it.
    pub fn new(policy: PolicyKind, small: SmallBlocks, rest: Rest, place: Place) -> Result<Specimen, String> {
        drop(fs::remove_file(place.path()));
        let size = if small == SmallBlocks::Slabs { 160 << 10 } else { 32 << 10 };
        let settings = Settings { size, policy, small, processes: 4, roots: 2, ..Settings::default() };
        let heap = SharedHeap::create(&place, &settings).map_err(words("create"))?;
        let description =
            heap.blocks().map_err(words("blocks"))?.first().map_or(0, |block| block.offset.get() as usize);
        drop(heap);
        child::finish(child::spawn(|| populate(&place, rest)))?;
        let bytes = std::fs::read(place.path()).map_err(|error| error.to_string())?;
        Ok(Specimen { place, rest, bytes, description })
    }

    /// Has processes read the specimen with each damage of `numbers`.
    pub fn examine(&self, damage: Damage, numbers: Range<usize>) -> Result<Outcomes, String> {
        let mut outcomes = Outcomes::default();
        let mut next = numbers.start;
        while next < numbers.end {
            let (mut mine, mut theirs) = child::wires(LIMIT);
            let reader = child::spawn(|| self.read_all(damage, next..numbers.end, &mut theirs));
            drop(theirs);
            let mut answer = [0];
            while next < numbers.end {
                match mine.read(&mut answer) {
                    Ok(1) => outcomes.noticed += usize::from(answer[0] == NOTICED),
                    Ok(_) => outcomes.crashes += 1,
                    Err(_) => outcomes.hangs += 1,
                }
                let number = next;
                next += 1;
                outcomes.damaged += 1;
                if answer[0] != NOTICED {
                    let what = if answer[0] == PASSED { "was not noticed" } else { "killed its reader" };
                    outcomes.tell(format!("  {damage:?} number {number} {what}"));
                }
                if answer[0] == SILENCE {
                    break;
                }
                answer[0] = SILENCE;
            }
            child::end(reader);
        }
        Ok(outcomes)
    }

    fn read_all(&self, damage: Damage, numbers: Range<usize>, wire: &mut UnixStream) -> Result<(), String> {
        for number in numbers {
            let bytes = damage.apply(number, &self.bytes, self.description);
            write(self.place.path(), &bytes)?;
            let answer = if read(&self.place, self.rest) { NOTICED } else { PASSED };
            wire.write_all(&[answer]).map_err(|error| error.to_string())?;
        }
        Ok(())
    }
}

impl Drop for Specimen {
    fn drop(&mut self) {
        // The process that judged it may have removed it.
        let _ = fs::remove_file(self.place.path());
    }
}

const SILENCE: u8 = 0;
const NOTICED: u8 = 1;
const PASSED: u8 = 2;

fn write(path: &Path, bytes: &[u8]) -> Result<(), String> {
    std::fs::write(path, bytes).map_err(|error| error.to_string())
}

fn populate(place: &Place, rest: Rest) -> Result<(), String> {
    let heap = SharedHeap::open(place).map_err(words("open"))?;
    let sizes = [64, 200, 640, 64, 5000, 128, 7000, 64, 300];
    let blocks =
        sizes.iter().map(|&bytes| heap.allocate(bytes)).collect::<Result<Vec<_>, _>>().map_err(words("allocate"))?;
    for block in blocks.iter().skip(1).step_by(2) {
        heap.deallocate(*block).map_err(words("deallocate"))?;
    }
    heap.set_root("first", blocks[0]).map_err(words("set_root"))?;
    match rest {
        Rest::Closed => heap.close().map_err(words("close")),
        Rest::Abandoned => {
            std::mem::forget(heap);
            Ok(())
        }
    }
}

/// Does with a segment what one does; says whether anything complained.
fn read(place: &Place, rest: Rest) -> bool {
    // Damage may name a living process as the lock's holder.
    let access = Access { patience: Duration::from_millis(20), ..Access::default() };
    let sound_at_rest = Snapshot::read_with(place, &access).is_ok_and(|snapshot| {
        // Damage to where only the last user is told is put in order; but it is not as it was left.
        let as_left = rest == Rest::Abandoned || snapshot.condition == Condition::AtRest;
        snapshot.audit.is_ok() && as_left
    });
    let Ok(heap) = SharedHeap::open_with(place, &access) else { return true };
    let sound = use_all(&heap);
    drop(heap);
    !(sound_at_rest && sound)
}

fn use_all(heap: &SharedHeap) -> bool {
    let listed = heap.blocks().is_ok() && heap.holes().is_ok() && heap.roots().is_ok() && heap.processes().is_ok();
    let checked = heap.check().is_ok();
    let used = allocate_and_free(heap);
    let reclaimed = heap.reclaim_dead().is_ok() && heap.check().is_ok();
    listed && checked && used && reclaimed
}

fn allocate_and_free(heap: &SharedHeap) -> bool {
    let blocks: Vec<Offset> = [64, 1000, 4160].iter().flat_map(|&bytes| heap.allocate(bytes)).collect();
    blocks.into_iter().all(|block| heap.deallocate(block).is_ok())
}
