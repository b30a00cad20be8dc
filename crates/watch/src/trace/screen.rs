//! The screen of a trace that is played.

use heapwright_placement::Engine;
use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Style, Stylize};
use ratatui::text::{Line, Span, Text};
use ratatui::widgets::{LineGauge, Paragraph, Wrap};

use super::lane::Lane;
use super::quiz::Verdict;
use super::show::Show;
use crate::panels::{COUNTERS, FIGURES, Figures, Holes, Past, keys, section};
use crate::picture::{self, Picture, QUIET, legend};
use heapwright_show::number;

/// From this width on, heaps lie side by side; on narrower terminals one below the other.
const WIDE: u16 = 120;

/// Rows of the comparison of heaps.
const COMPARISON: u16 = 6;

/// Areas of the screen.
struct Parts {
    title: Rect,
    lanes: Vec<Rect>,
    figures: Rect,
    time: Rect,
    keys: Rect,
}

fn parts(area: Rect, lanes: usize) -> Parts {
    let [title, heaps, figures, time, keys] = Layout::vertical([
        Constraint::Length(1),
        Constraint::Fill(1),
        Constraint::Length(if lanes == 1 { FIGURES } else { COMPARISON }),
        Constraint::Length(1),
        Constraint::Length(1),
    ])
    .areas(area);
    let each = vec![Constraint::Fill(1); lanes];
    let layout = if area.width >= WIDE { Layout::horizontal(each).spacing(1) } else { Layout::vertical(each) };
    Parts { title, lanes: layout.split(heaps).to_vec(), figures, time, keys }
}

/// Splits a lane into the heap's map and the explanation below it.
fn map_and_story(lane: Rect) -> [Rect; 2] {
    let inner = section("").inner(lane);
    let story = if inner.height < 10 { 3 } else { 4 };
    Layout::vertical([Constraint::Fill(1), Constraint::Length(story)]).areas(inner)
}

/// Returns the areas of the maps of `lanes` heaps.
pub fn map_areas(area: Rect, lanes: usize) -> Vec<Rect> {
    parts(area, lanes).lanes.into_iter().map(|lane| map_and_story(lane)[0]).collect()
}

/// Draws everything.
pub fn draw(frame: &mut Frame, show: &Show) {
    let lanes = &show.player.lanes;
    let parts = parts(frame.area(), lanes.len());
    draw_title(frame, show, parts.title);
    for (number, &area) in parts.lanes.iter().enumerate() {
        draw_lane(frame, show, number, area);
    }
    match &lanes[..] {
        [lane] => draw_figures(frame, lane, parts.figures),
        lanes => draw_comparison(frame, lanes, parts.figures),
    }
    let done = show.player.at as f64 / show.player.count.max(1) as f64;
    let gauge = LineGauge::default().ratio(done.min(1.0)).filled_symbol("━").unfilled_symbol("─");
    let gauge = gauge.filled_style(Style::new().fg(Color::Cyan)).unfilled_style(QUIET);
    frame.render_widget(gauge.label(format!(" {:3.0} %", 100.0 * done)), parts.time);
    frame.render_widget(Paragraph::new(footer(show)), parts.keys);
}

fn draw_title(frame: &mut Frame, show: &Show, area: Rect) {
    let player = &show.player;
    let state = match (&player.damage, player.is_seeking(), player.is_paused) {
        (_, true, _) => Span::styled("on its way", Style::new().fg(Color::Yellow)),
        (Some(_), _, _) if player.at == player.count => {
            Span::styled("the trace is damaged here", Style::new().fg(Color::Red))
        }
        (_, _, true) if player.at == player.count => Span::styled("the end", Style::new().fg(Color::Yellow)),
        (_, _, true) => Span::styled("paused", Style::new().fg(Color::Yellow)),
        _ => Span::styled("playing", Style::new().fg(Color::Green)),
    };
    let line = Line::from(vec![
        Span::from(format!(" {} ", player.program())).bold().reversed(),
        Span::styled(" event ", QUIET),
        Span::from(number::grouped(player.at)).bold(),
        Span::styled(format!(" of {} · ", number::grouped(player.count)), QUIET),
        state,
    ]);
    frame.render_widget(line, area);
    let corner = match &show.quiz {
        Some(quiz) => quiz.score(),
        None => format!("{} a second ", number::counted(player.speed, "event")),
    };
    frame.render_widget(Line::from(corner).right_aligned(), area);
}

