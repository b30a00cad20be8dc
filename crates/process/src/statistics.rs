//! The statistics of the process's heap, as a table or as JSON. An unknown figure is shown as missing.

use core::ffi::CStr;
use core::fmt::{self, Write};

use heapwright_cached as cached;
use heapwright_heaps::{Counters, HoleStats, PageReturns};
use heapwright_os::{Line, Output, peak_of_program, process_id, program_name, uncancelled};

use crate::classes::{self, ClassLine};
use crate::decimal::Decimal;
use crate::heap::Heap;
use crate::plain::Plain;
use crate::settings::{PATH_LENGTH, Report};
use crate::state::{State, with_rarely};
use crate::summary::Summary;

/// Large enough for the longest table and the longest JSON.
type Text = Line<{ 24 << 10 }>;

/// Writes the statistics to the destination in the settings. Called without the lock, as all functions here that write.
#[cold]
#[inline(never)]
pub(crate) fn report() {
    match with_rarely(|state| state.settings.report).unwrap_or(Report::Nothing) {
        Report::Nothing => {}
        Report::Table(output) => output.still_open().map_or((), print_table),
        Report::Json(path) => uncancelled(|| print_json(path.bytes())),
    }
}

/// All figures of the heap at this moment.
struct Figures {
    policy: &'static str,
    counters: Option<Counters>,
    holes: HoleStats,
    returns: Option<PageReturns>,
    bad_frees: u64,
    /// The most bytes of blocks without their headers, where blocks have some.
    most_payload: Option<u64>,
    /// The census of the cached heap, and its counts if counting was requested from the start.
    cached: Option<(cached::Census, Option<cached::Totals>)>,
}

impl Figures {
    fn of(state: &mut State) -> Figures {
        Figures {
            policy: state.settings.placement.name(),
            counters: state.heap.counters(),
            holes: state.heap.holes(),
            returns: state.heap.returns(),
            bad_frees: state.bad_frees,
            most_payload: if let Heap::Growing(heap) = &state.heap { heap.most_payload() } else { None },
            cached: if let Heap::Cached = state.heap { cached::census().zip(Some(cached::totals())) } else { None },
        }
    }

    /// Returns each figure with its name, in the order of the table.
    fn counts(&self) -> [(&'static str, &'static str, Option<u64>); 21] {
        if let Some((census, totals)) = &self.cached {
            return self.counts_cached(census, totals.as_ref());
        }
        let count = |read: fn(&Counters) -> u64| self.counters.as_ref().map(read);
        [
            ("mallocs", "mallocs", count(|c| c.mallocs)),
            ("frees", "frees", count(|c| c.frees)),
            ("reuses", "reuses", count(|c| c.reuses)),
            ("grows", "grows", count(|c| c.grows)),
            ("splits", "splits", count(|c| c.splits)),
            ("coalesces", "coalesces", count(|c| c.coalesces)),
            ("resizes", "resizes", count(|c| c.resizes)),
            ("blocks", "blocks", count(|c| c.blocks)),
            ("requested", "requested bytes", count(|c| c.requested)),
            ("rounded", "rounded bytes", count(|c| c.rounded)),
            ("live", "live bytes", count(|c| c.live)),
            ("peak_live", "peak live bytes", count(|c| c.peak_live)),
            ("heap_size", "heap bytes", count(|c| c.heap_size)),
            ("peak_heap_size", "max heap bytes", count(|c| c.peak_heap_size)),
            ("most_payload", "max bytes without headers", self.most_payload),
            ("live_requested", "live requested bytes", self.counters.as_ref().and_then(Counters::live_requested)),
            ("bad_frees", "bad frees ignored", Some(self.bad_frees)),
            ("bytes_returned", "bytes purged", self.returns.map(|returns| returns.bytes)),
            ("peak_resident", "peak resident bytes", peak_of_program()),
            ("limit", "memory limit bytes", None),
            ("relieved", "purges near the limit", None),
        ]
    }

    fn utilisation(&self) -> Option<f64> {
        match &self.cached {
            Some((census, totals)) => totals.as_ref().and_then(|totals| {
                let peak = census.pages.peak_heap_size;
                (peak != 0).then(|| totals.peak_live as f64 / peak as f64)
            }),
            None => self.counters.as_ref().and_then(Counters::utilisation),
        }
    }

