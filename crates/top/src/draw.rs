//! The picture: a head with the server's figures and their course, tabs, one table, the keys.
//!
//! Every line fits: names are shortened in their middle, since what tells URLs and files apart is at both ends, and where there is
//! still no room columns are left out from the right.

use crate::limits::NAME_COLUMNS_MIN;
use crate::model::{Model, Summary};
use crate::numbers::{bytes, count, percent, time};
use crate::screen::Screen;
use crate::tables::{Cell, Mood, Row, Table, View};
use ratatui::Frame;
use ratatui::backend::TestBackend;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Paragraph, Sparkline};

/// Between columns.
const GAP: usize = 2;
/// Terminals of fewer lines have no course of requests.
const LINES_FOR_COURSE: u16 = 20;

/// Draws the picture. Without `has_colour` moods are shown by weight alone.
pub fn draw(frame: &mut Frame<'_>, model: &Model, screen: &Screen, note: &str, has_colour: bool) {
    let area = frame.area();
    let course = if area.height >= LINES_FOR_COURSE { 4 } else { 0 };
    let [title, figures, course, tabs, body, keys] = Layout::vertical([
        Constraint::Length(1),
        Constraint::Length(2),
        Constraint::Length(course),
        Constraint::Length(1),
        Constraint::Min(0),
        Constraint::Length(1),
    ])
    .areas(area);
    let summary = model.summary();
    frame.render_widget(Paragraph::new(headline(&summary, screen, title.width)), title);
    frame.render_widget(Paragraph::new(figures_of(&summary, usize::from(figures.width))), figures);
    if course.height > 0 {
        let width = usize::from(course.width);
        let from = summary.course.len().saturating_sub(width);
        // The newest second is at the right edge.
        let bars = vec![0; width - (summary.course.len() - from)]
            .into_iter()
            .chain(summary.course[from..].iter().copied());
        let bars = Sparkline::default().data(bars).style(style(Mood::Good, has_colour));
        frame.render_widget(bars, course);
    }
    frame.render_widget(Paragraph::new(tabs_of(screen, usize::from(tabs.width))), tabs);
    table(frame, body, model, screen, has_colour);
    frame.render_widget(Paragraph::new(footer(screen, note, usize::from(keys.width))), keys);
}

/// The picture as lines of text, for what is no terminal and has no keys.
///
/// # Errors
/// None that a buffer in memory can have.
pub fn text(model: &Model, screen: &Screen, width: u16, height: u16) -> std::io::Result<String> {
    // One line more, for the keys.
    let mut terminal = ratatui::Terminal::new(TestBackend::new(width, height.saturating_add(1)))
        .map_err(std::io::Error::other)?;
    terminal.draw(|frame| draw(frame, model, screen, "", false)).map_err(std::io::Error::other)?;
    let buffer = terminal.backend().buffer();
    let line = |y: u16| {
        let (mut out, mut x) = (String::new(), 0);
        while let Some(symbol) = buffer.cell((x, y)).map(ratatui::buffer::Cell::symbol).filter(|_| x < width)
        {
            out.push_str(symbol);
            // A wide sign has the cell behind it, too.
            x += columns(symbol).max(1) as u16;
        }
        out
    };
    let lines: Vec<String> = (0..height).map(|y| line(y).trim_end().to_string()).collect();
    let used = lines.iter().rposition(|line| !line.is_empty()).map_or(0, |last| last + 1);
    Ok(lines[..used].join("\n") + "\n")
}

fn style(mood: Mood, has_colour: bool) -> Style {
    let bold = Style::new().add_modifier(Modifier::BOLD);
    match (mood, has_colour) {
        (Mood::Plain, _) | (Mood::Good, false) => Style::new(),
        (Mood::Warn | Mood::Bad, false) => bold,
        (Mood::Good, true) => Style::new().fg(Color::Green),
        (Mood::Warn, true) => Style::new().fg(Color::Yellow),
        (Mood::Bad, true) => bold.fg(Color::Red),
    }
}

fn headline(summary: &Summary, screen: &Screen, width: u16) -> Line<'static> {
    let paused = if screen.is_paused { " – paused" } else { "" };
    let Summary { version, generation, pid, threads, refused, .. } = summary;
    let refused = refused.as_ref().map_or_else(String::new, |why| format!(" – reload refused: {why}"));
    let whole = format!(
        "Brisk {version}, generation {generation}, process {pid}, {threads} threads{paused}{refused}"
    );
    Line::styled(shortened(&whole, usize::from(width)), Style::new().add_modifier(Modifier::BOLD))
}

/// As many figures per line as fit, the most important ones first.
fn figures_of(summary: &Summary, width: usize) -> Vec<Line<'static>> {
    let times = summary.times_us.map(|us| us.map_or_else(|| "–".to_string(), time));
    let first = [
        format!("{} requests/s", count(summary.requests)),
        format!("{} failed", percent(summary.failed)),
        format!("p50 {}", times[0]),
        format!("p95 {}", times[1]),
        format!("p99 {}", times[2]),
    ];
    let second = [
        format!("{} open", count(summary.connections)),
        format!("{} new/s", count(summary.accepted)),
        format!("{:.2} CPUs", summary.cpus),
        bytes(summary.memory),
        format!("{}/s sent", bytes(summary.sent)),
        format!("{}/s received", bytes(summary.received)),
    ];
    [&first[..], &second[..]].map(|words| Line::raw(joined(words, "   ", width))).into()
}

