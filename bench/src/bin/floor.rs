//! The floor as a program of its own: `floor PORT BODY_BYTES [CPU [WORK]]`.
#![forbid(unsafe_code)]
// `brisk_load::output` is the way out: these end with a panic where it cannot be written.
#![deny(clippy::print_stdout, clippy::print_stderr)]

use brisk_load::output;
use std::process::ExitCode;

fn main() -> ExitCode {
    let args = ["floor".to_owned()].into_iter().chain(std::env::args().skip(1)).collect();
    match brisk_benches::cli::main(args) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            output::note(format_args!("floor: {error}"));
            ExitCode::FAILURE
        }
    }
}
