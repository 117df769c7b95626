//! What the commands share on the command line: their rows, their help, how arguments are read, and the way to the
//! standard output.
//!
//! A command is an [`Entry`]: its definition is a `clap::Command`, from which `--help`, completions, man pages and error
//! messages are made. Commands whose options follow another program's rules (nginx, ab, siege, wrk, httperf) are defined
//! in the same way and read by [`getopt`].
#![forbid(unsafe_code)]
// `output` is the way out: these end with a panic where it cannot be written.
#![deny(clippy::print_stdout, clippy::print_stderr)]

mod entry;
pub mod getopt;
mod limits;
pub mod output;
pub mod terminal;

pub use entry::{Call, Entry};
