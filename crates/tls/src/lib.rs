//! TLS without I/O: sessions, what they are configured from, certificates and keys.
//!
//! The protocol itself is a library's. Here is what a server in nginx's clothes needs around it: OpenSSL's lists and names,
//! encrypted keys, tickets, a cache of sessions, verification of chains with OpenSSL's verdicts.
#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod agreed;
pub mod certificate;
mod ciphers;
mod client;
mod compress;
mod der;
mod error;
pub mod fuzz;
mod hello;
pub mod issue;
mod kernel;
mod key;
mod limits;
pub mod names;
mod pem;
pub mod quic;
mod records;
mod server;
mod session;
mod sessions;
mod skip;
mod suites;
mod ticket;
mod trust;

pub use agreed::Agreed;
pub use brisk_x509::{Chain, Purpose, Refusal, is_for_host, is_issuer, ocsp};
pub use certificate::Certificate;
pub use client::{ClientContext, ClientOptions, Distrust, Verification};
pub use error::Error;
pub use hello::{Hello, NoHello, Offered, Parsed};
pub use key::{PrivateKey, passwords};
pub use limits::{HELLO_BYTES_MAX, RECORD_BYTES_MAX, RECORD_PLAIN_MAX};
pub use pem::{base64_for_url, encode as pem_encode};
pub use server::{
    Certificates, Certified, Fixed, KeyLogger, Resumption, Sealing, ServerContext, ServerOptions, Transport,
    context_id,
};
pub use session::Session;
pub use sessions::SessionCache;
pub use suites::{Groups, ListError, Suites, Versions};
pub use ticket::TicketKeys;
pub use trust::{Trust, chain};
