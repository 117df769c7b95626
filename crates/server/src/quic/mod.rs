//! QUIC's connections of a thread (RFC 9000), and what is spoken on them.
//!
//! The thread's [`Endpoint`](brisk_quic::Endpoint) gets what its sockets receive; what it has to say is given to the [`App`] of each
//! connection ([`turn`]). Virtual hosts are chosen after the ClientHello as over TCP ([`choose`]).

pub(crate) mod between;
pub(crate) mod choose;
pub mod common;
#[cfg(debug_assertions)]
mod echo;
mod parcel;
mod passage;
pub mod secret;
pub(crate) mod state;
pub(crate) mod turn;

pub(crate) use state::App;
pub use state::Quic;

use crate::connection::Connection;
use crate::table::Thread;
use brisk_quic::Key;
use std::rc::Rc;

/// To be called where a configuration wants QUIC, before workers are forked.
/// Workers must draw the same keys, so the master has the secret before there is any.
pub(crate) fn prepare() {
    secret::drawn();
}

/// Who speaks the protocol that a handshake has agreed on; `None`: nobody does.
/// ALPN has been agreed on in the handshake (RFC 9001 §8.1); a connection without a protocol is closed.
pub(crate) fn begin(
    thread: &Rc<Thread>,
    key: Key,
    conn: &Rc<Connection>,
    alpn: &[u8],
) -> Option<Rc<dyn App>> {
    match alpn {
        b"h3" => crate::h3::carried::begin(thread, key, conn),
        // Interoperability tests speak it; a release has no second way past HTTP's rules.
        #[cfg(debug_assertions)]
        b"hq-interop" => Some(echo::Echo::begin(thread.clone(), key, conn.clone())),
        _ => None,
    }
}
