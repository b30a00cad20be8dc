//! Line plots: quantities over time.

use std::fmt::Write;

use svg::Document;
use svg::node::element::{Group, Path};

use super::across::Across;
use super::axes::{self, RIGHT, Scale, rounded, text};
use super::marks::Unit;
use super::palette;
use crate::line::Line;

/// One line of a plot.
#[derive(Clone, Copy)]
pub struct Curve<'a> {
    pub label: &'a str,
    /// Its name in the palette; `area` is filled down to zero instead.
    pub name: &'a str,
    pub line: &'a Line,
}

impl Curve<'_> {
    fn is_area(&self) -> bool {
        self.name == "area"
    }

    fn colour(&self) -> &'static str {
        if self.is_area() { "#8b8e94" } else { palette::line(self.name) }
    }
}

/// A plot of some lines over a whole run.
pub fn draw(title: &str, quantity: &str, curves: &[Curve<'_>], x: Across<'_>, unit: Unit) -> Document {
    let most = curves.iter().flat_map(|curve| &curve.line.max).copied().max().unwrap_or(0);
    let y = Scale::upwards(most);
    let mut picture =
        axes::picture(title).add(axes::upwards(y, unit, quantity)).add(axes::across(x.marks(), x.label()));
    for curve in curves {
        picture = picture.add(band(curve, x, y));
        if !curve.is_area() {
            picture = picture.add(stroke(curve, x, y));
        }
    }
    picture.add(labels(curves, y))
}

/// Where each bucket is drawn: its middle, and at its ends those of the line.
fn places(line: &Line, x: Across<'_>) -> impl DoubleEndedIterator<Item = (f64, usize)> {
    let width = line.width as f64;
    (0..line.max.len()).map(move |at| (x.place((at as f64 + 0.5) * width), at))
}

fn trace(path: &mut String, x: f64, y: f64) {
    let command = if path.is_empty() { 'M' } else { 'L' };
    // Writing to a string cannot fail.
    let _ = write!(path, "{command}{} {}", rounded(x), rounded(y));
}

/// From the least to the most of each bucket; of an area, from nothing.
fn band(curve: &Curve<'_>, x: Across<'_>, y: Scale) -> Path {
    let mut path = String::new();
    places(curve.line, x).for_each(|(x, at)| trace(&mut path, x, y.place(curve.line.max[at] as f64)));
    places(curve.line, x).rev().for_each(|(x, at)| {
        let low = if curve.is_area() { 0 } else { curve.line.min[at] };
        trace(&mut path, x, y.place(low as f64));
    });
    let opacity = if curve.is_area() { 0.3 } else { 0.16 };
    Path::new().set("d", path).set("fill", curve.colour()).set("fill-opacity", opacity)
}

fn stroke(curve: &Curve<'_>, x: Across<'_>, y: Scale) -> Path {
    let mut path = String::new();
    places(curve.line, x).for_each(|(x, at)| trace(&mut path, x, y.place(curve.line.max[at] as f64)));
    Path::new()
        .set("d", path)
        .set("fill", "none")
        .set("stroke", curve.colour())
        .set("stroke-width", 1.6)
        .set("stroke-linejoin", "round")
        .set("stroke-dasharray", palette::dash(curve.name))
}

/// The names of the lines, next to their ends, without overlaps.
fn labels(curves: &[Curve<'_>], y: Scale) -> Group {
    const APART: f64 = 14.0;
    let end = |curve: &Curve<'_>| y.place(curve.line.max.last().copied().unwrap_or(0) as f64);
    let mut ends: Vec<(f64, &Curve<'_>)> = curves.iter().map(|curve| (end(curve), curve)).collect();
    ends.sort_by(|(one, _), (other, _)| other.total_cmp(one));
    let mut group = Group::new();
    let mut lowest = axes::BOTTOM + APART;
    for (end, curve) in ends {
        // From the lowest upwards.
        lowest = end.min(lowest - APART);
        group = group.add(text(RIGHT + 8.0, lowest + 4.0, "start", curve.label).set("fill", curve.colour()));
    }
    group
}
