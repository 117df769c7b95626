//! `brisk-benches`: see [`brisk_benches::cli`].
#![forbid(unsafe_code)]

use std::process::ExitCode;

fn main() -> ExitCode {
    match brisk_benches::cli::main(std::env::args().skip(1).collect()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("brisk-benches: {error}");
            ExitCode::FAILURE
        }
    }
}
