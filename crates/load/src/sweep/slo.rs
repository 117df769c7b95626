//! What a server promises: `p99<200ms,errors<0.1%,rate>100`. The one language of thresholds, of loads and of scenarios.

use std::fmt;
use std::time::Duration;

use crate::histogram::Histogram;
use crate::stats::Stats;

/// What is looked at.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Figure {
    /// This share of users (0 to 1) waits less: of those who got what they asked for, and those who were never answered.
    Quantile(f64),
    /// The mean of what users wait who got what they asked for.
    Mean,
    /// The share of requests (0 to 1) that fail, remain unsent, or are answered 4xx or 5xx.
    Errors,
    /// Good answers per second.
    Rate,
    /// Good answers.
    Count,
}

/// How a figure and its limit compare.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Side {
    Below,
    AtMost,
    Above,
    AtLeast,
}

/// One figure that is promised to stay on its side of a limit.
#[derive(Debug, Clone, PartialEq)]
pub struct Promise {
    text: String,
    figure: Figure,
    side: Side,
    /// In milliseconds, as a share, per second, or a number.
    limit: f64,
}

/// What promises are judged by.
#[derive(Debug, Clone, Copy)]
pub struct Seen<'a> {
    /// Of good answers, in nanoseconds.
    pub latency: &'a Histogram,
    /// Requests that were given up, or never sent: they waited longer than all others.
    pub never: u64,
    /// All that were asked for, answered or not.
    pub requests: u64,
    /// The share of these that failed, remained unsent, or were refused.
    pub error_share: f64,
    /// The share of the users' time that went into requests without a usable answer: in a closed loop, who is not answered asks
    /// nothing else, and is one of many requests. 0 where there are no users.
    pub lost_share: f64,
    /// How long it took, in seconds.
    pub seconds: f64,
    /// Good answers within that time.
    pub in_time: u64,
}

impl<'a> Seen<'a> {
    /// Of a load that took so long.
    pub fn of(stats: &'a Stats, lost_share: f64, seconds: f64) -> Self {
        use crate::stats::ErrorKind::{ConnectTimeout, Timeout};
        Self {
            latency: &stats.latency,
            never: stats.errors_of(Timeout) + stats.errors_of(ConnectTimeout) + stats.unsent,
            requests: stats.responses() + stats.errors() + stats.unsent,
            error_share: stats.error_share(),
            lost_share,
            seconds,
            in_time: stats.good_in_time(),
        }
    }
}

/// What came of a promise.
#[derive(Debug, Clone, PartialEq)]
pub struct Judged {
    /// The promise, as it was given.
    pub promise: String,
    /// What was measured, for people: "12.30 ms".
    pub seen: String,
    /// Whether it was kept.
    pub holds: bool,
}

impl fmt::Display for Judged {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}  ({})", self.promise, self.seen)
    }
}

/// All that is promised together.
#[derive(Debug, Clone, PartialEq)]
pub struct Slo {
    text: String,
    promises: Vec<Promise>,
}

impl fmt::Display for Slo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl Slo {
    /// Reads what a command line says: promises, with commas between them.
    pub fn parse(text: &str) -> Result<Slo, String> {
        let promises = text.split(',').map(|part| Promise::parse(part.trim())).collect::<Result<_, _>>()?;
        Ok(Slo { text: text.to_owned(), promises })
    }

    /// What came of each.
    pub fn judge(&self, seen: &Seen<'_>) -> Vec<Judged> {
        self.promises.iter().map(|promise| promise.judge(seen)).collect()
    }

    /// The promises that were broken, in words.
    pub fn broken(&self, seen: &Seen<'_>) -> Vec<String> {
        self.judge(seen).into_iter().filter(|judged| !judged.holds).map(|judged| judged.to_string()).collect()
    }
}

impl Promise {
    /// Reads one: a figure (`p50` … `p99.9`, `mean`, `max`, `errors`, `rate`, `count`), `<`, `<=`, `>` or `>=`, and a limit.
    pub fn parse(text: &str) -> Result<Self, String> {
        let bad = |why: &str| {
            format!(
                "\"{text}\" is not a threshold: {why}; write e.g. \"p99 < 200ms\", \"errors < 0.1%\" or \"rate > 50\""
            )
        };
        let at = text.find(['<', '>']).ok_or_else(|| bad("there is neither \"<\" nor \">\""))?;
        let (figure, rest) = (text[..at].trim(), &text[at + 1..]);
        let (limit, or_equal) = rest.strip_prefix('=').map_or((rest, false), |rest| (rest, true));
        let side = match (text.as_bytes()[at], or_equal) {
            (b'<', false) => Side::Below,
            (b'<', true) => Side::AtMost,
            (_, false) => Side::Above,
            (_, true) => Side::AtLeast,
        };
        let figure = figure_of(figure).map_err(bad)?;
        let limit = limit_of(figure, limit.trim()).map_err(bad)?;
        Ok(Self { text: text.to_owned(), figure, side, limit })
    }

