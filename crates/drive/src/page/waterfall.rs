//! The waterfall: in the terminal, and as SVG. Phases differ in shape and shade, not in colour alone.

use super::load::{Entry, Page};
use brisk_load::chart::axis::{Axis, Scale};
use brisk_load::chart::escape;
use std::fmt::Write as _;
use std::time::Duration;

/// A phase: name, character in the terminal, fill in SVG.
const PHASES: [(&str, char, &str); 5] = [
    ("waits for its turn", '·', "#d9dde3"),
    ("connects", '-', "#8a97a8"),
    ("TLS", '=', "#5b6b80"),
    ("waits for the server", '░', "url(#wait)"),
    ("receives", '█', "#2f6fc0"),
];

/// The ends of an entry's phases, from the page's beginning; the last is its end.
fn ends(entry: &Entry) -> [Duration; 5] {
    let Ok(exchange) = &entry.result else {
        return [entry.begun, entry.begun, entry.begun, entry.done, entry.done];
    };
    let phases = &exchange.phases;
    let at = |time: Option<Duration>, before: Duration| {
        time.map_or(before, |time| (entry.begun + time).max(before))
    };
    let connect = at(phases.connect, entry.begun);
    let tls = at(phases.tls, connect);
    let first_byte = at(phases.first_byte, tls);
    [entry.begun, connect, tls, first_byte, entry.done.max(first_byte)]
}

/// Bytes in their largest fitting unit.
pub fn size(bytes: u64) -> String {
    match bytes {
        0..1000 => format!("{bytes} B"),
        1000..1_000_000 => format!("{:.1} kB", bytes as f64 / 1e3),
        _ => format!("{:.2} MB", bytes as f64 / 1e6),
    }
}

/// A text of at most `max` characters; a longer one loses its middle, as names differ at their ends.
fn shortened(text: &str, max: usize) -> String {
    let count = text.chars().count();
    if count <= max {
        return text.to_owned();
    }
    let (head, tail) = ((max - 1) / 2, max / 2);
    text.chars().take(head).chain(['…']).chain(text.chars().skip(count - tail)).collect()
}

fn label(entry: &Entry, max: usize) -> String {
    let name: String = entry.request.url.file_name().chars().filter(|c| !c.is_control()).collect();
    let name = shortened(&name, max.saturating_sub(4));
    match entry.result {
        Ok(_) => format!("{} {name}", entry.status()),
        Err(_) => format!("ERR {name}"),
    }
}

/// For the terminal, `width` columns wide.
pub fn text(page: &Page, width: usize) -> String {
    let bar = width.saturating_sub(52).max(20);
    let whole = page.loaded().as_secs_f64().max(1e-6);
    let column = |time: Duration| ((time.as_secs_f64() / whole) * bar as f64).round() as usize;
    let mut out = String::new();
    for entry in &page.entries {
        let label = label(entry, 26);
        let mark = if entry.blocks { '!' } else { ' ' };
        let _ = write!(
            out,
            "{mark}{label:<26} {:>9} {:>8.1} ms |",
            size(entry.bytes()),
            entry.took().as_secs_f64() * 1e3
        );
        let mut at = column(entry.known);
        out.extend(std::iter::repeat_n(' ', at));
        for (end, (_, sign, _)) in ends(entry).into_iter().zip(PHASES) {
            let end = column(end).max(at);
            out.extend(std::iter::repeat_n(sign, end - at));
            at = end;
        }
        if column(entry.known) == at {
            out.push('▏');
        }
        out.push('\n');
    }
    let legend: Vec<String> = PHASES.iter().map(|(name, sign, _)| format!("{sign} {name}")).collect();
    let _ = writeln!(out, "! blocks painting; {}", legend.join("; "));
    out
}

/// Its texts and lines, on light ground and on dark; the names are this picture's own, as a page's style reaches into it. Texts have a rim of the
/// ground's colour: lines end at them.
const STYLE: &str = ".wb{fill:#fff}svg .wt{fill:#111}svg .wm{fill:#444}svg .wt,svg .wm{font-size:11px;stroke:#fff;stroke-width:3px;paint-order:stroke}\
.wg{stroke:#ddd}.wp{stroke:#b00}\
@media(prefers-color-scheme:dark){.wb{fill:#14171a}svg .wt{fill:#e6e8ea}svg .wm{fill:#aab4be}svg .wt,svg .wm{stroke:#14171a}.wg{stroke:#3a4047}.wp{stroke:#f28b9d}}";

/// Where everything lies, in SVG's units.
struct Layout {
    /// Where the time begins, and how long it is.
    left: f64,
    width: f64,
    /// Behind it, for the time that the last one took.
    behind: f64,
    /// A line's height, and where in it its bar begins.
    row: usize,
    bar: usize,
    /// Characters of a name, and where its size ends.
    name_chars: usize,
    size_at: f64,
    /// Ticks of the time, about.
    ticks: usize,
    /// Names of phases beside each other.
    legend: usize,
    /// The pattern's name: two pictures of one page have patterns of their own.
    pattern: &'static str,
}

