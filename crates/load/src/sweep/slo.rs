//! What a server promises: `p99<200ms,errors<0.1%`.

use std::fmt;
use std::time::Duration;

use crate::stats::Stats;

/// One figure that is promised to stay below a limit.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Promise {
    /// This share of users (0 to 1) waits less: of those who got what they asked for, and those who were never answered.
    Quantile(f64, Duration),
    /// The mean of what users wait who got what they asked for.
    Mean(Duration),
    /// The share of requests (0 to 1) that fail, remain unsent, or are answered 4xx or 5xx.
    Errors(f64),
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
    /// Reads what a command line says.
    pub fn parse(text: &str) -> Result<Slo, String> {
        let promises = text.split(',').map(|part| promise(part.trim())).collect::<Result<_, _>>()?;
        Ok(Slo { text: text.to_owned(), promises })
    }

    /// Whether it says how long users wait: then a generator that was late cannot judge it.
    pub fn is_about_time(&self) -> bool {
        self.promises.iter().any(|promise| !matches!(promise, Promise::Errors(_)))
    }

    /// The promises that were broken, in words. `lost_share` is the share of the users' time that went into requests without a
    /// usable answer: in a closed loop, whoever is not answered asks nothing else, and is one of many requests.
    pub fn broken(&self, stats: &Stats, lost_share: f64) -> Vec<String> {
        self.promises.iter().filter_map(|promise| promise.broken(stats, lost_share)).collect()
    }
}

impl Promise {
    fn broken(self, stats: &Stats, lost_share: f64) -> Option<String> {
        let ms = |ns: f64| ns / 1e6;
        let nothing = || "nothing was answered with success".to_owned();
        match self {
            Self::Quantile(..) | Self::Mean(_) if stats.latency.count() == 0 => Some(nothing()),
            Self::Quantile(share, limit) => {
                let name = quantile_name(share);
                let never = never_answered(stats);
                let (good, all) = (stats.latency.count() as f64, (stats.latency.count() + never) as f64);
                // Who is never answered waits longer than all others.
                let share = share * all / good;
                if share > 1.0 + 1e-9 {
                    return Some(format!(
                        "{name} is beyond the timeout: {never} requests were never answered"
                    ));
                }
                let have = ms(stats.latency.quantile(share) as f64);
                (have >= limit.as_secs_f64() * 1e3).then(|| format!("{name} is {have:.1} ms"))
            }
            Self::Mean(limit) => {
                let have = ms(stats.latency.mean());
                (have >= limit.as_secs_f64() * 1e3).then(|| format!("the mean is {have:.1} ms"))
            }
            Self::Errors(limit) => {
                let have = stats.error_share();
                let nothing = stats.responses() == 0 && stats.errors() == 0;
                if have <= limit && lost_share > limit {
                    return Some(format!(
                        "{} requests without an answer took {:.3} % of the users' time",
                        stats.errors(),
                        lost_share * 100.0
                    ));
                }
                (have > limit || nothing).then(|| format!("{:.3} % of the requests failed", have * 100.0))
            }
        }
    }
}

/// Requests that were given up, or never sent.
fn never_answered(stats: &Stats) -> u64 {
    use crate::stats::ErrorKind::{ConnectTimeout, Timeout};
    stats.errors_of(Timeout) + stats.errors_of(ConnectTimeout) + stats.unsent
}

fn quantile_name(share: f64) -> String {
    if share >= 1.0 { "max".to_owned() } else { format!("p{}", (share * 1e6).round() / 1e4) }
}

