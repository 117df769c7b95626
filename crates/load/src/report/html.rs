//! The report as one page that needs nothing else: no network, no scripts, legible on a phone, on paper, and without
//! colour.

use std::fmt::Write as _;

use super::{QUANTILES, Report, RunReport, Verdict, days};
use crate::chart::axis::Scale;
use crate::chart::{Bars, Line, Series, escape, short};
use crate::limits::{INDEX_SECTIONS_MIN, PHONE_CHARS_MAX};
use crate::sweep::slo::Judged;
use crate::sweep::{Shape, Sweep};

/// A figure that everybody looks for first, large.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tile {
    /// What it is.
    pub name: String,
    /// Its value, with its unit.
    pub value: String,
    /// Whether it is bad news.
    pub is_bad: bool,
}

/// What a section shows.
#[derive(Debug, Clone)]
pub enum Body {
    /// A table: its head, and its rows.
    Table(Vec<String>, Vec<Vec<String>>),
    /// Charts: SVG elements.
    Charts(Vec<String>),
    /// Text as it is.
    Pre(String),
    /// Figures that stand out.
    Tiles(Vec<Tile>),
}

/// A part of a page.
#[derive(Debug, Clone)]
pub struct Section {
    /// Its heading.
    pub title: String,
    /// A paragraph under it; empty: none.
    pub text: String,
    /// What it shows.
    pub body: Body,
}

const STYLE: &str = "\
:root{--b:#fff;--t:#16191d;--g:#d4d8dd;--s0:#0b57a4;--s1:#b3460e;--s2:#1b7a3d;--s3:#7a2d8f;--s4:#a11932;--s5:#55606b}\
@media(prefers-color-scheme:dark){:root{--b:#14171a;--t:#e6e8ea;--g:#3a4047;--s0:#6db3f2;--s1:#f2a06d;--s2:#72d193;--s3:#cf9be0;--s4:#f28b9d;--s5:#aab4be}}\
body{margin:0 auto;padding:12px;max-width:1120px;background:var(--b);color:var(--t);font:16px/1.45 system-ui,sans-serif}\
h1{font-size:1.4em;margin:.3em 0}h2{font-size:1.15em;margin:1.4em 0 .4em;border-bottom:1px solid var(--g)}\
p{margin:.4em 0;overflow-wrap:anywhere}nav{display:flex;flex-wrap:wrap;gap:4px 14px}nav a,td a{color:var(--s0)}.c{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(100%,440px),1fr));gap:16px}\
.w{overflow-x:auto}table{border-collapse:collapse;font-variant-numeric:tabular-nums}td,th{padding:3px 10px 3px 0;text-align:right;white-space:nowrap;border-bottom:1px solid var(--g)}\
th{white-space:normal;vertical-align:bottom}td:first-child,th:first-child{text-align:left;white-space:normal;overflow-wrap:anywhere;min-width:5em}\
@media(max-width:640px){.k tr:first-child{display:none}.k,.k tbody,.k tr,.k td{display:block}.k tr{border-bottom:1px solid var(--g);padding:4px 0}\
.k td{display:flex;justify-content:space-between;gap:1em;border:0;padding:1px 0;white-space:normal;overflow-wrap:anywhere}.k td:first-child{font-weight:700}.k td:not(:first-child):before{content:attr(data-h);opacity:.75}}\
.f td:first-child{overflow-wrap:normal}.f td{white-space:normal;text-align:left;overflow-wrap:anywhere}pre{white-space:pre-wrap;overflow-wrap:anywhere}.bad{font-weight:700;border:2px solid;padding:6px;color:var(--s4)}\
.t{display:grid;grid-template-columns:repeat(auto-fit,minmax(130px,1fr));gap:10px}.t div{border:1px solid var(--g);border-radius:6px;padding:8px 12px;font-size:.85em}\
.t b{display:block;font-size:1.7em;line-height:1.25;font-variant-numeric:tabular-nums;overflow-wrap:anywhere}.t .no{border-color:var(--s4)}.t .no b{color:var(--s4)}\
svg{width:100%;height:auto;display:block}svg text{fill:var(--t);font:12px system-ui,sans-serif}.h{font-weight:700}.x,.y,.xt{text-anchor:middle}.yt{text-anchor:end}\
.g{stroke:var(--g);fill:none}.a{stroke:var(--t);fill:none}.b{fill:var(--s0);stroke:var(--b);stroke-width:.5}.l{fill:none;stroke-width:1.8}.m{stroke-width:1.6}\
.s0{stroke:var(--s0)}.s1{stroke:var(--s1);stroke-dasharray:7 3}.s2{stroke:var(--s2);stroke-dasharray:2 3}.s3{stroke:var(--s3);stroke-dasharray:9 3 2 3}.s4{stroke:var(--s4);stroke-dasharray:4 2}.s5{stroke:var(--s5);stroke-dasharray:1 2}\
.m{stroke-dasharray:none;fill:var(--b)}.m.s0{fill:var(--s0)}";

