//! Which functions hold the memory: the stacks of a trace as a tree, its functions and its threads, each with all
//! measures, and what the stacks hold at several moments.

use std::collections::HashMap;
use std::path::Path;

use anyhow::Result;
use heapwright_sites::{Analysis, Group, Measure, Query, Split};
use serde::Serialize;

use super::moments::{Moments, Times};
use super::nodes::{Node, Nodes, Values, values};

/// A node of the tree is left out if it has less than this share of the whole in every measure.
const LEAST_SHARE: f64 = 0.0005;

/// The most nodes of the tree. The least share is doubled until there are no more.
const MOST_NODES: usize = 12_000;

/// Functions with a row: these with most of each measure.
const FUNCTIONS: usize = 40;

/// The most threads with a row.
const THREADS: usize = 100;

/// The call sites of a trace as the page reads them.
#[derive(Serialize)]
pub struct Holders {
    measures: Vec<&'static str>,
    /// The sampling period: one request in this many, of short ones, has a stack.
    every: u64,
    /// What the call sites lack, if they lack something.
    lacking: Option<String>,
    /// Held memory is that after this many events.
    at_event: u64,
    /// The sums of all blocks, exact in sampled traces too.
    totals: Values,
    tree: Tree,
    moments: Moments,
    functions: Vec<Row>,
    /// By thread, exact in sampled traces too.
    threads: Vec<Row>,
}

/// All stacks from the outermost function on. Node 0 is the root; a parent precedes its children.
#[derive(Serialize)]
struct Tree {
    frames: Vec<String>,
    /// For each node its parent and its frame; for the root 0.
    parents: Vec<u32>,
    names: Vec<u32>,
    values: Vec<Values>,
}

/// A function or a thread.
#[derive(Serialize)]
struct Row {
    name: String,
    values: Values,
}

/// Returns what the page shows of a trace with call sites and of this length.
///
/// # Errors
/// When the trace cannot be read.
pub fn read(trace: &Path, times: Times) -> Result<Holders> {
    // One reading for sites and threads: the sums of a site are those of its threads.
    let analysis = Analysis::read(trace, Query { split: Split::Thread, ..Query::default() })?;
    let stacks = Nodes::of(&analysis);
    let mut moments = Moments::read(trace, times, &stacks)?;
    let (tree, numbers) = Tree::of(&analysis, &stacks, &moments);
    moments.renumber(&numbers);
    Ok(Holders {
        measures: Measure::ALL.map(Measure::name).to_vec(),
        every: analysis.ledger.sampling.every,
        lacking: analysis.lacking.clone(),
        at_event: times.peak,
        totals: values(&analysis.ledger.total),
        tree,
        moments,
        functions: functions(&analysis),
        threads: threads(&analysis),
    })
}

/// Returns the functions with most of any measure.
fn functions(analysis: &Analysis) -> Vec<Row> {
    let mut rows = analysis.rows(Group::Function, Measure::Held);
    let mut chosen = vec![false; rows.len()];
    for measure in Measure::ALL {
        let mut order: Vec<usize> = (0..rows.len()).filter(|&at| measure.of(&rows[at].tally) > 0).collect();
        order.sort_by(|&one, &other| measure.most_first(&rows[one].tally, &rows[other].tally));
        order.into_iter().take(FUNCTIONS).for_each(|at| chosen[at] = true);
    }
    let mut chosen = chosen.into_iter();
    rows.retain(|_| chosen.next().unwrap_or(false));
    rows.into_iter().map(|row| Row { values: values(&row.tally), name: row.name }).collect()
}

/// Returns the threads that hold most.
fn threads(analysis: &Analysis) -> Vec<Row> {
    let rows = analysis.rows(Group::Thread, Measure::Held).into_iter().take(THREADS);
    rows.map(|row| Row { values: values(&row.tally), name: row.name }).collect()
}

impl Tree {
    /// Returns the tree of the nodes that are large in some measure or at some moment, and the number in it of each.
    fn of(analysis: &Analysis, nodes: &Nodes, moments: &Moments) -> (Tree, HashMap<u32, u32>) {
        let mut share = LEAST_SHARE;
        let mut kept = nodes.large(share);
        while kept.len() > MOST_NODES {
            share *= 2.0;
            kept = nodes.large(share);
        }
        kept.extend(moments.nodes());
        let (mut numbers, mut frames, mut known) = (HashMap::from([(0, 0)]), Vec::new(), HashMap::new());
        let mut tree = Tree { frames: Vec::new(), parents: vec![0], names: vec![0], values: vec![nodes.all[0].values] };
        for at in kept {
            let Node { parent, frame, values } = nodes.all[at as usize];
            numbers.insert(at, tree.parents.len() as u32);
            let name = *known.entry(frame).or_insert_with(|| {
                frames.push(frame);
                frames.len() as u32 - 1
            });
            tree.parents.push(numbers[&parent]);
            tree.names.push(name);
            tree.values.push(values);
        }
        tree.frames = analysis.stacks.labels(&frames);
        (tree, numbers)
    }
}

