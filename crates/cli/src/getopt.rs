//! Arguments as `getopt` reads them: letters are joined (`-tq`), values are glued (`-cFILE`) or follow, a later option
//! goes before an earlier one.
//!
//! The programs whose options we take work so, and the order matters to them, which `clap` does not tell. What options
//! there are is said by a `clap::Command` all the same.

use clap::{Arg, Command};
use std::fmt;

/// How long options are written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Long {
    /// In full, behind two hyphens; what follows two hyphens alone is no option.
    #[default]
    Whole,
    /// The same, of a program that has none of its own: two hyphens alone are an option that there is not.
    Added,
    /// As `getopt_long_only` reads them: cut short as long as they are unique, and behind one hyphen too.
    Short,
}

/// One word of the command line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Given {
    /// An option, by its id; the value is empty if it takes none or if an optional one was left out.
    Option(String, String),
    /// Anything else.
    Word(String),
}

/// What is wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fault {
    /// There is no such letter.
    Letter(char),
    /// There is no such long option.
    Name(String),
    /// It is cut too short.
    Ambiguous(String),
    /// Its value is missing.
    Value(String),
}

/// As getopt(3) says it.
impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Fault::Letter(letter) => write!(f, "invalid option -- '{letter}'"),
            Fault::Name(name) => write!(f, "unrecognized option '{name}'"),
            Fault::Ambiguous(name) => write!(f, "option '{name}' is ambiguous"),
            Fault::Value(name) if name.chars().count() == 1 => {
                write!(f, "option requires an argument -- '{name}'")
            }
            Fault::Value(name) => write!(f, "option '--{name}' requires an argument"),
        }
    }
}

/// Whether an option has a value.
#[derive(PartialEq)]
enum Takes {
    Nothing,
    Optional,
    Value,
}

fn takes(arg: &Arg) -> Takes {
    let is_optional = || arg.get_num_args().is_some_and(|range| range.min_values() == 0);
    match arg.get_action().takes_values() {
        false => Takes::Nothing,
        true if is_optional() => Takes::Optional,
        true => Takes::Value,
    }
}

/// Reads the arguments, in the order in which they were given.
pub fn read(definition: &Command, args: &[String], long: Long) -> Result<Vec<Given>, Fault> {
    let mut given = Vec::new();
    let mut args = args.iter();
    while let Some(word) = args.next() {
        if word == "--" {
            if long == Long::Added {
                return Err(Fault::Letter('-'));
            }
            given.extend(args.by_ref().cloned().map(Given::Word));
            break;
        }
        let found = match hyphens(word, long) {
            Some(name) => whole(definition, name, word, &mut args, long)?,
            None => match word.strip_prefix('-').filter(|letters| !letters.is_empty()) {
                Some(letters) => {
                    joined(definition, letters, &mut args, &mut given)?;
                    continue;
                }
                None => Given::Word(word.clone()),
            },
        };
        given.push(found);
    }
    Ok(given)
}

/// The name of a long option, and its glued value.
fn hyphens(word: &str, long: Long) -> Option<&str> {
    let name = word.strip_prefix("--");
    match long {
        Long::Whole | Long::Added => name,
        // Web pages turn two hyphens into a dash.
        Long::Short => name
            .or_else(|| word.strip_prefix(['–', '—']))
            .or_else(|| word.strip_prefix('-').filter(|name| name.chars().count() > 1)),
    }
}

fn whole(
    definition: &Command,
    text: &str,
    word: &str,
    args: &mut std::slice::Iter<'_, String>,
    long: Long,
) -> Result<Given, Fault> {
    let (name, glued) = text.split_once('=').map_or((text, None), |(name, glued)| (name, Some(glued)));
    let arg = named(definition, name, word, long)?;
    let value = match (takes(arg), glued) {
        (Takes::Nothing, _) | (Takes::Optional, None) => String::new(),
        (_, Some(glued)) => glued.to_owned(),
        (Takes::Value, None) => {
            args.next().cloned().ok_or_else(|| Fault::Value(arg.get_long().unwrap_or_default().to_owned()))?
        }
    };
    Ok(Given::Option(arg.get_id().to_string(), value))
}

