//! FastCGI 1.0: records, name-value pairs, both ends of a connection. One request at a time per connection, as every
//! web server and every application server does it; its id is always 1.

mod client;
mod pairs;
mod record;
mod request;
mod server;
#[cfg(test)]
mod tests;

pub use client::{Demux, Event, RequestWriter, stdin_end, stdin_head};
pub use pairs::{Pairs, write_pair};
pub use record::{HEAD_BYTES, Kind, RecordError, RecordHead};
pub use request::{EndRequest, KEEP_CONN, ProtocolStatus, REQUEST_ID, RESPONDER};
pub use server::{Peer, PeerEvent, write_end, write_stream};
