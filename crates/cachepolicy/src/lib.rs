//! What a shared cache may store, how long it is fresh, when it must ask again, and what a new answer does to an old
//! one: RFC 9111 and its company (RFC 5861, 8246, 9211, 9213), and the rules that nginx documents in their place.
//!
//! No I/O, no clock: times are handed in as seconds since 1970. The same code serves the cache, its tests and the
//! fuzzers.
#![forbid(unsafe_code)]
#![warn(missing_docs)]

pub mod age;
pub mod cache_status;
pub mod date;
pub mod directives;
pub mod fields;
pub mod fuzz;
pub mod head;
pub mod invalidate;
mod limits;
pub mod nginx;
pub mod partial;
pub mod reuse;
pub mod rfc9111;
pub mod structured;
pub mod tags;
pub mod vary;

pub use fields::Fields;
pub use rfc9111::{Refusal, Terms, Verdict};
