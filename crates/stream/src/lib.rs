//! `stream`: TCP connections and UDP sessions that are passed to back ends as they are. It does not depend on HTTP.
//!
//! Variables are computed from a [`Session`], and a line of the access log describes one. [`serve`] takes connections
//! and datagrams from the host; [`opening`] checks access and finds the session's server; [`proxy`] finds a peer; [`relay`] moves bytes, [`udp`] datagrams.
//! A [`handler`] speaks a protocol of its own with client and servers.
#![forbid(unsafe_code)]
#![warn(missing_docs)]

pub mod conf;
pub mod handler;
mod handshake;
pub mod limits;
mod opening;
mod proxy;
mod relay;
mod roles;
pub mod secure;
mod serve;
mod session;
pub mod stats;
mod tcp;
mod udp;
mod vars;

pub use proxy::{BAD_GATEWAY, BAD_REQUEST, FORBIDDEN, INTERNAL, OK, Status, UNAVAILABLE};
pub use serve::install;
pub use session::{Attempt, Origin, Session};
pub use vars::VARIABLES;
