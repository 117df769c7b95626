//! ab's report: text, HTML tables, CSV and gnuplot's file.

use super::options::Options;
use crate::dates;
use brisk_load::engine::Outcome;
use brisk_load::stats::{ErrorKind, Record};
use std::fmt::Write as _;
use std::fs::File;
use std::io::{BufWriter, Write as _};
use std::time::{Duration, SystemTime};

/// The shares of ab's table.
const PERCENTS: [usize; 9] = [50, 66, 75, 80, 90, 95, 98, 99, 100];

/// One request as ab keeps it, in microseconds.
#[derive(Debug, Clone, Copy)]
struct Row {
    start: SystemTime,
    connect: u64,
    total: u64,
    wait: u64,
}

/// Smallest, mean, deviation, median and largest of one figure, in microseconds.
struct Spread {
    min: u64,
    mean: u64,
    deviation: f64,
    median: u64,
    max: u64,
}

/// What a run has shown.
pub struct Report<'a> {
    options: &'a Options,
    outcome: &'a Outcome,
    /// By total time, the shortest first.
    rows: Vec<Row>,
    document: u64,
    wrong_length: u64,
    bytes: u64,
    body_bytes: u64,
    kept_alive: u64,
}

fn millis(micros: u64) -> u64 {
    (micros + 500) / 1000
}

fn line(out: &mut String, name: &str, value: &str) {
    let _ = writeln!(out, "{name:<24}{value}");
}

impl<'a> Report<'a> {
    /// Sums up.
    pub fn new(options: &'a Options, outcome: &'a Outcome) -> Self {
        let answered: Vec<&Record> = outcome.records.iter().filter(|record| record.error.is_none()).collect();
        let body = |record: &Record| record.bytes.saturating_sub(u64::from(record.head_bytes));
        let document = answered.iter().min_by_key(|record| record.sent_ns).map_or(0, |record| body(record));
        let mut rows: Vec<Row> = answered.iter().map(|record| row(outcome.started_at, record)).collect();
        rows.sort_by_key(|row| row.total);
        Self {
            options,
            outcome,
            rows,
            document,
            wrong_length: answered.iter().filter(|record| body(record) != document).count() as u64,
            bytes: answered.iter().map(|record| record.bytes).sum(),
            body_bytes: answered.iter().map(|record| body(record)).sum(),
            kept_alive: if options.keep_alive { kept_alive(outcome) } else { 0 },
        }
    }

    fn errors(&self, kinds: &[ErrorKind]) -> u64 {
        kinds.iter().map(|&kind| self.outcome.stats.errors_of(kind)).sum()
    }

    /// The head's field of the server.
    fn server(&self) -> String {
        let head = self.outcome.heads.iter().find(|head| !head.is_empty());
        let text = String::from_utf8_lossy(head.map_or(&[], Vec::as_slice)).into_owned();
        let line = text.lines().find_map(|line| {
            let (name, value) = line.split_once(':')?;
            name.eq_ignore_ascii_case("server").then(|| value.trim().to_owned())
        });
        line.unwrap_or_default().chars().filter(|c| !c.is_control()).collect()
    }