    /// The time that is its limit; `None`: it is about something else.
    pub fn time(&self) -> Option<Duration> {
        let is_time = matches!(self.figure, Figure::Quantile(_) | Figure::Mean);
        Duration::try_from_secs_f64(self.limit / 1e3).ok().filter(|_| is_time)
    }

    /// What came of it. Nothing measured keeps no promise.
    pub fn judge(&self, seen: &Seen<'_>) -> Judged {
        let (value, text) = self.figure.of(seen);
        let holds = value.is_some_and(|value| match self.side {
            Side::Below => value < self.limit,
            Side::AtMost => value <= self.limit,
            Side::Above => value > self.limit,
            Side::AtLeast => value >= self.limit,
        });
        Judged { promise: self.text.clone(), seen: text, holds }
    }
}

impl Figure {
    /// What was measured, as a number and for people; no number: there is none.
    fn of(self, seen: &Seen<'_>) -> (Option<f64>, String) {
        let good = seen.latency.count();
        let millis = |ns: f64| (Some(ns / 1e6), format!("{:.2} ms", ns / 1e6));
        match self {
            _ if seen.requests == 0 => (None, "nothing was measured".to_owned()),
            Self::Errors if seen.lost_share > seen.error_share => {
                let (requests, time) = (100.0 * seen.error_share, 100.0 * seen.lost_share);
                (
                    Some(seen.lost_share),
                    format!(
                        "{requests:.3} % of the requests failed, and took {time:.3} % of the users' time"
                    ),
                )
            }
            Self::Errors => {
                (Some(seen.error_share), format!("{:.3} % of the requests failed", 100.0 * seen.error_share))
            }
            Self::Rate => {
                let rate = seen.in_time as f64 / seen.seconds.max(1e-9);
                (Some(rate), format!("{rate:.2}/s"))
            }
            Self::Count => (Some(good as f64), good.to_string()),
            Self::Quantile(_) | Self::Mean if good == 0 => {
                (None, "nothing was answered with success".to_owned())
            }
            Self::Mean => millis(seen.latency.mean()),
            Self::Quantile(share) => {
                // Who is never answered waits longer than all others.
                let share = share * (good + seen.never) as f64 / good as f64;
                if share > 1.0 + 1e-9 {
                    let text = format!("beyond the timeout: {} requests were never answered", seen.never);
                    return (Some(f64::INFINITY), text);
                }
                millis(seen.latency.quantile(share) as f64)
            }
        }
    }
}

fn figure_of(name: &str) -> Result<Figure, &'static str> {
    Ok(match name {
        "mean" => Figure::Mean,
        "max" => Figure::Quantile(1.0),
        "errors" => Figure::Errors,
        "rate" => Figure::Rate,
        "count" => Figure::Count,
        _ => {
            let digits =
                name.strip_prefix('p').ok_or("only pNN, mean, max, errors, rate and count are known")?;
            let percent: f64 = digits.parse().map_err(|_| "the percentile is not a number")?;
            // p999 is what many call p99.9.
            let is_nines = digits.len() > 2 && digits.bytes().all(|digit| digit == b'9');
            let percent = if is_nines { percent / 10f64.powi(digits.len() as i32 - 2) } else { percent };
            if !(percent > 0.0 && percent <= 100.0) {
                return Err("a percentile is above 0 and at most 100");
            }
            Figure::Quantile((percent * 1e4).round() / 1e6)
        }
    })
}