fn promise(text: &str) -> Result<Promise, String> {
    let bad = |why: &str| format!("\"{text}\" is not a promise: {why}; write e.g. p99<200ms or errors<0.1%");
    let (figure, limit) = text.split_once('<').ok_or_else(|| bad("there is no \"<\""))?;
    let (figure, limit) = (figure.trim(), limit.trim_start_matches('=').trim());
    let time = || crate::cli::args::duration(limit).map_err(|_| bad("its limit is not a time"));
    match figure {
        "mean" => Ok(Promise::Mean(time()?)),
        "max" => Ok(Promise::Quantile(1.0, time()?)),
        "errors" => {
            let (number, scale) = limit.strip_suffix('%').map_or((limit, 1.0), |number| (number, 0.01));
            let share = number.trim().parse::<f64>().ok().filter(|share| (0.0..=100.0).contains(share));
            Ok(Promise::Errors(share.ok_or_else(|| bad("its limit is not a share"))? * scale))
        }
        _ => {
            let digits =
                figure.strip_prefix('p').ok_or_else(|| bad("only pNN, mean, max and errors are known"))?;
            let percent = digits.parse::<f64>().ok().filter(|percent| *percent > 0.0 && *percent < 1000.0);
            let percent = percent.ok_or_else(|| bad("the percentile is not a number"))?;
            // p999 is what many call p99.9.
            let share = if percent >= 100.0 { percent / 1000.0 } else { (percent * 1e4).round() / 1e6 };
            Ok(Promise::Quantile(share, time()?))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn promises() {
        let read = |text: &str| Slo::parse(text).map(|slo| slo.promises).map_err(drop);
        let ms = Duration::from_millis;
        assert_eq!(
            read("p99<200ms, errors<0.1%"),
            Ok(vec![Promise::Quantile(0.99, ms(200)), Promise::Errors(0.001)])
        );
        assert_eq!(read("p999<=1s"), Ok(vec![Promise::Quantile(0.999, ms(1000))]));
        assert_eq!(
            read("p99.9<1s,mean<5ms"),
            Ok(vec![Promise::Quantile(0.999, ms(1000)), Promise::Mean(ms(5))])
        );
        assert_eq!(read("max<2s"), Ok(vec![Promise::Quantile(1.0, ms(2000))]));
        for bad in ["", "p99", "p99<x", "q99<1s", "errors<much", "p0<1s", "errors<-1%"] {
            assert_eq!(read(bad), Err(()), "{bad}");
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
        let broken = |text: &str| Slo::parse(text).unwrap().broken(&stats, 0.0);
        assert!(broken("p95<10ms,errors<2%").is_empty());
        assert_eq!(broken("errors<0.1%"), ["1.000 % of the requests failed"]);
        assert_eq!(broken("p99<200ms").len(), 1);
        // Refusals are quick: that is no merit.
        let mut quick = Stats::default();
        (0..100).for_each(|_| {
            quick.response(503, 1_000);
        });
        let p50 = Slo::parse("p50<1ms").unwrap();
        assert_eq!(p50.broken(&quick, 0.0), ["nothing was answered with success"]);
        quick.response(200, 50_000_000);
        assert_eq!(p50.broken(&quick, 0.0), ["p50 is 50.0 ms"]);
        // Who is never answered waits longest.
        let mut hung = Stats::default();
        (0..90).for_each(|_| {
            hung.response(200, 1_000_000);
        });
        hung.error(crate::stats::ErrorKind::Timeout, 10);
        assert!(Slo::parse("p90<10ms").unwrap().broken(&hung, 0.0).is_empty());
        assert!(Slo::parse("p95<10ms").unwrap().broken(&hung, 0.0)[0].contains("10 requests were never"));
        // One request that is never answered is few among many, and all that its user saw.
        stats.error(crate::stats::ErrorKind::Timeout, 1);
        let slo = Slo::parse("errors<5%").unwrap();
        assert_eq!(slo.broken(&stats, 0.04), [""; 0]);
        assert_eq!(
            slo.broken(&stats, 0.5),
            ["1 requests without an answer took 50.000 % of the users' time"]
        );
        assert_eq!(
            Slo::parse("errors<1%").unwrap().broken(&Stats::default(), 0.0).len(),
            1,
            "nothing is no success"
        );
    }
}
