//! `brisk-benches`: see [`brisk_benches::cli`].
#![forbid(unsafe_code)]
// `brisk_load::output` is the way out: these end with a panic where it cannot be written.
#![deny(clippy::print_stdout, clippy::print_stderr)]

use brisk_load::output;
use std::process::ExitCode;

fn main() -> ExitCode {
    match brisk_benches::cli::main(std::env::args().skip(1).collect()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            output::note(format_args!("brisk-benches: {error}"));
            ExitCode::FAILURE
        }
    }
}
