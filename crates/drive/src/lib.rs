//! Driving servers the way users, browsers and older tools do: what stands on the load engine and beside it.
//!
//! | module | owns |
//! |---|---|
//! | [`client`] | one exchange at a time, with every moment noted |
//! | [`get`] | `brisk get`: one exchange laid bare |
//! | [`scenario`] | `brisk bench run`: users who take steps; imports |
//! | [`page`] | `brisk bench page`: a page as a browser fetches it |
//! | [`probe`] | `brisk probe`: pages watched over time |
//! | [`old`] | ab, wrk, siege and httperf by their names, on the load engine |
//! | [`caching`] | what caches may do with a response |
#![forbid(unsafe_code)]
// `brisk_load::output` is the way out: these end with a panic where it cannot be written.
#![deny(clippy::print_stdout, clippy::print_stderr)]

pub mod caching;
mod cli;
pub mod client;
mod dates;
pub mod fuzz;
pub mod get;
mod limits;
pub mod old;
pub mod page;
pub mod probe;
pub mod scenario;
