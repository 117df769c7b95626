//! Names to addresses, by asking name servers: queries over UDP and TCP, a cache, waiting together for one answer.
//!
//! [`message`] and [`cache`] are pure; what talks to servers does so on the event loop of the thread that asked first.
//! The cache and the queries under way are shared by all threads.
#![forbid(unsafe_code)]
#![warn(missing_docs)]

pub mod cache;
mod limits;
pub mod message;

mod exchange;
mod flight;
mod resolver;
mod service;

pub use resolver::{Config, Found, Log, ResolveError, Resolver};
pub use service::{Service, Services};

#[cfg(test)]
mod tests;