fn named<'d>(definition: &'d Command, name: &str, word: &str, long: Long) -> Result<&'d Arg, Fault> {
    let all = || definition.get_arguments().filter_map(|arg| Some((arg.get_long()?, arg)));
    if let Some((_, arg)) = all().find(|(known, _)| *known == name) {
        return Ok(arg);
    }
    let mut begin = all().filter(|(known, arg)| {
        long == Long::Short && !name.is_empty() && known.starts_with(name) && !arg.is_hide_set()
    });
    match (begin.next(), begin.next()) {
        (Some((_, arg)), None) => Ok(arg),
        (Some(_), Some(_)) => Err(Fault::Ambiguous(word.to_owned())),
        (None, _) => Err(Fault::Name(word.to_owned())),
    }
}

/// `-tq`, `-cFILE`, `-tc FILE`.
fn joined(
    definition: &Command,
    letters: &str,
    args: &mut std::slice::Iter<'_, String>,
    given: &mut Vec<Given>,
) -> Result<(), Fault> {
    let mut rest = letters;
    while let Some(letter) = rest.chars().next() {
        rest = &rest[letter.len_utf8()..];
        let arg = definition
            .get_arguments()
            .find(|arg| arg.get_short_and_visible_aliases().is_some_and(|all| all.contains(&letter)));
        let arg = arg.ok_or(Fault::Letter(letter))?;
        let value = match takes(arg) {
            Takes::Nothing => String::new(),
            Takes::Optional => {
                let glued = std::mem::take(&mut rest);
                glued.strip_prefix('=').unwrap_or(glued).to_owned()
            }
            Takes::Value => match std::mem::take(&mut rest) {
                "" => args.next().cloned().ok_or_else(|| Fault::Value(letter.to_string()))?,
                glued => glued.to_owned(),
            },
        };
        given.push(Given::Option(arg.get_id().to_string(), value));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::ArgAction;

    fn definition() -> Command {
        let flag = |id: &'static str| Arg::new(id).action(ArgAction::SetTrue);
        Command::new("x")
            .arg(flag("test").short('t'))
            .arg(flag("quiet").short('q').long("quiet"))
            .arg(Arg::new("conf").short('c').long("conf"))
            .arg(Arg::new("log").short('l').long("log").num_args(0..=1))
            .arg(Arg::new("num-calls").long("num-calls"))
            .arg(Arg::new("num-conns").long("num-conns"))
    }

    fn check(line: &str, long: Long, want: &str) {
        let args: Vec<String> = line.split(' ').map(str::to_owned).collect();
        let shown = match read(&definition(), &args, long) {
            Ok(given) => given
                .iter()
                .map(|given| match given {
                    Given::Option(id, value) if value.is_empty() => id.clone(),
                    Given::Option(id, value) => format!("{id}={value}"),
                    Given::Word(word) => format!("\"{word}\""),
                })
                .collect::<Vec<_>>()
                .join(" "),
            Err(fault) => fault.to_string(),
        };
        assert_eq!(shown, want, "{line}");
    }

    #[test]
    fn letters_are_joined_and_values_glued() {
        check("-tq -c/etc/x", Long::Whole, "test quiet conf=/etc/x");
        check("-tc x -c=y -c -t", Long::Whole, "test conf=x conf==y conf=-t");
        check("a --quiet - --conf=b --conf c", Long::Whole, "\"a\" quiet \"-\" conf=b conf=c");
        check("-l a -lb --log c --log=d -l=e", Long::Whole, "log \"a\" log=b log \"c\" log=d log=e");
        check("-t -- -q --x", Long::Whole, "test \"-q\" \"--x\"");
        check("-t -- -q", Long::Added, "invalid option -- '-'");
        check("-tx", Long::Whole, "invalid option -- 'x'");
        check("-tc", Long::Whole, "option requires an argument -- 'c'");
        check("--conf", Long::Whole, "option '--conf' requires an argument");
        check("--quie", Long::Whole, "unrecognized option '--quie'");
    }

    #[test]
    fn names_are_cut_short() {
        check("--quie -conf=x –log", Long::Short, "quiet conf=x log");
        check("--num-co 5 -t", Long::Short, "num-conns=5 test");
        check("--num=5", Long::Short, "option '--num=5' is ambiguous");
    }
}
