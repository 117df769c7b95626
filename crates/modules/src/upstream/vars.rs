//! Variables about the choice of a server.

use brisk_net::clock;
use brisk_server::module::Module;
use brisk_server::request::Request;
use brisk_server::vars::{Variable, VariableGet};
use brisk_upstream::state::State;
use std::cell::Cell;
use std::io::Write as _;

/// What variables tell of a request's way to its server.
#[derive(Default)]
pub(super) struct Way {
    /// When it came into the queue, and how long it was there, in milliseconds.
    queued_at: Cell<Option<u64>>,
    queued_ms: Cell<Option<u64>>,
}

/// The variables' own module: those of the engine are in its list.
pub static MODULE: Module = Module { name: "upstream_choice", variables: VARIABLES, ..Module::EMPTY };

static VARIABLES: &[Variable] = &[
    Variable {
        name: "upstream_last_server_name",
        get: VariableGet::Fixed(|r, out| {
            let peer = r.state.own.get::<State>().and_then(|state| state.chosen());
            peer.is_some_and(|peer| {
                let host = match peer.server.rsplit_once(':') {
                    Some((host, port)) if port.bytes().all(|b| b.is_ascii_digit()) => host,
                    _ => &peer.server,
                };
                out.extend_from_slice(host.as_bytes());
                true
            })
        }),
        doc: "The server of an upstream that was chosen last, as written, without its port.",
        ..Variable::SILENT
    },
    Variable {
        name: "upstream_queue_time",
        get: VariableGet::Fixed(|r, out| {
            let queued = r.state.own.get::<Way>().and_then(|way| way.queued_ms.get());
            // Writing to a vector cannot fail.
            queued.is_some_and(|ms| write!(out, "{}.{:03}", ms / 1000, ms % 1000).is_ok())
        }),
        doc: "Seconds with milliseconds that the request waited in the queue of its upstream.",
        ..Variable::SILENT
    },
];

/// The request came into the queue.
pub(super) fn queued(r: &Request) {
    r.state.own.get_or(Way::default).queued_at.set(Some(clock::mono_ms()));
}

/// The request left the queue, with a server or without.
pub(super) fn left(r: &Request) {
    if let Some(way) = r.state.own.get::<Way>()
        && let Some(since) = way.queued_at.take()
    {
        way.queued_ms.set(Some(clock::mono_ms().saturating_sub(since)));
    }
}