    /// The text report.
    pub fn text(&self) -> String {
        let (options, stats) = (self.options, &self.outcome.stats);
        let done = stats.responses();
        let time = self.outcome.elapsed.as_secs_f64();
        let mut out = String::from("\n\n");
        line(&mut out, "Server Software:", &self.server());
        line(&mut out, "Server Hostname:", &options.host);
        line(&mut out, "Server Port:", &options.port.to_string());
        if options.secure {
            line(&mut out, "SSL/TLS Protocol:", if options.versions.tls13 { "TLSv1.3" } else { "TLSv1.2" });
            if !options.no_sni {
                line(&mut out, "TLS Server Name:", &options.host);
            }
        }
        out.push('\n');
        line(&mut out, "Document Path:", &options.path);
        let length =
            if options.any_length { "Variable".to_owned() } else { format!("{} bytes", self.document) };
        line(&mut out, "Document Length:", &length);
        out.push('\n');
        line(&mut out, "Concurrency Level:", &options.concurrency.to_string());
        line(&mut out, "Time taken for tests:", &format!("{time:.3} seconds"));
        line(&mut out, "Complete requests:", &done.to_string());
        self.failures(&mut out);
        if stats.non_2xx() > 0 {
            line(&mut out, "Non-2xx responses:", &stats.non_2xx().to_string());
        }
        if options.keep_alive {
            line(&mut out, "Keep-Alive requests:", &self.kept_alive.to_string());
        }
        line(&mut out, "Total transferred:", &format!("{} bytes", self.bytes));
        let sent = done * options.request().len() as u64;
        if options.sends_body {
            line(&mut out, "Total body sent:", &sent.to_string());
        }
        line(&mut out, "HTML transferred:", &format!("{} bytes", self.body_bytes));
        if time > 0.0 && done > 0 {
            self.rates(&mut out, time, done, sent);
        }
        if done > 0 {
            self.times(&mut out);
        }
        out
    }

    fn rates(&self, out: &mut String, time: f64, done: u64, sent: u64) {
        let each = time * 1e3 / done as f64;
        line(out, "Requests per second:", &format!("{:.2} [#/sec] (mean)", done as f64 / time));
        line(out, "Time per request:", &format!("{:.3} [ms] (mean)", self.options.concurrency as f64 * each));
        line(out, "Time per request:", &format!("{each:.3} [ms] (mean, across all concurrent requests)"));
        line(
            out,
            "Transfer rate:",
            &format!("{:.2} [Kbytes/sec] received", self.bytes as f64 / 1024.0 / time),
        );
        if self.options.sends_body {
            line(out, "", &format!("{:.2} kb/s sent", sent as f64 / 1024.0 / time));
            line(out, "", &format!("{:.2} kb/s total", (self.bytes + sent) as f64 / 1024.0 / time));
        }
    }

    fn failures(&self, out: &mut String) {
        use ErrorKind::{
            Closed, Connect, ConnectTimeout, Dns, Protocol, Read, Refused, Reset, Stream, Timeout, Tls,
            Truncated, Write,
        };
        let connect = self.errors(&[Dns, Connect, Refused, ConnectTimeout, Tls]);
        let receive = self.errors(&[Read, Reset, Closed, Truncated, Stream, Timeout]);
        let exceptions = self.errors(&[Protocol]);
        let length = if self.options.any_length { 0 } else { self.wrong_length };
        let bad = connect + receive + exceptions + length;
        let _ = writeln!(out, "Failed requests:        {bad}");
        if bad > 0 {
            let _ = writeln!(
                out,
                "   (Connect: {connect}, Receive: {receive}, Length: {length}, Exceptions: {exceptions})"
            );
        }
        let write = self.errors(&[Write]);
        if write > 0 {
            let _ = writeln!(out, "Write errors:           {write}");
        }
    }

    /// Connect, processing, waiting, total.
    fn spreads(&self) -> [Spread; 4] {
        let of = |figure: fn(&Row) -> u64| spread(self.rows.iter().map(figure).collect());
        [of(|row| row.connect), of(|row| row.total - row.connect), of(|row| row.wait), of(|row| row.total)]
    }