    /// Returns the figures of the cached heap. Figures that only a policy has, or that were not counted, are missing.
    fn counts_cached(
        &self,
        census: &cached::Census,
        totals: Option<&cached::Totals>,
    ) -> [(&'static str, &'static str, Option<u64>); 21] {
        let count = |read: fn(&cached::Totals) -> u64| totals.map(read);
        let used = Summary::of_cached(census).used;
        [
            ("mallocs", "mallocs", count(|totals| totals.allocated)),
            ("frees", "frees", count(|totals| totals.freed)),
            ("reuses", "reuses", None),
            ("grows", "grows", None),
            ("splits", "splits", None),
            ("coalesces", "coalesces", None),
            ("resizes", "resizes", None),
            ("blocks", "blocks", count(|totals| totals.allocated - totals.freed).or(Some(used.count as u64))),
            ("requested", "requested bytes", count(|totals| totals.requested)),
            ("rounded", "rounded bytes", count(|totals| totals.rounded)),
            ("live", "live bytes", count(|totals| totals.live).or(Some(used.bytes as u64))),
            ("peak_live", "peak live bytes", count(|totals| totals.peak_live)),
            ("heap_size", "heap bytes", Some(census.pages.heap_size)),
            ("peak_heap_size", "max heap bytes", Some(census.pages.peak_heap_size)),
            ("most_payload", "max bytes without headers", None),
            ("live_requested", "live requested bytes", None),
            ("bad_frees", "bad frees ignored", Some(self.bad_frees)),
            ("bytes_returned", "bytes purged", self.returns.map(|returns| returns.bytes)),
            ("peak_resident", "peak resident bytes", peak_of_program()),
            ("limit", "memory limit bytes", cached::known_limit()),
            ("relieved", "purges near the limit", Some(cached::times_scarce())),
        ]
    }

    fn ratios(&self) -> [(&'static str, &'static str, Option<f64>); 3] {
        [
            ("utilisation", "utilisation", self.utilisation()),
            (
                "internal_fragmentation",
                "internal fragmentation",
                self.counters.as_ref().and_then(Counters::internal_fragmentation),
            ),
            ("external_fragmentation", "external fragmentation", self.holes.external_fragmentation()),
        ]
    }
}

/// Writes the table.
pub(crate) fn print_table(output: Output) {
    let mut text = Text::new();
    let _ = with_rarely(|state| write_table(&mut text, &Figures::of(state)));
    output.write(text.bytes());
}

fn write_table(text: &mut Text, figures: &Figures) -> fmt::Result {
    text.write_str("heapwright: ")?;
    writeln!(text, "{} [{}] under {}", Plain(program_name().bytes()), process_id(), figures.policy)?;
    for (_, name, value) in figures.counts() {
        match value {
            Some(value) => writeln!(text, "  {name:<24}{value:>20}")?,
            None => writeln!(text, "  {name:<24}{:>20}", "-")?,
        }
    }
    for (_, name, value) in figures.ratios() {
        match value {
            Some(value) => writeln!(text, "  {name:<24}{:>20}", Decimal { value, places: 4 })?,
            None => writeln!(text, "  {name:<24}{:>20}", "-")?,
        }
    }
    let holes = &figures.holes;
    write!(text, "  holes: {} of {} bytes in all", holes.count, holes.total)?;
    if let (Some(mean), Some(variance)) = (holes.mean(), holes.variance()) {
        let [mean, deviation] = [mean, square_root(variance)].map(|value| Decimal { value, places: 1 });
        write!(text, ", from {} to {}, mean {mean}, sd {deviation}", holes.min, holes.max)?;
    }
    text.write_str("\n")?;
    match &figures.cached {
        Some((census, _)) => write_classes(text, census),
        None => Ok(()),
    }
}

/// Writes a line per size class of the cached heap that is in use, or ever was if that was counted.
fn write_classes(text: &mut Text, census: &cached::Census) -> fmt::Result {
    let heads = ["class", "allocated", "freed", "blocks", "slabs", "free bytes"];
    let [class, allocated, freed, blocks, slabs, free] = heads;
    writeln!(text, "  {class:>8}{allocated:>15}{freed:>15}{blocks:>13}{slabs:>9}{free:>13}")?;
    for ClassLine { size, allocated, freed, blocks, slabs, free } in classes::lines(census) {
        match size {
            Some(size) => write!(text, "  {size:>8}")?,
            None => write!(text, "  {:>8}", "longer")?,
        }
        write_cell(text, 15, allocated)?;
        write_cell(text, 15, freed)?;
        write_cell(text, 13, Some(blocks))?;
        write_cell(text, 9, slabs.map(|slabs| slabs as u64))?;
        write_cell(text, 13, free.map(|free| free as u64))?;
        text.write_str("\n")?;
    }
    write_dissolved(text, &census.dissolved())
}

/// Writes a line for the slabs with blocks of several classes, if there are any. Their blocks count by class.
fn write_dissolved(text: &mut Text, dissolved: &cached::DissolvedSlabs) -> fmt::Result {
    if dissolved.slabs == 0 {
        return Ok(());
    }
    let (slabs, free) = (dissolved.slabs, dissolved.hole_bytes + dissolved.listed_bytes);
    writeln!(text, "  {:>8}{:>15}{:>15}{:>13}{slabs:>9}{free:>13}", "several", "-", "-", "-")
}

fn write_cell(text: &mut Text, width: usize, value: Option<u64>) -> fmt::Result {
    match value {
        Some(value) => write!(text, "{value:>width$}"),
        None => write!(text, "{:>width$}", "-"),
    }
}

