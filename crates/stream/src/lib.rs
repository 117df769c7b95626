//! `stream`: TCP connections and UDP sessions that are passed to back ends as they are. It knows no HTTP.
//!
//! A [`Session`] is what variables are computed of and what a line of the access log is about. [`serve`] takes connections
//! and datagrams from the host; [`opening`] asks whether a session may go on and finds its server; [`proxy`] finds a peer; [`relay`] moves bytes, [`udp`] datagrams.
#![forbid(unsafe_code)]
#![warn(missing_docs)]

pub mod conf;
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

pub use proxy::{FORBIDDEN, Status, UNAVAILABLE};
pub use serve::install;
pub use session::{Attempt, Origin, Session};
pub use vars::VARIABLES;
