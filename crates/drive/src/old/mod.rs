//! The load tools that people know by name: their flags, their reports, our engine.
//!
//! What a tool offers and we do not is refused by name, never ignored.

pub mod ab;
pub mod httperf;
mod run;
pub mod siege;
pub mod wrk;

use brisk_cli::Entry;
use clap::{Arg, ArgAction, Command};

/// All of them.
pub const ALL: [Entry; 4] = [ab::AB, wrk::WRK, siege::SIEGE, httperf::HTTPERF];

/// The program that a link to ours is named after, if it is one of these.
pub fn by_name(program: &str) -> Option<&'static Entry> {
    let name = program.rsplit('/').next().unwrap_or(program);
    ALL.iter().find(|entry| entry.name == name)
}

/// Where its peer has no heading.
const TEMPLATE: &str = "Usage: {usage}\nOptions are:\n{options}{after-help}";

/// A definition with the peer's usage and these options; what is called "help" prints it, "version" its version.
fn definition(about: &'static str, usage: &'static str, options: Vec<Arg>) -> Command {
    Command::new("")
        .about(about)
        .override_usage(usage)
        .help_template(TEMPLATE)
        .disable_help_flag(true)
        .args(options)
}

/// An option without a value. Letters of several characters are long options alone.
fn flag(id: &'static str, help: &'static str) -> Arg {
    named(Arg::new(id).action(ArgAction::SetTrue).help(help), id)
}

/// An option with a value.
fn option(id: &'static str, value: &'static str, help: &'static str) -> Arg {
    named(Arg::new(id).action(ArgAction::Append).value_name(value).help(help), id)
}

fn named(arg: Arg, id: &'static str) -> Arg {
    match id.chars().next() {
        Some(letter) if id.chars().count() == 1 => arg.short(letter),
        _ => arg.long(id),
    }
}

/// A whole number within limits; which option it is of goes into the message.
fn number(text: &str, option: &str, least: u64, most: u64) -> Result<u64, String> {
    let number: u64 = text.trim().parse().map_err(|_| format!("{option}: \"{text}\" is not a number"))?;
    if (least..=most).contains(&number) {
        Ok(number)
    } else {
        Err(format!("{option}: {number} is not between {least} and {most}"))
    }
}

/// A command line's words, for tests.
#[cfg(test)]
fn words(line: &str) -> Vec<String> {
    line.split(' ').map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_are_known_by_their_names() {
        assert!(by_name("/usr/local/bin/ab").is_some() && by_name("siege").is_some());
        assert!(by_name("/usr/bin/brisk").is_none() && by_name("abc").is_none());
    }

    #[test]
    fn numbers_have_limits() {
        assert_eq!(number(" 5 ", "-c", 1, 9), Ok(5));
        assert!(number("0", "-c", 1, 9).unwrap_err().contains("-c"));
        assert!(number("x", "-n", 1, 9).is_err());
    }
}