    fn times(&self, out: &mut String) {
        const NAMES: [&str; 4] = ["Connect:", "Processing:", "Waiting:", "Total:"];
        out.push_str("\nConnection Times (ms)\n");
        let spreads = self.spreads();
        if self.options.confidence {
            out.push_str("              min  mean[+/-sd] median   max\n");
            for (name, s) in NAMES.iter().zip(&spreads) {
                let (min, mean, median, max) =
                    (millis(s.min), millis(s.mean), millis(s.median), millis(s.max));
                let _ = writeln!(
                    out,
                    "{name:<12}{min:>5} {mean:>4} {:>5.1} {median:>6} {max:>7}",
                    s.deviation / 1e3
                );
            }
            const WHAT: [&str; 4] =
                ["the initial connection time", "the processing time", "the waiting time", "the total time"];
            for (what, s) in WHAT.iter().zip(&spreads) {
                let apart = s.mean.abs_diff(s.median) as f64;
                if apart > 2.0 * s.deviation {
                    let _ = writeln!(
                        out,
                        "ERROR: The median and mean for {what} are more than twice the standard\n       deviation apart. These results are NOT reliable."
                    );
                } else if apart > s.deviation {
                    let _ = writeln!(
                        out,
                        "WARNING: The median and mean for {what} are not within a normal deviation\n        These results are probably not that reliable."
                    );
                }
            }
        } else {
            out.push_str("              min   avg   max\n");
            for (name, s) in NAMES.iter().zip(&spreads) {
                let _ =
                    writeln!(out, "{name:<12}{:>5} {:>5}{:>5}", millis(s.min), millis(s.mean), millis(s.max));
            }
        }
        if self.options.percentiles && self.rows.len() > 1 {
            out.push_str("\nPercentage of the requests served within a certain time (ms)\n");
            for percent in PERCENTS {
                let time = millis(self.within(percent));
                let _ = match percent {
                    100 => writeln!(out, " 100%  {time:>5} (longest request)"),
                    _ => writeln!(out, "  {percent}%  {time:>5}"),
                };
            }
        }
    }

    /// The time within which so many percent were done.
    fn within(&self, percent: usize) -> u64 {
        let at = self.rows.len() * percent / 100;
        self.rows[at.min(self.rows.len() - 1)].total
    }

    /// The same in HTML's tables.
    pub fn html(&self) -> String {
        let (options, stats) = (self.options, &self.outcome.stats);
        let time = self.outcome.elapsed.as_secs_f64();
        let (tr, td) = (&options.tr, &options.td);
        let mut out = format!("\n\n<table {}>\n", options.table);
        let mut row = |name: &str, value: String| {
            let value = value.replace('&', "&amp;").replace('<', "&lt;");
            let _ =
                writeln!(out, "<tr {tr}><th colspan=2 {td}>{name}:</th><td colspan=2 {td}>{value}</td></tr>");
        };
        row("Server Software", self.server());
        row("Server Hostname", options.host.clone());
        row("Server Port", options.port.to_string());
        row("Document Path", options.path.clone());
        row(
            "Document Length",
            if options.any_length { "Variable".to_owned() } else { format!("{} bytes", self.document) },
        );
        row("Concurrency Level", options.concurrency.to_string());
        row("Time taken for tests", format!("{time:.3} seconds"));
        row("Complete requests", stats.responses().to_string());
        row(
            "Failed requests",
            (stats.errors() + if options.any_length { 0 } else { self.wrong_length }).to_string(),
        );
        if stats.non_2xx() > 0 {
            row("Non-2xx responses", stats.non_2xx().to_string());
        }
        if options.keep_alive {
            row("Keep-Alive requests", self.kept_alive.to_string());
        }
        row("Total transferred", format!("{} bytes", self.bytes));
        row("HTML transferred", format!("{} bytes", self.body_bytes));
        if time > 0.0 {
            row("Requests per second", format!("{:.2}", stats.responses() as f64 / time));
            row("Transfer rate", format!("{:.2} kb/s received", self.bytes as f64 / 1024.0 / time));
        }
        if !self.rows.is_empty() {
            let _ = writeln!(out, "<tr {tr}><th {td} colspan=4>Connection Times (ms)</th></tr>");
            let _ = writeln!(
                out,
                "<tr {tr}><th {td}>&nbsp;</th> <th {td}>min</th>   <th {td}>avg</th>   <th {td}>max</th></tr>"
            );
            let spreads = self.spreads();
            for (name, s) in [("Connect", &spreads[0]), ("Processing", &spreads[1]), ("Total", &spreads[3])] {
                let (min, mean, max) = (millis(s.min), millis(s.mean), millis(s.max));
                let _ = writeln!(
                    out,
                    "<tr {tr}><th {td}>{name}:</th><td {td}>{min:>5}</td><td {td}>{mean:>5}</td><td {td}>{max:>5}</td></tr>"
                );
            }
        }
        out + "</table>\n"
    }

