//! The numbers of a dashboard as JSON: `status` as it is, and what it does not have.

use brisk_server::flights::{Flights, Waiting};
use brisk_server::metrics::Families;
use brisk_server::metrics::history::Period;
use brisk_server::metrics::tops::{Cost, Table, Tables};
use brisk_server::shared::Shared;
use serde_json::{Value, json};
use std::sync::{Arc, PoisonError};

/// Names that are shown of each kind, by time and again by errors.
const SHOWN: usize = 20;

/// What one look at the numbers needs, taken where the request is served.
pub(super) struct Look {
    pub shared: Arc<Shared>,
    /// Milliseconds since 1970.
    pub now_ms: i64,
    /// Periods that ended before are known.
    pub since: i64,
    pub generation: u64,
    /// Whether this client may change back ends.
    pub write: bool,
    /// Upstreams and pools, as the API has them.
    pub upstreams: Value,
}

impl Look {
    /// The whole document.
    pub(super) fn json(&self, flights: &Flights, families: &Families) -> String {
        // A thread that panicked has left numbers, and they are as good as before.
        let history = self.shared.history.lock().unwrap_or_else(PoisonError::into_inner);
        let seconds = columns(history.seconds(self.since));
        let minutes = columns(history.minutes(self.since));
        // Not while the text is written: the sampler waits for the lock.
        drop(history);
        let mut tables = Tables::default();
        self.shared.tops.iter().for_each(|tops| tops.add_to(self.now_ms / 1000, &mut tables));
        let own = json!({
            "now_ms": self.now_ms,
            "version": env!("CARGO_PKG_VERSION"),
            "pid": std::process::id(),
            "generation": self.generation,
            "threads": self.shared.counters.len(),
            "write": self.write,
            "balance": self.upstreams,
            "history": { "seconds": seconds, "minutes": minutes },
            "flights": in_flight(flights),
            // As the master has made it; nothing where it has none.
            "findings": serde_json::from_str::<Value>(&self.shared.news().findings).unwrap_or_default(),
            "tops": { "urls": top(&tables.urls), "clients": top(&tables.clients) },
        });
        // The numbers of `status`, byte for byte: the page cannot show others.
        format!("{{\"own\":{own},\n\"status\":{}}}\n", families.json())
    }
}

/// The requests that wait.
fn in_flight(flights: &Flights) -> Value {
    let one = |one: &Waiting| {
        json!({
            "age_us": one.age_us,
            "phase": one.waits.name(),
            "method": one.method,
            "host": one.host,
            "path": one.path,
            "client": one.client,
            "upstream": one.upstream,
        })
    };
    let list: Value = flights.oldest.iter().map(one).collect();
    json!({ "total": flights.total, "list": list, "silent_threads": flights.silent })
}

/// Periods by column: names are sent once.
fn columns<'a>(periods: impl Iterator<Item = &'a Period>) -> Value {
    let periods: Vec<&Period> = periods.collect();
    let column =
        |of: &dyn Fn(&Period) -> Value| -> Value { periods.iter().map(|period| of(period)).collect() };
    let quantile = |share: f64| column(&move |period: &Period| period.quantile_us(share).into());
    json!({
        "unix_secs": column(&|period| period.unix_secs.into()),
        "length_ms": column(&|period| period.length_ms.into()),
        "classes": column(&|period| json!(period.sums.classes)),
        "p50_us": quantile(0.5),
        "p95_us": quantile(0.95),
        "p99_us": quantile(0.99),
        "sent_bytes": column(&|period| period.sums.sent_bytes.into()),
        "received_bytes": column(&|period| period.sums.received_bytes.into()),
        "accepted": column(&|period| period.sums.accepted.into()),
        "connections": column(&|period| period.sums.connections.into()),
        "cpu_us": column(&|period| period.sums.cpu_us.into()),
        "memory_bytes": column(&|period| period.sums.memory_bytes.into()),
    })
}

/// The costliest by time, and those with the most errors, each once.
fn top(table: &Table) -> Value {
    let mut all: Vec<(&[u8], Cost)> = table.iter().map(|(name, cost)| (&**name, *cost)).collect();
    all.sort_unstable_by(|a, b| b.1.time_us.cmp(&a.1.time_us).then_with(|| a.0.cmp(b.0)));
    // Not twice the same name: the second table is of those that the first has not.
    let rest = all.split_off(all.len().min(SHOWN));
    let mut failed: Vec<_> = rest.into_iter().filter(|(_, cost)| cost.errors > 0).collect();
    failed.sort_unstable_by(|a, b| b.1.errors.cmp(&a.1.errors).then_with(|| a.0.cmp(b.0)));
    failed.truncate(SHOWN);
    let row = |(name, cost): &(&[u8], Cost)| {
        json!({
            "name": String::from_utf8_lossy(name),
            "requests": cost.requests,
            "errors": cost.errors,
            "time_us": cost.time_us,
            "sent_bytes": cost.sent_bytes,
        })
    };
    all.iter().chain(&failed).map(row).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_costliest_come_first_and_failures_are_not_forgotten() {
        let mut table = Table::new();
        for n in 0..100u64 {
            let cost = Cost { requests: 1, errors: u64::from(n == 3), time_us: n, sent_bytes: 0 };
            table.insert(format!("/{n:02}").into_bytes().into(), cost);
        }
        let json = top(&table);
        let names: Vec<&str> =
            json.as_array().unwrap().iter().filter_map(|row| row["name"].as_str()).collect();
        assert_eq!(names.len(), SHOWN + 1);
        assert_eq!((names[0], names[SHOWN]), ("/99", "/03"));
    }

    #[test]
    fn names_of_clients_stay_text() {
        let mut table = Table::new();
        table.insert(b"</script>\xff\n"[..].into(), Cost::default());
        let text = top(&table).to_string();
        assert!(text.contains("</script>\u{fffd}\\n"), "{text}");
    }
}
