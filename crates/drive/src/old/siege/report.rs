//! siege's figures: text, JSON, a line in its log.

use crate::dates;
use std::fmt::Write as _;
use std::time::{Duration, SystemTime};

/// What a log begins with.
pub const LOG_HEAD: &str = "      Date & Time,  Trans,  Elap Time,  Data Trans,  Resp Time,  Trans Rate,  Throughput,  Concurrent,    OKAY,   Failed";

/// Sums over all users.
#[derive(Debug, Clone, Default)]
pub struct Totals {
    /// Requests answered below 500.
    pub hits: u64,
    /// Below 400.
    pub successes: u64,
    /// Not answered, or with 500 and more.
    pub failures: u64,
    /// Of bodies.
    pub bytes: u64,
    /// Of all requests.
    pub time: Duration,
    pub longest: Duration,
    pub shortest: Option<Duration>,
    pub elapsed: Duration,
}

impl Totals {
    /// Counts an answer.
    pub fn answered(&mut self, status: u16, bytes: u64, took: Duration) {
        if status >= 500 {
            self.failures += 1;
        } else {
            self.hits += 1;
            self.successes += u64::from(status < 400);
        }
        self.bytes += bytes;
        self.time += took;
        self.longest = self.longest.max(took);
        self.shortest = Some(self.shortest.map_or(took, |shortest| shortest.min(took)));
    }

    /// Name, unit, value and decimals of everything, in siege's order.
    fn figures(&self) -> [(&'static str, &'static str, f64, usize); 12] {
        let elapsed = self.elapsed.as_secs_f64();
        let per_second = |figure: f64| if elapsed > 0.0 { figure / elapsed } else { 0.0 };
        let megabytes = self.bytes as f64 / 1_048_576.0;
        let all = (self.hits + self.failures) as f64;
        let share = if all > 0.0 { 100.0 * self.hits as f64 / all } else { 0.0 };
        let response = if self.hits > 0 { self.time.as_secs_f64() / self.hits as f64 } else { 0.0 };
        [
            ("transactions", "hits", self.hits as f64, 0),
            ("availability", "%", share, 2),
            ("elapsed_time", "secs", elapsed, 2),
            ("data_transferred", "MB", megabytes, 2),
            ("response_time", "secs", response, 2),
            ("transaction_rate", "trans/sec", per_second(self.hits as f64), 2),
            ("throughput", "MB/sec", per_second(megabytes), 2),
            ("concurrency", "", per_second(self.time.as_secs_f64()), 2),
            ("successful_transactions", "", self.successes as f64, 0),
            ("failed_transactions", "", self.failures as f64, 0),
            ("longest_transaction", "", self.longest.as_secs_f64(), 2),
            ("shortest_transaction", "", self.shortest.unwrap_or_default().as_secs_f64(), 2),
        ]
    }

    /// The classic report.
    pub fn text(&self) -> String {
        const HEADS: [&str; 12] = [
            "Transactions:\t\t",
            "Availability:\t\t",
            "Elapsed time:\t\t",
            "Data transferred:\t",
            "Response time:\t\t",
            "Transaction rate:\t",
            "Throughput:\t\t",
            "Concurrency:\t\t",
            "Successful transactions:",
            "Failed transactions:\t",
            "Longest transaction:\t",
            "Shortest transaction:\t",
        ];
        let mut out = String::new();
        for (head, (_, unit, value, decimals)) in HEADS.into_iter().zip(self.figures()) {
            let _ = writeln!(out, "{}", format!("{head}{value:>12.decimals$} {unit}").trim_end());
        }
        out.push(' ');
        out
    }

    /// What siege 4 prints.
    pub fn json(&self) -> String {
        const TABS: [&str; 12] = [
            "\t\t\t", "\t\t\t", "\t\t\t", "\t\t", "\t\t", "\t\t", "\t\t\t", "\t\t\t", "\t", "\t\t", "\t\t",
            "\t\t",
        ];
        let figures = self.figures();
        let lines: Vec<String> = figures
            .iter()
            .zip(TABS)
            .map(|((name, _, value, decimals), tabs)| format!("\t\"{name}\":{tabs}{value:>12.decimals$}"))
            .collect();
        format!("{{{}\n}}", lines.join(",\n"))
    }

    /// A line of the log.
    pub fn log_line(&self) -> String {
        let now =
            SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_millis() as i64;
        let date = dates::rfc3339(now)[..19].replace('T', " ");
        let figure = |at: usize| self.figures()[at].2;
        format!(
            "{date},{:>7},{:>11.2},{:>12.0},{:>11.2},{:>12.2},{:>12.2},{:>12.2},{:>8},{:>8}",
            self.hits,
            figure(2),
            figure(3),
            figure(4),
            figure(5),
            figure(6),
            figure(7),
            self.successes,
            self.failures
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_classic_layout() {
        let mut totals = Totals { elapsed: Duration::from_secs(2), ..Totals::default() };
        totals.answered(200, 1 << 20, Duration::from_millis(30));
        totals.answered(404, 10, Duration::from_millis(10));
        totals.answered(503, 10, Duration::from_millis(10));
        let text = totals.text();
        assert!(text.starts_with("Transactions:\t\t           2 hits\nAvailability:\t\t       66.67 %\nElapsed time:\t\t        2.00 secs\n"));
        assert!(text.contains("\nTransaction rate:\t        1.00 trans/sec\n"));
        assert!(
            text.contains("\nSuccessful transactions:           1\nFailed transactions:\t           1\n")
        );
        let json: serde_json::Value = serde_json::from_str(&totals.json()).unwrap();
        assert_eq!((&json["transactions"], &json["longest_transaction"]), (&2.into(), &0.03.into()));
        assert_eq!(Totals::default().text().lines().count(), 13);
    }
}