    /// Fills the CSV file and gnuplot's.
    pub fn write_files(&self, files: &mut (Option<File>, Option<File>)) -> Result<(), String> {
        let wrong = |error: std::io::Error| format!("cannot write the output file: {error}");
        if let Some(file) = &mut files.0 {
            let mut out = BufWriter::new(file);
            writeln!(out, "Percentage served,Time in ms").map_err(wrong)?;
            for percent in 0..=100 {
                let count = self.rows.len();
                let at =
                    if percent == 0 { 0 } else { (0.5 + count as f64 * f64::from(percent) / 100.0) as usize };
                if let Some(row) = self.rows.get(at.min(count.saturating_sub(1))) {
                    writeln!(out, "{percent},{:.3}", row.total as f64 / 1e3).map_err(wrong)?;
                }
            }
            out.flush().map_err(wrong)?;
        }
        if let Some(file) = &mut files.1 {
            let mut out = BufWriter::new(file);
            writeln!(out, "starttime\tseconds\tctime\tdtime\tttime\twait").map_err(wrong)?;
            for row in &self.rows {
                let seconds =
                    row.start.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_secs() as i64;
                let (date, connect) = (dates::ctime(seconds), millis(row.connect));
                let (rest, total, wait) =
                    (millis(row.total - row.connect), millis(row.total), millis(row.wait));
                writeln!(out, "{date}\t{seconds}\t{connect}\t{rest}\t{total}\t{wait}").map_err(wrong)?;
            }
            out.flush().map_err(wrong)?;
        }
        Ok(())
    }
}

/// The banner of HTML's report.
pub fn html_banner() -> String {
    let text = super::options::banner();
    let lines: Vec<&str> = text.lines().filter(|line| !line.is_empty()).collect();
    format!("<p>\n {}<br>\n</p>\n<p>\n", lines.join("<br>\n "))
}

fn row(started: SystemTime, record: &Record) -> Row {
    let connect_ns = record.connect_ns + record.tls_ns;
    // A user's first connection is made before the clock starts.
    let from = record.sent_ns.saturating_sub(connect_ns);
    Row {
        start: started + Duration::from_nanos(from),
        connect: connect_ns / 1000,
        total: (connect_ns + record.done_ns.saturating_sub(record.sent_ns)) / 1000,
        wait: record.first_byte_ns.saturating_sub(record.sent_ns) / 1000,
    }
}

fn spread(mut values: Vec<u64>) -> Spread {
    values.sort_unstable();
    let count = values.len().max(1);
    let mean = values.iter().sum::<u64>() / count as u64;
    let squares: f64 = values.iter().map(|&value| (value as f64 - mean as f64).powi(2)).sum();
    let deviation = if count > 1 { (squares / (count - 1) as f64).sqrt() } else { 0.0 };
    let at = |index: usize| values.get(index).copied().unwrap_or(0);
    let median = if count > 1 && count.is_multiple_of(2) {
        u64::midpoint(at(count / 2), at(count / 2 - 1))
    } else {
        at(count / 2)
    };
    Spread { min: at(0), mean, deviation, median, max: at(count - 1) }
}

/// Responses after which the connection was kept, as far as the server had a say.
fn kept_alive(outcome: &Outcome) -> u64 {
    outcome.stats.responses().saturating_sub(outcome.stats.closes)
}
