//! What belongs to no module: the process, its threads and connections, files, logs.
//!
//! All of it is computed when it is asked for. Names follow Prometheus' conventions (base units, `_total`), and are not
//! changed once they are there.

use super::scrape::Scrape;
use crate::counters::{Count, Counters};
use crate::memory;
use brisk_net::blocking;
use rustix::time::{ClockId, clock_gettime};
use std::collections::BTreeMap;
use std::sync::atomic::Ordering;

pub(super) fn metrics(to: &mut Scrape) {
    process(to);
    connections(to);
    threads(to);
    files(to);
    tls(to);
    certificates(to);
    super::quic::metrics(to);
    logs(to);
}

fn process(to: &mut Scrape) {
    let version = env!("CARGO_PKG_VERSION");
    // A gauge of 1 with a label is Prometheus' way to tell a text.
    to.gauge("brisk_build_info", "The version that runs; the value is 1.", &[("version", version)], 1.0);
    let generation = to.generation as f64;
    let help = "Configurations so far: rises by one with each reload that was accepted.";
    to.gauge("brisk_configuration_generation", help, &[], generation);
    let (cpu_us, bytes) = process_use();
    let seconds = cpu_us as f64 / 1e6;
    to.seconds("process_cpu_seconds_total", "CPU time of the worker process.", &[], seconds);
    to.gauge("process_resident_memory_bytes", "Memory of the worker process.", &[], bytes as f64);
    memory(to);
    let pool = blocking::stats();
    // A busy pool with a queue is a disk that does not keep up.
    let help = "Threads of the pool for what may block.";
    to.gauge("brisk_pool_threads", help, &[("state", "idle")], pool.idle as f64);
    to.gauge("brisk_pool_threads", help, &[("state", "busy")], pool.threads.saturating_sub(pool.idle) as f64);
    to.gauge("brisk_pool_queue", "Jobs that wait for a thread of the pool.", &[], pool.waiting as f64);
}

/// CPU time of this process so far, in microseconds, and its resident memory, in bytes.
// Of the process and not of threads: threads of the pool work for requests, too.
pub(super) fn process_use() -> (u64, u64) {
    let cpu = clock_gettime(ClockId::ProcessCPUTime);
    let cpu_us = cpu.tv_sec as u64 * 1_000_000 + cpu.tv_nsec as u64 / 1000;
    // statm counts in pages; its second number is what is resident.
    let pages = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let resident = pages.split(' ').nth(1).and_then(|pages| pages.parse::<u64>().ok());
    (cpu_us, resident.unwrap_or(0) * rustix::param::page_size() as u64)
}

fn memory(to: &mut Scrape) {
    let shared = to.shared();
    let used = shared.budget.used();
    to.gauge("brisk_memory_used_bytes", "Memory as memory_limit counts it.", &[], used as f64);
    // No limit, no series: 0 would look like one that is always exceeded.
    if let Some(limit) = shared.budget.limit() {
        to.gauge("brisk_memory_limit_bytes", "The limit: memory_limit.", &[], limit as f64);
    }
    let help = "Connections that were closed for want of memory.";
    to.counter("brisk_memory_connections_closed_total", help, &[], memory::CLOSED.get());
    let help = "How often threads have stopped accepting for want of memory.";
    to.counter("brisk_memory_accept_pauses_total", help, &[], memory::ACCEPT_PAUSES.get());
    let help = "Requests that were refused because others of their connection held too much.";
    to.counter("brisk_memory_heads_refused_total", help, &[], memory::HEADS_REFUSED.get());
}

fn connections(to: &mut Scrape) {
    let totals = to.shared().totals();
    let help = "Client connections by what they do.";
    // The states are nginx's (`stub_status`), so boards that were made for it show the same.
    for (state, count) in
        [("reading", totals.reading), ("writing", totals.writing), ("waiting", totals.waiting())]
    {
        to.gauge("brisk_connections", help, &[("state", state)], count as f64);
    }
    to.counter(
        "brisk_connections_accepted_total",
        "Connections taken from listening sockets.",
        &[],
        totals.accepted,
    );
    let help = "Connections that a thread serves or has served; those accepted and not handled were dropped.";
    to.counter("brisk_connections_handled_total", help, &[], totals.handled);
    to.counter("brisk_http_requests_total", "Requests whose head was read.", &[], totals.requests);
}

