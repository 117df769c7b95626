//! PostgreSQL's protocol, version 3, as far as a client with short queries needs it: login by SCRAM-SHA-256 or MD5, simple queries,
//! rows as text. Bytes in, events out: no I/O and no clock.
#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod client;
pub mod fuzz;
pub mod limits;
mod message;
mod scram;

pub use client::{Client, Error, Event, Login};
pub use message::{ANSWER_TLS, TLS_REQUEST};
