//! The plots of a report as pictures for papers: vectors, light, with labelled axes.

mod across;
mod axes;
mod bars;
mod lines;
mod map;
mod marks;
mod palette;

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use heapwright_host::destination::{Contents, Destination};
use heapwright_host::names::Shown;
use svg::Document;

use self::across::Across;
use self::lines::Curve;
use self::map::Colouring;
use self::marks::Unit;
use super::data::{Bins, Policy, Report};
use super::line::Line;
use super::planes::Planes;

/// Makes `folder` if need be, and checks that pictures can be written into it, none of them over `sources` or the
/// `page`.
pub fn prepare(folder: &Path, sources: &[&Path], page: &Destination) -> Result<()> {
    fs::create_dir_all(folder).with_context(|| format!("{} cannot be made", folder.shown()))?;
    Destination::of(&file(folder, "heap"), Contents::Other, sources)?;
    let there = fs::read_dir(folder).with_context(|| format!("{} cannot be read", folder.shown()))?;
    let there = there.flatten().map(|entry| entry.path());
    // The page may not be there yet.
    let own = page.path().file_name().map(|name| folder.join(name));
    let mut pictures = there.chain(own).filter(|path| path.extension().is_some_and(|end| end == PICTURE));
    let taken = pictures.find(|picture| page.is_at(picture));
    ensure!(
        taken.is_none(),
        "a picture in {} may be written over the page {}: name another file",
        folder.shown(),
        page.path().shown()
    );
    Ok(())
}

/// The end of the name of a picture's file.
const PICTURE: &str = "svg";

fn file(folder: &Path, picture: &str) -> PathBuf {
    folder.join(picture).with_extension(PICTURE)
}

/// Writes every plot into `folder`, none of them over one of `sources`; returns how many there are.
pub fn write_all(folder: &Path, report: &Report, maps: &[Planes], sources: &[&Path]) -> Result<usize> {
    let events = report.trace.events;
    let mut pictures = over_time(report, Across::events(events), "");
    if let Some(clock) = &report.trace.clock {
        pictures.extend(over_time(report, Across::time(events, clock), "-by-time"));
    }
    pictures.extend(histograms(report));
    for (policy, map) in report.policies.iter().zip(maps) {
        let name = policy.outcome.policy.name();
        let draw = |colouring| map::draw(&title(report, &format!("heap map, {name}")), map, events, &colouring);
        pictures.push((format!("map-{name}"), draw(Colouring::Size)?));
        if let Some(sites) = &report.sites {
            pictures.push((format!("map-sites-{name}"), draw(Colouring::Site(sites))?));
        }
    }
    for (name, picture) in &pictures {
        let mut text = Vec::new();
        svg::write(&mut text, picture).context("a picture cannot be drawn")?;
        Destination::of(&file(folder, name), Contents::Other, sources)?.write(&text)?;
    }
    Ok(pictures.len())
}

fn title(report: &Report, what: &str) -> String {
    format!("{}: {what}", report.title)
}

/// A picture and the name of its file.
type Named = (String, Document);

/// The plots over a run, against events or time; `end` is the end of their files' names.
fn over_time(report: &Report, across: Across<'_>, end: &str) -> Vec<Named> {
    let asked = Curve { label: "asked for", name: "area", line: &report.trace.requested };
    let draw = |what: &str, quantity: &str, curves: &[Curve<'_>], unit: Unit| {
        lines::draw(&title(report, what), quantity, curves, across, unit)
    };
    let policies = |line: fn(&Policy) -> &Line| {
        report.policies.iter().map(move |policy| {
            let name = policy.outcome.policy.name();
            Curve { label: name, name, line: line(policy) }
        })
    };
    let heap: Vec<Curve<'_>> = std::iter::once(asked).chain(policies(|policy| &policy.lines.heap)).collect();
    let holes: Vec<Curve<'_>> = policies(|policy| &policy.lines.holes).collect();
    let mut pictures = vec![
        (format!("heap{end}"), draw("heap size", "bytes", &heap, Unit::Bytes)),
        (format!("holes{end}"), draw("number of holes", "holes", &holes, Unit::Count)),
    ];
    let real = report.real.rows.iter().filter_map(|real| Some((real.allocator.as_str(), &real.figures.as_ref()?.line)));
    let real: Vec<Curve<'_>> = real.map(|(label, line)| Curve { label, name: palette::known(label), line }).collect();
    if !real.is_empty() {
        let curves: Vec<Curve<'_>> = std::iter::once(asked).chain(real).collect();
        pictures.push((format!("resident{end}"), draw("resident memory", "bytes", &curves, Unit::Bytes)));
    }
    pictures
}

fn histograms(report: &Report) -> Vec<Named> {
    let draw = |name: &str, what: &str, axis: &str, bins: &[u64], across: Unit, upwards: Unit| {
        (name.to_owned(), bars::draw(&title(report, what), axis, bins, across, upwards))
    };
    let Bins { counts, bytes } = &report.sizes;
    let (lifetimes, in_bytes) = (&report.lifetimes.counts, &report.lifetimes_in_bytes.counts);
    let mut pictures = vec![
        draw("sizes", "blocks by size", "bytes asked for", counts, Unit::Bytes, Unit::Count),
        draw("sizes-in-bytes", "bytes asked for by size of block", "bytes asked for", bytes, Unit::Bytes, Unit::Bytes),
        draw("lifetimes", "blocks by lifetime", "events", lifetimes, Unit::Count, Unit::Count),
        draw(
            "lifetimes-in-bytes",
            "blocks by lifetime",
            "bytes asked for meanwhile",
            in_bytes,
            Unit::Bytes,
            Unit::Count,
        ),
    ];
    for policy in &report.policies {
        let name = policy.outcome.policy.name();
        let state = policy.at_peak.as_ref().unwrap_or(&policy.at_end);
        let what = format!("bytes of holes by length, {name}, at the peak");
        let file = format!("hole-sizes-{name}");
        pictures.push(draw(&file, &what, "length", &state.hole_sizes.bytes, Unit::Bytes, Unit::Bytes));
    }
    pictures
}
