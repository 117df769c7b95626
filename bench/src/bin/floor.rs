//! The floor as a program of its own: `floor PORT BODY_BYTES [CPU [WORK]]`.
#![forbid(unsafe_code)]

use std::process::ExitCode;

fn main() -> ExitCode {
    let args = ["floor".to_owned()].into_iter().chain(std::env::args().skip(1)).collect();
    match brisk_benches::cli::main(args) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("floor: {error}");
            ExitCode::FAILURE
        }
    }
}
