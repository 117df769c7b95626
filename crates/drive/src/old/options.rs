//! Options as the old tools spell them: letters and long names, `--help` in their form, numbers with limits.

use clap::{Arg, ArgAction, Command};

/// Where its peer has no heading.
const TEMPLATE: &str = "Usage: {usage}\nOptions are:\n{options}{after-help}";

/// A definition with the peer's usage and these options; what is called "help" prints it, "version" its version.
pub fn definition(about: &'static str, usage: &'static str, options: Vec<Arg>) -> Command {
    Command::new("")
        .about(about)
        .override_usage(usage)
        .help_template(TEMPLATE)
        .disable_help_flag(true)
        .args(options)
}

/// An option without a value. Letters of several characters are long options alone.
pub fn flag(id: &'static str, help: &'static str) -> Arg {
    named(Arg::new(id).action(ArgAction::SetTrue).help(help), id)
}

/// An option with a value.
pub fn option(id: &'static str, value: &'static str, help: &'static str) -> Arg {
    named(Arg::new(id).action(ArgAction::Append).value_name(value).help(help), id)
}

fn named(arg: Arg, id: &'static str) -> Arg {
    match id.chars().next() {
        Some(letter) if id.chars().count() == 1 => arg.short(letter),
        _ => arg.long(id),
    }
}

/// A whole number within limits; which option it is of goes into the message.
pub fn number(text: &str, option: &str, least: u64, most: u64) -> Result<u64, String> {
    let number: u64 = text.trim().parse().map_err(|_| format!("{option}: \"{text}\" is not a number"))?;
    if (least..=most).contains(&number) {
        Ok(number)
    } else {
        Err(format!("{option}: {number} is not between {least} and {most}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_limits() {
        assert_eq!(number(" 5 ", "-c", 1, 9), Ok(5));
        assert!(number("0", "-c", 1, 9).unwrap_err().contains("-c"));
        assert!(number("x", "-n", 1, 9).is_err());
    }
}
