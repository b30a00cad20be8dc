//! Maps as bytes that a page can carry.

use std::io::Write;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use flate2::Compression;
use flate2::write::ZlibEncoder;
use heapwright_replay::history::{Grid, HeapMap};

use super::data::Map;

/// The bytes that are packed between two looks at how many there are.
const PART: usize = 1 << 16;

/// The colourings of a map, in their order; the last only if the trace has call sites.
const LAYERS: [&str; 3] = ["size", "age", "site"];

/// A map, rounded: row after row from the lowest addresses, because what lies at an address stays the same for long,
/// and packs well.
pub struct Planes {
    pub rows: usize,
    pub columns: usize,
    pub row_bytes: u64,
    pub column_events: u64,
    /// How much of each cell was used: 0 nothing, 255 all.
    pub shades: Vec<u8>,
    /// The class of each cell, in each colouring.
    pub classes: Vec<Vec<u8>>,
}

impl Planes {
    /// The levels of a map, the finest first.
    pub fn levels(map: &HeapMap) -> Vec<Planes> {
        map.levels().map(Planes::of).collect()
    }

    fn of(grid: &Grid) -> Planes {
        let by_rows = |cell: &dyn Fn(usize, usize) -> u8| {
            (0..grid.rows())
                .flat_map(|row| (0..grid.columns()).map(move |column| cell(column, row)))
                .collect::<Vec<u8>>()
        };
        let at = |column: usize, row: usize| column * grid.rows() + row;
        let whole = |column: usize| grid.row_bytes().saturating_mul(grid.events_of(column));
        let class = |classes: &Vec<u8>| by_rows(&|column, row| classes[at(column, row)]);
        Planes {
            rows: grid.rows(),
            columns: grid.columns(),
            row_bytes: grid.row_bytes(),
            column_events: grid.column_events(),
            shades: by_rows(&|column, row| shade(grid.used()[at(column, row)], whole(column))),
            classes: grid.classes().iter().map(class).collect(),
        }
    }

    /// What the colourings show.
    pub fn layers(&self) -> &'static [&'static str] {
        &LAYERS[..self.classes.len().min(LAYERS.len())]
    }

    /// As the page reads it; `None` if its planes take more than `most` bytes there.
    pub fn pack_into(&self, most: usize) -> std::io::Result<Option<Map>> {
        // Level 6: 9 takes three times the time, for 3 % less.
        let mut packed = ZlibEncoder::new(Vec::new(), Compression::default());
        for plane in std::iter::once(&self.shades).chain(&self.classes) {
            for part in plane.chunks(PART) {
                packed.write_all(part)?;
                // What is packed already is no longer than all of it.
                if base64_length(packed.get_ref().len()) > most {
                    return Ok(None);
                }
            }
        }
        let packed = packed.finish()?;
        Ok((base64_length(packed.len()) <= most).then(|| Map {
            rows: self.rows,
            columns: self.columns,
            row_bytes: self.row_bytes,
            column_events: self.column_events,
            layers: self.layers(),
            planes: BASE64_STANDARD.encode(packed),
        }))
    }
}

/// Returns the length of this number of bytes in base64.
fn base64_length(bytes: usize) -> usize {
    bytes.div_ceil(3) * 4
}

/// A share as a byte: 0 and 255 are exactly nothing and exactly all, what lies between is rounded.
fn shade(part: u64, whole: u64) -> u8 {
    match part {
        0 => 0,
        part if part >= whole => u8::MAX,
        part => 1 + (part as f64 / whole as f64 * 253.0) as u8,
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use flate2::read::ZlibDecoder;
    use heapwright_replay::history::Classes;

    use super::*;

    #[test]
    fn only_what_is_empty_looks_empty() {
        assert_eq!([shade(0, 9), shade(9, 9), shade(1, u64::MAX), shade(u64::MAX - 1, u64::MAX)], [0, 255, 1, 254]);
        assert!((1..99).all(|part| shade(part, 100) <= shade(part + 1, 100)));
    }

    #[test]
    fn planes_lie_row_by_row() {
        let mut map = HeapMap::new(64, 16, 2, 4, 2, &[8, 8].map(Classes::from));
        map.occupy(0..32, &[3, 1]);
        map.end_event();
        map.vacate(0..32, &[3, 1]);
        map.occupy(48..64, &[7, 2]);
        map.end_event();
        let levels = Planes::levels(&map);
        let packed = levels[0].pack_into(usize::MAX).unwrap().unwrap();
        let length = packed.planes.len();
        assert!(levels[0].pack_into(length - 1).unwrap().is_none());
        assert_eq!(levels[0].pack_into(length).unwrap().unwrap().planes, packed.planes);
        assert_eq!((packed.rows, packed.columns, packed.row_bytes, packed.column_events), (4, 2, 16, 1));
        assert_eq!(packed.layers, ["size", "age"]);
        let bytes = BASE64_STANDARD.decode(packed.planes).unwrap();
        let mut planes = Vec::new();
        ZlibDecoder::new(&bytes[..]).read_to_end(&mut planes).unwrap();
        assert_eq!(planes[..8], [255, 0, 255, 0, 0, 0, 0, 255]);
        assert_eq!(planes[8..16], [3, 0, 3, 0, 0, 0, 0, 7]);
        assert_eq!(planes[16..], [1, 0, 1, 0, 0, 0, 0, 2]);
        // A column of both events; half of what was used in the lower rows, a quarter of it in the upper ones.
        assert_eq!((levels[1].rows, levels[1].columns, &levels[1].shades[..]), (2, 1, &[127, 64][..]));
    }
}
