//! `brisk completions`: scripts that complete commands, options and names of directives in a shell.

use brisk_cli::{Call, Entry};
use brisk_load::output;
use brisk_modules::reference::{directives, variables};
use clap::builder::PossibleValuesParser;
use clap::{CommandFactory as _, Parser};
use clap_complete::Shell;
use std::collections::BTreeSet;

pub const COMPLETIONS: Entry =
    Entry { name: "completions", define: Args::command, run: main, inner: &[], usage_code: 1 };

/// Prints a script that completes commands in a shell.
#[derive(Debug, Parser)]
#[command(after_help = "Commands, options and names of directives and variables are completed.\n\n\
    bash: source <(brisk completions bash), in ~/.bashrc\n\
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
            output::write(&script(call, args.shell));
            0
        }
        Err(code) => code,
    }
}

fn script(call: &Call<'_>, shell: Shell) -> Vec<u8> {
    let named = [
        ("directives", "words", names(directives::all().map(|(_, row)| row.name))),
        ("variables", "words", names(variables::all().map(|(_, row)| row.name.trim_end_matches('*')))),
        ("completions", "shell", vec!["bash", "zsh", "fish"]),
        ("help", "words", names(call.commands())),
        ("man", "words", names(call.commands())),
    ];
    let mut brisk = call.root().definition("brisk");
    for (command, id, words) in &named {
        let parser = PossibleValuesParser::new(words);
        brisk = brisk.mut_subcommand(command, |command| command.mut_arg(id, |arg| arg.value_parser(parser)));
    }
    let mut out = Vec::new();
    clap_complete::generate(shell, &mut brisk, "brisk", &mut out);
    if shell == Shell::Fish {
        // clap_complete leaves out what stands without an option.
        for (command, _, words) in &named {
            let words = words.join(" ");
            let line =
                format!("complete -c brisk -n '__fish_brisk_using_subcommand {command}' -f -a '{words}'\n");
            out.extend_from_slice(line.as_bytes());
        }
    }
    out
}

/// Each once, in order.
fn names(all: impl Iterator<Item = &'static str>) -> Vec<&'static str> {
    all.collect::<BTreeSet<_>>().into_iter().collect()
}
