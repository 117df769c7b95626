//! Numbers about back ends, for monitoring.

use super::group::Upstream;
use super::implicit::{OfStream, Registry};
use brisk_balance::{PeerState, PeerStatus};
use brisk_net::clock;
use brisk_server::metrics::Scrape;
use brisk_upstream::backend::Backend as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

pub(super) fn metrics(to: &mut Scrape) {
    let blocks = to.snap().data::<Registry>().map(Registry::blocks).unwrap_or_default();
    for upstream in blocks {
        let name = upstream.name();
        each_peer(to, &upstream, |to, labels, peer| {
            counters(to, labels, peer);
            let up = is_up(peer);
            to.gauge("brisk_upstream_up", "Whether a back end may be asked.", labels, up);
            let help = "Where a back end stands: 1 for its state, 0 for all others.";
            states(to, "brisk_upstream_state", help, labels, peer);
            let active = f64::from(peer.active);
            to.gauge("brisk_upstream_active", "Requests that a back end is answering.", labels, active);
        });
        let labels = [("upstream", name)];
        let waiting = upstream.waiting() as f64;
        to.gauge("brisk_upstream_queue", "Requests that wait for a back end.", &labels, waiting);
        let idle = upstream.idle().load(Ordering::Relaxed) as f64;
        to.gauge("brisk_upstream_idle_connections", "Connections kept for later requests.", &labels, idle);
    }
    let blocks = to.snap().data::<OfStream>().map(|all| all.0.blocks()).unwrap_or_default();
    for upstream in blocks {
        each_peer(to, &upstream, |to, labels, peer| {
            counters_of_sessions(to, labels, peer);
            let up = is_up(peer);
            to.gauge("brisk_stream_upstream_up", "Whether a back end of stream may be asked.", labels, up);
            let help = "Where a back end of stream stands: 1 for its state, 0 for all others.";
            states(to, "brisk_stream_upstream_state", help, labels, peer);
            let active = f64::from(peer.active);
            to.gauge("brisk_stream_upstream_active", "Sessions that a back end has.", labels, active);
        });
    }
}

type Labels<'a> = [(&'static str, &'a str)];

fn each_peer(
    to: &mut Scrape,
    upstream: &Arc<Upstream>,
    tell: impl Fn(&mut Scrape, &Labels<'_>, &PeerStatus),
) {
    let name = upstream.name();
    for peer in upstream.group().peers(clock::mono_ms()) {
        tell(to, &[("upstream", name), ("server", &*peer.info.name)], &peer);
    }
}

fn is_up(peer: &PeerStatus) -> f64 {
    f64::from(u8::from(peer.state == PeerState::Up))
}

/// A back end that its owner has taken out is not up, either: an alert must tell that from a failure.
fn states(to: &mut Scrape, name: &'static str, help: &'static str, labels: &Labels<'_>, peer: &PeerStatus) {
    for state in PeerState::ALL {
        let labels: Vec<_> = labels.iter().copied().chain([("state", state.as_str())]).collect();
        to.gauge(name, help, &labels, f64::from(u8::from(state == peer.state)));
    }
}

fn count(counter: &AtomicU64) -> u64 {
    counter.load(Ordering::Relaxed)
}

fn counters(to: &mut Scrape, labels: &Labels<'_>, peer: &PeerStatus) {
    let stats = &peer.info.stats;
    for (name, help, value) in [
        ("brisk_upstream_requests_total", "Requests passed to a back end.", &stats.requests),
        ("brisk_upstream_sent_bytes_total", "Bytes sent to a back end.", &stats.sent_bytes),
        ("brisk_upstream_received_bytes_total", "Bytes received from a back end.", &stats.received_bytes),
        ("brisk_upstream_fails_total", "Attempts at a back end that failed.", &stats.fails),
        ("brisk_upstream_checks_total", "Health checks of a back end.", &stats.checks),
        ("brisk_upstream_check_fails_total", "Health checks that failed.", &stats.check_fails),
    ] {
        to.counter(name, help, labels, count(value));
    }
    for (class, value) in ["1xx", "2xx", "3xx", "4xx", "5xx"].iter().zip(&stats.responses) {
        let labels: Vec<_> = labels.iter().copied().chain([("class", *class)]).collect();
        to.counter("brisk_upstream_responses_total", "Answers of a back end.", &labels, count(value));
    }
}

fn counters_of_sessions(to: &mut Scrape, labels: &Labels<'_>, peer: &PeerStatus) {
    let stats = &peer.info.stats;
    for (name, help, value) in [
        ("brisk_stream_upstream_sessions_total", "Sessions passed to a back end.", &stats.requests),
        (
            "brisk_stream_upstream_sent_bytes_total",
            "Bytes of sessions sent to a back end.",
            &stats.sent_bytes,
        ),
        (
            "brisk_stream_upstream_received_bytes_total",
            "Bytes of sessions received from a back end.",
            &stats.received_bytes,
        ),
        ("brisk_stream_upstream_fails_total", "Sessions that a back end has failed.", &stats.fails),
        ("brisk_stream_upstream_checks_total", "Health checks of a back end of stream.", &stats.checks),
        (
            "brisk_stream_upstream_check_fails_total",
            "Health checks of a back end of stream that failed.",
            &stats.check_fails,
        ),
    ] {
        to.counter(name, help, labels, count(value));
    }
}
