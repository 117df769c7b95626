//! `brisk help`.

use brisk_cli::{Call, Entry};
use brisk_load::output;
use brisk_modules::reference::directives;
use clap::{CommandFactory as _, Parser};

pub const HELP: Entry = Entry { name: "help", define: Args::command, run: main, inner: &[], usage_code: 1 };

/// Explains a command, for example: brisk help cache purge
#[derive(Debug, Parser)]
struct Args {
    /// The command; without one, all are listed
    #[arg(value_name = "COMMAND")]
    words: Vec<String>,
}

fn main(call: &Call<'_>) -> i32 {
    match call.parse::<Args>() {
        Ok(args) => {
            let code = call.root().help("brisk", &args.words);
            if let ([word], true) = (&args.words[..], code != 0)
                && directives::all().any(|(_, row)| row.name == word)
            {
                output::note(format_args!("brisk: it is a directive: brisk directives {word}"));
            }
            code
        }
        Err(code) => code,
    }
}
