//! Chooses the resolution of each map of a page.

use super::data::Map;
use super::planes::Planes;

/// The most bytes that all maps of a page take together, so that the page stays below 3 MB.
const ROOM: usize = 2_250_000;

/// The maps, each as fine as there is room for: each a little finer before any is so twice, the shortest heaps first.
pub fn pack(levels: &[&[Planes]], heaps: &[u64]) -> std::io::Result<Vec<Map>> {
    let packed = levels.iter().map(|levels| levels.iter().map(Planes::pack).collect::<std::io::Result<Vec<Map>>>());
    let packed = packed.collect::<std::io::Result<Vec<Vec<Map>>>>()?;
    let sizes: Vec<Vec<usize>> =
        packed.iter().map(|levels| levels.iter().map(|map| map.planes.len()).collect()).collect();
    let chosen = choose(&sizes, heaps, ROOM);
    Ok(packed
        .into_iter()
        .zip(chosen)
        .filter_map(|(mut levels, level)| (level < levels.len()).then(|| levels.swap_remove(level)))
        .collect())
}

/// Which level of each map there is room for.
fn choose(sizes: &[Vec<usize>], heaps: &[u64], room: usize) -> Vec<usize> {
    let mut chosen: Vec<usize> = sizes.iter().map(|levels| levels.len().saturating_sub(1)).collect();
    let coarsest = chosen.iter().copied().max().unwrap_or_default();
    let mut order: Vec<usize> = (0..sizes.len()).collect();
    order.sort_by_key(|&at| heaps.get(at));
    for level in (0..coarsest).rev() {
        for &at in &order {
            let total: usize = sizes.iter().zip(&chosen).filter_map(|(levels, &level)| levels.get(level)).sum();
            if level < chosen[at] && total - sizes[at][chosen[at]] + sizes[at][level] <= room {
                chosen[at] = level;
            }
        }
    }
    chosen
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_are_finer_before_one_is_finest_and_the_shortest_heap_is_first() {
        let sizes = [vec![40, 10, 3], vec![40, 10, 3], vec![40, 10, 3]];
        let heaps = [7, 5, 9];
        let chosen = |room| choose(&sizes, &heaps, room);
        assert_eq!(chosen(8), [2, 2, 2]);
        assert_eq!(chosen(16), [2, 1, 2]);
        assert_eq!(chosen(30), [1, 1, 1]);
        assert_eq!(chosen(60), [1, 0, 1]);
        assert_eq!(chosen(119), [0, 0, 1]);
        assert_eq!(chosen(120), [0, 0, 0]);
    }

    #[test]
    fn a_map_that_suits_better_does_not_wait_for_one_that_does_not() {
        assert_eq!(choose(&[vec![90, 10], vec![20, 10]], &[1, 2], 30), [1, 0]);
        assert_eq!(choose(&[], &[], 10), Vec::<usize>::new());
    }
}
