//! Benchmarks of whole servers: the results are in `docs/benchmarks.md`.
//!
//! | module | owns |
//! |---|---|
//! | [`parts`] | what is measured, and the targets |
//! | [`rounds`] | interleaved measurements |
//! | [`server`], [`conf`], [`lab`] | servers under test, their configurations, their files |
//! | [`mariadb`], [`mysql`] | databases, and sessions with them |
//! | [`process`] | CPU and memory of a process tree |
//! | [`stats`] | medians, intervals, paired ratios |
//! | [`results`], [`markdown`], [`machine`] | what is written down |
//! | [`floor`] | the cheapest thing that looks like a server |
//! | [`slow`] | a back end that takes its time |
//! | [`flood`] | first packets of QUIC clients that never go on |
#![forbid(unsafe_code)]
// `brisk_load::output` is the way out: these end with a panic where it cannot be written.
#![deny(clippy::print_stdout, clippy::print_stderr)]

pub mod cli;
pub mod conf;
pub mod flood;
pub mod floor;
pub mod lab;
pub mod least;
pub mod machine;
pub mod mariadb;
pub mod markdown;
pub mod mysql;
pub mod parts;
pub mod process;
pub mod results;
pub mod rounds;
pub mod server;
pub mod slow;
pub mod stats;
