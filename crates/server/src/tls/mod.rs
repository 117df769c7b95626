//! TLS of clients' connections: which virtual host's rules a handshake follows, and what requests may do with them.
//!
//! A connection of a TLS address begins with a ClientHello. It is read before there is a session ([`opening`]): the
//! server that its name leads to decides on everything — versions, certificates, whose sessions are resumed. From then on
//! the connection is read as any other; the handshake happens inside of that. What must hold for a request besides is
//! asked when it has come in ([`facts`]): nginx answers an untrusted client with a page, not with an alert.

mod allowed;
mod context;
mod facts;
mod ocsp;
mod opening;
mod source;

pub use allowed::Allowed;
pub use context::{Certs, Context, Rules, Sessions, SharedSessions, Verify, early_sessions, ticket_keys};
pub use facts::{Facts, Verdict, is_early};
pub(crate) use facts::{admit, misdirected};
pub use ocsp::{Answers, Asking, Stapler};
pub(crate) use ocsp::{ask_about_client, must_ask};
pub use opening::{Begun, Load};
pub(crate) use opening::{FAILED, adopted, begin, closed, failed, finish, timed_out};
pub use source::{Cache, Pair, Parsed, Source, Sources, read_through};
