//! The row of a command, and what is done with all of them alike: choose, read, explain.

use crate::{output, terminal};
use brisk_conf::diag::did_you_mean;
use clap::builder::StyledStr;
use clap::builder::styling::{AnsiColor, Styles};
use clap::error::ErrorKind;
use clap::{ArgMatches, Command, FromArgMatches};
use std::io::{stderr, stdout};

/// Colours of help and errors.
const STYLES: Styles = Styles::styled()
    .header(AnsiColor::Yellow.on_default().bold())
    .usage(AnsiColor::Yellow.on_default().bold())
    .literal(AnsiColor::Green.on_default())
    .placeholder(AnsiColor::Cyan.on_default());

/// A command of a program.
#[derive(Clone, Copy)]
pub struct Entry {
    /// What it is called by.
    pub name: &'static str,
    /// Its options and arguments, with their help; without the commands in `inner`.
    pub define: fn() -> Command,
    /// Carries it out; gives the exit code.
    pub run: fn(&Call<'_>) -> i32,
    /// Commands below it that have rows of their own.
    pub inner: &'static [Entry],
    /// The exit code of wrong usage.
    pub usage_code: i32,
}

/// One call of a command.
pub struct Call<'a> {
    /// The command as it was called: "brisk bench run".
    pub path: String,
    /// What follows.
    pub args: &'a [String],
    entry: &'a Entry,
    /// The command that the program begins with; this one is it, or one below it.
    root: &'a Entry,
}

impl Entry {
    /// The whole definition, with the commands below.
    pub fn definition(&self, path: &str) -> Command {
        let mut command = (self.define)()
            .name(self.name)
            .bin_name(path.to_owned())
            .styles(STYLES)
            .term_width(terminal::columns())
            .args_override_self(true)
            .no_binary_name(true)
            .disable_help_subcommand(true)
            .disable_version_flag(true)
            .infer_subcommands(false);
        for inner in self.inner {
            command = command.subcommand(inner.definition(&format!("{path} {}", inner.name)));
        }
        values_may_begin_with_hyphens(command)
    }

    /// Runs the command that the arguments name: this one, or one below it.
    pub fn main(&self, path: &str, args: &[String]) -> i32 {
        self.below(self, path, args)
    }

    fn below(&self, root: &Entry, path: &str, args: &[String]) -> i32 {
        let inner = args.first().and_then(|name| self.inner.iter().find(|inner| inner.name == name));
        if let Some(inner) = inner {
            return inner.below(root, &format!("{path} {}", inner.name), &args[1..]);
        }
        (self.run)(&Call { path: path.to_owned(), args, entry: self, root })
    }

    /// Prints the help of the command that `words` lead to; gives the exit code.
    pub fn help(&self, path: &str, words: &[String]) -> i32 {
        if let Some(inner) = words.first().and_then(|name| self.inner.iter().find(|inner| inner.name == name))
        {
            return inner.help(&format!("{path} {}", inner.name), &words[1..]);
        }
        let mut definition = built(self.definition(path));
        let mut found = &mut definition;
        for word in words {
            let names: Vec<String> = found.get_subcommands().map(|sub| sub.get_name().to_owned()).collect();
            let Some(at) = names.iter().position(|name| name == word) else {
                let near = did_you_mean(word, names.iter().map(String::as_str));
                let hint = near.map_or(String::new(), |near| format!("; did you mean \"{near}\"?"));
                output::note(format_args!("{path}: no command \"{word}\"{hint}"));
                return self.usage_code;
            };
            let Some(next) = found.get_subcommands_mut().nth(at) else { return self.usage_code };
            found = next;
        }
        show_help(found)
    }
}

/// The definition as its help shows it: with the commands' full names, and usages that the columns hold, which clap does not
/// see to.
fn built(mut command: Command) -> Command {
    fn fitted(mut command: Command, columns: usize) -> Command {
        let usage = command.render_usage().to_string();
        if usage.lines().any(|line| line.chars().count() > columns) {
            command = command.override_usage(terminal::hang(&usage, columns, "Usage: ".len()));
        }
        command.mut_subcommands(|inner| fitted(inner, columns))
    }
    command.build();
    fitted(command, terminal::columns())
}

