//! `brisk completions`: scripts that complete commands, options and names of directives in a shell.

use super::BRISK;
use brisk_cli::{Call, Entry};
use brisk_load::output;
use brisk_modules::reference::{directives, variables};
use clap::builder::{PossibleValue, PossibleValuesParser};
use clap::{Command, CommandFactory as _, Parser};
use clap_complete::Shell;

pub const COMPLETIONS: Entry =
    Entry { name: "completions", define: Args::command, run: main, inner: &[], usage_code: 1 };

/// Prints a script that completes commands, options and names of directives in a shell.
#[derive(Debug, Parser)]
#[command(after_help = "bash: source <(brisk completions bash), in ~/.bashrc\n\
    zsh:  brisk completions zsh >~/.zfunc/_brisk, with ~/.zfunc in fpath\n\
    fish: brisk completions fish >~/.config/fish/completions/brisk.fish\n\n\
    make install puts all three into place.")]
struct Args {
    /// bash, zsh or fish
    #[arg(value_name = "SHELL", required = true, value_parser = shell)]
    shell: Shell,
}

fn shell(text: &str) -> Result<Shell, String> {
    match text {
        "bash" => Ok(Shell::Bash),
        "zsh" => Ok(Shell::Zsh),
        "fish" => Ok(Shell::Fish),
        _ => Err("bash, zsh or fish".into()),
    }
}

fn main(call: &Call<'_>) -> i32 {
    match call.parse::<Args>() {
        Ok(args) => {
            output::write(&script(args.shell));
            0
        }
        Err(code) => code,
    }
}

fn script(shell: Shell) -> Vec<u8> {
    let mut out = Vec::new();
    let mut brisk = BRISK
        .definition("brisk")
        .mut_subcommand("directives", |command| with_names(command, directive_names()))
        .mut_subcommand("variables", |command| with_names(command, variable_names()))
        .mut_subcommand("completions", |command| {
            with_words(command, "shell", ["bash", "zsh", "fish"].map(PossibleValue::new).to_vec())
        });
    clap_complete::generate(shell, &mut brisk, "brisk", &mut out);
    out
}

fn directive_names() -> Vec<PossibleValue> {
    let mut names: Vec<&str> = directives::all().map(|(_, row)| row.name).collect();
    names.sort_unstable();
    names.dedup();
    names.into_iter().map(PossibleValue::new).collect()
}

fn variable_names() -> Vec<PossibleValue> {
    let mut names: Vec<&str> = variables::all().map(|(_, row)| row.name.trim_end_matches('*')).collect();
    names.sort_unstable();
    names.dedup();
    names.into_iter().map(PossibleValue::new).collect()
}

fn with_names(command: Command, names: Vec<PossibleValue>) -> Command {
    with_words(command, "words", names)
}

fn with_words(command: Command, id: &'static str, words: Vec<PossibleValue>) -> Command {
    command.mut_arg(id, |arg| arg.value_parser(PossibleValuesParser::new(words)))
}