/// A whole page.
pub fn page(title: &str, sections: &[Section]) -> String {
    let mut out = format!(
        "<!doctype html><html lang=\"en\"><head><meta charset=\"utf-8\">\
         <meta name=\"viewport\" content=\"width=device-width,initial-scale=1\"><title>{}</title><style>{STYLE}</style></head>\
         <body><h1>{}</h1>{}<main>",
        escape(title),
        escape(title),
        index(sections)
    );
    out.push_str(&fragment(sections));
    out.push_str("</main></body></html>\n");
    out
}

/// What a section is called in links.
fn anchor(title: &str) -> String {
    title.chars().map(|c| if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { '-' }).collect()
}

/// Links to all sections of a long page.
fn index(sections: &[Section]) -> String {
    if sections.len() < INDEX_SECTIONS_MIN {
        return String::new();
    }
    // Of the sections of one run the first.
    let run = |at: usize| sections[at].title.split_once(": ").map(|(run, _)| run);
    let is_first = |at: &usize| *at == 0 || run(*at).is_none() || run(*at) != run(at - 1);
    let links = (0..sections.len()).filter(is_first).map(|at| {
        let title = &sections[at].title;
        format!("<a href=\"#{}\">{}</a>", anchor(title), escape(run(at).unwrap_or(title)))
    });
    format!("<nav>{}</nav>", links.collect::<String>())
}

/// Sections without a page around them.
pub fn fragment(sections: &[Section]) -> String {
    let mut out = String::new();
    for section in sections {
        let _ = write!(out, "<section id=\"{}\"><h2>{}</h2>", anchor(&section.title), escape(&section.title));
        if !section.text.is_empty() {
            let class = if section.text.starts_with("INVALID") { " class=\"bad\"" } else { "" };
            let _ = write!(out, "<p{class}>{}</p>", escape(&section.text));
        }
        match &section.body {
            Body::Table(head, rows) => table(head, rows, &mut out),
            Body::Charts(charts) => {
                out.push_str("<div class=\"c\">");
                charts.iter().for_each(|chart| out.push_str(chart));
                out.push_str("</div>");
            }
            Body::Tiles(tiles) => tiles_of(tiles, &mut out),
            Body::Pre(text) if text.is_empty() => {}
            Body::Pre(text) => drop(write!(out, "<pre>{}</pre>", escape(text))),
        }
        out.push_str("</section>");
    }
    out
}

fn tiles_of(tiles: &[Tile], out: &mut String) {
    out.push_str("<div class=\"t\">");
    for tile in tiles {
        let class = if tile.is_bad { " class=\"no\"" } else { "" };
        let _ = write!(out, "<div{class}><b>{}</b>{}</div>", escape(&tile.value), escape(&tile.name));
    }
    out.push_str("</div>");
}

/// Characters that a row needs beside each other.
fn width(head: &[String], rows: &[Vec<String>]) -> usize {
    let column = |at: usize| {
        let cells = rows.iter().filter_map(|row| row.get(at)).chain(head.get(at));
        cells.map(|cell| cell.chars().count() + 2).max().unwrap_or(0)
    };
    (0..head.len()).map(column).sum()
}