fn print_json(pattern: &[u8]) {
    let mut path = with_process_id(pattern);
    path.push(b"\0");
    let Ok(path) = CStr::from_bytes_until_nul(path.bytes()) else { return };
    let Some(output) = Output::file(path) else {
        let advice = b"check that its folder exists and can be written to; `heapwright run` removes its own when the \
            program that it has started ends";
        return complain_about(path, advice);
    };
    let mut text = Text::new();
    let _ = with_rarely(|state| write_json(&mut text, &Figures::of(state)));
    let written = output.write_all(text.bytes());
    output.close();
    if written.is_err() {
        complain_about(path, b"the file is incomplete: check that there is room on its disk");
    }
}

fn complain_about(path: &CStr, advice: &[u8]) {
    let mut line = Line::<PATH_LENGTH>::new();
    line.push(b"heapwright: the statistics could not be written to ");
    line.push(path.to_bytes());
    line.push(b": ");
    line.push(advice);
    line.push(b"\n");
    Output::standard_error().write(line.bytes());
}

/// Returns `pattern` with every `%p` replaced by the id of this process.
fn with_process_id(pattern: &[u8]) -> Line<PATH_LENGTH> {
    let mut path = Line::new();
    let mut rest = pattern;
    while let Some(at) = rest.windows(2).position(|pair| pair == b"%p") {
        path.push(&rest[..at]);
        let _ = write!(path, "{}", process_id());
        rest = &rest[at + 2..];
    }
    path.push(rest);
    path
}

fn write_json(text: &mut Text, figures: &Figures) -> fmt::Result {
    text.write_str("{\"schema\":1,\"program\":\"")?;
    write_escaped(text, program_name().bytes())?;
    write!(text, "\",\"pid\":{},\"policy\":\"{}\",\"counters\":{{", process_id(), figures.policy)?;
    for (name, _, value) in figures.counts() {
        write!(text, "\"{name}\":{},", Json(value))?;
    }
    for (at, (name, _, value)) in figures.ratios().into_iter().enumerate() {
        let value = value.map(|value| Decimal { value, places: 6 });
        write!(text, "{}\"{name}\":{}", if at == 0 { "" } else { "," }, Json(value))?;
    }
    text.write_str("},\"holes\":{")?;
    let holes = &figures.holes;
    write!(text, "\"count\":{},\"total\":{},", holes.count, holes.total)?;
    let known = (holes.count != 0).then_some(holes);
    write!(text, "\"min\":{},\"max\":{},", Json(known.map(|h| h.min)), Json(known.map(|h| h.max)))?;
    let [mean, deviation] = [holes.mean(), holes.variance().map(square_root)]
        .map(|value| Json(value.map(|value| Decimal { value, places: 3 })));
    write!(text, "\"mean\":{mean},\"sd\":{deviation},")?;
    text.write_str("\"histogram\":[")?;
    for (at, count) in holes.histogram.iter().enumerate() {
        write!(text, "{}{count}", if at == 0 { "" } else { "," })?;
    }
    text.write_str("]},\"returns\":")?;
    match figures.returns {
        Some(PageReturns { sweeps, runs, bytes }) => {
            write!(text, "{{\"sweeps\":{sweeps},\"runs\":{runs},\"bytes\":{bytes}}}")?;
        }
        None => text.write_str("null")?,
    }
    if let Some((census, _)) = &figures.cached {
        text.write_str(",\"classes\":[")?;
        for (at, line) in classes::lines(census).enumerate() {
            let ClassLine { size, allocated, freed, blocks, slabs, free } = line;
            let comma = if at == 0 { "" } else { "," };
            write!(text, "{comma}{{\"size\":{},\"allocated\":{},", Json(size), Json(allocated))?;
            write!(text, "\"freed\":{},\"blocks\":{blocks},", Json(freed))?;
            write!(text, "\"slabs\":{},\"free_bytes\":{}}}", Json(slabs), Json(free))?;
        }
        let dissolved = census.dissolved();
        let (slabs, blocks, free) = (dissolved.slabs, dissolved.used, dissolved.hole_bytes + dissolved.listed_bytes);
        write!(text, "],\"dissolved\":{{\"slabs\":{slabs},\"blocks\":{blocks},\"free_bytes\":{free}}}")?;
    }
    text.write_str("}\n")
}

/// A value, or `null` for a missing one.
struct Json<T>(Option<T>);

impl<T: fmt::Display> fmt::Display for Json<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Some(value) => value.fmt(f),
            None => f.write_str("null"),
        }
    }
}

fn write_escaped(text: &mut Text, bytes: &[u8]) -> fmt::Result {
    for part in bytes.utf8_chunks() {
        for letter in part.valid().chars() {
            match letter {
                '"' | '\\' => write!(text, "\\{letter}")?,
                '\0'..='\x1f' => write!(text, "\\u{:04x}", u32::from(letter))?,
                _ => text.write_char(letter)?,
            }
        }
        if !part.invalid().is_empty() {
            text.write_char(char::REPLACEMENT_CHARACTER)?;
        }
    }
    Ok(())
}

/// Computes the root by Newton's method from above: the estimate decreases until it cannot.
fn square_root(value: f64) -> f64 {
    if value <= 0.0 {
        return 0.0;
    }
    let mut root = value.max(1.0);
    loop {
        let next = 0.5 * (root + value / root);
        if next >= root {
            return root;
        }
        root = next;
    }
}
