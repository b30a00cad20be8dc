//! The stacks of a trace as nodes of a tree, with what their sites hold.

use std::collections::{BTreeSet, HashMap};

use heapwright_sites::{Analysis, Measure, Tally};
use heapwright_trace::SiteId;

/// The values of all measures, in the order of [`Measure::ALL`].
pub type Values = [u64; Measure::ALL.len()];

/// All stacks of a trace as nodes, the root first; a parent precedes its children.
pub struct Nodes {
    pub all: Vec<Node>,
    /// The node of each site's whole stack.
    ends: HashMap<Option<SiteId>, u32>,
}

/// The end of a stack: its innermost function so far.
pub struct Node {
    pub parent: u32,
    pub frame: u32,
    pub values: Values,
}

impl Nodes {
    pub fn of(analysis: &Analysis) -> Nodes {
        let mut all = vec![Node { parent: 0, frame: 0, values: Values::default() }];
        let mut known: HashMap<(u32, u32), u32> = HashMap::new();
        let mut ends = HashMap::new();
        for (site, tally) in analysis.sites() {
            let added = values(&tally);
            let mut at = 0;
            add(&mut all[0].values, &added);
            for &frame in analysis.stacks.numbers(site).iter().rev() {
                let next = all.len() as u32;
                let parent = at;
                at = *known.entry((parent, frame)).or_insert(next);
                if at == next {
                    all.push(Node { parent, frame, values: Values::default() });
                }
                add(&mut all[at as usize].values, &added);
            }
            ends.insert(site, at);
        }
        Nodes { all, ends }
    }

    /// Returns the sum of each node, of the value of each site.
    pub fn sums(&self, value_of: impl Fn(Option<SiteId>) -> u64) -> Vec<u64> {
        let mut sums = vec![0_u64; self.all.len()];
        for (&site, &end) in &self.ends {
            let value = value_of(site);
            sums[end as usize] = sums[end as usize].saturating_add(value);
        }
        for at in (1..sums.len()).rev() {
            let parent = self.all[at].parent as usize;
            sums[parent] = sums[parent].saturating_add(sums[at]);
        }
        sums
    }

    /// Returns the nodes below the root that have a share of the whole in any measure. Those above such a node have as
    /// much.
    pub fn large(&self, share: f64) -> BTreeSet<u32> {
        let whole = &self.all[0].values;
        let is_large = |node: &Node| {
            let mut shares = node.values.iter().zip(whole);
            shares.any(|(&value, &whole)| value > 0 && value as f64 >= whole as f64 * share)
        };
        (1..self.all.len()).filter(|&at| is_large(&self.all[at])).map(|at| at as u32).collect()
    }
}

fn add(values: &mut Values, added: &Values) {
    values.iter_mut().zip(added).for_each(|(value, added)| *value = value.saturating_add(*added));
}

/// Returns the values of all measures.
pub fn values(tally: &Tally) -> Values {
    Measure::ALL.map(|measure| measure.of(tally))
}
