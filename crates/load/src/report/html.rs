//! The report as one [page](super::page).

use super::model::{QUANTILES, Report, RunReport, Verdict};
use super::page::{Body, Section, Tile, page};
use super::text::quic;
use crate::chart::axis::Scale;
use crate::chart::{Bars, Line, Series, short};
use crate::days::{days, per_day};
use crate::sweep::slo::Judged;
use crate::sweep::{Search, Shape, Sweep};

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
        let rows = search.rows().into_iter().map(|(rate, said)| vec![format!("{rate}/s"), said]).collect();
        let body = Body::Table(Vec::new(), rows);
        all.push(Section { title: "Highest rate".to_owned(), text: format!("{}.", search.finding()), body });
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
        let [mean, p50, p95, p99] = stats.latency.in_short();
        vec![
            run.label.clone(),
            short(run.goodput()),
            mean,
            p50,
            p95,
            p99,
            format!("{:.2}", stats.error_share() * 100.0),
        ]
    };
    Body::Table(head, runs.iter().map(row).collect())
}

fn run_sections(run: &RunReport, span: (f64, f64)) -> Vec<Section> {
    let title = |name: &str| {
        if run.label.is_empty() { name.to_owned() } else { format!("{}: {}", run.label, name.to_lowercase()) }
    };
    let mut notes: Vec<String> = run.invalid().map(|why| format!("INVALID: {why}.")).into_iter().collect();
    notes.extend(run.warnings().into_iter().map(|note| format!("Note: {note}.")));
    let mut all = vec![Section { title: title("Figures"), text: notes.join(" "), body: figures(run) }];
    let mut charts = series_charts(run, span);
    charts.extend(latency_charts(run));
    all.push(Section { title: title("Course and latency"), text: String::new(), body: Body::Charts(charts) });
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
    rows.extend(quic(stats).map(|text| ("QUIC".to_owned(), text)));
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

/// So many users, in words.
pub fn counted(users: usize) -> String {
    format!("{users} user{}", if users == 1 { "" } else { "s" })
}

/// Of a search.
fn search_glance(search: &Search) -> Section {
    let rate = |rate: Option<f64>| rate.map_or("–".to_owned(), short);
    let day = search.holds.map(|rate| per_day(rate).0);
    let tiles = vec![
        tile("highest rate that holds, requests per second", rate(search.holds), search.holds.is_none()),
        tile("does not always hold at", rate(search.breaks), false),
        tile("requests a day at that rate", rate(day), false),
    ];
    Section { title: "At a glance".to_owned(), text: String::new(), body: Body::Tiles(tiles) }
}

/// The figures that everybody looks for first.
fn glance(report: &Report) -> Option<Section> {
    if let Some(search) = &report.search {
        return Some(search_glance(search));
    }
    let [run] = &report.runs[..] else { return report.sweep.as_ref().map(sweep_glance) };
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
    use crate::engine::Outcome;
    use crate::stats::Stats;
    use std::time::{Duration, SystemTime};

    #[test]
    fn a_run_without_a_good_answer_has_no_times() {
        let outcome = Outcome {
            stats: Stats::default(),
            elapsed: Duration::from_secs(1),
            started_at: SystemTime::now(),
            series: Vec::new(),
            records: Vec::new(),
            records_dropped: 0,
            heads: Vec::new(),
            users: None,
            is_local: true,
        };
        let (label, watched, steady) = ("1 user".to_owned(), None, None);
        let run = RunReport { label, users: 1, depth: 1, threads: 1, rate: None, outcome, steady, watched };
        let Body::Table(_, rows) = overview(&[run]) else { panic!("no table") };
        assert_eq!(rows[0][2..6], ["–"; 4]);
    }

    #[test]
    fn figures_have_the_digits_that_mean_something() {
        let read = [184_300.0, 1_250_000.0, 99_900_000.0, 1_234_567_890.0].map(ms);
        assert_eq!(read, ["0.184 ms", "1.2 ms", "99.9 ms", "1235 ms"]);
    }
}
