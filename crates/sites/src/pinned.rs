//! Holes that the blocks of each call site pin under first fit.

use std::collections::HashMap;
use std::path::Path;

use anyhow::{Context, Result};
use heapwright_host::names::Shown;
use heapwright_placement::{Growth, PolicyKind, Rules};
use heapwright_replay::history::{Census, Detail, History, lives};
use heapwright_replay::{Model, replay};
use heapwright_simulate::choice::open;
use heapwright_trace::SiteId;

/// Returns for each site the bytes of holes that its blocks keep apart when the heap of first fit is longest. A run of
/// used blocks between two holes keeps the shorter one apart, and counts for the site of its oldest block.
///
/// # Errors
/// When the trace cannot be read or simulated.
pub fn by_site(path: &Path) -> Result<HashMap<Option<SiteId>, u64>> {
    let name = || path.shown().into_owned();
    let model = Model::with(PolicyKind::First, Rules { growth: Growth::Extend, ..Rules::default() });
    let census = Census::take(&mut open(path)?).with_context(name)?;
    let outcome = replay(&mut open(path)?, &model).with_context(name)?;
    let history = History::of(&mut open(path)?, &model, &outcome, &census, &Detail::default()).with_context(name)?;
    let pins = history.peak.map_or_else(Vec::new, |peak| peak.pins);
    let oldest = pins.iter().filter_map(|pin| Some(pin.oldest?.0));
    let lives = lives(&mut open(path)?.with_sites(), oldest).with_context(name)?;
    let mut found = HashMap::new();
    for pin in &pins {
        let site = pin.oldest.and_then(|(block, _)| lives.get(&block)?.site);
        *found.entry(site).or_default() += pin.kept_apart() as u64;
    }
    Ok(found)
}
