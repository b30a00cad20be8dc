//! The frame of a plot: its title, its axes and their marks.

use heapwright_host::names::Shown;
use svg::Document;
use svg::node::element::{Group, Line, Rectangle, Text};

use super::marks::{CHART, Mark, Unit};

/// The size of a picture and of the plot in it, in units of about a third of a millimetre.
pub const WIDTH: f64 = 680.0;
pub const HEIGHT: f64 = 400.0;
pub const LEFT: f64 = 76.0;
pub const RIGHT: f64 = 596.0;
pub const TOP: f64 = 40.0;
pub const BOTTOM: f64 = 344.0;

pub const INK: &str = "#1c1d1f";
const MUTED: &str = "#5c6067";
const GRID: &str = "#e3e1dc";
const FONT: &str = "Helvetica, Arial, 'Liberation Sans', 'DejaVu Sans', sans-serif";

/// A linear scale from `0..=most` to places.
#[derive(Clone, Copy)]
pub struct Scale {
    most: f64,
    start: f64,
    end: f64,
}

impl Scale {
    /// The scale across.
    pub fn across(most: u64) -> Scale {
        Scale { most: most.max(1) as f64, start: LEFT, end: RIGHT }
    }

    /// The scale upwards, without any room above.
    pub fn filling(most: u64) -> Scale {
        Scale { most: most.max(1) as f64, start: BOTTOM, end: TOP }
    }

    /// The scale upwards, with a little room above.
    pub fn upwards(most: u64) -> Scale {
        Scale { most: most.max(1) as f64 * CHART.headroom, start: BOTTOM, end: TOP }
    }

    /// The marks of a scale upwards.
    pub fn marks(&self, unit: Unit) -> Vec<Mark> {
        unit.marks(self.most, CHART.marks.upwards)
    }

    pub fn place(&self, value: f64) -> f64 {
        self.start + value / self.most * (self.end - self.start)
    }
}

/// An empty picture with its title.
pub fn picture(title: &str) -> Document {
    taller_picture(title, 0.0)
}

/// An empty picture with its title, and more room below its plot.
pub fn taller_picture(title: &str, more: f64) -> Document {
    let (clean, height) = (title.shown(), HEIGHT + more);
    Document::new()
        .set("viewBox", (0, 0, WIDTH, height))
        .set("width", WIDTH)
        .set("height", height)
        .set("font-family", FONT)
        .set("font-size", 12)
        .add(svg::node::element::Title::new(clean.clone()))
        .add(Rectangle::new().set("width", WIDTH).set("height", height).set("fill", "#ffffff"))
        .add(text(LEFT, 22.0, "start", &clean).set("font-size", 14).set("font-weight", "bold").set("fill", INK))
}

/// A text at a place.
pub fn text(x: f64, y: f64, anchor: &str, content: &str) -> Text {
    Text::new(content).set("x", rounded(x)).set("y", rounded(y)).set("text-anchor", anchor).set("fill", MUTED)
}

/// The axis upwards: its marks, each with a line across, and what it shows.
pub fn upwards(scale: Scale, unit: Unit, label: &str) -> Group {
    let mut group = Group::new();
    for Mark { at, text: content } in scale.marks(unit) {
        let y = scale.place(at);
        let rule = line(LEFT, y, RIGHT, y, if at == 0.0 { MUTED } else { GRID });
        group = group.add(rule).add(text(LEFT - 7.0, y + 4.0, "end", &content));
    }
    let middle = (TOP + BOTTOM) / 2.0;
    let label = text(14.0, middle, "middle", label).set("transform", format!("rotate(-90 14 {middle})"));
    group.add(label)
}

/// The axis across: places with their texts, and what it shows.
pub fn across(places: impl IntoIterator<Item = (f64, String)>, label: &str) -> Group {
    let mut group = Group::new();
    for (x, mark) in places {
        group = group.add(line(x, BOTTOM, x, BOTTOM + 5.0, MUTED)).add(text(x, BOTTOM + 19.0, "middle", &mark));
    }
    group.add(text((LEFT + RIGHT) / 2.0, BOTTOM + 40.0, "middle", label))
}

fn line(x1: f64, y1: f64, x2: f64, y2: f64, colour: &str) -> Line {
    let ends = Line::new().set("x1", rounded(x1)).set("y1", rounded(y1)).set("x2", rounded(x2)).set("y2", rounded(y2));
    ends.set("stroke", colour)
}

/// A place to a tenth of a unit, which no printer shows.
pub fn rounded(place: f64) -> f64 {
    (place * 10.0).round() / 10.0
}
