//! For the terminal.

use std::fmt::Write as _;

use super::model::{QUANTILES, Report, RunReport};
use crate::days::days;
use crate::histogram::Histogram;
use crate::stats::Stats;

/// The whole report.
pub fn text(report: &Report) -> String {
    let mut out = String::new();
    if report.runs.len() == 1 && report.search.is_none() {
        run(&report.runs[0], &mut out);
    } else if !report.runs.is_empty() {
        table(report, &mut out);
    }
    if let Some(sweep) = &report.sweep {
        for line in sweep.lines() {
            let _ = writeln!(out, "{line}");
        }
    }
    if let Some(search) = &report.search {
        for line in search.lines() {
            let _ = writeln!(out, "{line}");
        }
    }
    for judged in &report.promises {
        let _ = writeln!(out, "{} {judged}", if judged.holds { "holds:" } else { "DOES NOT HOLD:" });
    }
    if report.is_cut_short {
        out.push_str("ended early\n");
    }
    out.truncate(out.trim_end().len());
    out
}

fn line(out: &mut String, name: &str, histogram: &Histogram) {
    let _ = write!(out, "{name:<9} ms: mean {:.3}", histogram.mean() / 1e6);
    for (name, share) in QUANTILES {
        let _ = write!(out, ", {name} {:.3}", histogram.quantile(share) as f64 / 1e6);
    }
    out.push('\n');
}

/// A rate: whole numbers from 100 on, two digits behind the point below.
fn rate_of(rate: f64) -> String {
    if rate >= 100.0 || rate == 0.0 { format!("{rate:.0}") } else { format!("{rate:.2}") }
}

/// How many there were, and how quickly they came.
fn rates(run: &RunReport, out: &mut String) {
    let stats = &run.outcome.stats;
    let _ = write!(
        out,
        "{} responses in {:.2} s: {}/s, {:.1} MB/s",
        stats.responses_in_time(),
        run.seconds(),
        rate_of(run.throughput()),
        stats.bytes_in_time() as f64 / 1e6 / run.seconds(),
    );
    match stats.tail.responses() {
        0 => out.push('\n'),
        late => drop(writeln!(out, "; {late} more to what was under way at the end")),
    }
    if stats.refusals() > 0 {
        let _ = writeln!(
            out,
            "successful: {} in time, {}/s; answered 4xx or 5xx: {}",
            stats.good_in_time(),
            rate_of(run.goodput()),
            stats.refusals()
        );
    }
}

/// What went over QUIC; `None`: nothing did.
pub fn quic(stats: &Stats) -> Option<String> {
    let quic = &stats.quic;
    if quic.sent == 0 {
        return None;
    }
    let mut text = format!(
        "packets sent {}, lost and sent again {} ({:.2} %); datagrams received {}",
        quic.sent,
        quic.lost,
        quic.lost_share() * 100.0,
        quic.received
    );
    let handshakes = stats.handshake.count();
    if quic.early + quic.early_refused > 0 {
        let _ = write!(text, "; 0-RTT: taken {} of {handshakes}, refused {}", quic.early, quic.early_refused);
    }
    if quic.moves > 0 {
        let _ = write!(text, "; moves to another port {}", quic.moves);
    }
    Some(text)
}

/// Connections, and what came in place of good answers.
fn connections(stats: &Stats, out: &mut String) {
    let _ = writeln!(
        out,
        "connections made {}, closed by peer {}; not 2xx: {}; errors: {}",
        stats.connects,
        stats.closes,
        stats.non_2xx(),
        stats.errors(),
    );
    if stats.asked_again > 0 {
        let count = stats.asked_again;
        let _ = writeln!(
            out,
            "  asked once again, for the server closed a kept connection without notice: {count}"
        );
    }
    for (status, count) in &stats.by_status {
        let _ = writeln!(out, "  status {status}: {count}");
    }
    for (kind, count) in stats.errors.seen() {
        let why = stats.reason(kind).map_or_else(String::new, |why| format!(" ({why})"));
        let _ = writeln!(out, "  {}: {count}{why}", kind.name());
    }
}

fn run(run: &RunReport, out: &mut String) {
    let stats = &run.outcome.stats;
    rates(run, out);
    if stats.latency.count() > 0 {
        line(out, "latency", &stats.latency);
    } else {
        out.push_str("latency   ms: nothing was answered with success\n");
    }
    if stats.refused.count() > 0 {
        line(out, "4xx, 5xx", &stats.refused);
    }
    if stats.lateness.count() > 0 {
        line(out, "service", &stats.service);
        line(out, "lateness", &stats.lateness);
        let _ = writeln!(out, "could not be sent: {}", stats.unsent);
    }
    for (name, histogram) in
        [("connect", &stats.connect), ("handshake", &stats.handshake), ("1st byte", &stats.first_byte)]
    {
        if histogram.count() > 0 && (name != "connect" || histogram.count() > run.users as u64) {
            line(out, name, histogram);
        }
    }
    if let Some(why) = run.invalid() {
        let _ = writeln!(out, "INVALID: {why}");
    }
    connections(stats, out);
    if let Some(text) = quic(stats) {
        let _ = writeln!(out, "QUIC: {text}");
    }
    if let Some((cut, _)) = run.steady {
        let _ = writeln!(out, "warm-up cut off: {:.1} s", cut.as_secs_f64());
    }
    for warning in run.warnings() {
        let _ = writeln!(out, "note: {warning}");
    }
    if let Some(resources) = run.resources() {
        out.push_str(&resources.text());
    }
    let _ = writeln!(out, "{}", days(run.goodput(), run.headroom()));
    out.push_str("generator: ");
    if stats.responses() > 0 {
        let _ = write!(out, "{:.2} µs CPU per response, ", run.generator_cpu_us());
    }
    let _ = writeln!(
        out,
        "{:.0} % of a core; waited for a CPU {:.1} % of the time",
        run.generator().cpus() * 100.0,
        run.generator_waited_share() * 100.0,
    );
}

