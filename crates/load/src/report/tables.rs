//! As tables: CSV of the series, the raw log, and Prometheus' text format.

use std::fmt::Write as _;
use std::io::{self, Write};

use super::model::{QUANTILES, Report, RunReport};
use crate::stats::{ErrorKind, Slice};

/// The course of all runs: a row per slice, with what each tier did then.
pub fn csv(report: &Report) -> String {
    let mut out = String::from("run,at_s,width_s,responses,rate,failures,bytes,p50_ms,p90_ms,p99_ms,max_ms");
    for kind in ErrorKind::ALL {
        let _ = write!(out, ",{}", kind.name().replace(' ', "_"));
    }
    let tiers =
        report.runs.iter().find_map(|run| run.watched.as_ref()).map(|beside| &beside.watched.names[..]);
    for name in tiers.unwrap_or_default() {
        for figure in ["cpus", "cpu_us_per_response", "pss_bytes", "switches_per_second"] {
            let _ = write!(out, ",{}", csv_text(&format!("{name}_{figure}")));
        }
    }
    for figure in tiers.map(|_| MACHINE).into_iter().flatten() {
        let _ = write!(out, ",{figure}");
    }
    out.push('\n');
    for run in &report.runs {
        for slice in &run.outcome.series {
            let latency = slice.latency.whole();
            let ms = |share: f64| latency.quantile(share) as f64 / 1e6;
            let _ = write!(
                out,
                "{},{:.3},{:.3},{},{:.1},{},{},{:.4},{:.4},{:.4},{:.4}",
                csv_text(&run.label),
                slice.at.as_secs_f64(),
                slice.width.as_secs_f64(),
                slice.responses(),
                slice.rate(),
                slice.failures(),
                slice.bytes,
                ms(0.5),
                ms(0.9),
                ms(0.99),
                latency.max() as f64 / 1e6,
            );
            for kind in ErrorKind::ALL {
                let _ = write!(out, ",{}", slice.errors.of(kind));
            }
            for tier in 0..tiers.map_or(0, <[String]>::len) {
                tier_fields(run, slice, tier, &mut out);
            }
            if tiers.is_some() {
                machine_fields(run, slice, &mut out);
            }
            out.push('\n');
        }
    }
    out
}

/// Empty where nobody looked.
fn tier_fields(run: &RunReport, slice: &Slice, tier: usize, out: &mut String) {
    let stretch = run.watched.as_ref().and_then(|beside| {
        let from = beside.begun + slice.at;
        beside.watched.stretch(tier, from, from + slice.width)
    });
    let _ = match stretch {
        Some(stretch) => {
            let each = stretch.cpu_ns / 1e3 / slice.responses().max(1) as f64;
            let switches = stretch.switches / slice.width.as_secs_f64();
            write!(out, ",{:.3},{each:.1},{:.0},{switches:.0}", stretch.cpus, stretch.pss)
        }
        None => write!(out, ",,,,"),
    };
}

/// Columns of the machine: shares of the time in which somebody waited (PSI), and what its sockets met with.
const MACHINE: [&str; 7] = [
    "pressure_cpu",
    "pressure_memory",
    "pressure_disk",
    "listen_drops",
    "retransmits",
    "resets",
    "failed_connects",
];

/// Empty where nobody looked.
fn machine_fields(run: &RunReport, slice: &Slice, out: &mut String) {
    let stretch = run.watched.as_ref().and_then(|beside| {
        let from = beside.begun + slice.at;
        beside.watched.machine_stretch(from, from + slice.width)
    });
    let Some(stretch) = stretch else { return out.push_str(&",".repeat(MACHINE.len())) };
    for figure in stretch.pressure.into_iter().chain(stretch.troubles) {
        let _ = write!(out, ",{figure:.3}");
    }
}

/// A field of CSV (RFC 4180).
fn csv_text(text: &str) -> String {
    if text.contains([',', '"', '\n']) {
        format!("\"{}\"", text.replace('"', "\"\""))
    } else {
        text.to_owned()
    }
}

/// One row per request of the counted part.
pub fn raw(run: &RunReport, out: &mut impl Write) -> io::Result<()> {
    let mut out = io::BufWriter::new(out);
    writeln!(
        out,
        "due_ns,sent_ns,first_byte_ns,done_ns,connect_ns,tls_ns,bytes,connection,target,status,error"
    )?;
    for record in &run.outcome.records {
        writeln!(
            out,
            "{},{},{},{},{},{},{},{},{},{},{}",
            record.due_ns,
            record.sent_ns,
            record.first_byte_ns,
            record.done_ns,
            record.connect_ns,
            record.tls_ns,
            record.bytes,
            record.connection,
            record.target,
            record.status,
            record.error.map_or("", ErrorKind::name),
        )?;
    }
    out.flush()
}

