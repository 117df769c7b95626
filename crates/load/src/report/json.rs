//! As JSON: one object, whose names do not change once they are there.

use serde_json::{Map, Value, json as value};

use super::model::{QUANTILES, Report, RunReport};
use crate::days::per_day;
use crate::histogram::Histogram;
use crate::stats::{ErrorKind, Slice, Stats};
use crate::sweep::slo::Judged;

/// The whole report. A single run's figures stand at the top, those of several under `runs`.
pub fn json(report: &Report) -> Value {
    let mut all = match &report.runs[..] {
        [run] if report.search.is_none() => run_of(run),
        runs => value!({ "runs": runs.iter().map(run_of).collect::<Vec<_>>() }),
    };
    let environment: Map<String, Value> =
        report.environment.rows().into_iter().map(|(name, text)| (name.to_owned(), value!(text))).collect();
    all["command"] = value!(report.command);
    all["targets"] = value!(report.targets);
    all["environment"] = Value::Object(environment);
    all["ended_early"] = value!(report.is_cut_short);
    all["verdict"] = value!(report.verdict().name());
    if !report.promises.is_empty() {
        let judged = |judged: &Judged| value!({ "promise": judged.promise, "seen": judged.seen, "holds": judged.holds });
        all["promises"] = report.promises.iter().map(judged).collect();
    }
    if let Some(sweep) = &report.sweep {
        all["sweep"] = sweep.to_json();
    }
    if let Some(search) = &report.search {
        all["search"] = search.to_json();
    }
    all
}

fn quantiles(histogram: &Histogram) -> Value {
    let mut all: Map<String, Value> = QUANTILES
        .iter()
        .map(|&(name, share)| (name.to_owned(), value!(histogram.quantile(share) as f64 / 1e3)))
        .collect();
    all.insert("mean".to_owned(), value!(histogram.mean() / 1e3));
    all.insert("min".to_owned(), value!(histogram.min() as f64 / 1e3));
    all.insert("deviation".to_owned(), value!(histogram.deviation() / 1e3));
    Value::Object(all)
}

/// One run.
pub fn run_of(run: &RunReport) -> Value {
    let stats = &run.outcome.stats;
    let errors: Map<String, Value> =
        ErrorKind::ALL.iter().map(|&kind| (kind.name().to_owned(), value!(stats.errors_of(kind)))).collect();
    let statuses: Map<String, Value> =
        stats.by_status.iter().map(|(status, count)| (status.to_string(), value!(count))).collect();
    let (day, busy) = per_day(run.goodput());
    let mut all = value!({
        "label": run.label,
        "users": run.users,
        "users_there": run.outcome.users.map(|users| users.there),
        "seconds": run.seconds(),
        "responses": stats.responses(),
        "responses_in_time": stats.responses_in_time(),
        "responses_per_second": run.throughput(),
        "good_responses_per_second": run.goodput(),
        "requests_per_day": day,
        "requests_in_six_hours": busy,
        "non_2xx": stats.non_2xx(),
        "statuses": statuses,
        "error_share": stats.error_share(),
        "lost_share": run.lost_share(),
        "bytes": stats.bytes,
        "connects": stats.connects,
        "resumed": stats.resumed,
        "closes": stats.closes,
        "asked_again": stats.asked_again,
        "errors": errors,
        "tls_failure": stats.tls_failure,
        "proxy_failure": stats.proxy_failure,
        "under_way_at_end": {
            "requests": stats.tail.under_way,
            "answered": stats.tail.responses(),
            "not_waited_for": stats.tail.left,
        },
        "latency_us": quantiles(&stats.latency),
        "generator_cpu_us_per_response": (stats.responses() > 0).then(|| run.generator_cpu_us()),
        "generator_cpu_share": run.generator().cpus(),
        "generator_waited_share": run.generator_waited_share(),
        "invalid": run.invalid().map(|why| why.to_string()),
        "warnings": run.warnings(),
        "little": run.little(),
    });
    put_times(stats, &mut all);
    if stats.quic.sent > 0 {
        all["quic"] = quic(stats);
    }
    if let Some((cut, is_steady)) = run.steady {
        all["warmup_cut_seconds"] = value!(cut.as_secs_f64());
        all["steady"] = value!(is_steady);
    }
    if !run.outcome.series.is_empty() {
        all["series"] = Value::Array(run.outcome.series.iter().map(slice).collect());
    }
    if let Some(resources) = run.resources() {
        resources.put(&mut all);
    }
    all
}

/// Times of what did not happen in every run.
fn put_times(stats: &Stats, all: &mut Value) {
    for (name, histogram) in [
        ("connect_us", &stats.connect),
        ("handshake_us", &stats.handshake),
        ("first_byte_us", &stats.first_byte),
        ("refusals_us", &stats.refused),
        ("service_us", &stats.service),
        ("lateness_us", &stats.lateness),
    ] {
        if histogram.count() > 0 {
            all[name] = quantiles(histogram);
        }
    }
    if stats.lateness.count() > 0 {
        all["unsent"] = value!(stats.unsent);
    }
}

/// What went over QUIC.
fn quic(stats: &Stats) -> Value {
    let quic = &stats.quic;
    value!({
        "packets_sent": quic.sent,
        "packets_lost": quic.lost,
        "datagrams_received": quic.received,
        "early_accepted": quic.early,
        "early_refused": quic.early_refused,
        "moves": quic.moves,
        "failure": stats.quic_failure.as_ref().map(|(_, why)| why),
    })
}

fn slice(slice: &Slice) -> Value {
    let latency = slice.latency.whole();
    value!({
        "at": slice.at.as_secs_f64(),
        "width": slice.width.as_secs_f64(),
        "responses": slice.responses(),
        "failures": slice.failures(),
        "bytes": slice.bytes,
        "p50_us": latency.quantile(0.5) as f64 / 1e3,
        "p99_us": latency.quantile(0.99) as f64 / 1e3,
        "max_us": latency.max() as f64 / 1e3,
    })
}
