//! Numbers about the servers of `stream`, for monitoring.

use brisk_server::metrics::Scrape;
use brisk_stream::conf::Stream;
use brisk_stream::stats::CLASSES;
use std::sync::Arc;

pub(super) fn metrics(to: &mut Scrape) {
    let Some(stream) = to.snap().shared_data::<Stream>() else { return };
    let mut told = Vec::new();
    for server in &stream.servers {
        let stats = &server.stats;
        // Two servers that differ in nothing that they are known by share their numbers.
        if told.iter().any(|known| Arc::ptr_eq(known, stats)) {
            continue;
        }
        told.push(stats.clone());
        let numbers = stats.numbers();
        let labels = [("listen", &*stats.listen), ("server", &*stats.name)];
        for (name, help, value) in [
            ("brisk_stream_connections_total", "Sessions that came to a server of stream.", numbers.begun),
            (
                "brisk_stream_received_bytes_total",
                "Bytes from clients of a server of stream.",
                numbers.received_bytes,
            ),
            ("brisk_stream_sent_bytes_total", "Bytes to clients of a server of stream.", numbers.sent_bytes),
        ] {
            to.counter(name, help, &labels, value);
        }
        let running = numbers.running as f64;
        to.gauge("brisk_stream_active", "Sessions of a server of stream that go on.", &labels, running);
        for (class, value) in CLASSES.iter().zip(numbers.ended) {
            let labels: Vec<_> = labels.iter().copied().chain([("status", *class)]).collect();
            let help = "Sessions that have ended, by class of status.";
            to.counter("brisk_stream_sessions_total", help, &labels, value);
        }
    }
}
