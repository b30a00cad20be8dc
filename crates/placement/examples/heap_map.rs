//! Draws where every policy puts the blocks of one and the same program, as an SVG on standard output.
//!
//! ```sh
//! cargo run --release -p heapwright-placement --example heap_map > docs/heap-map.svg
//! ```
//! The program holds 120 blocks of 128 bytes to 4 KiB (log-uniform), and 40,000 times frees one at random and allocates
//! another. A strip is a heap, as long as the heap has become; a block is dark when it is short; holes are left white.

use std::fmt::{self, Write as _};

use heapwright_placement::{AnyEngine, BlockState, Engine, Generator, Growth, PolicyKind, Rules};

const LIVE: usize = 120;
const TURNS: usize = 40_000;
const CAPACITY: usize = 1 << 22;

const WIDTH: f64 = 1000.0;
const LEFT: f64 = 78.0;
const STRIP: f64 = 26.0;
const PITCH: f64 = 50.0;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let rules = Rules { growth: Growth::Extend, ..Rules::default() };
    let mut picture = String::new();
    let mut longest = 0;
    let mut metadata = Vec::new();
    let mut heaps = Vec::new();
    for policy in PolicyKind::ALL {
        metadata.push((policy, vec![0; AnyEngine::metadata_cells(policy, CAPACITY, &rules)?]));
    }
    for (policy, cells) in &mut metadata {
        let mut heap = AnyEngine::create(*policy, cells, CAPACITY, &rules)?;
        exercise(&mut heap)?;
        longest = longest.max(heap.heap_size());
        heaps.push(heap);
    }
    open(&mut picture, heaps.len())?;
    for (row, heap) in heaps.iter().enumerate() {
        draw(&mut picture, heap, 30.0 + row as f64 * PITCH, (WIDTH - LEFT) / longest as f64)?;
    }
    picture.push_str("</svg>\n");
    print!("{picture}");
    Ok(())
}

/// Runs the program on `heap`; every policy sees the same requests.
fn exercise(heap: &mut AnyEngine<'_>) -> Result<(), Box<dyn std::error::Error>> {
    let mut state = 1;
    let mut draw = Generator(&mut state);
    let mut size = || (128.0 * 32f64.powf(draw.below(1 << 20) as f64 / f64::from(1 << 20))) as usize;
    let mut live = Vec::new();
    for _ in 0..LIVE {
        live.push(heap.allocate(size(), 16)?);
    }
    let mut state = 2;
    for _ in 0..TURNS {
        let slot = Generator(&mut state).below(LIVE);
        heap.deallocate(live[slot])?;
        live[slot] = heap.allocate(size(), 16)?;
    }
    Ok(())
}

fn open(picture: &mut String, rows: usize) -> fmt::Result {
    let height = 30.0 + rows as f64 * PITCH;
    writeln!(
        picture,
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" \
         font-family=\"system-ui, sans-serif\" font-size=\"13\">"
    )?;
    writeln!(picture, "<rect width=\"{WIDTH}\" height=\"{height}\" fill=\"#f6f6f2\"/>")?;
    writeln!(
        picture,
        "<text x=\"{LEFT}\" y=\"20\" fill=\"#555\">One program, seven policies: every strip is a heap, as long as it \
         has become; white is a hole, dark a short block.</text>"
    )
}

fn draw(picture: &mut String, heap: &AnyEngine<'_>, y: f64, scale: f64) -> fmt::Result {
    let (size, holes) = (heap.heap_size(), heap.holes());
    writeln!(
        picture,
        "<text x=\"8\" y=\"{:.1}\" fill=\"#222\" font-weight=\"600\">{}</text>",
        y + 17.0,
        heap.policy().name()
    )?;
    writeln!(
        picture,
        "<rect x=\"{LEFT}\" y=\"{y}\" width=\"{:.2}\" height=\"{STRIP}\" fill=\"#fff\" stroke=\"#999\" \
         stroke-width=\".5\"/>",
        size as f64 * scale
    )?;
    for block in heap.blocks().filter(|block| block.state == BlockState::Used) {
        let (x, width) = (LEFT + block.offset as f64 * scale, block.size as f64 * scale);
        writeln!(
            picture,
            "<rect x=\"{x:.2}\" y=\"{y}\" width=\"{width:.2}\" height=\"{STRIP}\" fill=\"{}\"/>",
            shade(block.size)
        )?;
    }
    writeln!(
        picture,
        "<text x=\"{LEFT}\" y=\"{:.1}\" fill=\"#777\" font-size=\"11\">{} KiB, {} holes, the largest {:.1} KiB, {:.0} % \
         of the heap in blocks</text>",
        y + STRIP + 13.0,
        size / 1024,
        holes.count,
        holes.max as f64 / 1024.0,
        100.0 - 100.0 * holes.total as f64 / size as f64,
    )
}

/// From dark blue for 128 bytes to sand for 4 KiB.
fn shade(size: usize) -> String {
    let t = ((size as f64 / 128.0).log2() / 5.0).clamp(0.0, 1.0);
    let mix = |from: f64, to: f64| (from + (to - from) * t).round() as u8;
    format!("#{:02x}{:02x}{:02x}", mix(16.0, 236.0), mix(42.0, 188.0), mix(90.0, 112.0))
}