/// One row per run, with the tiers' columns; behind them, what is to be said of single runs.
fn table(report: &Report, out: &mut String) {
    let tiers: Vec<_> =
        report.runs.iter().map(|run| run.tiers().map_or_else(Vec::new, |(tiers, _)| tiers)).collect();
    let mut head = format!(
        "{:<16} {:>10} {:>9} {:>9} {:>9} {:>9} {:>8}",
        "", "good/s", "mean ms", "p50 ms", "p95 ms", "p99 ms", "errors"
    );
    for tier in tiers.first().into_iter().flatten() {
        let name: String = tier.name.chars().take(7).collect();
        for what in ["CPUs", "µs each", "MB"] {
            let _ = write!(head, " {:>15}", format!("{name} {what}"));
        }
    }
    let _ = writeln!(out, "{head}");
    for (run, tiers) in report.runs.iter().zip(&tiers) {
        let stats = &run.outcome.stats;
        let has_times = stats.latency.count() > 0;
        let [mean, p50, p95, p99] = stats.latency.in_short();
        let _ = write!(
            out,
            "{:<16} {:>10.1} {mean:>9} {p50:>9} {p95:>9} {p99:>9} {:>7.2}%",
            run.label,
            run.goodput(),
            stats.error_share() * 100.0,
        );
        for tier in tiers {
            let each = if has_times { format!("{:.1}", tier.cpu_us_per_response) } else { "–".to_owned() };
            let _ = write!(out, " {:>15.2} {each:>15} {:>15.1}", tier.cores, tier.pss_max as f64 / 1e6);
        }
        out.push('\n');
    }
    // What several runs have in common is said once.
    let mut said: Vec<(String, Vec<&str>)> = Vec::new();
    for run in &report.runs {
        let mut notes = notes(run);
        // Of a search, only the rate that it found is one to plan with.
        if report.search.is_none() {
            notes.push(days(run.goodput(), run.headroom()));
        }
        for note in notes {
            match said.iter_mut().find(|(have, _)| *have == note) {
                Some((_, labels)) => labels.push(&run.label),
                None => said.push((note, vec![&run.label])),
            }
        }
    }
    for (note, labels) in &said {
        let _ = writeln!(out, "{}: {note}", names(labels, report.runs.len()));
    }
}

/// Labels of runs, each once, with how often it stands there.
fn names(labels: &[&str], of: usize) -> String {
    if labels.len() == of && of > 1 {
        return "each run".to_owned();
    }
    let groups = labels.chunk_by(|one, other| one == other);
    let name = |group: &[&str]| match group.len() {
        1 => group[0].to_owned(),
        times => format!("{} ({times} times)", group[0]),
    };
    groups.map(name).collect::<Vec<_>>().join(", ")
}

/// What a row does not say of its run.
fn notes(run: &RunReport) -> Vec<String> {
    let stats = &run.outcome.stats;
    let mut notes: Vec<String> = run.invalid().map(|why| format!("INVALID: {why}")).into_iter().collect();
    if stats.refusals() > 0 {
        let (count, mean) = (stats.refusals(), stats.refused.mean() / 1e6);
        notes.push(format!("answered 4xx or 5xx: {count}, in {mean:.2} ms in the mean"));
    }
    notes.extend(stats.errors.seen().map(|(kind, count)| format!("{}: {count}", kind.name())));
    notes.extend(run.warnings());
    if let Some(resources) = run.resources() {
        notes.push(resources.limit().to_string());
        let (tiers, machine) = resources.tiers();
        for tier in &tiers {
            let inside = tier.pool.as_ref().map(ToString::to_string);
            let inside = inside.or_else(|| tier.database.as_ref().map(ToString::to_string));
            notes.extend(inside.map(|what| format!("{}: {what}", tier.name)));
        }
        notes.push(format!("machine: {machine}"));
    }
    notes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_that_share_a_note_are_named_together() {
        assert_eq!(names(&["10/s", "20/s", "20/s", "30/s"], 9), "10/s, 20/s (2 times), 30/s");
        assert_eq!(names(&["10/s", "20/s"], 2), "each run");
        assert_eq!(names(&["10/s"], 1), "10/s");
    }
}