fn table(head: &[String], rows: &[Vec<String>], out: &mut String) {
    out.push_str(match () {
        () if head.is_empty() => "<div class=\"w f\"><table>",
        // On a phone each row stands by itself, with the names of its columns.
        () if width(head, rows) > PHONE_CHARS_MAX => "<div class=\"w\"><table class=\"k\">",
        () => "<div class=\"w\"><table>",
    });
    if !head.is_empty() {
        let cells: Vec<String> = head.iter().map(|name| format!("<th>{}</th>", escape(name))).collect();
        let _ = write!(out, "<tr>{}</tr>", cells.concat());
    }
    for row in rows {
        out.push_str("<tr>");
        for (at, cell) in row.iter().enumerate() {
            let name = head.get(at).map_or_else(String::new, |name| format!(" data-h=\"{}\"", escape(name)));
            let _ = write!(out, "<td{name}>{}</td>", escape(cell));
        }
        out.push_str("</tr>");
    }
    out.push_str("</table></div>");
}

/// The report as a page.
pub fn html(report: &Report) -> String {
    let targets: Vec<String> = report.targets.iter().take(3).cloned().collect();
    page(&format!("Load on {}", targets.join(", ")), &sections(report))
}

/// All that the report says.
pub fn sections(report: &Report) -> Vec<Section> {
    let mut all: Vec<Section> = glance(report).into_iter().collect();
    if !report.promises.is_empty() {
        let row = |judged: &Judged| {
            let holds = if judged.holds { "holds" } else { "does not hold" };
            vec![judged.promise.clone(), judged.seen.clone(), holds.to_owned()]
        };
        all.push(Section {
            title: "Promises".to_owned(),
            text: format!("Verdict: {}.", report.verdict().name()),
            body: Body::Table(
                ["promise", "measured", ""].map(str::to_owned).to_vec(),
                report.promises.iter().map(row).collect(),
            ),
        });
    }
    if let Some(sweep) = &report.sweep {
        all.push(Section {
            title: "Over users".to_owned(),
            text: sweep.lines().join(". "),
            body: Body::Charts(sweep_charts(sweep)),
        });
    }
    if let Some(search) = &report.search {
        let (text, body) = (search.lines().pop().unwrap_or_default(), Body::Pre(search.lines().join("\n")));
        all.push(Section { title: "Highest rate".to_owned(), text, body });
    }
    if report.runs.len() > 1 {
        let (title, text) = ("Runs".to_owned(), String::new());
        all.push(Section { title, text, body: overview(&report.runs) });
    }
    // One time axis for the whole page.
    let span = report
        .runs
        .iter()
        .map(RunReport::span)
        .fold((0.0, 0.0), |sum: (f64, f64), more| (sum.0.min(more.0), sum.1.max(more.1)));
    for run in &report.runs {
        all.extend(run_sections(run, span));
    }
    let mut rows: Vec<Vec<String>> = vec![vec!["command".to_owned(), report.command.clone()]];
    rows.extend(report.targets.iter().map(|target| vec!["target".to_owned(), target.clone()]));
    rows.extend(report.environment.rows().into_iter().map(|(name, value)| vec![name.to_owned(), value]));
    let text = if report.is_cut_short { "Ended early by the user." } else { "" }.to_owned();
    all.push(Section {
        title: "Configuration and environment".to_owned(),
        text,
        body: Body::Table(Vec::new(), rows),
    });
    all
}

fn overview(runs: &[RunReport]) -> Body {
    let head = ["", "good/s", "mean ms", "p50", "p95", "p99", "errors %"].map(str::to_owned).to_vec();
    let row = |run: &RunReport| {
        let stats = &run.outcome.stats;
        let ms = |share: f64| format!("{:.2}", stats.latency.quantile(share) as f64 / 1e6);
        vec![
            run.label.clone(),
            short(run.goodput()),
            format!("{:.2}", stats.latency.mean() / 1e6),
            ms(0.5),
            ms(0.95),
            ms(0.99),
            format!("{:.2}", stats.error_share() * 100.0),
        ]
    };
    Body::Table(head, runs.iter().map(row).collect())
}

