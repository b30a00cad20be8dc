//! The screen of a running program.

use std::time::Duration;

use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Style, Stylize};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Paragraph, Wrap};

use super::classes::{self, Classes, TABLE};
use super::live::{Live, Question, ending};
use super::panels::{COUNTERS, FIGURES, Figures, Holes, Past, keys, section};
use super::picture::{self, Picture, QUIET, legend, legend_with_slabs};
use super::program::Program;
use super::sample::Sample;
use super::slabs::Slabs;
use super::watched::Watched;
use heapwright_show::number;

/// The fewest columns in which the history is useful.
const PAST: u16 = 12;

/// Areas of the screen.
struct Parts {
    title: Rect,
    map: Rect,
    figures: Rect,
    output: Rect,
    keys: Rect,
}

fn parts(area: Rect, live: &Live) -> Parts {
    let slabs = live.family.shown().sample.as_ref().and_then(|sample| sample.slabs.as_ref());
    // A table by size class can be long.
    let figures = slabs.map_or(FIGURES, |slabs| (area.height / 3).max(classes::rows(slabs)));
    let output = (area.height / 6).clamp(2, 10);
    let [title, map, figures, output, keys] = Layout::vertical([
        Constraint::Length(1),
        Constraint::Fill(1),
        Constraint::Length(figures),
        Constraint::Length(output),
        Constraint::Length(1),
    ])
    .areas(area);
    Parts { title, map, figures, output, keys }
}

/// Returns the area of the heap's map.
pub fn map_area(area: Rect, live: &Live) -> Rect {
    section("").inner(parts(area, live).map)
}

/// Draws everything.
pub fn draw(frame: &mut Frame, live: &Live) {
    let parts = parts(frame.area(), live);
    let shown = live.family.shown();
    draw_title(frame, live, parts.title);
    match &shown.sample {
        Some(sample) => draw_map(frame, live, sample, parts.map),
        None => draw_reason(frame, shown, parts.map),
    }
    draw_figures(frame, shown, parts.figures);
    draw_output(frame, live, parts.output);
    frame.render_widget(Paragraph::new(footer(live)), parts.keys);
}

fn draw_title(frame: &mut Frame, live: &Live, area: Rect) {
    let shown = live.family.shown();
    let policy = shown.sample.as_ref().map_or("-", |sample| sample.policy);
    let mut spans = vec![
        Span::from(format!(" {} ", shown.name)).bold().reversed(),
        Span::from(format!(" {} ", shown.pid)),
        Span::styled("under ", QUIET),
        Span::from(policy).bold(),
        Span::styled(" · ", QUIET),
    ];
    spans.push(state(live));
    frame.render_widget(Line::from(spans), area);
    let (place, count) = live.family.place();
    let mut right = duration(live.ran);
    if count > 1 {
        right = format!("process {place} of {count} · {right}");
    }
    frame.render_widget(Line::from(format!("{right} ")).right_aligned(), area);
}

/// Describes the state of the program.
fn state(live: &Live) -> Span<'static> {
    let shown = live.family.shown();
    match live.ended {
        Some(status) if status.success() => Span::styled(ending(status), Style::new().fg(Color::Green)),
        Some(status) => Span::styled(ending(status), Style::new().fg(Color::Red)),
        None if shown.is_gone() => Span::styled("this process has ended", Style::new().fg(Color::Yellow)),
        None if shown.is_blurred() => Span::styled("running, seen amid an operation", Style::new().fg(Color::Yellow)),
        None if live.is_paused => Span::styled("paused", Style::new().fg(Color::Yellow)),
        None => Span::styled("running", Style::new().fg(Color::Green)),
    }
}

/// Formats minutes and seconds, and hours if there are any.
fn duration(time: Duration) -> String {
    let seconds = time.as_secs();
    match seconds / 3600 {
        0 => format!("{}:{:02}", seconds / 60, seconds % 60),
        hours => format!("{hours}:{:02}:{:02}", seconds / 60 % 60, seconds % 60),
    }
}

