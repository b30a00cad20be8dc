//! A chart of the memory that programs retain: a panel per workload that samples it, with a bar per allocator.

use std::path::Path;

use anyhow::{Context, Result, ensure};
use heapwright_host::destination::{Contents, Destination};
use heapwright_show::number;
use svg::Document;
use svg::node::element::{Rectangle, Text};

use super::analysis::Suite;
use super::case;
use super::contender::Role;
use super::figures::Row;

// Places and lengths, in units of the picture.
const WIDTH: f64 = 760.0;
const LEFT: f64 = 130.0;
const RIGHT: f64 = 600.0;
const MARGIN: f64 = 16.0;
const LEGEND: f64 = 40.0;
const TITLE: f64 = 44.0;
const GAP: f64 = 14.0;
const STEP: f64 = 22.0;
const BAR: f64 = 14.0;

const FONT: &str = "Helvetica, Arial, 'Liberation Sans', 'DejaVu Sans', sans-serif";
const INK: &str = "#1c1d1f";
const MUTED: &str = "#5c6067";

/// The colours of a bar: what is retained, and what was resident before. Ours differ from the others'.
const OURS: [&str; 2] = ["#0072b2", "#b3d5e8"];
const OTHERS: [&str; 2] = ["#8a8f98", "#dcdee2"];

/// A workload that samples its memory.
struct Panel<'a> {
    row: &'a Row,
    bars: Vec<Bar<'a>>,
}

/// The memory of a program under an allocator, in bytes: medians of all rounds.
struct Bar<'a> {
    name: &'a str,
    role: Role,
    before: u64,
    after: u64,
}

/// Writes the chart of a suite to `path`, as SVG.
///
/// # Errors
/// When no run sampled its memory, or the file cannot be written.
pub fn write(path: &Path, suite: Suite<'_>) -> Result<()> {
    let panels = panels(suite);
    ensure!(!panels.is_empty(), "no run has ended in which memory was sampled, thus there is no chart");
    let mut text = Vec::new();
    svg::write(&mut text, &draw(&panels)).context("the chart cannot be drawn")?;
    Destination::of(path, Contents::Other, &[])?.write(&text)
}

fn panels(suite: Suite<'_>) -> Vec<Panel<'_>> {
    let panels = suite.rows.iter().map(|row| Panel { row, bars: bars(suite, row) });
    panels.filter(|panel| !panel.bars.is_empty()).collect()
}

/// Returns the bars of a row, those that retain least first.
fn bars<'a>(suite: Suite<'a>, row: &'a Row) -> Vec<Bar<'a>> {
    let contenders = suite.contenders.iter().zip(&row.cells).filter(|(contender, _)| contender.role != Role::Noise);
    let mut bars: Vec<Bar<'a>> = contenders
        .filter_map(|(contender, cell)| {
            let kept = || cell.runs.iter().filter_map(|run| run.kept.as_ref());
            let before = middle(kept().map(|kept| kept.before))?;
            let after = middle(kept().map(|kept| kept.last()))?;
            Some(Bar { name: &contender.name, role: contender.role, before, after })
        })
        .collect();
    bars.sort_by_key(|bar| bar.after);
    bars
}

fn middle(figures: impl Iterator<Item = u64>) -> Option<u64> {
    let figures: Vec<f64> = figures.map(|figure| figure as f64).collect();
    heapwright_stats::median(&figures).map(|median| median as u64)
}

fn draw(panels: &[Panel<'_>]) -> Document {
    let lengths: Vec<f64> = panels.iter().map(|panel| TITLE + STEP * panel.bars.len() as f64 + GAP).collect();
    let height = LEGEND + lengths.iter().sum::<f64>() + MARGIN;
    let title = "Resident memory: while all blocks are live (light), and 2 s after most of them were freed (dark)";
    let mut picture = Document::new()
        .set("viewBox", (0, 0, WIDTH, height))
        .set("width", WIDTH)
        .set("height", height)
        .set("font-family", FONT)
        .set("font-size", 13)
        .add(svg::node::element::Title::new(title))
        .add(Rectangle::new().set("width", WIDTH).set("height", height).set("fill", "#ffffff"))
        .add(text(MARGIN, MARGIN + 8.0, "start", title));
    let mut top = LEGEND;
    for (panel, length) in panels.iter().zip(lengths) {
        picture = draw_panel(picture, panel, top);
        top += length;
    }
    picture
}

fn draw_panel(picture: Document, panel: &Panel<'_>, top: f64) -> Document {
    let about = case::entries().find(|entry| entry.name == panel.row.name).map_or("", |entry| entry.about);
    let most = panel.bars.iter().map(|bar| bar.before.max(bar.after)).max().unwrap_or(1);
    let scale = (RIGHT - LEFT) / most.max(1) as f64;
    let name = text(MARGIN, top + 16.0, "start", &panel.row.name).set("font-weight", "bold").set("fill", INK);
    let picture = picture.add(name).add(text(MARGIN, top + 33.0, "start", about).set("font-size", 11));
    panel.bars.iter().enumerate().fold(picture, |picture, (at, bar)| {
        let middle = top + TITLE + STEP * (at as f64 + 0.5);
        let [after, before] = if bar.role == Role::Ours { OURS } else { OTHERS };
        let label = text(LEFT - 8.0, middle + 4.5, "end", bar.name).set("fill", INK);
        let figures = format!("{} → {}", number::bytes(bar.before), number::bytes(bar.after));
        let figures = text(RIGHT + 8.0, middle + 4.5, "start", &figures);
        picture
            .add(if bar.role == Role::Ours { label.set("font-weight", "bold") } else { label })
            .add(rectangle(middle, scale * bar.before.max(bar.after) as f64, before))
            .add(rectangle(middle, scale * bar.after as f64, after))
            .add(figures)
    })
}

fn rectangle(middle: f64, width: f64, colour: &str) -> Rectangle {
    Rectangle::new()
        .set("x", LEFT)
        .set("y", middle - BAR / 2.0)
        .set("width", (width * 10.0).round() / 10.0)
        .set("height", BAR)
        .set("fill", colour)
}

fn text(x: f64, y: f64, anchor: &str, content: &str) -> Text {
    Text::new(content).set("x", x).set("y", y).set("text-anchor", anchor).set("fill", MUTED)
}