fn run_sections(run: &RunReport, span: (f64, f64)) -> Vec<Section> {
    let title =
        |name: &str| if run.label.is_empty() { name.to_owned() } else { format!("{}: {name}", run.label) };
    let mut notes: Vec<String> = run.invalid().map(|why| format!("INVALID: {why}.")).into_iter().collect();
    notes.extend(run.warnings().into_iter().map(|note| format!("Note: {note}.")));
    let mut all = vec![Section { title: title("figures"), text: notes.join(" "), body: figures(run) }];
    let mut charts = series_charts(run, span);
    charts.extend(latency_charts(run));
    all.push(Section { title: title("course and latency"), text: String::new(), body: Body::Charts(charts) });
    for mut section in run.resources().iter().flat_map(|resources| resources.sections_over(span)) {
        section.title = title(&section.title);
        all.push(section);
    }
    all
}

fn figures(run: &RunReport) -> Body {
    let stats = &run.outcome.stats;
    let mut rows = vec![
        ("responses".to_owned(), format!("{} in {:.2} s", stats.responses_in_time(), run.seconds())),
        ("responses after the end".to_owned(), stats.tail.responses().to_string()),
        ("rate".to_owned(), format!("{}/s", short(run.throughput()))),
        ("rate of successful ones".to_owned(), format!("{}/s", short(run.goodput()))),
        ("requests a day".to_owned(), days(run.goodput(), run.headroom())),
        ("received".to_owned(), format!("{:.1} MB/s", stats.bytes_in_time() as f64 / 1e6 / run.seconds())),
    ];
    if stats.latency.count() > 0 {
        rows.push(("latency, mean".to_owned(), format!("{:.3} ms", stats.latency.mean() / 1e6)));
        let at = |share: f64| format!("{:.3} ms", stats.latency.quantile(share) as f64 / 1e6);
        rows.extend(QUANTILES.map(|(name, share)| (format!("latency, {name}"), at(share))));
    } else {
        rows.push(("latency".to_owned(), "nothing was answered with success".to_owned()));
    }
    if stats.refused.count() > 0 {
        let ms = |share: f64| stats.refused.quantile(share) as f64 / 1e6;
        let text = format!("p50 {:.3} ms, p99 {:.3} ms, max {:.3} ms", ms(0.5), ms(0.99), ms(1.0));
        rows.push(("latency of 4xx and 5xx".to_owned(), text));
    }
    if stats.lateness.count() > 0 {
        for (name, histogram) in [("service time", &stats.service), ("lateness", &stats.lateness)] {
            let ms = |share: f64| histogram.quantile(share) as f64 / 1e6;
            let text = format!("p50 {:.3} ms, p99 {:.3} ms, max {:.3} ms", ms(0.5), ms(0.99), ms(1.0));
            rows.push((name.to_owned(), text));
        }
        rows.push(("could not be sent".to_owned(), stats.unsent.to_string()));
    }
    rows.push(("not 2xx".to_owned(), stats.non_2xx().to_string()));
    rows.push(("errors (no whole answer)".to_owned(), stats.errors().to_string()));
    rows.extend(
        stats.errors.seen().map(|(kind, count)| (format!("errors, {}", kind.name()), count.to_string())),
    );
    rows.extend(
        stats.by_status.iter().map(|(status, count)| (format!("status {status}"), count.to_string())),
    );
    if stats.responses() > 0 {
        rows.push(("generator".to_owned(), format!("{:.2} µs CPU per response", run.generator_cpu_us())));
    }
    let waited = run.generator_waited_share() * 100.0;
    rows.push(("generator waited for a CPU".to_owned(), format!("{waited:.1} % of the time")));
    Body::Table(Vec::new(), rows.into_iter().map(|(name, value)| vec![name, value]).collect())
}