fn draw_map(frame: &mut Frame, live: &Live, sample: &Sample, area: Rect) {
    let Some(layout) = &sample.layout else {
        frame.render_widget(section("no heap to draw"), area);
        let text =
            "Every block is a mapping of its own here: there is no heap that could be drawn, and there are no holes.";
        frame.render_widget(Paragraph::new(text).wrap(Wrap { trim: true }), section("").inner(area));
        return;
    };
    let inner = section("").inner(area);
    let shape = picture::frame(layout.heap_size(), layout.granule(), inner);
    let (_, scale) = live.view.resolve(&shape);
    let mut title = format!("{} a cell from {:#x}", number::bytes(scale as u64), sample.region);
    if layout.known() < layout.heap_size() {
        title = format!("the first {}, {title}", number::bytes(layout.known() as u64));
    }
    let legend = if sample.slabs.is_some() { legend_with_slabs() } else { legend() };
    frame.render_widget(section(&title).title_top(legend.right_aligned()), area);
    frame.render_widget(Picture::new(sample.pieces(), layout.top(), live.view, shape), inner);
}

fn draw_reason(frame: &mut Frame, shown: &Watched, area: Rect) {
    let text = match shown.unseen {
        Some(unseen) => format!("No heap to show of process {}: {unseen}.", shown.pid),
        None => "Looking for the heap …".to_owned(),
    };
    frame.render_widget(Paragraph::new(text).wrap(Wrap { trim: true }).block(section("heap")), area);
}

fn draw_figures(frame: &mut Frame, shown: &Watched, area: Rect) {
    if let Some((sample, slabs)) = shown.sample.as_ref().and_then(|sample| Some((sample, sample.slabs.as_ref()?))) {
        return draw_slabs(frame, shown, sample, slabs, area);
    }
    let [counters, holes, past] =
        Layout::horizontal([Constraint::Length(COUNTERS), Constraint::Fill(1), Constraint::Fill(1)])
            .spacing(1)
            .areas(area);
    let stats = shown.sample.as_ref().map(|sample| sample.holes).unwrap_or_default();
    frame.render_widget(
        Figures {
            counters: shown.sample.as_ref().and_then(Sample::counted),
            rates: (!shown.is_gone()).then_some(&shown.rates),
        },
        counters,
    );
    frame.render_widget(Holes { holes: stats }, holes);
    frame.render_widget(Past { history: &shown.history }, past);
}

fn draw_slabs(frame: &mut Frame, shown: &Watched, sample: &Sample, slabs: &Slabs, area: Rect) {
    let [heap, table, past] =
        Layout::horizontal([Constraint::Length(COUNTERS), Constraint::Length(TABLE), Constraint::Fill(1)])
            .spacing(1)
            .areas(area);
    frame.render_widget(classes::Parts { sample, slabs, rates: (!shown.is_gone()).then_some(&shown.rates) }, heap);
    frame.render_widget(Classes { classes: slabs.classes() }, table);
    if past.width >= PAST {
        frame.render_widget(Past { history: &shown.history }, past);
    }
}

fn draw_output(frame: &mut Frame, live: &Live, area: Rect) {
    let block = section("output");
    let rows = block.inner(area).height;
    let lines = match &live.program {
        Some(program) => program.last_lines(rows.into()),
        None => vec!["(not shown: this process was started outside heapwright watch)".to_owned()],
    };
    let lines: Vec<Line> = lines.into_iter().map(Line::from).collect();
    frame.render_widget(Paragraph::new(lines).block(block), area);
}

/// Lists the keys.
fn footer(live: &Live) -> Line<'static> {
    if live.question == Question::None || live.ended.is_some() {
        return keys(&[
            ("q", "quit"),
            ("z Z", "zoom"),
            ("0", "all"),
            ("↑ ↓", "move"),
            ("Tab", "process"),
            ("space", "pause"),
        ]);
    }
    let answers = match live.program.as_ref().is_some_and(Program::can_be_left) {
        true => keys(&[("e", "end the program"), ("l", "leave it running"), ("Esc", "go on watching")]),
        false => keys(&[("e", "end the program"), ("Esc", "go on watching")]),
    };
    let asked = Span::styled(" It still runs. ", Style::new().fg(Color::Yellow).bold());
    Line::from_iter([asked].into_iter().chain(answers.spans))
}
