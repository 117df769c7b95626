//! The protocol of MySQL and MariaDB as data: bytes in, events out; no I/O, no clock.
//!
//! [`packet`] finds messages, and [`compressed`] the bytes that they are made of where a client compresses. [`greeting`], [`login`] and
//! [`password`] are the handshake, [`reply`] the short answers. [`client`] is a client of our own. [`follow`] knows when an answer is complete,
//! [`classify`] what a statement does, [`session`] where a session's next command goes, and [`statements`] what was prepared at which server.
#![forbid(unsafe_code)]
#![warn(missing_docs)]

pub mod capability;
pub mod classify;
pub mod client;
pub mod command;
pub mod compressed;
pub mod error;
pub mod follow;
pub mod fuzz;
pub mod greeting;
pub mod limits;
pub mod login;
pub mod packet;
pub mod password;
pub mod reply;
pub mod session;
pub mod settings;
pub mod statements;
mod token;
pub mod wire;
pub mod written;

pub use capability::Capabilities;
pub use error::ProtocolError;
