//! Filters that lie about what they depend on, for the test that must find them (`crates/brisk/tests/difference.rs`). Only in
//! builds with debug assertions, and only where `BRISK_FAULTS` orders them: `lie-header`, `lie-cookie` and so on.

use crate::plan::{Filter, Plan, Stage};
use crate::purity::Declared;
use crate::request::Request;
use brisk_http::HeaderId;
use brisk_net::{clock, fault};
use std::sync::Arc;

/// Reads something of a request past the accessors that would record it.
/// A plain function: no state, so a lie cannot be told apart from an honest filter by its shape.
type Look = fn(&Request) -> Vec<u8>;

/// Shows in `X-Lie` what it has read.
struct Lie(Look);

/// What is lied about, by the name of the order.
const LIES: &[(&str, Look)] = &[
    ("lie-header", |r| field(r, b"x-test")),
    // As a module would that has found a quick way to a cookie.
    ("lie-cookie", |r| r.head.field(HeaderId::Cookie).map_or(Vec::new(), <[u8]>::to_vec)),
    ("lie-address", |r| r.conn().peer_text().to_vec()),
    ("lie-tls", |r| {
        let version = r.conn().io.tls().map(|tls| tls.session(brisk_tls::Session::version));
        // No TLS is a TLS fact, too.
        version.unwrap_or_default().as_bytes().to_vec()
    }),
    ("lie-time", |_| clock::now().unix_secs.to_string().into_bytes()),
    // Random values differ between any two answers, so even one prepared answer is found.
    ("lie-random", |_| {
        let mut bytes = [0u8; 16];
        let _ = rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty());
        format!("{:032x}", u128::from_be_bytes(bytes)).into_bytes()
    }),
];

fn field(r: &Request, name: &[u8]) -> Vec<u8> {
    r.head.parsed.named(&r.head.buf, name).next().map_or(Vec::new(), |h| h.value.of(&r.head.buf).to_vec())
}

/// Puts the lies that are ordered into a plan.
pub fn install(plan: &mut Plan) {
    for (_, look) in LIES.iter().filter(|(name, _)| fault::is_ordered(name)) {
        plan.add_filter(Stage::Headers, Arc::new(Lie(*look)));
    }
}

impl Filter for Lie {
    fn filter(&self, r: &mut Request) {
        let value = (self.0)(r);
        r.resp.add("X-Lie", value);
    }

    fn declares(&self) -> Declared {
        // This is the lie.
        Declared::RECORDED
    }
}