/// What fits of words into a line, whole ones only.
fn joined(words: &[String], between: &str, width: usize) -> String {
    let mut out = String::new();
    for word in words {
        let gap = if out.is_empty() { "" } else { between };
        if columns(&out) + gap.len() + columns(word) > width {
            break;
        }
        out.push_str(gap);
        out.push_str(word);
    }
    out
}

fn tabs_of(screen: &Screen, width: usize) -> Line<'static> {
    let named = |view: &View, n: usize| format!(" {n} {} ", view.title());
    let all: usize = View::ALL.iter().enumerate().map(|(at, view)| columns(&named(view, at + 1))).sum();
    let mut spans = Vec::new();
    for (at, view) in View::ALL.iter().enumerate() {
        let is_shown = *view == screen.view;
        // Where there is no room for all names, the numbers of the others are enough to find them.
        let label = if all <= width || is_shown { named(view, at + 1) } else { format!(" {} ", at + 1) };
        let style = if is_shown { Style::new().add_modifier(Modifier::REVERSED) } else { Style::new() };
        spans.push(Span::styled(label, style));
    }
    Line::from(spans)
}

fn footer(screen: &Screen, note: &str, width: usize) -> Line<'static> {
    if screen.is_typing {
        return Line::raw(shortened(&format!("filter: {}█", screen.filter), width));
    }
    if !note.is_empty() {
        return Line::styled(shortened(note, width), Style::new().add_modifier(Modifier::BOLD));
    }
    let filter =
        if screen.filter.is_empty() { "/ filter".into() } else { format!("/ filter: {}", screen.filter) };
    let keys = ["q quit", "1-9 table", "f in flight", "s sort", "r reverse", &filter, "p pause", "↑↓ scroll"]
        .map(str::to_string);
    Line::raw(joined(&keys, "  ", width))
}

fn table(frame: &mut Frame<'_>, area: Rect, model: &Model, screen: &Screen, has_colour: bool) {
    let table = model.table(screen.view);
    let rows = screen.rows(&table);
    let room = usize::from(area.height).saturating_sub(1);
    let above = screen.above.min(rows.len().saturating_sub(room));
    let shown = &rows[above..rows.len().min(above + room)];
    let widths = widths(&table, shown, usize::from(area.width));
    let mut lines = vec![header(&table, screen, &widths)];
    lines.extend(shown.iter().map(|row| line(row, &widths, has_colour)));
    if rows.is_empty() {
        let why = if table.rows.is_empty() {
            screen.view.when_empty()
        } else {
            "no name contains what is filtered by"
        };
        lines.push(Line::raw(shortened(why, usize::from(area.width))));
    }
    frame.render_widget(Paragraph::new(lines), area);
}

/// Columns for the name and for each number that is shown.
fn widths(table: &Table, rows: &[Row], width: usize) -> Vec<usize> {
    let wide = |at: usize| {
        let cells = rows.iter().filter_map(|row| Some(columns(&row.0.get(at)?.text)));
        // The sign of the order stands beside the title.
        cells.chain([columns(table.columns[at].title) + 1]).max().unwrap_or(0)
    };
    let mut numbers: Vec<usize> = (1..table.columns.len()).map(|at| wide(at) + GAP).collect();
    while numbers.iter().sum::<usize>() + NAME_COLUMNS_MIN > width && numbers.pop().is_some() {}
    let name = width.saturating_sub(numbers.iter().sum()).min(wide(0).max(NAME_COLUMNS_MIN));
    [name].into_iter().chain(numbers).collect()
}

fn header(table: &Table, screen: &Screen, widths: &[usize]) -> Line<'static> {
    let bold = Style::new().add_modifier(Modifier::BOLD);
    let titled = |(at, width): (usize, &usize)| {
        let title = table.columns[at].title;
        let sign = if at != screen.column() {
            ""
        } else if table.columns[at].smallest_first == screen.is_reversed {
            "▼"
        } else {
            "▲"
        };
        let title = format!("{title}{sign}");
        Span::styled(if at == 0 { format!("{title:<width$}") } else { format!("{title:>width$}") }, bold)
    };
    Line::from(widths.iter().enumerate().map(titled).collect::<Vec<_>>())
}

fn line(row: &Row, widths: &[usize], has_colour: bool) -> Line<'static> {
    let cell = |(at, (cell, width)): (usize, (&Cell, &usize))| {
        let text = shortened(&cell.text, *width);
        let room = " ".repeat(width.saturating_sub(columns(&text)));
        Span::styled(if at == 0 { text + &room } else { room + &text }, style(cell.mood, has_colour))
    };
    Line::from(row.0.iter().zip(widths).enumerate().map(cell).collect::<Vec<_>>())
}

/// Columns that a text takes: signs of some scripts take two.
fn columns(text: &str) -> usize {
    Span::raw(text).width()
}

/// A text in so many columns, without its middle where it has more. What clients have sent may hold anything: control characters are
/// shown as a dot.
fn shortened(text: &str, width: usize) -> String {
    let text: String = text.chars().map(|letter| if letter.is_control() { '·' } else { letter }).collect();
    if columns(&text) <= width {
        return text;
    }
    let tail = width.saturating_sub(1) / 2;
    let head = fitting(text.chars(), width.saturating_sub(1) - tail);
    let tail: String = fitting(text.chars().rev(), tail).chars().rev().collect();
    if width == 0 { String::new() } else { format!("{head}…{tail}") }
}

/// The first letters that fit.
fn fitting(letters: impl Iterator<Item = char>, width: usize) -> String {
    let mut out = String::new();
    for letter in letters {
        out.push(letter);
        if columns(&out) > width {
            out.pop();
            break;
        }
    }
    out
}
