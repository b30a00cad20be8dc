//! Chooses the resolution of each map of a page.

use super::data::Map;
use super::planes::Planes;

/// The most bytes that all maps of a page take together, so that the page stays below 3 MB.
const ROOM: usize = 2_250_000;

/// The maps, each as fine as there is room for: each a little finer before any is so twice, the shortest heaps first.
pub fn pack(levels: &[&[Planes]], heaps: &[u64]) -> std::io::Result<Vec<Map>> {
    let counts: Vec<usize> = levels.iter().map(|levels| levels.len()).collect();
    let size_of = |map: &Map| map.planes.len();
    choose(&counts, heaps, ROOM, size_of, |at, level, most| levels[at][level].pack_into(most))
}

/// Returns a level of each map, as fine as there is room for; each map has levels. `pack` returns a level of a map if
/// it has at most a number of bytes, as `size_of` counts them.
fn choose<M, E>(
    counts: &[usize],
    heaps: &[u64],
    room: usize,
    size_of: impl Fn(&M) -> usize,
    pack: impl Fn(usize, usize, usize) -> Result<Option<M>, E>,
) -> Result<Vec<M>, E> {
    let mut chosen: Vec<(usize, M)> = Vec::with_capacity(counts.len());
    for (at, level) in counts.iter().enumerate().filter_map(|(at, count)| Some((at, count.checked_sub(1)?))) {
        chosen.extend(pack(at, level, usize::MAX)?.map(|map| (level, map)));
    }
    let coarsest = chosen.iter().map(|(level, _)| *level).max().unwrap_or_default();
    let mut order: Vec<usize> = (0..chosen.len()).collect();
    order.sort_by_key(|&at| heaps.get(at));
    for level in (0..coarsest).rev() {
        for &at in &order {
            let others: usize = chosen.iter().map(|(_, map)| size_of(map)).sum::<usize>() - size_of(&chosen[at].1);
            let Some(most) = room.checked_sub(others).filter(|_| level < chosen[at].0) else { continue };
            if let Some(map) = pack(at, level, most)? {
                chosen[at] = (level, map);
            }
        }
    }
    Ok(chosen.into_iter().map(|(_, map)| map).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the chosen levels of maps whose levels have these sizes.
    fn levels(sizes: &[Vec<usize>], heaps: &[u64], room: usize) -> Vec<usize> {
        let counts: Vec<usize> = sizes.iter().map(Vec::len).collect();
        let pack = |at: usize, level: usize, most| {
            Ok::<_, ()>(Some((level, sizes[at][level])).filter(|(_, size)| *size <= most))
        };
        choose(&counts, heaps, room, |(_, size)| *size, pack).unwrap().into_iter().map(|(level, _)| level).collect()
    }

    #[test]
    fn all_are_finer_before_one_is_finest_and_the_shortest_heap_is_first() {
        let sizes = [vec![40, 10, 3], vec![40, 10, 3], vec![40, 10, 3]];
        let chosen = |room| levels(&sizes, &[7, 5, 9], room);
        assert_eq!(chosen(8), [2, 2, 2]);
        assert_eq!(chosen(16), [2, 1, 2]);
        assert_eq!(chosen(30), [1, 1, 1]);
        assert_eq!(chosen(60), [1, 0, 1]);
        assert_eq!(chosen(119), [0, 0, 1]);
        assert_eq!(chosen(120), [0, 0, 0]);
    }

    #[test]
    fn a_map_that_suits_better_does_not_wait_for_one_that_does_not() {
        assert_eq!(levels(&[vec![90, 10], vec![20, 10]], &[1, 2], 30), [1, 0]);
        assert_eq!(levels(&[], &[], 10), Vec::<usize>::new());
    }
}
