//! Handshakes, datagrams and connections of QUIC, of all threads together.
//!
//! What a thread's endpoint counts it tells once per turn; here it is added up. Nothing is read of a
//! connection.

use super::scrape::Scrape;
use crate::quic::common::Told;

pub(super) fn metrics(to: &mut Scrape) {
    let Some(Told { counters, half_open, dropped, unsent }) = to.shared().quic.totals() else { return };
    // `stalled` apart from `refused`: the one is a network or an attack, the other a decision of ours.
    let help = "Handshakes of QUIC by outcome; stalled: they took too long.";
    let outcomes = [
        ("begun", counters.begun),
        ("completed", counters.completed),
        ("refused", counters.refused),
        ("stalled", counters.stalled),
    ];
    for (outcome, count) in outcomes {
        to.counter("brisk_quic_handshakes_total", help, &[("outcome", outcome)], count);
    }
    to.gauge("brisk_quic_handshakes_open", "Handshakes of QUIC under way.", &[], half_open as f64);
    // `ignored` is noise of the internet; `dropped` and `unsent` are ours, and worth an alert.
    let help = "Datagrams of QUIC; ignored: they belonged to nothing.";
    let kinds = [
        ("received", counters.received),
        ("ignored", counters.ignored),
        ("sent", counters.sent),
        ("dropped", dropped),
        ("unsent", unsent),
    ];
    for (kind, count) in kinds {
        to.counter("brisk_quic_datagrams_total", help, &[("kind", kind)], count);
    }
    // Each is an answer that keeps no state: Retry (RFC 9000 §8.1.2), stateless reset (§10.3), Version
    // Negotiation (§6).
    let help = "Answers of QUIC without a connection.";
    let answers = [
        ("retry", counters.retries),
        ("reset", counters.resets),
        ("version_negotiation", counters.negotiations),
    ];
    for (kind, count) in answers {
        to.counter("brisk_quic_answers_total", help, &[("kind", kind)], count);
    }
    // Of those that have ended only: a sum that is read while connections live would go back when they end.
    let help = "Packets of QUIC that were declared lost, of connections that have ended.";
    to.counter("brisk_quic_packets_lost_total", help, &[], counters.lost);
    let help = "Connections of QUIC that have ended.";
    to.counter("brisk_quic_connections_ended_total", help, &[], counters.ended);
    // With the count above it gives the mean. It is a sum, so means over any time can be made of it.
    let help = "Their round-trip times, as they were at the end, added up.";
    to.seconds("brisk_quic_round_trip_seconds_total", help, &[], counters.rtt_us as f64 / 1e6);
    let help = "Clients of QUIC whose address has changed and was validated.";
    to.counter("brisk_quic_migrations_total", help, &[], counters.migrations);
    let help = "Connections of QUIC that ended because nothing came.";
    to.counter("brisk_quic_timeouts_total", help, &[], counters.timeouts);
    // There should be none; one that is caught has cost a connection.
    let help = "Panics in QUIC that were caught.";
    to.counter("brisk_quic_panics_total", help, &[], counters.panics);
}
