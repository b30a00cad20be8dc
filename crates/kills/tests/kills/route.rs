//! Short ways to an instruction: running to a breakpoint costs one stop, stepping there thousands.

use std::collections::HashMap;

/// How a victim gets to a moment of an operation whose instructions are known.
#[derive(Clone, Copy, Default)]
pub struct Route {
    /// The instruction where it breaks, and how often it passes it before it stops there; none to step all the way.
    pub anchor: Option<(u64, usize)>,
    /// The instructions from there on.
    pub steps: usize,
}

/// Stops that passing a breakpoint takes: at it, over it, and on.
const STOPS_PER_PASS: usize = 2;

/// The cheapest route to every moment: `routes[k]` leads to where `k` instructions are done.
pub fn routes(instructions: &[u64]) -> Vec<Route> {
    let mut passes: HashMap<u64, usize> = HashMap::new();
    let mut routes = vec![Route::default()];
    let mut cost = 0;
    for (&done, next) in instructions.iter().zip(instructions.iter().skip(1).map(Some).chain([None])) {
        *passes.entry(done).or_default() += 1;
        let last = routes[routes.len() - 1];
        let on_foot = Route { steps: last.steps + 1, ..last };
        cost += 1;
        routes.push(match next {
            Some(address) => {
                let before = passes.get(address).copied().unwrap_or(0);
                let jump = before * STOPS_PER_PASS + 1;
                if jump < cost {
                    cost = jump;
                    Route { anchor: Some((*address, before)), steps: 0 }
                } else {
                    on_foot
                }
            }
            None => on_foot,
        });
    }
    routes
}