/// Names beside their bars.
const WIDE: Layout = Layout {
    left: 300.0,
    width: 640.0,
    behind: 100.0,
    row: 18,
    bar: 3,
    name_chars: 38,
    size_at: 292.0,
    ticks: 6,
    legend: 5,
    pattern: "wait",
};
/// Names above their bars, for a phone.
const NARROW: Layout = Layout {
    left: 4.0,
    width: 290.0,
    behind: 72.0,
    row: 36,
    bar: 18,
    name_chars: 44,
    size_at: 360.0,
    ticks: 3,
    legend: 2,
    pattern: "wait-narrow",
};

/// The height of a bar and of a line of text.
const BAR: usize = 12;
const LINE: usize = 18;

impl Layout {
    fn fill(&self, fill: &'static str) -> String {
        if fill.starts_with("url") { format!("url(#{})", self.pattern) } else { fill.to_owned() }
    }
}

/// As SVG, legible by itself; and inside of a page, whose style sheet does not reach its texts.
pub fn svg(page: &Page) -> String {
    drawn(page, &WIDE)
}

/// The same for a window as narrow as a phone's.
pub fn narrow_svg(page: &Page) -> String {
    drawn(page, &NARROW)
}

fn drawn(page: &Page, layout: &Layout) -> String {
    let Layout { left, width, row, .. } = *layout;
    let bottom = (page.entries.len() * row) + 2 * LINE;
    let height = bottom + LINE * (1 + PHASES.len().div_ceil(layout.legend));
    let whole = page.loaded().as_secs_f64().max(1e-6);
    let x = |time: Duration| left + time.as_secs_f64() / whole * width;
    let mut out = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {} {height}\" font-family=\"system-ui, sans-serif\" font-size=\"11\" role=\"img\">\n\
         <title>Waterfall</title>\n<defs><pattern id=\"{}\" width=\"4\" height=\"4\" patternUnits=\"userSpaceOnUse\" patternTransform=\"rotate(45)\">\
         <rect width=\"4\" height=\"4\" fill=\"#cfe0f5\"/><rect width=\"2\" height=\"4\" fill=\"#7fa6d6\"/></pattern></defs>\n\
         <style>{STYLE}</style>\n<rect width=\"100%\" height=\"100%\" class=\"wb\"/>\n",
        left + width + layout.behind,
        layout.pattern
    );
    let axis = Axis::new(Scale::Linear, [0.0, whole * 1e3].into_iter(), left, left + width);
    for (ms, text) in axis.ticks(layout.ticks) {
        let at = axis.at(ms);
        // The first one would begin left of the picture.
        let anchor = if at < 20.0 { "start" } else { "middle" };
        let _ = writeln!(
            out,
            "<line x1=\"{at:.1}\" x2=\"{at:.1}\" y1=\"{LINE}\" y2=\"{bottom}\" class=\"wg\"/><text x=\"{at:.1}\" y=\"13\" class=\"wm\" style=\"text-anchor:{anchor}\">{text} ms</text>"
        );
    }
    let mut texts = String::new();
    for (number, entry) in page.entries.iter().enumerate() {
        draw_row(&mut out, &mut texts, entry, number * row + LINE, layout, &x);
    }
    let paint = x(page.can_paint());
    let _ = writeln!(
        out,
        "<line x1=\"{paint:.1}\" x2=\"{paint:.1}\" y1=\"{LINE}\" y2=\"{bottom}\" class=\"wp\" stroke-dasharray=\"4 3\"><title>can paint</title></line>"
    );
    out.push_str(&texts);
    for (at, (name, _, fill)) in PHASES.iter().enumerate() {
        let (x, y) = (4 + at % layout.legend * 180, bottom + LINE * (1 + at / layout.legend));
        let _ = writeln!(
            out,
            "<rect x=\"{x}\" y=\"{y}\" width=\"12\" height=\"12\" fill=\"{}\"/><text x=\"{}\" y=\"{}\" class=\"wt\">{name}</text>",
            layout.fill(fill),
            x + 16,
            y + 10
        );
    }
    out + "</svg>\n"
}

/// One line of it: phases; and, for what is drawn over the lines, name, size and time.
fn draw_row(
    out: &mut String,
    texts: &mut String,
    entry: &Entry,
    y: usize,
    layout: &Layout,
    x: &dyn Fn(Duration) -> f64,
) {
    let label = label(entry, layout.name_chars);
    let mark = if entry.blocks { "! " } else { "" };
    let _ = writeln!(
        texts,
        "<text x=\"4\" y=\"{}\" class=\"wt\">{mark}{}<title>{}</title></text><text x=\"{}\" y=\"{}\" class=\"wm\" style=\"text-anchor:end\">{}</text>",
        y + 13,
        escape(&label),
        escape(&entry.request.url.to_string()),
        layout.size_at,
        y + 13,
        size(entry.bytes())
    );
    let top = y + layout.bar;
    let mut from = x(entry.known);
    for (end, (name, _, fill)) in ends(entry).into_iter().zip(PHASES) {
        let to = x(end).max(from);
        if to - from > 0.05 {
            let _ = writeln!(
                out,
                "<rect x=\"{from:.1}\" y=\"{top}\" width=\"{:.1}\" height=\"{BAR}\" fill=\"{}\"><title>{name}</title></rect>",
                to - from,
                layout.fill(fill)
            );
        }
        from = to;
    }
    let _ = writeln!(
        texts,
        "<text x=\"{:.1}\" y=\"{}\" class=\"wm\">{:.1} ms</text>",
        from + 4.0,
        top + 10,
        entry.took().as_secs_f64() * 1e3
    );
}