/// Rate, percentiles and errors over time, with room for these seconds from the run's start.
pub fn series_charts(run: &RunReport, span: (f64, f64)) -> Vec<String> {
    let mut series = &run.outcome.series[..];
    // The last one may be so short that its rate is an accident.
    if let [first, .., last] = series
        && last.width < first.width / 2
    {
        series = &series[..series.len() - 1];
    }
    if series.len() < 2 {
        return Vec::new();
    }
    let line = |name: &str, value: &dyn Fn(&crate::stats::Slice) -> f64| Series {
        name: name.to_owned(),
        points: series.iter().map(|slice| (slice.at.as_secs_f64(), value(slice))).collect(),
        only_marks: false,
    };
    let ms = |share: f64| {
        move |slice: &crate::stats::Slice| {
            let latency = slice.latency.whole();
            if latency.count() == 0 { f64::NAN } else { latency.quantile(share) as f64 / 1e6 }
        }
    };
    let failed = |slice: &crate::stats::Slice| slice.failures() as f64 / slice.width.as_secs_f64().max(1e-9);
    let chart = |title: &str, y: &str, scale: Scale, series: Vec<Series>| {
        let (title, x_label, y_label) = (title.to_owned(), "seconds".to_owned(), y.to_owned());
        Line { title, x_label, y_label, series, y_scale: scale, x_span: Some(span), ..Line::default() }.svg()
    };
    let mut charts = vec![chart(
        "Rate and failures",
        "per second",
        Scale::Linear,
        vec![line("successful", &|slice| slice.good_rate()), line("failed", &failed)],
    )];
    // Without a good answer there is nothing to see.
    if run.outcome.stats.latency.count() > 0 {
        charts.push(chart(
            "Latency over time",
            "ms",
            Scale::Log,
            vec![line("p50", &ms(0.5)), line("p95", &ms(0.95)), line("p99", &ms(0.99))],
        ));
    }
    charts
}

/// The distribution of latencies, and the curve of its percentiles.
fn latency_charts(run: &RunReport) -> Vec<String> {
    let stats = &run.outcome.stats;
    if stats.latency.count() == 0 {
        return Vec::new();
    }
    let values = stats.latency.values().map(|(value, count)| (value as f64 / 1e6, count)).collect();
    let bars = Bars { title: "Latency".to_owned(), x_label: "ms".to_owned(), values };
    // The share of slower ones, on a logarithmic axis: each step to the right is ten times rarer.
    let rarest = 1.0 / stats.latency.count() as f64;
    let shares: Vec<f64> =
        (0..=120).map(|step| 10f64.powf(-f64::from(step) / 20.0)).take_while(|&s| s >= rarest).collect();
    let curve = |name: &str, histogram: &crate::histogram::Histogram| Series {
        name: name.to_owned(),
        points: shares.iter().map(|&s| (1.0 / s, histogram.quantile(1.0 - s) as f64 / 1e6)).collect(),
        only_marks: false,
    };
    let mut series = vec![curve("latency", &stats.latency)];
    if stats.service.count() > 0 {
        series.push(curve("service time", &stats.service));
    }
    let ticks = [(1.0, "0"), (10.0, "90"), (100.0, "99"), (1e3, "99.9"), (1e4, "99.99"), (1e5, "99.999")];
    let ticks = ticks
        .iter()
        .filter(|tick| tick.0 * rarest <= 1.01)
        .map(|&(at, text)| (at, text.to_owned()))
        .collect();
    let percentiles = Line {
        title: "Percentiles".to_owned(),
        x_label: "percent of responses that were as quick".to_owned(),
        y_label: "ms".to_owned(),
        series,
        x_scale: Scale::Log,
        y_scale: Scale::Linear,
        x_span: None,
        x_ticks: Some(ticks),
    };
    vec![bars.svg(), percentiles.svg()]
}

fn sweep_charts(sweep: &Sweep) -> Vec<String> {
    let points = |value: &dyn Fn(&crate::sweep::Point) -> f64| {
        sweep.points.iter().map(|point| (point.users as f64, value(point))).collect::<Vec<_>>()
    };
    let mut series =
        vec![Series { name: "measured".to_owned(), points: points(&|p| p.rate), only_marks: true }];
    if let Shape::Saturated { capacity, users } = sweep.shape {
        let last = sweep.points.last().map_or(1, |point| point.users);
        let points = [users, last].map(|users| (users as f64, capacity)).to_vec();
        series.push(Series { name: "capacity".to_owned(), points, only_marks: false });
    }
    if let Some(fit) = sweep.law() {
        let last = sweep.points.last().map_or(1.0, |point| point.users as f64) * 1.1;
        let curve = (0..=60).map(|step| 1.0 + (last - 1.0) * f64::from(step) / 60.0);
        let points = curve.map(|users| (users, fit.throughput(users))).collect();
        series.push(Series { name: "scalability law".to_owned(), points, only_marks: false });
    }
    let chart = |title: &str, y_label: &str, series: Vec<Series>| {
        let (title, x_label, y_label) = (title.to_owned(), "users".to_owned(), y_label.to_owned());
        Line { title, x_label, y_label, series, ..Line::default() }.svg()
    };
    let latency = Series { name: "mean".to_owned(), points: points(&|p| p.latency * 1e3), only_marks: false };
    let errors =
        Series { name: "errors".to_owned(), points: points(&|p| p.errors * 100.0), only_marks: false };
    vec![
        chart("Throughput over users", "good responses/s", series),
        chart("Latency over users", "mean, ms", vec![latency]),
        chart("Errors over users", "% of requests", vec![errors]),
    ]
}