fn draw_lane(frame: &mut Frame, show: &Show, number: usize, area: Rect) {
    let lane = &show.player.lanes[number];
    let [map, explanation] = map_and_story(area);
    let engine = lane.engine();
    let shape = picture::frame(engine.heap_size(), lane.granule(), map);
    let view = show.views[number];
    let (_, scale) = view.resolve(&shape);
    let pointer = if show.views.len() > 1 && number == show.active { "▶ " } else { "" };
    let title = format!("{pointer}{}, {} a cell", lane.policy().name(), number::bytes(scale as u64));
    let block = section(&title);
    let block = if area.width > 60 { block.title_top(legend().right_aligned()) } else { block };
    frame.render_widget(block, area);
    let mark = show.mark(number);
    frame.render_widget(Picture::new(engine.blocks(), engine.top(), view, shape).marking(mark.as_ref()), map);
    if let Some(text) = explained(show, lane) {
        frame.render_widget(Paragraph::new(text).wrap(Wrap { trim: true }), explanation);
    }
}

/// Returns the open question, or the explanation of the last event behind the verdict about the guess.
fn explained<'s>(show: &'s Show, lane: &'s Lane) -> Option<Text<'s>> {
    let quiz = show.quiz.as_ref();
    if let Some(question) = quiz.and_then(|quiz| quiz.question.as_ref()) {
        let asked = Line::from(question.text(lane.policy())).bold();
        return Some(Text::from(vec![asked, Line::from(format!("◀ {} ▶", question.choice()))]));
    }
    let story = lane.story.as_ref()?;
    let verdict = quiz.and_then(|quiz| quiz.verdict.as_ref()).map(|verdict| {
        let color = if *verdict == Verdict::Right { Color::Green } else { Color::Red };
        Span::styled(verdict.text(), Style::new().fg(color).bold())
    });
    let what = Line::from_iter(verdict.into_iter().chain([Span::from(story.what.as_str()).bold()]));
    Some(Text::from(vec![what, Line::from(story.why.as_str())]))
}

fn draw_figures(frame: &mut Frame, lane: &Lane, area: Rect) {
    let columns = [Constraint::Length(COUNTERS), Constraint::Fill(1), Constraint::Fill(1)];
    let [counters, holes, past] = Layout::horizontal(columns).spacing(1).areas(area);
    frame.render_widget(Figures { counters: lane.engine().counters(), rates: None }, counters);
    frame.render_widget(Holes { holes: lane.engine().holes() }, holes);
    frame.render_widget(Past { history: &lane.history }, past);
}

/// Formats a figure of a heap.
type Figure = fn(&Lane) -> String;

/// The compared figures.
const COMPARED: [(&str, Figure); 5] = [
    ("heap", |lane| counted(lane, |found| number::bytes(found.heap_size))),
    ("heap / bytes asked for", |lane| match lane.requested() {
        0 => "-".to_owned(),
        asked => format!("{:.3}", lane.engine().heap_size() as f64 / asked as f64),
    }),
    ("holes", |lane| counted(lane, |found| number::grouped(found.holes))),
    ("fragmented", |lane| match lane.engine().holes().external_fragmentation() {
        None => "-".to_owned(),
        Some(share) => format!("{:.1} %", 100.0 * share),
    }),
    ("splits · coalesces", |lane| {
        counted(lane, |found| format!("{} · {}", number::grouped(found.splits), number::grouped(found.coalesces)))
    }),
];

fn counted(lane: &Lane, read: impl Fn(&heapwright_placement::Counters) -> String) -> String {
    lane.engine().counters().as_ref().map_or("-".to_owned(), read)
}

fn draw_comparison(frame: &mut Frame, lanes: &[Lane], area: Rect) {
    let heads: String = lanes.iter().map(|lane| format!("{:>24}", lane.policy().name())).collect();
    let title = format!("{:<23}{heads}", "side by side");
    let block = section(&title);
    let inner = block.inner(area);
    frame.render_widget(block, area);
    let mut lines: Vec<Line> = Vec::new();
    for (name, figure) in COMPARED {
        let figures = lanes.iter().map(|lane| Span::from(format!("{:>24}", figure(lane))).bold());
        lines.push(Line::from_iter([Span::raw(format!("{name:<24}"))].into_iter().chain(figures)));
    }
    frame.render_widget(Paragraph::new(lines), inner);
}

/// Lists the keys.
fn footer(show: &Show) -> Line<'static> {
    match &show.typed {
        Some(typed) => Line::from(vec![
            Span::styled(" Go to event: ", Style::new().fg(Color::Yellow).bold()),
            Span::from(format!("{typed}▏ ")),
            Span::styled("Enter goes, Esc stays", QUIET),
        ]),
        None if show.quiz.is_some() => {
            keys(&[("q", "quit"), ("← →", "hole"), ("1-9", "its number"), ("Enter", "guess, go on"), ("z Z", "zoom")])
        }
        None => keys(&[
            ("q", "quit"),
            ("space", "play"),
            ("+ -", "speed"),
            ("← →", "step"),
            ("g", "go to"),
            ("s", "policy"),
            ("z Z", "zoom"),
        ]),
    }
}
