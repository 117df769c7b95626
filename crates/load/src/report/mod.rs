//! A run's outcome, for people and for programs.

use std::fmt;

use serde_json::{Map, Value, json};

use crate::engine::Outcome;
use crate::histogram::Histogram;
use crate::stats::ErrorKind;

/// The quantiles that reports show.
const QUANTILES: [(&str, f64); 6] =
    [("p50", 0.5), ("p90", 0.9), ("p95", 0.95), ("p99", 0.99), ("p999", 0.999), ("max", 1.0)];

/// A generator that is later than this with one request in a hundred does not measure what it says.
const LATENESS_MS_MAX: f64 = 5.0;

fn quantiles(histogram: &Histogram) -> Value {
    let mut all: Map<String, Value> = QUANTILES
        .iter()
        .map(|&(name, share)| (name.to_owned(), json!(histogram.quantile(share) as f64 / 1e3)))
        .collect();
    all.insert("mean".to_owned(), json!(histogram.mean() / 1e3));
    Value::Object(all)
}

fn line(f: &mut fmt::Formatter<'_>, name: &str, histogram: &Histogram) -> fmt::Result {
    write!(f, "{name} µs: mean {:.0}", histogram.mean() / 1e3)?;
    for (name, share) in QUANTILES {
        write!(f, ", {name} {:.0}", histogram.quantile(share) as f64 / 1e3)?;
    }
    writeln!(f)
}

/// Shows an outcome.
#[derive(Debug, Clone, Copy)]
pub struct Report<'a>(pub &'a Outcome);

impl Report<'_> {
    /// Responses per second.
    pub fn rate(&self) -> f64 {
        self.0.stats.responses() as f64 / self.seconds()
    }

    /// CPU that the generator needed per response, in microseconds.
    pub fn generator_cpu_us(&self) -> f64 {
        self.0.stats.generator_cpu_ns as f64 / 1e3 / self.0.stats.responses().max(1) as f64
    }

    /// Why the figures do not say what a user of this server would see: the generator itself was late, or busy.
    pub fn invalid(&self) -> Option<String> {
        let stats = &self.0.stats;
        let late = stats.lateness.quantile(0.99) as f64 / 1e6;
        if stats.lateness.count() > 0 && late > LATENESS_MS_MAX {
            return Some(format!(
                "the generator itself was late: 1 % of the requests were sent more than {late:.1} ms after they were due"
            ));
        }
        if stats.unsent > 0 {
            return Some(format!(
                "{} requests were due and found no free connection until the end: use more connections",
                stats.unsent
            ));
        }
        None
    }

    fn seconds(&self) -> f64 {
        self.0.elapsed.as_secs_f64().max(1e-9)
    }

    /// All numbers as one JSON object.
    pub fn to_json(&self) -> Value {
        let stats = &self.0.stats;
        let errors: Map<String, Value> = ErrorKind::ALL
            .iter()
            .map(|&kind| (kind.name().to_owned(), json!(stats.errors_of(kind))))
            .collect();
        let mut all = json!({
            "seconds": self.seconds(),
            "responses": stats.responses(),
            "responses_per_second": self.rate(),
            "non_2xx": stats.non_2xx(),
            "bytes": stats.bytes,
            "connects": stats.connects,
            "closes": stats.closes,
            "errors": errors,
            "latency_us": quantiles(&stats.latency),
            "generator_cpu_us_per_response": self.generator_cpu_us(),
            "generator_cpu_share": stats.generator_cpu_ns as f64 / 1e9 / self.seconds(),
            "invalid": self.invalid(),
        });
        if stats.lateness.count() > 0 {
            all["service_us"] = quantiles(&stats.service);
            all["lateness_us"] = quantiles(&stats.lateness);
            all["unsent"] = json!(stats.unsent);
        }
        all
    }
}

impl fmt::Display for Report<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let stats = &self.0.stats;
        writeln!(
            f,
            "{} responses in {:.2} s: {:.0}/s, {:.1} MB/s",
            stats.responses(),
            self.seconds(),
            self.rate(),
            stats.bytes as f64 / 1e6 / self.seconds(),
        )?;
        line(f, "latency", &stats.latency)?;
        if stats.lateness.count() > 0 {
            line(f, "service", &stats.service)?;
            line(f, "lateness", &stats.lateness)?;
        }
        if let Some(why) = self.invalid() {
            writeln!(f, "INVALID: {why}")?;
        }
        writeln!(
            f,
            "connections made {}, closed by peer {}; not 2xx: {}; errors: {}",
            stats.connects,
            stats.closes,
            stats.non_2xx(),
            stats.errors(),
        )?;
        for kind in ErrorKind::ALL.into_iter().filter(|&kind| stats.errors_of(kind) > 0) {
            writeln!(f, "  {}: {}", kind.name(), stats.errors_of(kind))?;
        }
        write!(
            f,
            "generator: {:.2} µs CPU per response, {:.0} % of a core",
            self.generator_cpu_us(),
            stats.generator_cpu_ns as f64 / 1e7 / self.seconds(),
        )
    }
}
