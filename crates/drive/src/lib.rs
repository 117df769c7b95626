//! Driving servers the way users, browsers and older tools do: what stands on the load engine and beside it.
//!
//! | module | owns |
//! |---|---|
//! | [`client`] | one exchange at a time, with every moment noted |
#![forbid(unsafe_code)]

pub mod caching;
pub mod client;
mod dates;
pub mod get;
pub mod old;
pub mod page;
