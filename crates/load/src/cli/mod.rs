//! The command line of `brisk bench` (and of `brisk-load`, the same as a program of its own).

pub mod args;
mod compare;
mod files;
mod options;
mod run;
mod server;

use crate::output;
use crate::system;
pub use files::{Files, Texts};
use options::Command;
pub use options::Outputs;

/// Runs `program ARGS` and gives its exit code: 0; 1 if it could not be done; 2 for wrong usage, and if what was measured is
/// not what was asked about.
pub fn main(program: &str, args: &[String]) -> i32 {
    match args.first().map(String::as_str) {
        Some("compare") => {
            let program = format!("{program} compare");
            main_of(&program, compare::parse(&program, &args[1..]), |options| {
                system::catch_interrupts().map_err(|error| error.to_string())?;
                compare::execute(&options)
            })
        }
        Some("diff") => {
            let program = format!("{program} diff");
            main_of(&program, compare::parse_diff(&program, &args[1..]), |stored| Ok(compare::diff(&stored)))
        }
        _ => main_of(program, options::parse(program, args).map(Some), |command| match command {
            Command::Help(text) => {
                output::print(text);
                Ok(0)
            }
            Command::Impossible(why) => Err(why),
            Command::Run(options) => {
                system::catch_interrupts().map_err(|error| error.to_string())?;
                run::execute(program, args, *options)
            }
        }),
    }
}

/// Carries out what a command line asks for, which may be nothing but help; gives the exit code: 2 for wrong usage, 1 for
/// what could not be done.
pub fn main_of<A>(
    program: &str,
    parsed: Result<Option<A>, String>,
    run: impl FnOnce(A) -> Result<i32, String>,
) -> i32 {
    let (error, code) = match parsed {
        Ok(None) => return 0,
        Ok(Some(args)) => match run(args) {
            Ok(code) => return code,
            Err(error) => (error, 1),
        },
        Err(error) => (error, 2),
    };
    output::note(format_args!("{program}: {error}"));
    code
}
