//! A heap's map: axes around an embedded picture with a pixel per cell.

use anyhow::{Context, Result};
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use heapwright_replay::history::{Cell, HeapMap, History};
use svg::Document;
use svg::node::element::{Group, Image, Rectangle};

use super::axes::{self, BOTTOM, LEFT, RIGHT, Scale, TOP, rounded, text};
use super::palette;
use crate::number;

/// The map of a heap, coloured by the size of its blocks.
pub fn draw(title: &str, map: &HeapMap) -> Result<Document> {
    let heap = map.rows() as u64 * map.row_bytes();
    let events: u64 = (0..map.columns()).map(|column| map.events_of(column)).sum();
    let (x, y) = (Scale::across(events), Scale::filling(heap));
    let times = axes::round_marks(events).into_iter().map(|mark| (x.place(mark as f64), axes::count(mark)));
    let picture = axes::picture(title)
        .add(axes::upwards(y, &axes::byte_marks(heap), number::bytes, "address"))
        .add(axes::across(times, "events"));
    let Some(layer) = map.layers().first().filter(|_| map.columns() > 0) else { return Ok(picture) };
    let image = Image::new()
        .set("x", LEFT)
        .set("y", TOP)
        .set("width", RIGHT - LEFT)
        .set("height", BOTTOM - TOP)
        .set("preserveAspectRatio", "none")
        .set("href", format!("data:image/png;base64,{}", BASE64_STANDARD.encode(png(map, layer.cells())?)));
    Ok(picture.add(image).add(key()))
}

/// The cells as a picture, the lowest addresses at the bottom.
fn png(map: &HeapMap, cells: &[Cell]) -> Result<Vec<u8>> {
    let (rows, columns) = (map.rows(), map.columns());
    let mut pixels = Vec::with_capacity(3 * rows * columns);
    for row in (0..rows).rev() {
        for column in 0..columns {
            let cell = cells[column * rows + row];
            let share = cell.used as f64 / (map.row_bytes() * map.events_of(column)) as f64;
            pixels.extend(palette::size_class(cell.class).map(|ink| (255.0 - share * (255.0 - f64::from(ink))) as u8));
        }
    }
    let mut file = Vec::new();
    let mut encoder = png::Encoder::new(&mut file, columns as u32, rows as u32);
    encoder.set_color(png::ColorType::Rgb);
    encoder.set_depth(png::BitDepth::Eight);
    encoder.set_compression(png::Compression::High);
    let mut writer = encoder.write_header().context("a map cannot be drawn")?;
    writer.write_image_data(&pixels).context("a map cannot be drawn")?;
    drop(writer);
    Ok(file)
}

/// What the colours stand for.
fn key() -> Group {
    let mut group = Group::new().add(text(RIGHT + 8.0, TOP + 10.0, "start", "block size"));
    for class in 0..History::CLASSES as u8 {
        let y = TOP + 22.0 + 17.0 * f64::from(class);
        let [red, green, blue] = palette::size_class(class);
        let fill = format!("rgb({red},{green},{blue})");
        let square = Rectangle::new().set("x", RIGHT + 8.0).set("y", rounded(y)).set("width", 10).set("height", 10);
        group = group.add(square.set("fill", fill)).add(text(RIGHT + 23.0, y + 9.0, "start", &class_name(class)));
    }
    group
}

/// The sizes of a class, as [`History::size_class`] has them.
fn class_name(class: u8) -> String {
    let most = |class: u8| number::bytes(16 << (2 * class)).replace(".00", "").replace(".0", "");
    if usize::from(class) + 1 < History::CLASSES {
        format!("≤ {}", most(class))
    } else {
        format!("> {}", most(class - 1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_are_named_by_their_bounds() {
        let names: Vec<String> = (0..8).map(class_name).collect();
        assert_eq!(
            (&names[0][..], &names[3][..], &names[6][..], &names[7][..]),
            ("≤ 16 B", "≤ 1 KiB", "≤ 64 KiB", "> 64 KiB")
        );
        for class in 0..7 {
            assert_eq!(History::size_class(16 << (2 * class)), class);
            assert_eq!(History::size_class((16 << (2 * class)) + 1), class + 1);
        }
    }
}