/// A value of a label in Prometheus' text format.
pub fn label(text: &str) -> String {
    text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', " ")
}

/// The figures of all runs in Prometheus' text format, e.g. for its node exporter's folder.
pub fn prometheus(report: &Report) -> String {
    let mut out = String::new();
    let mut metric =
        |name: &str, help: &str, kind: &str, values: &dyn Fn(&RunReport) -> Vec<(String, f64)>| {
            let _ = writeln!(out, "# HELP brisk_bench_{name} {help}\n# TYPE brisk_bench_{name} {kind}");
            for run in &report.runs {
                let label = label(&run.label);
                for (more, value) in values(run) {
                    let _ = writeln!(out, "brisk_bench_{name}{{run=\"{label}\"{more}}} {value}");
                }
            }
        };
    let one = |value: f64| vec![(String::new(), value)];
    metric("seconds", "Length of the counted part.", "gauge", &|run| one(run.seconds()));
    metric("responses", "Whole responses.", "gauge", &|run| one(run.outcome.stats.responses() as f64));
    metric("responses_per_second", "Their rate.", "gauge", &|run| one(run.throughput()));
    metric("good_responses_per_second", "The rate of those that are no refusals.", "gauge", &|run| {
        one(run.goodput())
    });
    metric("bytes", "Bytes received.", "gauge", &|run| one(run.outcome.stats.bytes as f64));
    metric("latency_seconds", "What users waited for successful responses.", "gauge", &|run| {
        let latency = &run.outcome.stats.latency;
        let of = |&(_, share): &(&str, f64)| {
            (format!(",quantile=\"{share}\""), latency.quantile(share) as f64 / 1e9)
        };
        QUANTILES.iter().map(of).collect()
    });
    metric("errors", "Requests without a usable response, by kind.", "gauge", &|run| {
        let stats = &run.outcome.stats;
        let of = |kind: ErrorKind| (format!(",kind=\"{}\"", kind.name()), stats.errors_of(kind) as f64);
        ErrorKind::ALL.into_iter().map(of).collect()
    });
    metric("responses_by_class", "Responses by class of their status.", "gauge", &|run| {
        let of = |class: usize| (format!(",class=\"{class}xx\""), run.outcome.stats.by_class[class] as f64);
        (1..6).map(of).collect()
    });
    metric("quic_packets", "Packets that were sent over QUIC, and those that were lost.", "gauge", &|run| {
        let quic = &run.outcome.stats.quic;
        let all = [("sent", quic.sent), ("lost", quic.lost)];
        all.map(|(what, count)| (format!(",what=\"{what}\""), count as f64)).to_vec()
    });
    metric("invalid", "1 if the figures do not say what users of the server would see.", "gauge", &|run| {
        one(f64::from(u8::from(run.invalid().is_some())))
    });
    metric("generator_cpu_seconds", "CPU that the generator used.", "gauge", &|run| {
        one(run.outcome.stats.generator_cpu_ns as f64 / 1e9)
    });
    metric("tier_cpu_seconds_per_response", "CPU per response of what was watched.", "gauge", &|run| {
        let tiers = run.tiers().map(|found| found.0).unwrap_or_default();
        tiers
            .into_iter()
            .filter(|_| run.outcome.stats.responses() > 0)
            .map(|tier| (format!(",tier=\"{}\"", label(&tier.name)), tier.cpu_us_per_response / 1e6))
            .collect()
    });
    let head = |name: &str, help: &str| {
        format!("# HELP brisk_bench_{name} {help}\n# TYPE brisk_bench_{name} gauge\n")
    };
    out += &head("verdict", "1 for what the command came to.");
    let _ = writeln!(out, "brisk_bench_verdict{{verdict=\"{}\"}} 1", report.verdict().name());
    if !report.promises.is_empty() {
        out += &head("promise_holds", "Whether a promise was kept.");
        for judged in &report.promises {
            let (promise, holds) = (label(&judged.promise), u8::from(judged.holds));
            let _ = writeln!(out, "brisk_bench_promise_holds{{promise=\"{promise}\"}} {holds}");
        }
    }
    out
}