fn tile(name: &str, value: String, is_bad: bool) -> Tile {
    Tile { name: name.to_owned(), value, is_bad }
}

/// Milliseconds with as many digits as mean something.
fn ms(ns: f64) -> String {
    let ms = ns / 1e6;
    match ms {
        _ if ms >= 100.0 => format!("{ms:.0} ms"),
        _ if ms >= 1.0 => format!("{ms:.1} ms"),
        _ => format!("{ms:.3} ms"),
    }
}

/// The figures of a run that everybody looks for first.
pub fn tiles(run: &RunReport) -> Vec<Tile> {
    let stats = &run.outcome.stats;
    let at = |share: f64| {
        if stats.latency.count() > 0 { ms(stats.latency.quantile(share) as f64) } else { "–".to_owned() }
    };
    let (failed, share) = (stats.errors() + stats.unsent + stats.refusals(), stats.error_share() * 100.0);
    let errors = if failed > 0 { format!("{share:.2} %") } else { "none".to_owned() };
    vec![
        tile("good answers per second", short(run.goodput()), stats.latency.count() == 0),
        tile("p50", at(0.5), false),
        tile("p95", at(0.95), false),
        tile("p99", at(0.99), false),
        tile("failed", errors, failed > 0),
    ]
}

/// Of a sweep.
fn sweep_glance(sweep: &Sweep) -> Section {
    let best = sweep.points.iter().max_by(|left, right| left.rate.total_cmp(&right.rate));
    let shape = match &sweep.shape {
        Shape::Saturated { users, .. } => ("saturated from", format!("{users} users")),
        Shape::Knee(knee) => ("knee", format!("{knee:.0} users")),
        Shape::Growing => ("knee", "not reached".to_owned()),
        Shape::Unclear(_) => ("knee", "cannot be told".to_owned()),
    };
    let worst = sweep.points.iter().map(|point| point.errors).fold(0.0, f64::max);
    let errors = if worst > 0.0 { format!("{:.2} %", worst * 100.0) } else { "none".to_owned() };
    let tiles = vec![
        tile(
            "highest rate, good answers per second",
            best.map_or("–".to_owned(), |best| short(best.rate)),
            best.is_none(),
        ),
        tile("with", best.map_or("–".to_owned(), |best| counted(best.users)), false),
        tile(shape.0, shape.1, false),
        tile("failed, at most", errors, worst > 0.0),
    ];
    Section { title: "At a glance".to_owned(), text: String::new(), body: Body::Tiles(tiles) }
}

fn counted(users: usize) -> String {
    format!("{users} user{}", if users == 1 { "" } else { "s" })
}

/// Of a report of one run; others have a table.
fn glance(report: &Report) -> Option<Section> {
    let [run] = &report.runs[..] else { return report.sweep.as_ref().map(sweep_glance) };
    if report.search.is_some() {
        return None;
    }
    let verdict = report.verdict();
    let is_bad = verdict != Verdict::Holds;
    let said = if verdict == Verdict::Invalid { "INVALID".to_owned() } else { verdict.name().to_owned() };
    let said = if report.promises.is_empty() && !is_bad { "valid".to_owned() } else { said };
    let mut tiles = tiles(run);
    tiles.push(tile("verdict", said, is_bad));
    Some(Section { title: "At a glance".to_owned(), text: String::new(), body: Body::Tiles(tiles) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_have_the_digits_that_mean_something() {
        let read = [184_300.0, 1_250_000.0, 99_900_000.0, 1_234_567_890.0].map(ms);
        assert_eq!(read, ["0.184 ms", "1.2 ms", "99.9 ms", "1235 ms"]);
    }
}
