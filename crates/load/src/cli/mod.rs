//! The command line of `brisk bench` (and of `brisk-load`, the same as a program of its own).

pub mod args;
mod compare;
mod files;
mod options;
mod request;
mod run;
mod server;

use crate::report::Verdict;
use crate::system;
use brisk_cli::{Call, Entry};
use clap::CommandFactory as _;
pub use files::{Files, Texts};
use options::Wrong;
pub use options::{Outputs, tls};
pub use request::{FORM, body_of};

/// What was asked for could not be done, or cannot be: wrong usage, too.
pub const WRONG_USAGE: i32 = 1;
/// It was done, and says nothing: nothing was answered, or the figures are INVALID, or nothing could be decided.
pub const NO_RESULT: i32 = 2;
/// A promise (a threshold) was broken.
pub const BROKEN_PROMISE: i32 = 3;

/// What a command ends with that came to this.
pub fn exit_code(verdict: Verdict) -> i32 {
    match verdict {
        Verdict::Holds => 0,
        Verdict::Broken => BROKEN_PROMISE,
        Verdict::Invalid | Verdict::NoResult => NO_RESULT,
    }
}

/// `bench`, with these commands below it.
pub const fn bench(inner: &'static [Entry]) -> Entry {
    Entry { name: "bench", define: options::Args::command, run, inner, usage_code: WRONG_USAGE }
}

/// `bench compare`.
pub const COMPARE: Entry = Entry {
    name: "compare",
    define: compare::Args::command,
    run: |call| {
        read(
            call,
            |args: compare::Args| args.options(call.line()),
            |options| {
                system::catch_interrupts().map_err(|error| error.to_string())?;
                compare::execute(&options)
            },
        )
    },
    inner: &[],
    usage_code: WRONG_USAGE,
};

/// `bench diff`.
pub const DIFF: Entry = Entry {
    name: "diff",
    define: compare::DiffArgs::command,
    run: |call| read(call, |args: compare::DiffArgs| args.stored(), |stored| Ok(compare::diff(&stored))),
    inner: &[],
    usage_code: WRONG_USAGE,
};

/// Reads the arguments, makes of them what is to be done, and does it; gives the exit code.
pub fn read<A: clap::FromArgMatches, O>(
    call: &Call<'_>,
    options: impl FnOnce(A) -> Result<O, String>,
    run: impl FnOnce(O) -> Result<i32, String>,
) -> i32 {
    let args = match call.parse() {
        Ok(args) => args,
        Err(code) => return code,
    };
    match options(args) {
        Ok(options) => call.carry_out(run(options)),
        Err(why) => call.refuse(why),
    }
}

fn run(call: &Call<'_>) -> i32 {
    let args: options::Args = match call.parse() {
        Ok(args) => args,
        Err(code) => return code,
    };
    match args.options() {
        Ok(options) => call.carry_out(
            system::catch_interrupts()
                .map_err(|error| error.to_string())
                .and_then(|()| run::execute(call.line(), options)),
        ),
        Err(Wrong::Usage(why)) => call.refuse(why),
        Err(Wrong::Impossible(why)) => call.carry_out(Err(why)),
    }
}
