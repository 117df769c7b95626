//! Requests by server, location and class of status: how long they took, how much went in and out.

use super::Scrape;
use super::places::{BOUNDS_US, CLASSES, Ended, Key, Place};
use crate::live::Live;
use crate::request::Request;
use crate::table::Thread;
use brisk_host::metrics::Histogram;
use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError};

/// This thread's place for a location, made if it is new.
#[cold]
fn find(thread: &Thread, live: &Live, ended: Ended) -> Arc<Place> {
    let server = live.snap.server(ended.server).name.clone();
    let location = live.snap.location(ended.location).name.clone();
    let all = &thread.shared.places[thread.index];
    all.lock().unwrap_or_else(PoisonError::into_inner).entry((server, location)).or_default().clone()
}

/// Counts the end of a request, if anybody asks for the numbers.
#[inline]
pub(crate) fn record_ended(thread: &Thread, live: &Live, ended: impl FnOnce() -> Ended) {
    if let Some(places) = &live.places {
        let ended = ended();
        places.record(live.snap.place_of(ended.location), ended, || find(thread, live, ended));
    }
}

/// The end of a request that has gone through the phases.
#[inline]
pub(crate) fn record(r: &Request) {
    record_ended(&r.thread, &r.live, || Ended {
        server: r.route.server,
        location: r.route.loc,
        status: r.resp.status,
        sent_bytes: r.progress.sent.head_bytes + r.progress.sent.body_bytes,
        received_bytes: r.head.parsed.len as u64 + r.progress.body_received.get(),
        started_us: r.progress.started.mono_us,
    });
}

/// Sums of one class in one location.
#[derive(Default)]
struct Sum {
    buckets: [u64; BOUNDS_US.len() + 1],
    total_us: u64,
    sent_bytes: u64,
    received_bytes: u64,
}

pub(super) fn metrics(to: &mut Scrape) {
    let shared = to.shared();
    let mut sums: BTreeMap<(Key, usize), Sum> = BTreeMap::new();
    for places in &shared.places {
        let places = places.lock().unwrap_or_else(PoisonError::into_inner);
        for (key, place) in places.iter() {
            for (at, class) in place.classes.iter().enumerate() {
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
        let labels = [("server", &*server), ("location", &*location), ("status", CLASSES[class])];
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