/// A value is what follows its option, whatever it begins with (POSIX, Utility Syntax Guideline 7).
fn values_may_begin_with_hyphens(command: Command) -> Command {
    command
        .mut_args(|arg| {
            let takes_value = arg.get_action().takes_values() && !arg.is_positional();
            if takes_value { arg.allow_hyphen_values(true) } else { arg }
        })
        .mut_subcommands(values_may_begin_with_hyphens)
}

impl Call<'_> {
    /// Reads the arguments. The error is the exit code: help has been printed, or what is wrong has been said.
    pub fn matches(&self) -> Result<ArgMatches, i32> {
        let mut definition = built(self.definition());
        if definition.has_subcommands() && self.args.first().is_some_and(|word| word == "help") {
            return Err(self.entry.help(&self.path, &self.args[1..]));
        }
        definition.try_get_matches_from_mut(self.args).map_err(|error| self.tell(&error))
    }

    /// The same as a typed value.
    pub fn parse<A: FromArgMatches>(&self) -> Result<A, i32> {
        A::from_arg_matches(&self.matches()?).map_err(|error| self.tell(&error))
    }

    /// Says what is wrong with the arguments; gives the exit code.
    pub fn refuse(&self, message: impl std::fmt::Display) -> i32 {
        output::note(format_args!("{}: {message}", self.path));
        self.entry.usage_code
    }

    /// Carries out what has been read; an error is told, and 1 is the exit code.
    pub fn carry_out(&self, done: Result<i32, String>) -> i32 {
        done.unwrap_or_else(|error| {
            output::note(format_args!("{}: {error}", self.path));
            1
        })
    }

    /// The command that the program begins with, with all others below it.
    pub fn root(&self) -> &Entry {
        self.root
    }

    /// The names of the commands that follow the program's name.
    pub fn commands(&self) -> impl Iterator<Item = &'static str> {
        self.root.inner.iter().map(|command| command.name)
    }

    /// The command's whole definition.
    pub fn definition(&self) -> Command {
        self.entry.definition(&self.path)
    }

    /// Prints the command's help; gives the exit code.
    pub fn show_help(&self) -> i32 {
        self.entry.help(&self.path, &[])
    }

    /// Writes its help to the standard error.
    pub fn hint_help(&self) {
        let text = built(self.definition()).render_help();
        output::hint(shown(&text, terminal::has_color(&stderr())));
    }

    /// The command line as it was given, for reports.
    pub fn line(&self) -> String {
        std::iter::once(self.path.as_str())
            .chain(self.args.iter().map(String::as_str))
            .collect::<Vec<_>>()
            .join(" ")
    }

    fn tell(&self, error: &clap::Error) -> i32 {
        let text = error.render();
        match error.kind() {
            ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => {
                output::print(shown(&text, terminal::has_color(&stdout())));
                0
            }
            ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => {
                output::hint(shown(&text, terminal::has_color(&stderr())));
                self.entry.usage_code
            }
            _ => {
                let text = shown(&text, terminal::has_color(&stderr()));
                // The command's name stands in place of the word "error:", which may be in colours.
                let rest = text.split_once("error:").map_or(text.as_str(), |(_, rest)| rest);
                let rest = rest.strip_prefix("\x1b[0m").unwrap_or(rest);
                output::hint(format_args!("{}:{rest}", self.path));
                self.entry.usage_code
            }
        }
    }
}

fn shown(text: &StyledStr, has_color: bool) -> String {
    if has_color { text.ansi().to_string() } else { text.to_string() }
}

/// Prints the help of a definition; gives the exit code.
fn show_help(definition: &mut Command) -> i32 {
    output::print(shown(&definition.render_help(), terminal::has_color(&stdout())));
    0
}
