//! A row of a sweep: its columns and its values.

use csv::StringRecord;
use heapwright_placement::PolicyKind;
use heapwright_replay::Outcome;
use heapwright_rules::{Growth, GrowthText, RuleSet};

use super::grid::{Grid, Point, SCHEMA};

/// What the values of a column are; all of them are text in CSV, and may be missing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Text,
    Whole,
    Real,
}

/// The columns, in order.
pub const COLUMNS: [(&str, Kind); 41] = [
    ("schema", Kind::Whole),
    ("version", Kind::Text),
    ("sweep", Kind::Text),
    ("points", Kind::Whole),
    ("point", Kind::Whole),
    ("trace", Kind::Text),
    ("trace_sha256", Kind::Text),
    ("policy", Kind::Text),
    ("rules", Kind::Text),
    ("granule", Kind::Whole),
    ("header", Kind::Whole),
    ("align", Kind::Whole),
    ("min_remainder", Kind::Whole),
    ("growth", Kind::Text),
    ("region", Kind::Whole),
    ("limit", Kind::Whole),
    ("least", Kind::Whole),
    ("zero", Kind::Text),
    ("merging", Kind::Text),
    ("split", Kind::Text),
    ("rover", Kind::Text),
    ("worst", Kind::Text),
    ("seed", Kind::Whole),
    ("engine", Kind::Text),
    ("not_simulated", Kind::Text),
    ("events", Kind::Whole),
    ("refused", Kind::Whole),
    ("unknown", Kind::Whole),
    ("peak_requested", Kind::Whole),
    ("peak_live", Kind::Whole),
    ("peak_heap", Kind::Whole),
    ("splits", Kind::Whole),
    ("coalesces", Kind::Whole),
    ("resized", Kind::Whole),
    ("moved", Kind::Whole),
    ("heap", Kind::Whole),
    ("live", Kind::Whole),
    ("holes", Kind::Whole),
    ("external_fragmentation", Kind::Real),
    ("internal_fragmentation", Kind::Real),
    ("peak_heap_over_requested", Kind::Real),
];

/// Where rows say to which sweep they belong, how many points it has, and which of them they are.
pub const SWEEP: usize = 2;
pub const POINTS: usize = 3;
pub const POINT: usize = 4;
/// Where rows say why there are no figures.
pub const NOT_SIMULATED: usize = 24;

/// The names of the columns.
pub fn headings() -> StringRecord {
    COLUMNS.iter().map(|(name, _)| *name).collect()
}

/// What the rows of one sweep have in common.
pub struct Sweep<'g> {
    pub grid: &'g Grid,
    pub fingerprint: String,
    pub points: usize,
}

impl Sweep<'_> {
    /// The row of point `number`: what came of it, or why it cannot be.
    pub fn row(&self, number: usize, point: &Point, outcome: &Result<Outcome, String>) -> StringRecord {
        let trace = &self.grid.traces[point.trace];
        let (model, named) = (&point.model, &self.grid.sets[point.set]);
        let RuleSet { rules, requests, limit, odd, .. } = &named.set;
        let (region, limit) = if rules.growth == Growth::Fixed { (*limit, None) } else { (None, *limit) };
        let seed = (model.policy == PolicyKind::Random).then_some(model.seed);
        let [merging, split, rover, worst] = odd.entries().map(|(_, value)| value.to_owned());
        let mut row = StringRecord::new();
        let parameters = [
            SCHEMA.to_string(),
            env!("CARGO_PKG_VERSION").to_owned(),
            self.fingerprint.clone(),
            self.points.to_string(),
            number.to_string(),
            trace.name.clone(),
            trace.hash.clone(),
            model.policy.name().to_owned(),
            named.name.clone(),
            rules.granule.to_string(),
            rules.header.to_string(),
            requests.align.to_string(),
            rules.min_remainder.to_string(),
            GrowthText(rules.growth).to_string(),
            text(region),
            text(limit),
            requests.least.to_string(),
            requests.zero.name().to_owned(),
            merging,
            split,
            rover,
            worst,
            text(seed),
            model.engine_name().to_owned(),
        ];
        parameters.iter().for_each(|value| row.push_field(value));
        row.push_field(outcome.as_ref().err().map_or("", String::as_str));
        figures(outcome.as_ref().ok()).iter().for_each(|value| row.push_field(value));
        row
    }
}

/// The figures of an outcome; empty without one.
fn figures(outcome: Option<&Outcome>) -> [String; COLUMNS.len() - NOT_SIMULATED - 1] {
    let whole = |of: fn(&Outcome) -> u64| text(outcome.map(of));
    let real = |of: fn(&Outcome) -> Option<f64>| text(outcome.and_then(of));
    [
        whole(|outcome| outcome.events),
        whole(|outcome| outcome.refused),
        whole(|outcome| outcome.unknown),
        whole(|outcome| outcome.peak_requested),
        whole(|outcome| outcome.peak_live),
        whole(|outcome| outcome.peak_heap),
        whole(|outcome| outcome.splits),
        whole(|outcome| outcome.coalesces),
        whole(|outcome| outcome.resized),
        whole(|outcome| outcome.moved),
        whole(|outcome| outcome.heap),
        whole(|outcome| outcome.live),
        whole(|outcome| outcome.holes),
        real(|outcome| outcome.external_fragmentation),
        real(|outcome| outcome.internal_fragmentation),
        real(Outcome::peak_over_requested),
    ]
}

/// A value as text, nothing when it is missing.
fn text(value: Option<impl ToString>) -> String {
    value.map_or_else(String::new, |value| value.to_string())
}

/// The number in this field of a row.
pub fn whole(row: &StringRecord, field: usize) -> Option<usize> {
    row.get(field)?.parse().ok()
}