#[cfg(test)]
mod tests {
    use heapwright_trace::{About, Kind, Writer};

    use super::*;
    use crate::gather;

    fn holders_of(path: &Path) -> Holders {
        read(path, gather::read(path).unwrap().trace.times()).unwrap()
    }

    #[test]
    fn the_peak_is_read_at_its_moment_where_threads_change() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("t.hwt");
        let mut writer = Writer::new(std::fs::File::create(&path).unwrap(), &About::default()).unwrap();
        let site = writer.define_site(&["f", "main"]).unwrap();
        for event in 0..1000 {
            writer.in_thread(event % 2).unwrap();
            writer.from_site(site).unwrap();
            let block = writer.allocate(Kind::Malloc, 100, 16).unwrap();
            if event > 500 {
                writer.free(block).unwrap();
            }
        }
        writer.finish().unwrap();
        let Holders { moments, totals, .. } = holders_of(&path);
        let json = serde_json::to_value(&moments).unwrap();
        let peak = &json["rows"][json["peak"].as_u64().unwrap() as usize];
        assert_eq!((peak["held"].as_u64(), totals[0]), (Some(50_200), 50_200));
    }

    #[test]
    fn the_tree_has_all_large_stacks_and_the_sums_of_their_nodes() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("t.hwt");
        let mut writer = Writer::new(std::fs::File::create(&path).unwrap(), &About::default()).unwrap();
        for (frames, size) in [(&["f", "main"][..], 1000), (&["g", "f", "main"], 500), (&["tiny", "main"], 0)] {
            let site = writer.define_site(frames).unwrap();
            for _ in 0..if size == 0 { 1 } else { 3000 } {
                writer.from_site(site).unwrap();
                writer.allocate(Kind::Malloc, size, 16).unwrap();
            }
        }
        writer.finish().unwrap();
        let Holders { tree, functions, threads, totals, .. } = holders_of(&path);
        assert_eq!((totals[0], tree.values[0][0]), (4_500_000, 4_500_000));
        assert_eq!(tree.frames, ["main", "f", "g"], "what is tiny in every measure is left out");
        assert_eq!(tree.parents, [0, 0, 1, 2]);
        assert_eq!(
            tree.values.iter().map(|values| values[0]).collect::<Vec<_>>(),
            [4_500_000, 4_500_000, 4_500_000, 1_500_000]
        );
        assert_eq!(functions[0].name, "f");
        assert_eq!((threads.len(), threads[0].values[3]), (1, 6001));
    }

    #[test]
    fn a_stack_that_is_large_at_one_moment_only_is_in_the_tree_and_at_that_moment() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("t.hwt");
        let mut writer = Writer::new(std::fs::File::create(&path).unwrap(), &About::default()).unwrap();
        let [brief, busy] = [["brief", "main"], ["busy", "main"]].map(|frames| writer.define_site(&frames).unwrap());
        writer.from_site(brief).unwrap();
        let block = writer.allocate(Kind::Malloc, 64, 16).unwrap();
        for event in 0..20_000 {
            writer.from_site(busy).unwrap();
            let size = if event == 15_000 { 1 << 20 } else { 32 };
            let other = writer.allocate(Kind::Malloc, size, 16).unwrap();
            writer.free(other).unwrap();
            if event == 5000 {
                writer.free(block).unwrap();
            }
        }
        writer.finish().unwrap();
        let Holders { tree, moments, at_event, .. } = holders_of(&path);
        assert_eq!(tree.frames, ["main", "brief", "busy"]);
        let json = serde_json::to_value(&moments).unwrap();
        let rows = json["rows"].as_array().unwrap();
        assert_eq!(
            rows[0],
            serde_json::json!({"event": 417, "held": 64, "deviation": 0.0, "nodes": [1, 2], "bytes": [64, 64]})
        );
        let peak = &rows[json["peak"].as_u64().unwrap() as usize];
        let bytes = [1 << 20, 1 << 20];
        let expected =
            serde_json::json!({"event": at_event, "held": 1 << 20, "deviation": 0.0, "nodes": [1, 3], "bytes": bytes});
        assert_eq!(*peak, expected);
        assert_eq!(rows.last().unwrap()["event"], 40_002);
    }

    #[test]
    fn a_huge_tree_is_cut_to_what_a_page_holds() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("t.hwt");
        let mut writer = Writer::new(std::fs::File::create(&path).unwrap(), &About::default()).unwrap();
        for number in 0..20_000 {
            let site = writer.define_site(&[&format!("f{number}"), &format!("g{}", number % 100)]).unwrap();
            writer.from_site(site).unwrap();
            writer.allocate(Kind::Malloc, if number == 7 { 1 << 30 } else { 100 }, 16).unwrap();
        }
        writer.finish().unwrap();
        let tree = holders_of(&path).tree;
        assert!(tree.parents.len() <= 2 * MOST_NODES && tree.frames.iter().any(|frame| frame == "f7"));
    }
}