fn threads(to: &mut Scrape) {
    let shared = to.shared();
    // Read once, so that the sum and the largest are of the same moment.
    let loads: Vec<_> = shared.loads.iter().map(|load| load.load(Ordering::Relaxed)).collect();
    // By thread: a single busy one is invisible in a sum.
    for (index, (load, counters)) in loads.iter().zip(&shared.counters).enumerate() {
        let labels = [("thread", &*index.to_string())];
        to.gauge("brisk_thread_connections", "Client connections of each thread.", &labels, *load as f64);
        let help = "Requests of each thread.";
        to.counter("brisk_thread_requests_total", help, &labels, counters.requests.get());
    }
    // A ratio, so that one alert fits servers of any size.
    let skew = |values: &mut dyn Iterator<Item = f64>| {
        let (mut max, mut sum) = (0f64, 0f64);
        values.for_each(|value| (max, sum) = (max.max(value), sum + value));
        // Without any connection the shares are as even as can be.
        if sum > 0.0 { max * shared.counters.len() as f64 / sum } else { 1.0 }
    };
    let help = "How uneven the threads' shares are: the largest divided by the mean; 1 is even.";
    let connections = skew(&mut loads.iter().map(|load| *load as f64));
    let requests = skew(&mut shared.counters.iter().map(|counters| counters.requests.get() as f64));
    to.gauge("brisk_thread_skew", help, &[("of", "connections")], connections);
    to.gauge("brisk_thread_skew", help, &[("of", "requests")], requests);
}

fn files(to: &mut Scrape) {
    let shared = to.shared();
    let sum =
        // Each thread counts on its own; adding up is left to whoever reads.
        |which: fn(&Counters) -> &Count| shared.counters.iter().map(|own| which(own).get()).sum::<u64>();
    let help = "Look-ups in the file cache by outcome; a prepared answer needs none.";
    to.counter("brisk_file_cache_lookups_total", help, &[("outcome", "hit")], sum(|own| &own.file_hits));
    to.counter("brisk_file_cache_lookups_total", help, &[("outcome", "miss")], sum(|own| &own.file_misses));
    let help = "Looks for files whose changes the kernel does not report (network file systems, too few watches): each request asks for them.";
    to.counter("brisk_file_unwatched_looks_total", help, &[], sum(|own| &own.file_unwatched));
    let help = "Files, and facts about files, that threads keep.";
    to.gauge("brisk_file_cache_entries", help, &[], sum(|own| &own.file_entries) as f64);
    to.gauge(
        "brisk_file_cache_bytes",
        "File contents that threads keep.",
        &[],
        sum(|own| &own.file_bytes) as f64,
    );
    let help = "Open descriptors that the file cache keeps.";
    to.gauge("brisk_file_cache_descriptors", help, &[], sum(|own| &own.file_descriptors) as f64);
    let help = "Requests answered by an answer that was kept ready.";
    to.counter("brisk_prepared_answers_total", help, &[], sum(|own| &own.prepared));
}

fn tls(to: &mut Scrape) {
    let (clients, servers) = brisk_net::tls_handshakes();
    // Failed ones are counted by the server, since a handshake that fails has no session to tell of it.
    let help = "TLS handshakes with clients by outcome.";
    let outcomes =
        [("full", clients.full), ("resumed", clients.resumed), ("failed", crate::tls::opening::FAILED.get())];
    for (outcome, count) in outcomes {
        to.counter("brisk_tls_handshakes_total", help, &[("outcome", outcome)], count);
    }
    let help = "TLS handshakes with back ends that came to their end.";
    for (outcome, count) in [("full", servers.full), ("resumed", servers.resumed)] {
        to.counter("brisk_upstream_tls_handshakes_total", help, &[("outcome", outcome)], count);
    }
}

/// Those that are read with the configuration; where paths have variables, only handshakes know which there are.
fn certificates(to: &mut Scrape) {
    let snap = to.snap();
    let contexts = snap.servers.iter().filter_map(|server| server.tls.as_ref()?.context.as_ref());
    // A file may serve many servers. Each is told once, by the earliest end.
    let mut ends = BTreeMap::new();
    for source in contexts.flat_map(|context| context.sources()) {
        // A certificate that cannot be read now has no end to tell.
        let Some(not_after) = source.not_after() else { continue };
        // The text of a certificate that stands in the configuration is no name.
        let path =
            if source.pair.certificate.starts_with("data:") { "data:" } else { &source.pair.certificate };
        let end = ends.entry(path).or_insert(not_after);
        *end = not_after.min(*end);
    }
    let help = "When the certificate of a file ends, in Unix seconds.";
    for (path, not_after) in ends {
        to.gauge("brisk_tls_certificate_not_after_seconds", help, &[("certificate", path)], not_after as f64);
    }
}

fn logs(to: &mut Scrape) {
    // A copy of the list: the scrape is written to while it is walked.
    for log in to.logs.clone().iter() {
        let help = "Log lines that could not be written: a full disk, a reader that is too slow.";
        // With its target as a label: which disk is full is the question.
        let target = log.target.to_string();
        to.counter("brisk_log_lines_lost_total", help, &[("log", &target)], log.lost());
    }
}
