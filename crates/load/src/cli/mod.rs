//! The command line of `brisk bench` (and of `brisk-load`, the same as a program of its own).

pub mod args;
mod compare;
mod files;
mod options;
mod run;

use crate::output;
use crate::system;
pub use files::{Files, Texts};
use options::Command;
pub use options::Outputs;

/// Runs `program ARGS` and gives its exit code: 0; 1 after an error; 2 if what was measured is not what was asked about.
pub fn main(program: &str, args: &[String]) -> i32 {
    let result = match args.first().map(String::as_str) {
        Some("compare") => compare::main(&format!("{program} compare"), &args[1..]),
        Some("diff") => compare::diff(&format!("{program} diff"), &args[1..]),
        _ => options::parse(program, args).and_then(|command| match command {
            Command::Help(text) => {
                output::print(text);
                Ok(0)
            }
            Command::Run(options) => {
                system::catch_interrupts().map_err(|error| error.to_string())?;
                run::execute(program, args, *options)
            }
        }),
    };
    result.unwrap_or_else(|error| {
        output::note(format_args!("{program}: {error}"));
        1
    })
}
