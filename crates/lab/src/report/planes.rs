//! Maps as bytes that a page can carry.

use std::io::Write;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use flate2::Compression;
use flate2::write::ZlibEncoder;
use heapwright_replay::history::{Cell, HeapMap};

use super::data::Map;

/// What the layers of a map show, in their order.
const LAYERS: [&str; 2] = ["size", "age"];

/// A map as the page reads it.
pub fn pack(map: &HeapMap) -> std::io::Result<Map> {
    let (rows, columns) = (map.rows(), map.columns());
    let mut planes = ZlibEncoder::new(Vec::new(), Compression::best());
    let occupancy = |cells: &[Cell], column: usize, row: usize| {
        shade(cells[column * rows + row].used, map.row_bytes() * map.events_of(column))
    };
    if let Some(layer) = map.layers().first() {
        write_plane(&mut planes, rows, columns, |column, row| occupancy(layer.cells(), column, row))?;
    }
    for layer in map.layers() {
        write_plane(&mut planes, rows, columns, |column, row| layer.cells()[column * rows + row].class)?;
    }
    Ok(Map {
        rows,
        columns,
        row_bytes: map.row_bytes(),
        column_events: map.column_events(),
        layers: LAYERS.to_vec(),
        planes: BASE64_STANDARD.encode(planes.finish()?),
    })
}

/// Writes a plane row after row: what lies at an address stays the same for long, and packs well.
fn write_plane(
    to: &mut impl Write,
    rows: usize,
    columns: usize,
    cell: impl Fn(usize, usize) -> u8,
) -> std::io::Result<()> {
    for row in 0..rows {
        let bytes: Vec<u8> = (0..columns).map(|column| cell(column, row)).collect();
        to.write_all(&bytes)?;
    }
    Ok(())
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

    use super::*;

    #[test]
    fn only_what_is_empty_looks_empty() {
        assert_eq!([shade(0, 9), shade(9, 9), shade(1, u64::MAX), shade(u64::MAX - 1, u64::MAX)], [0, 255, 1, 254]);
        assert!((1..99).all(|part| shade(part, 100) <= shade(part + 1, 100)));
    }

    #[test]
    fn planes_lie_row_by_row() {
        let mut map = HeapMap::new(64, 16, 2, 4, 2, &[8, 8]);
        map.occupy(0..32, &[3, 1]);
        map.end_event();
        map.vacate(0..32, &[3, 1]);
        map.occupy(48..64, &[7, 2]);
        map.end_event();
        let packed = pack(&map).unwrap();
        assert_eq!((packed.rows, packed.columns, packed.row_bytes, packed.column_events), (4, 2, 16, 1));
        let bytes = BASE64_STANDARD.decode(packed.planes).unwrap();
        let mut planes = Vec::new();
        ZlibDecoder::new(&bytes[..]).read_to_end(&mut planes).unwrap();
        assert_eq!(planes[..8], [255, 0, 255, 0, 0, 0, 0, 255]);
        assert_eq!(planes[8..16], [3, 0, 3, 0, 0, 0, 0, 7]);
        assert_eq!(planes[16..], [1, 0, 1, 0, 0, 0, 0, 2]);
    }
}