fn limit_of(figure: Figure, text: &str) -> Result<f64, &'static str> {
    let limit = match figure {
        Figure::Errors => {
            let (number, scale) = text.strip_suffix('%').map_or((text, 1.0), |number| (number, 0.01));
            let share = number.trim().parse::<f64>().map_err(|_| "its limit is not a share")? * scale;
            if (0.0..=1.0).contains(&share) { share } else { return Err("its limit is not a share") }
        }
        Figure::Rate | Figure::Count => text.parse().map_err(|_| "its limit is not a number")?,
        Figure::Quantile(_) | Figure::Mean => {
            crate::cli::args::duration(text).map_err(|_| "its limit is not a time")?.as_secs_f64() * 1e3
        }
    };
    if limit.is_finite() { Ok(limit) } else { Err("its limit is not a number") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn promises() {
        let read = |text: &str| -> Result<Vec<(Figure, Side, f64)>, String> {
            let slo = Slo::parse(text)?;
            Ok(slo
                .promises
                .into_iter()
                .map(|promise| (promise.figure, promise.side, promise.limit))
                .collect())
        };
        let one = |figure, side, limit| Ok(vec![(figure, side, limit)]);
        assert_eq!(
            read("p99<200ms, errors < 0.1%"),
            Ok(vec![(Figure::Quantile(0.99), Side::Below, 200.0), (Figure::Errors, Side::Below, 0.1 * 0.01)])
        );
        assert_eq!(read("p999<=1s"), one(Figure::Quantile(0.999), Side::AtMost, 1000.0));
        assert_eq!(read("p99.9 < 1s"), one(Figure::Quantile(0.999), Side::Below, 1000.0));
        assert_eq!(read("max<2s"), one(Figure::Quantile(1.0), Side::Below, 2000.0));
        assert_eq!(read("mean<5ms"), one(Figure::Mean, Side::Below, 5.0));
        assert_eq!(read("rate > 10"), one(Figure::Rate, Side::Above, 10.0));
        assert_eq!(read("count >= 5"), one(Figure::Count, Side::AtLeast, 5.0));
        assert_eq!(read("errors<0.02"), one(Figure::Errors, Side::Below, 0.02));
        let bad: [&str; 14] = [
            "",
            "p99",
            "p99<x",
            "q99<1s",
            "errors<much",
            "p0<1s",
            "errors<-1%",
            "p101<1s",
            "px<1s",
            "foo<1",
            "p9<1s<2s",
            "rate>inf",
            "rate>",
            "errors<300%",
        ];
        for text in bad {
            assert!(read(text).is_err(), "{text}");
        }
    }

    #[test]
    fn what_is_broken_is_said() {
        let mut stats = Stats::default();
        for _ in 0..98 {
            stats.response(200, 5_000_000);
        }
        stats.response(500, 300_000_000);
        stats.response(200, 300_000_000);
        let broken = |stats: &Stats, text: &str, lost: f64| {
            Slo::parse(text).unwrap().broken(&Seen::of(stats, lost, 2.0)).join("; ")
        };
        assert_eq!(broken(&stats, "p95<10ms,errors<2%,rate>49,count>=99", 0.0), "");
        assert_eq!(broken(&stats, "errors<0.1%", 0.0), "errors<0.1%  (1.000 % of the requests failed)");
        assert_eq!(broken(&stats, "rate > 50", 0.0), "rate > 50  (49.50/s)");
        assert!(broken(&stats, "p99<200ms", 0.0).starts_with("p99<200ms  (300."));
        // Refusals are quick: that is no merit.
        let mut quick = Stats::default();
        (0..100).for_each(|_| {
            quick.response(503, 1_000);
        });
        assert_eq!(broken(&quick, "p50<1ms", 0.0), "p50<1ms  (nothing was answered with success)");
        quick.response(200, 50_000_000);
        assert_eq!(broken(&quick, "p50<1ms", 0.0), "p50<1ms  (50.00 ms)");
        // Who is never answered waits longest.
        let mut hung = Stats::default();
        (0..90).for_each(|_| {
            hung.response(200, 1_000_000);
        });
        hung.error(crate::stats::ErrorKind::Timeout, 10);
        assert_eq!(broken(&hung, "p90<10ms", 0.0), "");
        assert!(broken(&hung, "p95<10ms", 0.0).contains("10 requests were never"));
        // One request that is never answered is few among many, and all that its user saw.
        stats.error(crate::stats::ErrorKind::Timeout, 1);
        assert_eq!(broken(&stats, "errors<5%", 0.04), "");
        assert!(broken(&stats, "errors<5%", 0.5).contains("took 50.000 % of the users' time"));
        assert!(broken(&Stats::default(), "errors<1%", 0.0).contains("nothing was measured"));
    }
}
