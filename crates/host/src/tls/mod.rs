//! TLS of clients' connections, as far as no protocol inside of it matters: a server's rules, its certificates and where they are
//! read from, and what its sessions are made with. The first bytes of a connection are read by the protocol that it is for.

pub(crate) mod allowed;
mod answers;
mod context;
mod named;
pub mod ocsp;
mod refusal;
mod rules;
mod source;

pub use allowed::{Allowed, Rule};
pub use answers::{Answers, Asking, Stapler};
pub use context::{Certs, Context, Sessions, SharedSessions, early_sessions, ticket_keys};
pub use named::{Named, Wanted};
pub use refusal::Refusal;
pub use rules::{Rejected, Rules, Verdict, Verify};
pub use source::{Cache, Chain, Pair, Parsed, Source, Sources, read_through};
