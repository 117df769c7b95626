//! Requests by server, location and class of status: how long they took, how much went in and out.
//!
//! Cells are in [`places`](super::places); what they add up to is told here. The costliest names are in
//! [`tops`](super::tops).

use super::history::Sums;
use super::places::{BOUNDS_US, CLASSES, Ended, Key, Place};
use super::scrape::Scrape;
use super::tops::Seen;
use crate::live::Live;
use crate::request::Request;
use crate::shared::Shared;
use crate::table::Thread;
use brisk_host::metrics::Histogram;
use brisk_host::peer::Peer;
use brisk_net::clock;
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError};

/// This thread's place for a location, made if it is new.
#[cold]
// Cold: once per location, thread and configuration. The lock is shared only with readers of metrics.
fn find(thread: &Thread, live: &Live, ended: Ended) -> Arc<Place> {
    let server = live.snap.server(ended.server).name.clone();
    let location = live.snap.location(ended.location).name.clone();
    // An entry is never taken out: Prometheus' counters must not go back.
    let all = &thread.shared.places[thread.index];
    all.lock().unwrap_or_else(PoisonError::into_inner).entry((server, location)).or_default().clone()
}

/// Counts the end of a request, if anybody asks for the numbers. `name` gives its host and its path as it was asked for,
/// while somebody looks at the costliest.
#[inline]
pub(crate) fn record_ended<'a>(
    thread: &Thread,
    live: &Live,
    ended: impl FnOnce() -> Ended,
    name: impl FnOnce() -> Name<'a>,
) {
    // Nothing is read of the request where nobody asks: the closures are not called.
    if let Some(places) = &live.places {
        let ended = ended();
        let took_us = places.record(live.snap.place_of(ended.location), ended, || find(thread, live, ended));
        let unix_secs = clock::now().unix_secs;
        // One load where nobody looks.
        if thread.shared.watched.is_at(unix_secs) {
            record_name(thread, unix_secs, ended, took_us, name());
        }
    }
}

/// What a request is called among the costliest.
pub(crate) struct Name<'a> {
    pub host: &'a [u8],
    /// As sent; arguments do not count.
    pub target: Cow<'a, [u8]>,
    pub client: Peer,
}

#[cold]
fn record_name(thread: &Thread, unix_secs: i64, ended: Ended, time_us: u64, name: Name<'_>) {
    // Each value of an argument would be an entry of its own.
    // Host and path are copied only if they are recorded.
    let path = name.target.split(|&byte| byte == b'?').next().unwrap_or_default();
    thread.shared.tops[thread.index].record(
        unix_secs,
        Seen {
            host: name.host,
            path,
            client: name.client,
            status: ended.status,
            time_us,
            sent_bytes: ended.sent_bytes,
        },
    );
}

/// The end of a request that has gone through the phases.
#[inline]
pub(crate) fn record(r: &Request) {
    let ended = || Ended {
        server: r.route.server,
        location: r.route.loc,
        status: r.resp.status,
        sent_bytes: r.progress.sent.head_bytes + r.progress.sent.body_bytes,
        // With the head, and with the framing of the body.
        received_bytes: r.head.parsed.len as u64 + r.progress.body_received.get(),
        started_us: r.progress.started.mono_us,
    };
    let name = || Name { host: &r.head.host, target: r.unparsed_uri(), client: r.client_addr() };
    record_ended(&r.thread, &r.live, ended, name);
}

/// Sums of one class in one location.
#[derive(Default)]
struct Sum {
    buckets: [u64; BOUNDS_US.len() + 1],
    total_us: u64,
    sent_bytes: u64,
    received_bytes: u64,
}

/// All requests together, for the history.
pub fn sums(shared: &Shared) -> Sums {
    let mut sums = Sums::default();
    for places in &shared.places {
        let places = places.lock().unwrap_or_else(PoisonError::into_inner);
        for place in places.values() {
            for (at, class) in place.classes.iter().enumerate() {
                let Some(class) = class.get() else { continue };
                for (sum, count) in sums.buckets.iter_mut().zip(&class.buckets) {
                    *sum += count.get();
                    sums.classes[at] += count.get();
                }
                sums.sent_bytes += class.sent_bytes.get();
                sums.received_bytes += class.received_bytes.get();
            }
        }
    }
    let totals = shared.totals();
    (sums.accepted, sums.connections) = (totals.accepted, totals.active);
    (sums.cpu_us, sums.memory_bytes) = super::core::process_use();
    sums
}

pub(super) fn metrics(to: &mut Scrape) {
    let shared = to.shared();
    // In order of names, so that two scrapes can be compared.
    let mut sums: BTreeMap<(Key, usize), Sum> = BTreeMap::new();
    for places in &shared.places {
        // The lock is for the list alone; what is counted in a place is counted without one.
        let places = places.lock().unwrap_or_else(PoisonError::into_inner);
        for (key, place) in places.iter() {
            for (at, class) in place.classes.iter().enumerate() {
                // A class that has not come yet is left out: no empty series.
                let Some(class) = class.get() else { continue };
                let sum = sums.entry((key.clone(), at)).or_default();
                sum.buckets.iter_mut().zip(&class.buckets).for_each(|(sum, count)| *sum += count.get());
                sum.total_us += class.total_us.get();
                sum.sent_bytes += class.sent_bytes.get();
                sum.received_bytes += class.received_bytes.get();
            }
        }
    }
    for (((server, location), class), sum) in sums {
        let (server, location) = (String::from_utf8_lossy(&server), String::from_utf8_lossy(&location));
        // Classes and not statuses: each value of a label is a series more in whatever reads them.
        let labels = [("server", &*server), ("location", &*location), ("status", CLASSES[class])];
        // Prometheus counts in base units, so in seconds.
        let bounds = BOUNDS_US.iter().map(|&bound| f64::from(bound) / 1e6);
        let histogram = Histogram {
            buckets: bounds.zip(sum.buckets).collect(),
            above: sum.buckets[BOUNDS_US.len()],
            sum: sum.total_us as f64 / 1e6,
        };
        to.histogram(
            "brisk_http_request_duration_seconds",
            "Time from a request's first byte to its response's last, by server name, location and class of status.",
            &labels,
            histogram,
        );
        let help = "Bytes of response heads and bodies sent to clients.";
        to.counter("brisk_http_response_bytes_total", help, &labels, sum.sent_bytes);
        let help = "Bytes of request heads and bodies received from clients.";
        to.counter("brisk_http_request_bytes_total", help, &labels, sum.received_bytes);
    }
}
