//! The floor as a server of its own: `floor PORT [BODY_BYTES [CPU]]`.
#![forbid(unsafe_code)]

use std::process::ExitCode;

use brisk_benches::floor::{Options, serve};

fn main() -> ExitCode {
    let numbers: Option<Vec<usize>> = std::env::args().skip(1).map(|arg| arg.parse().ok()).collect();
    let options = numbers.and_then(|numbers| {
        let port = u16::try_from(*numbers.first()?).ok()?;
        Some(Options {
            port,
            body_bytes: numbers.get(1).copied().unwrap_or(100),
            cpu: numbers.get(2).copied(),
        })
    });
    let Some(options) = options else {
        eprintln!("usage: floor PORT [BODY_BYTES [CPU]]");
        return ExitCode::FAILURE;
    };
    match serve(options) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("floor: {error}");
            ExitCode::FAILURE
        }
    }
}
