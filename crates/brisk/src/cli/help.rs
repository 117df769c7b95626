//! `brisk help`.

use super::BRISK;
use brisk_cli::{Call, Entry};
use clap::{CommandFactory as _, Parser};

pub const HELP: Entry = Entry { name: "help", define: Args::command, run: main, inner: &[], usage_code: 1 };

/// Explains a command: brisk help cache purge
#[derive(Debug, Parser)]
struct Args {
    /// The command; without one, all are listed
    #[arg(value_name = "COMMAND")]
    words: Vec<String>,
}

fn main(call: &Call<'_>) -> i32 {
    match call.parse::<Args>() {
        Ok(args) => BRISK.help("brisk", &args.words),
        Err(code) => code,
    }
}
