//! Histograms over powers of two.

use svg::Document;
use svg::node::element::Rectangle;

use super::axes::{self, BOTTOM, LEFT, RIGHT, Scale, rounded};
use super::marks::Unit;
use super::palette;

/// A histogram: bar `k` stands for `2^k` to `2^(k+1) - 1` of `across`, and shows a value in `upwards`.
pub fn draw(title: &str, axis: &str, bins: &[u64], across: Unit, upwards: Unit) -> Document {
    let first = bins.iter().position(|&bin| bin > 0).unwrap_or(0);
    let shown = &bins[first..];
    let most = shown.iter().copied().max().unwrap_or(0);
    let y = Scale::upwards(most);
    let width = (RIGHT - LEFT) / shown.len().max(1) as f64;
    let place = |at: usize| LEFT + at as f64 * width;
    let every = shown.len().div_ceil(8).max(1);
    let below = (0..=shown.len()).step_by(every).map(|at| (place(at), across.write(1 << (first + at).min(63))));
    let picture = axes::picture(title).add(axes::upwards(y, upwards, "")).add(axes::across(below, axis));
    let bars = shown.iter().enumerate().filter(|(_, bin)| **bin > 0).map(|(at, &bin)| {
        let top = y.place(bin as f64);
        Rectangle::new()
            .set("x", rounded(place(at) + 1.0))
            .set("y", rounded(top))
            .set("width", rounded((width - 2.0).max(0.5)))
            .set("height", rounded(BOTTOM - top))
            .set("fill", palette::line("first"))
    });
    bars.fold(picture, Document::add)
}
