//! TLS of clients' connections: which virtual host's rules a handshake follows, and what requests may do with them.
//!
//! A connection of a TLS address begins with a ClientHello. It is read before there is a session ([`opening`]): the
//! server that its name leads to decides on everything — versions, certificates, whose sessions are resumed. From then on
//! the connection is read as any other; the handshake happens inside of that. What must hold for a request besides is
//! asked when it has come in ([`admit`](mod@admit)): nginx answers an untrusted client with a page, not with an alert.

pub(crate) mod admit;
pub(crate) mod carries;
pub(crate) mod facts;
pub(crate) mod ocsp;
pub(crate) mod opening;

pub use admit::is_early;
pub use brisk_host::tls::{
    Allowed, Answers, Asking, Cache, Certs, Chain, Context, Named, Pair, Parsed, Rule, Rules, Sessions,
    SharedSessions, Source, Sources, Stapler, Verdict, Verify, early_sessions, read_through, ticket_keys,
};
pub use facts::Facts;
pub(crate) use ocsp::must_ask;
pub use opening::{Begun, Load};
pub(crate) use opening::{begin, failed, timed_out};
