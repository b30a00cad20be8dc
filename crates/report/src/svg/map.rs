//! A heap's map: axes around an embedded picture with a pixel per cell, and what its colours stand for.

use anyhow::{Context, Result};
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use heapwright_host::names::Shown;
use heapwright_replay::history::History;
use svg::Document;
use svg::node::element::{Group, Image, Rectangle};

use super::across::Across;
use super::axes::{self, BOTTOM, LEFT, RIGHT, Scale, TOP, rounded, text};
use super::marks::Unit;
use super::palette;
use crate::planes::Planes;
use crate::sites::{Sites, shortened};

/// A class of a colouring: its name and its colour.
type Class = (String, [u8; 3]);

/// What the colours of a map stand for.
pub enum Colouring<'s> {
    Size,
    Site(&'s Sites),
}

impl Colouring<'_> {
    /// Which of a map's colourings it is.
    fn layer(&self) -> &'static str {
        match self {
            Colouring::Size => "size",
            Colouring::Site(_) => "site",
        }
    }

    fn classes(&self) -> Vec<Class> {
        match self {
            Colouring::Size => {
                (0..History::CLASSES as u8).map(|class| (size_name(class), palette::class("size", class))).collect()
            }
            Colouring::Site(sites) => {
                let listed = (0..).zip(&sites.rows).map(|(at, site)| (site.name.clone(), palette::class("site", at)));
                let rest = [("all others", palette::other_sites()), ("not known", palette::unknown_sites())];
                listed.chain(rest.map(|(name, paint)| (name.to_owned(), paint))).collect()
            }
        }
    }
}

/// The map of a heap.
pub fn draw(title: &str, map: &Planes, events: u64, colouring: &Colouring<'_>) -> Result<Document> {
    let heap = map.rows as u64 * map.row_bytes;
    let (x, y) = (Across::events(events), Scale::filling(heap));
    let classes = colouring.classes();
    let (key, room) = key(colouring, &classes);
    let picture = axes::taller_picture(title, room)
        .add(axes::upwards(y, Unit::Bytes, "address"))
        .add(axes::across(x.marks(), x.label()));
    let layer = map.layers().iter().position(|name| *name == colouring.layer()).filter(|_| map.columns > 0);
    let Some(layer) = layer else { return Ok(picture) };
    let paints: Vec<[u8; 3]> = classes.iter().map(|(_, paint)| *paint).collect();
    let image = Image::new()
        .set("x", LEFT)
        .set("y", TOP)
        .set("width", RIGHT - LEFT)
        .set("height", BOTTOM - TOP)
        .set("preserveAspectRatio", "none")
        .set("href", format!("data:image/png;base64,{}", BASE64_STANDARD.encode(png(map, layer, &paints)?)));
    Ok(picture.add(image).add(key))
}

/// The cells as a picture, the lowest addresses at the bottom.
fn png(map: &Planes, layer: usize, paints: &[[u8; 3]]) -> Result<Vec<u8>> {
    let mut pixels = Vec::with_capacity(3 * map.rows * map.columns);
    let rows = map.shades.chunks(map.columns).zip(map.classes[layer].chunks(map.columns));
    for (shades, classes) in rows.rev() {
        for (&shade, &class) in shades.iter().zip(classes) {
            let paint = paints.get(usize::from(class)).copied().unwrap_or_default();
            let faded = |ink: u8| 255 - (u32::from(shade) * (255 - u32::from(ink)) / 255) as u8;
            pixels.extend(paint.map(faded));
        }
    }
    let mut file = Vec::new();
    let mut encoder = png::Encoder::new(&mut file, map.columns as u32, map.rows as u32);
    encoder.set_color(png::ColorType::Rgb);
    encoder.set_depth(png::BitDepth::Eight);
    encoder.set_compression(png::Compression::High);
    let mut writer = encoder.write_header().context("a map cannot be drawn")?;
    writer.write_image_data(&pixels).context("a map cannot be drawn")?;
    drop(writer);
    Ok(file)
}

/// Returns the key to the colours, and the room below the plot that it takes: sizes are listed at the right of the
/// plot, call sites below it, a line each.
fn key(colouring: &Colouring<'_>, classes: &[Class]) -> (Group, f64) {
    const LINE: f64 = 17.0;
    const LINE_LENGTH: usize = 84;
    let (left, top, room, heading) = match colouring {
        Colouring::Size => (RIGHT + 8.0, TOP + 10.0, 0.0, "block size"),
        Colouring::Site(_) => (LEFT, BOTTOM + 66.0, 26.0 + LINE * classes.len() as f64, "asked for by"),
    };
    let mut group = Group::new().add(text(left, top, "start", heading));
    for (at, (name, [red, green, blue])) in classes.iter().enumerate() {
        let y = top + 12.0 + LINE * at as f64;
        let square = Rectangle::new().set("x", left).set("y", rounded(y)).set("width", 10).set("height", 10);
        group = group.add(square.set("fill", format!("rgb({red},{green},{blue})"))).add(text(
            left + 15.0,
            y + 9.0,
            "start",
            &shortened(name, LINE_LENGTH).shown(),
        ));
    }
    (group, room)
}

/// The sizes of a class, as [`History::size_class`] has them.
fn size_name(class: u8) -> String {
    let most = |class: u8| Unit::Bytes.write(16 << (2 * class));
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
        let names: Vec<String> = (0..8).map(size_name).collect();
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
