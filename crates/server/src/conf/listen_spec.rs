//! What a `listen` directive asks for, before it is known which servers share a socket.

use crate::conf::ids::ServerId;
use crate::conf::snapshot::Prefix;
use brisk_conf::Span;
use brisk_net::listen::{Address, Options};

/// One `listen` as written.
pub struct ListenSpec {
    /// The server.
    pub server: ServerId,
    /// What is listened on.
    pub address: Address,
    /// How.
    pub options: Options,
    /// Socket options were given: at most one `listen` of an address may.
    pub explicit: bool,
    /// A socket of its own even if a wildcard covers it.
    pub bind: bool,
    /// `default_server`.
    pub default_server: bool,
    /// What comes before a request.
    pub prefix: Prefix,
    /// Where it is written.
    pub span: Span,
}
