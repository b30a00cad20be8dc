//! The plots of a report as pictures for papers: vectors, light, with labelled axes.

mod axes;
mod bars;
mod lines;
mod map;
mod palette;

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};
use svg::Document;

use self::lines::Curve;
use super::data::{Bins, Line, Policy, Report};
use super::gather::Simulated;
use crate::number;

/// Writes every plot into `folder`, which is made if need be; returns how many there are.
pub fn write_all(folder: &Path, report: &Report, simulated: &[Simulated]) -> Result<usize> {
    fs::create_dir_all(folder).with_context(|| format!("{} cannot be made", folder.display()))?;
    let mut pictures = over_time(report);
    pictures.extend(histograms(report));
    for Simulated { outcome, history } in simulated {
        let name = outcome.policy.name();
        pictures.push((format!("map-{name}"), map::draw(&title(report, &format!("heap map, {name}")), &history.map)?));
    }
    for (name, picture) in &pictures {
        let path = folder.join(name).with_extension("svg");
        svg::save(&path, picture).with_context(|| format!("{} cannot be written", path.display()))?;
    }
    Ok(pictures.len())
}

fn title(report: &Report, what: &str) -> String {
    format!("{}: {what}", report.title)
}

/// A picture and the name of its file.
type Named = (String, Document);

fn over_time(report: &Report) -> Vec<Named> {
    let asked = Curve { label: "asked for", name: "area", line: &report.trace.requested };
    let draw = |what: &str, quantity: &str, curves: &[Curve<'_>], form: fn(u64) -> String| {
        lines::draw(&title(report, what), quantity, curves, report.trace.events, form)
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
        ("heap".to_owned(), draw("heap size", "bytes", &heap, number::bytes)),
        ("holes".to_owned(), draw("number of holes", "holes", &holes, axes::count)),
    ];
    let real = report.real.iter().filter_map(|real| Some((real.allocator.as_str(), &real.figures.as_ref()?.line)));
    let real: Vec<Curve<'_>> = real.map(|(label, line)| Curve { label, name: palette::known(label), line }).collect();
    if !real.is_empty() {
        let curves: Vec<Curve<'_>> = std::iter::once(asked).chain(real).collect();
        pictures.push(("resident".to_owned(), draw("resident memory", "bytes", &curves, number::bytes)));
    }
    pictures
}

fn histograms(report: &Report) -> Vec<Named> {
    let draw = |name: &str, what: &str, axis: &str, bins: &[u64], form: fn(u64) -> String, value: fn(u64) -> String| {
        (name.to_owned(), bars::draw(&title(report, what), axis, bins, form, value))
    };
    let Bins { counts, bytes } = &report.sizes;
    let (lifetimes, in_bytes) = (&report.lifetimes.counts, &report.lifetimes_in_bytes.counts);
    let mut pictures = vec![
        draw("sizes", "blocks by size", "bytes asked for", counts, number::bytes, axes::count),
        draw(
            "sizes-in-bytes",
            "bytes asked for by size of block",
            "bytes asked for",
            bytes,
            number::bytes,
            number::bytes,
        ),
        draw("lifetimes", "blocks by lifetime", "events", lifetimes, axes::count, axes::count),
        draw(
            "lifetimes-in-bytes",
            "blocks by lifetime",
            "bytes asked for meanwhile",
            in_bytes,
            number::bytes,
            axes::count,
        ),
    ];
    for policy in &report.policies {
        let name = policy.outcome.policy.name();
        let state = policy.at_peak.as_ref().unwrap_or(&policy.at_end);
        let what = format!("bytes of holes by length, {name}, at the peak");
        let file = format!("hole-sizes-{name}");
        pictures.push(draw(&file, &what, "length", &state.hole_sizes.bytes, number::bytes, number::bytes));
    }
    pictures
}
