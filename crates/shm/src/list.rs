//! `heapwright shm list`.

use std::fs;
use std::process::ExitCode;
use std::time::Duration;

use anstyle::Style;
use anyhow::{Context, Result};
use heapwright_shared::{Access, Error, Place, Snapshot};
use serde_json::{Value, json};

use super::output::share;
use super::{json, look};
use heapwright_show::number;
use heapwright_show::results;
use heapwright_show::table::{Cell, Side, Table};

/// Where shared-memory objects are.
pub(super) const FOLDER: &str = "/dev/shm";

/// How long a segment's lock is waited for: the others should be listed, too.
const PATIENCE: Duration = Duration::from_millis(200);

/// A segment, or why it cannot be read.
struct Found {
    place: Place,
    outcome: Result<Box<Snapshot>, (Error, &'static str)>,
}

/// Lists the segments of shared memory.
pub fn run(json: bool) -> Result<ExitCode> {
    let found = find()?;
    if json {
        results::print(&found.iter().map(Found::json).collect::<Vec<_>>())?;
    } else if found.is_empty() {
        heapwright_show::println!(
            "there are no segments that you can read in {FOLDER}; `heapwright shm create NAME` makes one"
        );
    } else {
        heapwright_show::print!("{}", table(&found));
        found.iter().filter_map(Found::problem).for_each(|problem| heapwright_show::println!("{problem}"));
    }
    Ok(ExitCode::SUCCESS)
}

fn find() -> Result<Vec<Found>> {
    let entries = fs::read_dir(FOLDER).with_context(|| format!("cannot list {FOLDER}"))?;
    let mut found = Vec::new();
    for entry in entries {
        let name = entry.with_context(|| format!("cannot list {FOLDER}"))?.file_name();
        if let Ok(place) = Place::new(name) {
            found.extend(Found::at(place)?);
        }
    }
    found.sort_by(|one, other| one.place.path().cmp(other.place.path()));
    Ok(found)
}

impl Found {
    /// What is at `place`, if it is a segment of ours. Fails only for a shortage, which concerns all segments.
    fn at(place: Place) -> Result<Option<Found>, Error> {
        let access = Access { patience: PATIENCE, ..Access::default() };
        let outcome = match Snapshot::read_with(&place, &access) {
            Ok(snapshot) => Ok(Box::new(snapshot)),
            Err(error) if look::is_shortage(&error) => return Err(error),
            Err(error) => match look::refusal(&error) {
                Some(word) => Err((error, word)),
                None => return Ok(None),
            },
        };
        Ok(Some(Found { place, outcome }))
    }

    fn name(&self) -> String {
        let path = self.place.to_string();
        path.rsplit('/').next().unwrap_or(&path).to_owned()
    }

    /// Why the segment needs attention, if it does.
    fn problem(&self) -> Option<String> {
        let error = match &self.outcome {
            Ok(snapshot) => snapshot.audit.as_ref().err()?,
            Err((error, _)) => error,
        };
        let bad = look::BAD;
        Some(format!("{bad}{}{bad:#}: {error}", self.name()))
    }

    fn json(&self) -> Value {
        match &self.outcome {
            Ok(snapshot) => json::summary(snapshot),
            Err((error, word)) => {
                json!({ "place": look::path(&self.place), "state": word, "problem": json::problem(error) })
            }
        }
    }

    fn row(&self) -> [Cell; 8] {
        let name = Cell::styled(self.name(), Style::new().bold());
        let unknown = || Cell::styled("-", look::QUIET);
        let snapshot = match &self.outcome {
            Ok(snapshot) => snapshot,
            Err((_, word)) => {
                let [size, most, used, policy, attached, dead] = std::array::from_fn(|_| unknown());
                return [name, size, most, used, policy, attached, dead, Cell::styled(*word, look::BAD)];
            }
        };
        let known = snapshot.audit.is_ok();
        let if_known = |text: String| if known { text.into() } else { unknown() };
        let (attached, dead) = look::living_and_dead(snapshot);
        let (state, style) = look::condition(snapshot);
        [
            name,
            if_known(number::bytes(snapshot.size as u64)),
            number::bytes(snapshot.max_size as u64).into(),
            if_known(share(snapshot.used(), snapshot.size as u64)),
            snapshot.policy.name().into(),
            attached.to_string().into(),
            Cell::styled(dead.to_string(), if dead > 0 { look::UNEASY } else { Style::new() }),
            Cell::styled(state, style),
        ]
    }
}

fn table(found: &[Found]) -> Table {
    let mut table = Table::aligned([
        ("name", Side::Left),
        ("size", Side::Right),
        ("at most", Side::Right),
        ("used", Side::Right),
        ("policy", Side::Left),
        ("attached", Side::Right),
        ("dead", Side::Right),
        ("state", Side::Left),
    ])
    .indented();
    found.iter().for_each(|one| table.row(one.row()));
    table
}
