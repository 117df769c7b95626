//! `docs/benchmarks.md`: the results for people.

use std::fmt::Write;

use crate::machine::Environment;
use crate::results::{Check, Part, Row};
use crate::stats::Summary;

const INTRODUCTION: &str = "\
# Benchmarks

Written by `make bench` (package `brisk-benches`); do not edit. The same figures are in
[benchmarks.json](benchmarks.json).

**How it is measured.** Whole servers on 127.0.0.1 serve the same files. The server has core 0 to itself and the load
generator ([`crates/load`](../crates/load)) core 1. Every case is measured once per round, by a freshly started server; the order within a
round is random, so that what disturbs the machine disturbs all alike. The measure is **server CPU per request**: the scheduler's own account of
all threads of all the server's processes (`/proc/PID/task/*/schedstat`), divided by the responses of the same time. On loopback this
holds the kernel's work for both directions. Requests per second stand beside it; where the server's core is not full they say
what the generator can do. Figures are medians over the rounds with a bootstrapped 95 % confidence interval; ratios are taken within rounds.
*Met* and *missed* without a remark mean that the whole interval is on that side. *Kept waiting* says how long others on the machine kept server or generator from its core, in the worst case; a
measurement above 5 % is repeated, twice at most.

*floor* is an epoll loop that reads, counts blank lines and writes a response made beforehand: no server of this kind can
cost less. *nginx usual* is `sendfile on; tcp_nopush on`, *off* is `sendfile off`, *+cache* adds `open_file_cache max=1000`; *nginx best* is
whichever of the four cost least in that case.
";

/// Facts that differ from run to run on the same machine.
const OF_ONE_RUN: [&str; 3] = ["date", "load average", "kept waiting"];

/// The whole document.
pub fn render(parts: &[Part]) -> String {
    let mut text = INTRODUCTION.to_owned();
    let newest = parts.iter().map(|part| &part.environment).max_by_key(|environment| environment.get("date"));
    let Some(newest) = newest else { return text };
    text.push_str("\n**Where.** ");
    text.push_str(&facts(newest, |name, _| !OF_ONE_RUN.contains(&name)));
    text.push_str(" A part that ran elsewhere or with other versions says so.\n");
    for part in parts {
        render_part(&mut text, part, newest);
    }
    text
}

// Writing to a String cannot fail, so its results are dropped.
fn render_part(text: &mut String, part: &Part, newest: &Environment) {
    let _ = writeln!(text, "\n## {}\n\n{}\n\n```sh\n{}\n```", part.name, part.about, part.command);
    if !part.checks.is_empty() {
        text.push_str("\n| figure | ours | peer | unit | ratio or value | 95 % CI | target | |\n");
        text.push_str("|---|--:|--:|---|--:|--:|--:|---|\n");
        part.checks.iter().for_each(|check| render_check(text, check));
    }
    text.push_str("\n| case | server | figure | 95 % CI | unit | requests/s | rounds |\n");
    text.push_str("|---|---|--:|--:|---|--:|--:|\n");
    part.rows.iter().for_each(|row| render_row(text, row));
    let own = |name: &str, value: &str| OF_ONE_RUN.contains(&name) || newest.get(name) != value;
    let _ = writeln!(text, "\n{}", facts(&part.environment, own));
}

/// The facts that are wanted, as one sentence.
fn facts(environment: &Environment, wanted: impl Fn(&str, &str) -> bool) -> String {
    let facts = environment.0.iter().filter(|(name, value)| wanted(name, value));
    let facts: Vec<String> = facts.map(|(name, value)| format!("{name}: {value}")).collect();
    facts.join("; ") + "."
}

fn render_check(text: &mut String, check: &Check) {
    let _ = writeln!(
        text,
        "| {} | {} | {} | {} | {} | {} | {} | {} |",
        check.what,
        figure(check.ours),
        check.peer.map_or_else(String::new, figure),
        check.unit,
        figure(check.figure.median),
        interval(check.figure),
        check.target.text(),
        check.target.judge(check.figure).text(),
    );
}

fn render_row(text: &mut String, row: &Row) {
    let _ = writeln!(
        text,
        "| {} | {} | {} | {} | {} | {} | {} |",
        row.case,
        row.server,
        figure(row.figure.median),
        interval(row.figure),
        row.unit,
        row.rate.map_or_else(String::new, |rate| format!("{rate:.0}")),
        row.figure.count,
    );
}

fn interval(summary: Summary) -> String {
    format!("{}–{}", figure(summary.low), figure(summary.high))
}

/// Three digits that matter.
fn figure(value: f64) -> String {
    match value.abs() {
        size if size >= 100.0 => format!("{value:.0}"),
        size if size >= 10.0 => format!("{value:.1}"),
        size if size >= 1.0 => format!("{value:.2}"),
        _ => format!("{value:.3}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results::Target;

    #[test]
    fn a_part_in_tables() {
        let summary = Summary { median: 1.5, low: 1.42, high: 12.345, count: 9 };
        let check = Check {
            what: "w".to_owned(),
            ours: 4.0,
            peer: Some(6.0),
            unit: "µs".to_owned(),
            figure: summary,
            target: Target::AtLeast(1.4),
        };
        let row = Row {
            case: "c".to_owned(),
            server: "s".to_owned(),
            figure: summary,
            unit: "µs".to_owned(),
            rate: Some(1234.5),
        };
        let part = Part {
            name: "small".to_owned(),
            about: "About.".to_owned(),
            command: "run".to_owned(),
            environment: Environment::example(),
            checks: vec![check],
            rows: vec![row],
        };
        let text = render(&[part]);
        assert!(text.contains("| w | 4.00 | 6.00 | µs | 1.50 | 1.42–12.3 | ≥ 1.4 | met |\n"), "{text}");
        assert!(text.contains("| c | s | 1.50 | 1.42–12.3 | µs | 1234 | 9 |\n"), "{text}");
        assert!(text.contains("**Where.** cpu: none. "), "{text}");
        assert!(text.contains("\n\ndate: 2000-01-01.\n"), "{text}");
    }
}
